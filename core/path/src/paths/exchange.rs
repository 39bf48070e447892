//! The exchange of endpoints with the peer inside the session: sealed, and without the coordinator.
//!
//! ```text
//! a session began, or the local list changed:                             sent at once, again after 250 ms, doubling, at most 8 times, until acknowledged
//! the peer's list is new, or the peer does not know the local list:       sent at once
//! ```
//! Two ends that begin at the same time send two messages each, and then none.

use core::time::Duration;

use taut_base::Time;
use taut_wire::control::Endpoints;

use crate::local_endpoints::LocalEndpoints;

/// Delay before the first repetition, 250 ms; doubled each time (protocol.md 2.2).
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// Limit on repetitions, 8: by then the peer does not understand the message, or nothing arrives. A new session, list or message of the peer starts
/// again.
const MAX_TRIES: u8 = 8;

/// A serial at most this far behind the latest was reordered on its way. A restarted node draws its first serial at random; it comes this close once
/// in four million times.
const REORDERED_SERIALS: u32 = 1_000;

/// The state of the exchange.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EndpointExchange {
    /// The local serial that was sent last, and how often it was sent.
    sent_serial: u32,
    tries: u8,
    next: Option<Time>,
    /// The local serial that the peer acknowledged.
    acknowledged: u32,
    /// The latest serial of the peer.
    peer_serial: u32,
    /// True if the list is sent in any case.
    reply_due: bool,
}

impl EndpointExchange {
    /// Starts again for a new session.
    pub(super) fn begin(&mut self) {
        *self = Self { peer_serial: self.peer_serial, ..Self::default() };
    }

    /// Takes the peer's message. Returns true if its list is new.
    pub(super) fn handle_endpoints(&mut self, message: &Endpoints) -> bool {
        let behind = self.peer_serial.wrapping_sub(message.serial);
        if self.peer_serial != 0 && behind != 0 && behind < REORDERED_SERIALS {
            return false;
        }
        let news = self.peer_serial != message.serial;
        self.peer_serial = message.serial;
        self.acknowledged = message.heard;
        // The peer did not acknowledge the last list: it is sent again, unless the first copy is still under way.
        let missing = message.heard != self.sent_serial && self.tries != 1;
        self.reply_due |= news || missing;
        if missing && self.tries >= MAX_TRIES {
            self.tries = 0;
        }
        news
    }

    pub(super) fn poll(&mut self, local_endpoints: &LocalEndpoints, now: Time) -> Option<Endpoints> {
        if local_endpoints.serial() != self.sent_serial {
            (self.sent_serial, self.tries, self.next) = (local_endpoints.serial(), 0, None);
        }
        let due = self.next.is_none_or(|next| now >= next);
        let wanted = self.acknowledged != self.sent_serial && self.tries < MAX_TRIES && due;
        if !self.reply_due && !wanted {
            return None;
        }
        self.reply_due = false;
        self.next =
            (self.acknowledged != self.sent_serial).then(|| now + FIRST_RETRY * (1 << self.tries.min(MAX_TRIES)));
        self.tries = (self.tries + 1).min(MAX_TRIES);
        Some(local_endpoints.message(self.peer_serial))
    }

    /// Returns when the list is sent again.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.next.filter(|_| self.acknowledged != self.sent_serial && self.tries < MAX_TRIES)
    }
}

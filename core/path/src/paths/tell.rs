//! Telling the peer where we are, and hearing where it is, inside the session: sealed, and not by way of the coordinator.
//!
//! ```text
//! a session began, or our list is another one:  told at once, again after 250 ms, doubling, at most 8 times, until the peer names its serial
//! the peer's list is new to us, or it does not know ours:  told at once
//! ```
//! Two ends that begin at once send two messages each; after that silence.

use core::time::Duration;

use taut_base::Time;
use taut_wire::control::Endpoints;

use crate::local_endpoints::LocalEndpoints;

/// Between the first two; doubled each time (protocol.md 2.2).
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// After so many nobody there understands it, or nothing arrives; the next session, list or message of the peer starts anew.
const TRIES: u8 = 8;

/// A serial up to this much behind the latest was overtaken on its way. From a node that was started anew one comes so close once in four millions.
const OVERTAKEN: u32 = 1_000;

/// What was told and heard.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tell {
    /// The serial of ours that was told last, and how often.
    told: u32,
    tries: u8,
    next: Option<Time>,
    /// The serial of ours that the peer has.
    known: u32,
    /// The latest serial of the peer.
    theirs: u32,
    /// It is to be told in any case.
    owed: bool,
}

impl Tell {
    /// A session began.
    pub(super) fn begin(&mut self) {
        *self = Self { theirs: self.theirs, ..Self::default() };
    }

    /// The peer told its list. Says whether it is to be taken.
    pub(super) fn heard(&mut self, message: &Endpoints) -> bool {
        let behind = self.theirs.wrapping_sub(message.serial);
        if self.theirs != 0 && behind != 0 && behind < OVERTAKEN {
            return false;
        }
        let news = self.theirs != message.serial;
        self.theirs = message.serial;
        self.known = message.heard;
        // It does not name what it was told last: told again, unless that is under way already.
        let missing = message.heard != self.told && self.tries != 1;
        self.owed |= news || missing;
        if missing && self.tries >= TRIES {
            self.tries = 0;
        }
        news
    }

    pub(super) fn poll(&mut self, ours: &LocalEndpoints, now: Time) -> Option<Endpoints> {
        if ours.serial() != self.told {
            (self.told, self.tries, self.next) = (ours.serial(), 0, None);
        }
        let due = self.next.is_none_or(|next| now >= next);
        let wanted = self.known != self.told && self.tries < TRIES && due;
        if !self.owed && !wanted {
            return None;
        }
        self.owed = false;
        self.next = (self.known != self.told).then(|| now + FIRST_RETRY * (1 << self.tries.min(TRIES)));
        self.tries = (self.tries + 1).min(TRIES);
        Some(ours.message(self.theirs))
    }

    /// When to tell again.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.next.filter(|_| self.known != self.told && self.tries < TRIES)
    }
}

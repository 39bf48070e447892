//! Whether a peer takes packets in pieces. It tells that in the first offer or accept of a session, a round trip after the session began.
//!
//! ```text
//!           a long packet          LONGEST_WAIT
//! unknown ────────────────▶ waits ──────────────▶ silent: counts as a peer that takes none
//!    └──────────────┬─────────┴─────────────────────┘
//!                   ▼ offer or accept
//!                 told                                kept for later sessions
//! ```
//! Long packets wait meanwhile: whole they may be too long for the path, and in pieces an older release would drop them.

use std::time::Duration;

use taut_base::Time;

/// The longest time that long packets wait for a peer to tell whether it takes pieces, 1 s: a round trip over a satellite, or a short one and two
/// retransmissions of the offer. A Taut node always tells.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What is known of a peer's support for pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PieceSupport {
    /// The peer has told nothing, and no packet needs to know.
    #[default]
    Unknown,
    /// A packet waits at most until then.
    Waits(Time),
    /// The peer has told nothing in that time.
    Silent,
    /// The peer has told.
    Told {
        /// True if it takes pieces, and tells in its receipts which lengths arrive.
        takes: bool,
    },
}

impl PieceSupport {
    /// Returns true if the peer takes pieces.
    pub(crate) fn takes(self) -> bool {
        self == Self::Told { takes: true }
    }

    /// Returns true if a packet that depends on the answer has to wait for it.
    pub(crate) fn is_open(self) -> bool {
        matches!(self, Self::Unknown | Self::Waits(_))
    }

    /// Notes that a packet waits for the answer and could be sent otherwise.
    pub(crate) fn wait(&mut self, now: Time) {
        if *self == Self::Unknown {
            *self = Self::Waits(now + LONGEST_WAIT);
        }
    }

    /// Returns when the wait ends.
    pub(crate) fn poll_timeout(self) -> Option<Time> {
        if let Self::Waits(until) = self { Some(until) } else { None }
    }

    /// Ends the wait if it is over. Returns true if it ended now: packets that waited may leave.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> bool {
        let ends = self.poll_timeout().is_some_and(|until| now >= until);
        if ends {
            *self = Self::Silent;
        }
        ends
    }
}

//! WireGuard's constants (paper, section 6.1), and the ones of them that tests shorten.

use std::time::Duration;

/// Messages under one key after which its initiator makes a new session (paper, section 6.1).
pub const REKEY_AFTER_MESSAGES: u64 = 1 << 60;

/// Messages under one key after which it is not used at all (paper, section 6.1): the replay window needs room above.
pub const REJECT_AFTER_MESSAGES: u64 = u64::MAX - (1 << 13);

/// Blocks of 16 bytes under one AES-256-GCM key after which its user makes a new session (protocol.md 1.6): 128 GiB, a minute at 19 Gbit/s.
pub const REKEY_AFTER_BLOCKS: u64 = 1 << 33;

/// Blocks under one AES-256-GCM key after which it seals nothing more (protocol.md 1.6). What an attacker can tell grows with the
/// square of the blocks, over 2^129: to 2^-59 here.
pub const REJECT_AFTER_BLOCKS: u64 = 1 << 35;

/// The time limits of sessions and handshakes. An argument, so that a test can pass hours in seconds (law 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Age of a session at which its initiator makes a new one when it sends: 120 s.
    pub rekey_after: Duration,
    /// Age of a session at which it neither seals nor opens any more: 180 s.
    pub reject_after: Duration,
    /// How long a handshake is tried: 90 s.
    pub attempt: Duration,
    /// Interval of tries with stock WireGuard, and part of the "no answer" limit: 5 s.
    pub retry: Duration,
    /// Silence after which received data is acknowledged by an empty packet: 10 s.
    pub keepalive: Duration,
}

impl Limits {
    /// The paper's values.
    pub const WIREGUARD: Self = Self {
        rekey_after: Duration::from_secs(120),
        reject_after: Duration::from_secs(180),
        attempt: Duration::from_secs(90),
        retry: Duration::from_secs(5),
        keepalive: Duration::from_secs(10),
    };

    /// Sessions that live shorter, in the paper's proportion of 2 to 3. For tests only.
    pub fn with_rekey_after(rekey_after: Duration) -> Self {
        Self { rekey_after, reject_after: rekey_after * 3 / 2, ..Self::WIREGUARD }
    }

    /// Data was sent and nothing came back for this long: the session is probably gone, make a new one (paper, section 6.5).
    pub(crate) fn no_answer(&self) -> Duration {
        self.keepalive + self.retry
    }

    /// Age at which an initiator that only receives makes a new session, so that it is ready before the old one is rejected
    /// (paper, section 6.2).
    pub(crate) fn rekey_on_receive(&self) -> Duration {
        self.reject_after.saturating_sub(self.keepalive + self.retry).max(self.rekey_after)
    }
}

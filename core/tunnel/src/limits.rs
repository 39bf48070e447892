//! WireGuard's limits on keys and sessions (paper, section 6.1). Those that tests shorten are arguments.

use std::time::Duration;

/// Messages under one key after which the initiator makes a new session, 2^60 (paper, section 6.1).
pub const REKEY_AFTER_MESSAGES: u64 = 1 << 60;

/// Messages under one key after which the key is not used any more (paper, section 6.1): 2^13 below the largest counter, so that the replay window never
/// overflows.
pub const REJECT_AFTER_MESSAGES: u64 = u64::MAX - (1 << 13);

/// Blocks of 16 bytes under one AES-256-GCM key after which the sender asks for a new session, 2^33 (protocol.md 1.6): 128 GiB, a minute at 19 Gbit/s.
pub const REKEY_AFTER_BLOCKS: u64 = 1 << 33;

/// Blocks of 16 bytes under one AES-256-GCM key after which the key seals nothing more, 2^35 (protocol.md 1.6). An attacker's advantage grows with the
/// square of the blocks, over 2^129; it is 2^-59 at this limit.
pub const REJECT_AFTER_BLOCKS: u64 = 1 << 35;

/// Time that a packet and the message of the handshake may be on the way together, 1 s.
const ON_THE_WAY: Duration = Duration::from_secs(1);

/// Time limits of sessions and handshakes. They are an argument, so that a test can simulate hours in seconds (law 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Age of a session at which its initiator renews it on the next packet it sends: 120 s.
    pub rekey_after: Duration,
    /// Age of a session at which it stops opening: 180 s. It stops sealing a moment earlier, see `Limits::stop_sealing`.
    pub reject_after: Duration,
    /// Timeout of a handshake, retransmissions included: 90 s.
    pub attempt: Duration,
    /// Retransmission interval of initiations to stock WireGuard, and part of the "no answer" timeout: 5 s.
    pub retry: Duration,
    /// Time after received data, without a packet sent, until a keepalive acknowledges it: 10 s.
    pub keepalive: Duration,
    /// Age at which a session stops sealing. It follows from `reject_after`; each packet is compared with it, so it is computed once.
    stop_sealing: Duration,
}

impl Limits {
    /// The paper's values.
    pub const WIREGUARD: Self = Self {
        rekey_after: Duration::from_secs(120),
        reject_after: Duration::from_secs(180),
        attempt: Duration::from_secs(90),
        retry: Duration::from_secs(5),
        keepalive: Duration::from_secs(10),
        stop_sealing: Duration::from_secs(180 - ON_THE_WAY.as_secs()),
    };

    /// Returns limits of shorter sessions, with the paper's ratio of 2 to 3 between renewal and rejection. For tests only.
    pub fn with_rekey_after(rekey_after: Duration) -> Self {
        let reject_after = rekey_after * 3 / 2;
        let stop_sealing = reject_after - ON_THE_WAY.min(reject_after / 4);
        Self { rekey_after, reject_after, stop_sealing, ..Self::WIREGUARD }
    }

    /// Returns the age at which a session stops sealing, a second before the peer stops opening. The peer's session may be older by a round trip, and what is on
    /// the way then would be lost; now it waits for the next session instead.
    pub(crate) fn stop_sealing(&self) -> Duration {
        self.stop_sealing
    }

    /// Returns the time without an answer to data after which the peer has probably lost the session and a new one is made (paper, section 6.5).
    pub(crate) fn no_answer(&self) -> Duration {
        self.keepalive + self.retry
    }

    /// Returns the age at which an initiator that only receives renews the session, so that the new one is ready before the old one is rejected (paper,
    /// section 6.2).
    pub(crate) fn rekey_on_receive(&self) -> Duration {
        self.reject_after.saturating_sub(self.keepalive + self.retry).max(self.rekey_after)
    }
}

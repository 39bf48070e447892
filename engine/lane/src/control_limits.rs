//! Limits on the control messages of one peer.

use std::time::Duration;

use taut_base::Time;
use taut_tunnel::{Bucket, Rate};

/// Control messages of one peer that go to the agent: 50 per second, burst 100, which is a few for each of its sessions and paths. A peer that sends more
/// is broken or hostile, and must not keep the agent from other peers.
pub(crate) const TO_AGENT: Rate = Rate::new(50, 100);

/// Authentic control messages of one peer, of all kinds: 2,000 per second, burst 1,000. A peer with 16 lanes acknowledges data 50 times per second on each
/// lane, and its other messages are less than half of that. A peer that sends more is muted for [`MUTE`], because opening a message costs a thousand times
/// as much as dropping it. Only authentic messages count, so no third party can have a peer muted.
const AUTHENTIC: Rate = Rate::new(2_000, 1_000);

/// Time for which the control messages of a muted peer are dropped unopened, 1 s.
const MUTE: Duration = Duration::from_secs(1);

/// Probes of one peer that are answered: 200 per second, burst 400. A peer with 16 lanes and all its paths sends fewer, and a port search with hard NATs on
/// both sides hits only a few sockets at a time. Each answer beyond would cost the lane a system call.
pub(crate) const ANSWERS: Rate = Rate::new(200, 400);

/// What is left of one peer's limits.
#[derive(Default)]
pub(crate) struct ControlLimits {
    to_agent: Bucket,
    authentic: Bucket,
    answers: Bucket,
    muted_until: Time,
}

impl ControlLimits {
    /// Returns true if the peer's control messages are dropped unopened now.
    pub(crate) fn is_muted(&self, now: Time) -> bool {
        now < self.muted_until
    }

    /// Counts an authentic control message; mutes the peer if it sent too many.
    pub(crate) fn count_authentic(&mut self, now: Time) {
        if !self.authentic.take(&AUTHENTIC, now) {
            self.muted_until = now + MUTE;
        }
    }

    /// Returns true if one more message may go to the agent, and counts it.
    pub(crate) fn may_reach_agent(&mut self, now: Time) -> bool {
        self.to_agent.take(&TO_AGENT, now)
    }

    /// Returns true if one more probe may be answered, and counts it.
    pub(crate) fn may_answer(&mut self, now: Time) -> bool {
        self.answers.take(&ANSWERS, now)
    }
}

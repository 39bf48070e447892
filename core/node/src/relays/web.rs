//! The fallback from UDP to WebSocket for one relay, and the return to UDP.
//!
//! The agent holds the WebSocket and shows it as an address on this host's loopback: a *bridge*. Datagrams sent to the bridge reach the relay, and datagrams from
//! the bridge come from the relay. To client and lanes the bridge is an address like any other. This module decides whether a bridge is needed.
//!
//! ```text
//!        the client asks to bind                       no answer for 1 s
//!   UDP ─────────────────────────────────▶ UDP, silent ──────────────────────▶ wanted ── it opens, and the relay answers there ──▶ BRIDGE
//!    ▲                                          │ answers                         ▲                                                  │
//!    │                                          ▼                                 │ lost within 10 s: UDP is not tried                 │ a STUN answer
//!    │◀─────────────────────────────────────────┘                                 │ again for 10 minutes                               ▼ comes by UDP
//!    └───────────────────────────────── 10 s without a loss ──────────────────────┴────────────────────────────────────── UDP, on trial
//! ```
//! During the trial the bridge stays open. Where UDP carries only STUN answers, the relay is therefore lost for half a second instead of for the time that a new
//! TLS connection takes.

use std::net::SocketAddr;
use std::time::Duration;

use taut_base::Time;

/// Time for which only UDP is tried, 1 s: a client asks three times by then (docs/spec/relay.md), and any round trip fits in.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time for which UDP is on trial while the bridge stays open, 10 s: it spans two keepalives of an active peer, and the quick pings to a relay that does not
/// answer.
const TRIAL: Duration = Duration::from_secs(10);
/// Time after a failed trial until UDP is tried again, 10 min: rare enough to disturb nobody, and soon enough for a change of network that goes unnoticed. A
/// noticed change ends it at once.
const DISTRUST: Duration = Duration::from_secs(600);

/// The WebSocket fallback of one relay.
#[derive(Default)]
pub(super) struct WebFallback {
    /// The address of the bridge while it is open.
    pub(super) open: Option<SocketAddr>,
    /// Time since which the relay has not answered.
    silent: Option<Time>,
    /// Whether a bridge is needed.
    wanted: bool,
    /// Start of the trial of UDP.
    trial: Option<Time>,
    /// Time before which UDP is not tried again.
    distrusted: Option<Time>,
}

impl WebFallback {
    /// Notes that the relay was asked and has not answered.
    pub(super) fn note_silence(&mut self, now: Time) {
        self.silent.get_or_insert(now);
    }

    /// Notes that the relay has answered, by UDP or through the bridge.
    pub(super) fn answered(&mut self) {
        self.silent = None;
    }

    /// Notes that the relay does not answer any more. Returns true if UDP was on trial.
    pub(super) fn lost(&mut self, now: Time) -> bool {
        self.note_silence(now);
        let on_trial = self.trial.take().is_some();
        if on_trial {
            self.distrusted = Some(now + DISTRUST);
        }
        on_trial
    }

    /// Notes that the relay is not in use.
    pub(super) fn idle(&mut self) {
        (self.silent, self.wanted, self.trial) = (None, false, None);
    }

    /// Allows UDP again, because the host's network changed.
    pub(super) fn forget_distrust(&mut self) {
        self.distrusted = None;
    }

    /// Starts a trial of UDP, through which an answer came, unless an earlier trial failed recently. Returns true if the trial started.
    pub(super) fn try_udp(&mut self, now: Time) -> bool {
        let trusted = self.distrusted.is_none_or(|until| now >= until);
        if trusted {
            self.trial = Some(now);
        }
        trusted
    }

    /// Returns the time at which [`Self::turn`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let silent = self.silent.filter(|_| !self.wanted).map(|since| since + PATIENCE);
        silent.into_iter().chain(self.trial.map(|since| since + TRIAL)).min()
    }

    /// Returns true if a bridge is needed.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Re-evaluates whether a bridge is needed. `by_udp` is true if the relay answers by UDP.
    pub(super) fn turn(&mut self, by_udp: bool, now: Time) {
        if self.trial.is_some_and(|since| now >= since + TRIAL) {
            self.trial = None;
        }
        if self.silent.is_some_and(|since| now >= since + PATIENCE) {
            self.wanted = true;
        } else if by_udp && self.trial.is_none() {
            self.wanted = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl WebFallback {
        fn wants(&mut self, by_udp: bool, now: Time) -> bool {
            self.turn(by_udp, now);
            self.is_wanted()
        }
    }

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_bridge_is_needed_after_a_second_of_silence_until_udp_answers() {
        let mut web = WebFallback::default();
        assert!(!web.wants(false, at(0)));
        web.note_silence(at(0));
        assert_eq!(web.poll_timeout(), Some(at(1_000)));
        assert!(!web.wants(false, at(999)));
        assert!(web.wants(false, at(1_000)));
        assert_eq!(web.poll_timeout(), None, "nothing to wait for");
        web.answered();
        assert!(web.wants(false, at(60_000)), "the answer came through the bridge");
        assert!(!web.wants(true, at(60_000)), "UDP was only late");
    }

    #[test]
    fn udp_is_on_trial_while_the_bridge_stays_and_is_distrusted_when_it_fails() {
        let mut web = WebFallback::default();
        web.note_silence(at(0));
        assert!(web.wants(false, at(1_000)));
        web.answered();
        assert!(web.try_udp(at(5_000)));
        assert!(web.wants(true, at(14_999)));
        assert!(web.lost(at(14_999)));
        web.answered();
        assert!(web.wants(false, at(15_000)), "back on the bridge");
        assert!(!web.try_udp(at(20_000)) && web.wants(false, at(20_000)));
        assert!(web.try_udp(at(614_999)));
        assert!(web.wants(true, at(620_000)));
        assert!(!web.wants(true, at(625_000)), "the trial was passed");
        assert_eq!(web.poll_timeout(), None);
    }

    #[test]
    fn another_network_is_tried_at_once() {
        let mut web = WebFallback::default();
        assert!(web.try_udp(at(0)));
        assert!(web.lost(at(1)));
        assert!(!web.try_udp(at(2)));
        web.forget_distrust();
        assert!(web.try_udp(at(2)));
    }
}

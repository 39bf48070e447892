//! When a relay is reached by WebSocket, and when by UDP again.
//!
//! Somebody outside the node holds the WebSocket and shows it as a place like any other: a *bridge*, at an address of this host's loopback. What is sent there
//! reaches the relay, what comes from there is the relay's. The client and the lanes know nothing of it. This says whether there has to be one.
//!
//! ```text
//!        the relay is asked to bind us                 nobody answers for 1 s
//!   UDP ─────────────────────────────────▶ UDP, silent ──────────────────────▶ wanted ── it opens, and the relay answers there ──▶ BRIDGE
//!    ▲                                          │ answers                         ▲                                                  │
//!    │                                          ▼                                 │ lost within 10 s: UDP is not tried                 │ a STUN answer
//!    │◀─────────────────────────────────────────┘                                 │ again for 10 minutes                               ▼ came by UDP
//!    └───────────────────────────────── 10 s without a loss ──────────────────────┴────────────────────────────────────── UDP, on trial
//! ```
//! On trial the bridge stays open, so that a relay of which only STUN answers pass is lost for half a second, and not for as long as TLS takes to begin.

use std::net::SocketAddr;
use std::time::Duration;

use taut_base::Time;

/// For so long UDP alone is tried: three tries to bind by then (docs/spec/relay.md), and any round trip fits in.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long UDP is on trial, with the bridge still open: two signs of life of a peer that talks, and the quick pings of a relay that does not answer.
const TRIAL: Duration = Duration::from_secs(10);
/// After UDP failed on trial: not often enough to be noticed, and soon enough for who moved to another network. Who knows of that tells it at once.
const DISTRUST: Duration = Duration::from_secs(600);

/// The way by WebSocket to one relay.
#[derive(Default)]
pub(super) struct Web {
    /// Where the bridge is, while it is open.
    pub(super) open: Option<SocketAddr>,
    /// Since when nobody answers.
    silent: Option<Time>,
    /// Whether there is to be a bridge.
    wanted: bool,
    /// Since when UDP is on trial.
    trial: Option<Time>,
    /// UDP is not tried before.
    distrusted: Option<Time>,
}

impl Web {
    /// The relay is asked, and has not answered since.
    pub(super) fn silent(&mut self, now: Time) {
        self.silent.get_or_insert(now);
    }

    /// It has answered, somewhere.
    pub(super) fn answered(&mut self) {
        self.silent = None;
    }

    /// It does not answer any more where it did. True if that was UDP on trial.
    pub(super) fn lost(&mut self, now: Time) -> bool {
        self.silent(now);
        let on_trial = self.trial.take().is_some();
        if on_trial {
            self.distrusted = Some(now + DISTRUST);
        }
        on_trial
    }

    /// Nobody needs the relay.
    pub(super) fn idle(&mut self) {
        (self.silent, self.wanted, self.trial) = (None, false, None);
    }

    /// The host changed: what was found out about UDP elsewhere counts no more.
    pub(super) fn elsewhere(&mut self) {
        self.distrusted = None;
    }

    /// Whether UDP may be tried instead of the bridge, now that an answer came by it. If so it is on trial.
    pub(super) fn leave(&mut self, now: Time) -> bool {
        let trusted = self.distrusted.is_none_or(|until| now >= until);
        if trusted {
            self.trial = Some(now);
        }
        trusted
    }

    /// When [`Self::turn`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let silent = self.silent.filter(|_| !self.wanted).map(|since| since + PATIENCE);
        silent.into_iter().chain(self.trial.map(|since| since + TRIAL)).min()
    }

    /// Whether there is to be a bridge.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Says anew whether there is to be a bridge; `by_udp`: the relay answers, and not by it.
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

    impl Web {
        fn wants(&mut self, by_udp: bool, now: Time) -> bool {
            self.turn(by_udp, now);
            self.is_wanted()
        }
    }

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_bridge_is_wanted_after_a_second_of_silence_and_no_more_once_udp_answers() {
        let mut web = Web::default();
        assert!(!web.wants(false, at(0)));
        web.silent(at(0));
        assert_eq!(web.poll_timeout(), Some(at(1_000)));
        assert!(!web.wants(false, at(999)));
        assert!(web.wants(false, at(1_000)));
        assert_eq!(web.poll_timeout(), None, "nothing to wait for");
        web.answered();
        assert!(web.wants(false, at(60_000)), "the answer came by it");
        assert!(!web.wants(true, at(60_000)), "UDP was only late");
    }

    #[test]
    fn udp_is_on_trial_while_the_bridge_stays_and_is_distrusted_when_it_fails() {
        let mut web = Web::default();
        web.silent(at(0));
        assert!(web.wants(false, at(1_000)));
        web.answered();
        assert!(web.leave(at(5_000)));
        assert!(web.wants(true, at(14_999)));
        assert!(web.lost(at(14_999)));
        web.answered();
        assert!(web.wants(false, at(15_000)), "back on the bridge");
        assert!(!web.leave(at(20_000)) && web.wants(false, at(20_000)));
        assert!(web.leave(at(614_999)));
        assert!(web.wants(true, at(620_000)));
        assert!(!web.wants(true, at(625_000)), "the trial was passed");
        assert_eq!(web.poll_timeout(), None);
    }

    #[test]
    fn another_network_is_tried_at_once() {
        let mut web = Web::default();
        assert!(web.leave(at(0)));
        assert!(web.lost(at(1)));
        assert!(!web.leave(at(2)));
        web.elsewhere();
        assert!(web.leave(at(2)));
    }
}

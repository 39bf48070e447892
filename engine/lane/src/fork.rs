//! By which lane a peer's packets go, seen from one lane of ours: by a lane of the session that is served here, or by the first one, whose owner they
//! are handed over to.
//!
//! ```text
//!           OpenLanes                 a packet                    Passed
//! Closed ─────────────▶ Proven ──────────────────▶ Asking ──────────────────▶ Open
//!    ▲                     ▲    a mark goes behind    │  nothing passed it        │
//!    │                     │    what was handed over  │                           │
//!    │                     └──────────────────────────┘ too late, or overtaken    │
//!    └──────────────────────── CloseLanes, silence ───────────────────────────────┘
//! ```
//! **No flow is ever reordered by this.** The kernel puts all packets of a flow on one queue ([`taut_tun::Tun::steer`]), so all are read here. Until lanes
//! are open each goes to the first lane's owner, in order. Then a mark follows them there, and the owner sends a probe behind the last of them: the same
//! way on both hosts and between them. Its answer says that the other side has written them all, and only what is read after that goes another way.
//! Meanwhile the next packets are held, if the answer may be expected soon; over a long way nothing is held, and the lanes open in the first gap that is
//! long enough. On a wire that loses or reorders by itself, a flow may be reordered once more here: in the moment of its change.
//!
//! Lanes close at once: what was on a silent one is lost, and on a dead one there is nothing to be overtaken.

use std::time::Duration;

use taut_base::{LaneId, Time};

/// A way this short or shorter is waited for, by not reading what would overtake.
const SHORT_ROUND_TRIP: Duration = Duration::from_millis(25);
/// For so long at most (protocol.md 5.4).
const HOLD: Duration = Duration::from_millis(50);
/// An answer that is not there by then does not come.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon the next try is made.
const AGAIN: Duration = Duration::from_secs(1);

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Sealed here for this lane.
    Lane(LaneId),
    /// By the first lane.
    First,
    /// Nowhere yet: it would overtake.
    Hold,
}

/// Where a peer's packets part.
#[derive(Default)]
pub(crate) struct Fork {
    state: State,
    /// The lanes that are served here, in their order.
    lanes: Vec<LaneId>,
    /// Id of the next try's probe: each has another, so that a late answer is not taken for an early one.
    barrier: u64,
    round_trip: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Proven {
        /// Not tried again before.
        from: Option<Time>,
    },
    Asking {
        since: Time,
        hold: bool,
        /// A packet went behind the mark.
        overtaken: bool,
    },
    Open,
}

impl Fork {
    /// Whether everything goes by the first lane, without a look at flows.
    pub(crate) fn are_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// These lanes lead to the peer; the ids behind `barrier` are those of the probes that tell when they may be used.
    pub(crate) fn open(&mut self, lanes: Vec<LaneId>, barrier: u64) {
        (self.lanes, self.barrier) = (lanes, barrier);
        self.state = State::Proven { from: None };
    }

    /// Everything goes by the first lane again.
    pub(crate) fn close(&mut self) {
        self.state = State::Closed;
    }

    /// The barrier's probe was answered.
    pub(crate) fn passed(&mut self, barrier: u64, now: Time) {
        if let State::Asking { overtaken, .. } = self.state
            && barrier == self.barrier
        {
            self.state = if overtaken { State::Proven { from: Some(now + AGAIN) } } else { State::Open };
        }
    }

    /// A packet went by the first lane though others are open: what is in use now waits for a barrier again.
    pub(crate) fn again(&mut self, now: Time) {
        if self.state != State::Closed {
            self.state = State::Proven { from: Some(now + AGAIN) };
        }
    }

    /// How long a packet takes to the peer and back.
    pub(crate) fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = Some(round_trip);
    }

    /// Where the next packet of a flow goes. `mark` is called with the barrier's id when a mark is to follow what was handed over, the packet in hand
    /// included if its way is [`Way::First`].
    pub(crate) fn choose(&mut self, flow: usize, now: Time, mark: impl FnOnce(u64)) -> Way {
        match &mut self.state {
            State::Open => self.lanes.get(flow % self.lanes.len().max(1)).map_or(Way::First, |lane| Way::Lane(*lane)),
            State::Closed => Way::First,
            State::Proven { from } => {
                if from.is_some_and(|from| now < from) {
                    return Way::First;
                }
                self.barrier = self.barrier.wrapping_add(1);
                let hold = self.round_trip.is_some_and(|round_trip| round_trip <= SHORT_ROUND_TRIP);
                self.state = State::Asking { since: now, hold, overtaken: false };
                mark(self.barrier);
                if hold { Way::Hold } else { Way::First }
            }
            State::Asking { since, hold: true, .. } if now < *since + HOLD => Way::Hold,
            State::Asking { hold: true, .. } => {
                self.state = State::Proven { from: Some(now + AGAIN) };
                Way::First
            }
            State::Asking { since, overtaken, .. } => {
                *overtaken = true;
                if now >= *since + PATIENCE {
                    self.state = State::Proven { from: Some(now) };
                }
                Way::First
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(1_000_000 + milliseconds)
    }

    fn proven(round_trip: Option<u64>) -> Fork {
        let mut fork = Fork::default();
        fork.open(vec![LaneId(1), LaneId(3)], 77);
        if let Some(milliseconds) = round_trip {
            fork.set_round_trip(Duration::from_millis(milliseconds));
        }
        fork
    }

    /// Way of a packet at this time, and the mark that followed.
    fn choose(fork: &mut Fork, milliseconds: u64) -> (Way, Option<u64>) {
        let mut marked = None;
        let way = fork.choose(5, at(milliseconds), |barrier| marked = Some(barrier));
        (way, marked)
    }

    #[test]
    fn a_short_way_is_waited_for() {
        let mut fork = proven(Some(25));
        assert_eq!(choose(&mut fork, 0), (Way::Hold, Some(78)));
        assert_eq!(choose(&mut fork, 1), (Way::Hold, None));
        fork.passed(77, at(2));
        assert_eq!(choose(&mut fork, 2), (Way::Hold, None), "another barrier's answer");
        fork.passed(78, at(3));
        assert_eq!(choose(&mut fork, 3), (Way::Lane(LaneId(3)), None));
        assert_eq!(fork.choose(4, at(3), |_| ()), Way::Lane(LaneId(1)), "flows are spread");
        fork.close();
        assert_eq!(choose(&mut fork, 4), (Way::First, None));
        fork.passed(78, at(5));
        assert!(fork.are_closed(), "an answer opens nothing that was closed");
    }

    #[test]
    fn nothing_is_held_for_longer_than_it_may_be() {
        let mut fork = proven(Some(1));
        assert_eq!(choose(&mut fork, 0), (Way::Hold, Some(78)));
        assert_eq!(choose(&mut fork, 49), (Way::Hold, None));
        assert_eq!(choose(&mut fork, 50), (Way::First, None), "the answer is late");
        fork.passed(78, at(51));
        assert_eq!(choose(&mut fork, 52), (Way::First, None), "and too late: something passed it");
        assert_eq!(choose(&mut fork, 1_049), (Way::First, None));
        assert_eq!(choose(&mut fork, 1_050), (Way::Hold, Some(79)), "once more");
        fork.passed(78, at(1_051));
        assert_eq!(
            choose(&mut fork, 1_052),
            (Way::Hold, None),
            "the first try's answer says nothing of what went since"
        );
        fork.passed(79, at(1_053));
        assert_eq!(choose(&mut fork, 1_054), (Way::Lane(LaneId(3)), None));
    }

    #[test]
    fn over_a_long_way_lanes_open_in_a_gap() {
        for round_trip in [None, Some(26)] {
            let mut fork = proven(round_trip);
            assert_eq!(choose(&mut fork, 0), (Way::First, Some(78)), "the packet goes, and a mark behind it");
            assert_eq!(choose(&mut fork, 30), (Way::First, None));
            fork.passed(78, at(60));
            assert_eq!(choose(&mut fork, 70), (Way::First, None), "a packet is behind the mark");
            assert_eq!(choose(&mut fork, 1_060), (Way::First, Some(79)));
            fork.passed(79, at(1_120));
            assert_eq!(choose(&mut fork, 1_130), (Way::Lane(LaneId(3)), None), "none was, this time");
        }
    }

    #[test]
    fn an_answer_that_never_comes_is_asked_for_again() {
        let mut fork = proven(None);
        assert_eq!(choose(&mut fork, 0), (Way::First, Some(78)));
        assert_eq!(choose(&mut fork, 4_999), (Way::First, None));
        assert_eq!(choose(&mut fork, 5_000), (Way::First, None));
        assert_eq!(choose(&mut fork, 5_001), (Way::First, Some(79)));
    }
}

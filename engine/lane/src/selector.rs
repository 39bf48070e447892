//! By which lane a peer's packets go, seen from one lane of ours: by a lane of the session that is served here, or by the first one, whose owner they
//! are handed over to.
//!
//! ```text
//!           OpenLanes                 marks, Passed, flow after flow            nothing left
//! Closed ─────────────▶ Parting ───────────────────────────────────▶ … ─────────────────────▶ Open
//!    ▲                                                                                          │
//!    └──────────── HOLD ─────────── Closing ◀────────── CloseLanes, silence ────────────────────┘
//! ```
//! **No flow is ever reordered by this.** The kernel puts all packets of a flow on one queue ([`taut_tun::Tun::steer`]), so all are read here. Until lanes
//! are open each goes to the first lane's owner, in order. Then a mark follows them there, and the owner sends a probe behind the last of them: the same
//! way on both hosts and between them. Its answer ([`taut_node::ToLane::Passed`]) says that the other side has written all that was in front of it. A flow
//! of which nothing was handed over since the mark may go its own way from then on; the others stay, and another mark follows a second later.
//!
//! So new flows go by their lane at once, and a running one at its first gap that is as long as the way. Where the way is short that gap is made: until
//! the answer is there, the peer's packets are held (`held`). On a wire that loses or reorders by itself, a flow may be reordered once more here: in the
//! moment of its change.
//!
//! Lanes that close go the other way round. What is on a dead one is lost and cannot be overtaken; but one that only looked dead has packets on it yet, so
//! the peer's packets are held for [`HOLD`] before they go by the first lane.
//!
//! No wait is longer than [`HOLD`], and none holds up another peer. Where more would have to be held than may be, the wait is given up: packets go by the
//! first lane at once, and after [`GIVEN_UP`] times no gap is made any more until lanes open again.

use std::time::Duration;

use taut_base::{LaneId, Time};

/// A way this short or shorter is waited for, by holding what would overtake.
const SHORT_ROUND_TRIP: Duration = Duration::from_millis(25);
/// For so long at most (protocol.md 5.4), and for as long when lanes close.
const HOLD: Duration = Duration::from_millis(50);
/// An answer that is not there by then does not come.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon after an answer the next mark follows, if flows are left.
const AGAIN: Duration = Duration::from_secs(1);
/// Gaps that are tried to be made, if more has to be held each time than may be: what is sent so fast will not be slower soon.
const GIVEN_UP: u8 = 3;
/// Flows are told apart by so many remainders of their number. Those that share one change together; more than are busy at once on one lane.
const BUCKETS: usize = 256;

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Sealed here for this lane.
    Lane(LaneId),
    /// By the first lane.
    First,
    /// Nowhere yet: it would overtake.
    Hold,
}

/// Where a peer's packets part.
#[derive(Default)]
pub(crate) struct LaneSelector {
    state: State,
    /// The lanes that are served here, in their order.
    lanes: Vec<LaneId>,
    /// Id of the last mark's probe: each has another, so that a late answer is not taken for an early one.
    barrier: u64,
    round_trip: Option<Duration>,
}

#[derive(Default)]
enum State {
    #[default]
    Closed,
    Parting(Box<Parting>),
    Open,
    Closing {
        /// Until when everything is held.
        until: Time,
    },
}

/// Some flows go by the first lane yet.
struct Parting {
    /// Packets that were handed over since the lanes were proven.
    handed: u64,
    /// Of each bucket's flows, the last of these.
    last: [u64; BUCKETS],
    /// So many of them have arrived; before the first answer nothing is known of those that went before.
    arrived: Option<u64>,
    asking: Option<Asking>,
    /// When the next mark may follow.
    next: Option<Time>,
    /// How often too much would have had to be held.
    given_up: u8,
}

/// A mark whose probe was not answered yet.
struct Asking {
    since: Time,
    /// How many were handed over in front of it.
    behind: u64,
    hold: bool,
}

impl LaneSelector {
    /// Whether everything goes by the first lane, without a look at flows.
    pub(crate) fn are_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Whether something may go by further lanes.
    pub(crate) fn are_open(&self) -> bool {
        matches!(self.state, State::Open | State::Parting(_))
    }

    /// These lanes lead to the peer; the ids behind `barrier` are those of the probes that tell when they may be used.
    pub(crate) fn open(&mut self, lanes: Vec<LaneId>, barrier: u64) {
        (self.lanes, self.barrier) = (lanes, barrier);
        self.part(None);
    }

    fn part(&mut self, next: Option<Time>) {
        let parting = Parting { handed: 0, last: [0; BUCKETS], arrived: None, asking: None, next, given_up: 0 };
        self.state = State::Parting(Box::new(parting));
    }

    /// Everything goes by the first lane again.
    pub(crate) fn close(&mut self, now: Time) {
        if self.are_open() {
            self.state = State::Closing { until: now + HOLD };
        }
    }

    /// The barrier's probe was answered.
    pub(crate) fn passed(&mut self, barrier: u64, now: Time) {
        let State::Parting(parting) = &mut self.state else { return };
        let Some(asked) = parting.asking.take_if(|_| barrier == self.barrier) else { return };
        parting.arrived = Some(asked.behind);
        parting.next = Some(now + AGAIN);
        if parting.handed == asked.behind {
            self.state = State::Open;
        }
    }

    /// A packet goes by the first lane though others are open: all flows wait for a barrier again.
    pub(crate) fn again(&mut self, now: Time) {
        if self.are_open() {
            self.part(Some(now + AGAIN));
        }
    }

    /// How long a packet takes to the peer and back.
    pub(crate) fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = Some(round_trip);
    }

    /// Until when packets are held at most; `None` while none has to be.
    pub(crate) fn holds_until(&self) -> Option<Time> {
        match &self.state {
            State::Closing { until } => Some(*until),
            State::Parting(parting) => {
                parting.asking.as_ref().filter(|asking| asking.hold).map(|asking| asking.since + HOLD)
            }
            State::Closed | State::Open => None,
        }
    }

    /// More packets would have to be held than may be: they go by the first lane at once. True if that changed anything.
    pub(crate) fn give_up(&mut self) -> bool {
        match &mut self.state {
            State::Closing { .. } => self.state = State::Closed,
            State::Parting(parting) => {
                let Some(asking) = parting.asking.as_mut().filter(|asking| asking.hold) else { return false };
                asking.hold = false;
                parting.given_up = parting.given_up.saturating_add(1);
            }
            State::Closed | State::Open => return false,
        }
        true
    }

    /// Where the next packet of a flow goes. `mark` is called with the barrier's id when a mark is to follow what was handed over, the packet in hand
    /// included if its way is [`Decision::First`].
    pub(crate) fn choose(&mut self, flow: usize, now: Time, mark: impl FnOnce(u64)) -> Decision {
        let parting = match &mut self.state {
            State::Closed => return Decision::First,
            State::Closing { until } if now < *until => return Decision::Hold,
            State::Closing { .. } => {
                self.state = State::Closed;
                return Decision::First;
            }
            State::Open => return own(&self.lanes, flow),
            State::Parting(parting) => parting,
        };
        if parting.may_go(flow) {
            return own(&self.lanes, flow);
        }
        match &mut parting.asking {
            None if parting.next.is_none_or(|next| now >= next) => {
                self.barrier = self.barrier.wrapping_add(1);
                let short = self.round_trip.is_some_and(|round_trip| round_trip <= SHORT_ROUND_TRIP);
                let hold = short && parting.given_up < GIVEN_UP;
                let way = if hold { Decision::Hold } else { parting.hand_over(flow) };
                parting.asking = Some(Asking { since: now, behind: parting.handed, hold });
                mark(self.barrier);
                return way;
            }
            None => {}
            Some(asking) if asking.hold && now < asking.since + HOLD => return Decision::Hold,
            Some(asking) => {
                asking.hold = false;
                parting.asking.take_if(|asking| now >= asking.since + PATIENCE);
            }
        }
        parting.hand_over(flow)
    }
}

impl Parting {
    /// Whether everything of this flow that was handed over has arrived.
    fn may_go(&self, flow: usize) -> bool {
        self.arrived.is_some_and(|arrived| self.last.get(flow % BUCKETS).is_some_and(|last| *last <= arrived))
    }

    fn hand_over(&mut self, flow: usize) -> Decision {
        self.handed += 1;
        if let Some(last) = self.last.get_mut(flow % BUCKETS) {
            *last = self.handed;
        }
        Decision::First
    }
}

/// The lane of a flow, of those that are served here.
fn own(lanes: &[LaneId], flow: usize) -> Decision {
    lanes.get(flow % lanes.len().max(1)).map_or(Decision::First, |lane| Decision::Lane(*lane))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(1_000_000 + milliseconds)
    }

    fn proven(round_trip: Option<u64>) -> LaneSelector {
        let mut selector = LaneSelector::default();
        selector.open(vec![LaneId(1), LaneId(3)], 77);
        if let Some(milliseconds) = round_trip {
            selector.set_round_trip(Duration::from_millis(milliseconds));
        }
        selector
    }

    /// Way of a flow's packet at this time, and the mark that followed.
    fn choose_for(selector: &mut LaneSelector, flow: usize, milliseconds: u64) -> (Decision, Option<u64>) {
        let mut marked = None;
        let way = selector.choose(flow, at(milliseconds), |barrier| marked = Some(barrier));
        (way, marked)
    }

    fn choose(selector: &mut LaneSelector, milliseconds: u64) -> (Decision, Option<u64>) {
        choose_for(selector, 5, milliseconds)
    }

    #[test]
    fn a_short_way_is_waited_for() {
        let mut selector = proven(Some(25));
        assert_eq!(choose(&mut selector, 0), (Decision::Hold, Some(78)));
        assert_eq!(choose(&mut selector, 1), (Decision::Hold, None));
        selector.passed(77, at(2));
        assert_eq!(choose(&mut selector, 2), (Decision::Hold, None), "another barrier's answer");
        selector.passed(78, at(3));
        assert_eq!(choose(&mut selector, 3), (Decision::Lane(LaneId(3)), None));
        assert_eq!(choose_for(&mut selector, 4, 3).0, Decision::Lane(LaneId(1)), "flows are spread");
        assert!(matches!(selector.state, State::Open), "there is nothing left to be counted");
        selector.close(at(4));
        selector.passed(78, at(5));
        selector.again(at(5));
        assert!(!selector.are_open(), "an answer opens nothing that was closed");
    }

    #[test]
    fn what_goes_by_closing_lanes_is_not_overtaken() {
        let mut selector = proven(Some(1));
        assert_eq!(choose(&mut selector, 0), (Decision::Hold, Some(78)));
        selector.passed(78, at(1));
        assert_eq!(choose(&mut selector, 2), (Decision::Lane(LaneId(3)), None));
        selector.close(at(10));
        assert_eq!(choose(&mut selector, 11), (Decision::Hold, None));
        selector.close(at(50));
        assert_eq!(choose_for(&mut selector, 7, 59), (Decision::Hold, None));
        assert!(!selector.are_closed(), "flows are looked at yet");
        assert_eq!(choose(&mut selector, 60), (Decision::First, None), "closed twice, held once");
        assert!(selector.are_closed());
    }

    #[test]
    fn nothing_is_held_for_longer_than_it_may_be() {
        let mut selector = proven(Some(1));
        assert_eq!(choose(&mut selector, 0), (Decision::Hold, Some(78)));
        assert_eq!(choose(&mut selector, 49), (Decision::Hold, None));
        assert_eq!(choose(&mut selector, 50), (Decision::First, None), "the answer is late");
        selector.passed(78, at(51));
        assert_eq!(
            choose(&mut selector, 52),
            (Decision::First, None),
            "and too late for this flow: something passed it"
        );
        assert_eq!(choose_for(&mut selector, 6, 52), (Decision::Lane(LaneId(1)), None), "another one may go");
        assert_eq!(choose(&mut selector, 1_050), (Decision::First, None));
        assert_eq!(choose(&mut selector, 1_051), (Decision::Hold, Some(79)), "once more");
        selector.passed(78, at(1_052));
        assert_eq!(
            choose(&mut selector, 1_053),
            (Decision::Hold, None),
            "the first try's answer says nothing of what went since"
        );
        selector.passed(79, at(1_053));
        assert_eq!(choose(&mut selector, 1_054), (Decision::Lane(LaneId(3)), None));
        assert!(matches!(selector.state, State::Open));
    }

    #[test]
    fn fault_b11_a_wait_that_is_given_up_is_over_and_soon_not_begun_again() {
        let mut selector = proven(Some(1));
        assert!(!selector.give_up(), "nothing is waited for");
        for (number, second) in (78..81).zip([0, 6_000, 12_000]) {
            assert_eq!(choose(&mut selector, second), (Decision::Hold, Some(number)));
            assert_eq!(selector.holds_until(), Some(at(second + 50)));
            assert!(selector.give_up() && !selector.give_up());
            assert_eq!((choose(&mut selector, second), selector.holds_until()), ((Decision::First, None), None));
            // Nobody answers: the next mark follows after 5 s.
            assert_eq!(choose(&mut selector, second + 5_000), (Decision::First, None));
        }
        assert_eq!(choose(&mut selector, 18_000), (Decision::First, Some(81)), "a gap of its own is still found");
        selector.passed(81, at(18_010));
        assert_eq!(choose_for(&mut selector, 6, 18_011).0, Decision::Lane(LaneId(1)));
        selector.close(at(18_020));
        assert_eq!((choose(&mut selector, 18_021).0, selector.holds_until()), (Decision::Hold, Some(at(18_070))));
        assert!(selector.give_up());
        assert_eq!(choose(&mut selector, 18_022), (Decision::First, None));
    }

    #[test]
    fn over_a_long_way_new_flows_go_at_once_and_running_ones_in_a_gap() {
        for round_trip in [None, Some(26)] {
            let mut selector = proven(round_trip);
            assert_eq!(choose(&mut selector, 0), (Decision::First, Some(78)), "the packet goes, and a mark behind it");
            assert_eq!(choose_for(&mut selector, 6, 10), (Decision::First, None), "nothing has arrived yet");
            assert_eq!(choose(&mut selector, 30), (Decision::First, None));
            selector.passed(78, at(60));
            assert_eq!(choose(&mut selector, 70), (Decision::First, None), "one of its packets is behind the mark");
            assert_eq!(choose_for(&mut selector, 6, 70), (Decision::First, None), "of this one, too");
            assert_eq!(choose_for(&mut selector, 7, 71), (Decision::Lane(LaneId(3)), None), "of a new one, none is");
            assert_eq!(choose(&mut selector, 1_060), (Decision::First, Some(79)));
            assert_eq!(choose_for(&mut selector, 6, 1_070), (Decision::First, None));
            selector.passed(79, at(1_120));
            assert_eq!(choose(&mut selector, 1_130), (Decision::Lane(LaneId(3)), None), "a gap, this time");
            assert_eq!(choose_for(&mut selector, 6, 1_130), (Decision::First, None), "but not for this one");
            assert_eq!(choose_for(&mut selector, 7, 1_130), (Decision::Lane(LaneId(3)), None), "whoever went stays");
            assert_eq!(choose(&mut selector, 3_000), (Decision::Lane(LaneId(3)), None), "and asks for no more marks");
            assert_eq!(choose_for(&mut selector, 6, 3_000), (Decision::First, Some(80)));
            selector.passed(80, at(3_060));
            assert!(matches!(selector.state, State::Open));
        }
    }

    #[test]
    fn a_packet_that_went_by_the_first_lane_has_all_flows_wait_again() {
        let mut selector = proven(Some(1));
        assert_eq!(choose(&mut selector, 0), (Decision::Hold, Some(78)));
        selector.passed(78, at(1));
        selector.again(at(2));
        assert_eq!(choose(&mut selector, 3), (Decision::First, None));
        assert_eq!(choose(&mut selector, 1_002), (Decision::Hold, Some(79)));
        selector.close(at(1_002));
        selector.again(at(1_003));
        assert!(!selector.are_open());
    }

    #[test]
    fn an_answer_that_never_comes_is_asked_for_again() {
        let mut selector = proven(None);
        assert_eq!(choose(&mut selector, 0), (Decision::First, Some(78)));
        assert_eq!(choose(&mut selector, 4_999), (Decision::First, None));
        assert_eq!(choose(&mut selector, 5_000), (Decision::First, None));
        assert_eq!(choose(&mut selector, 5_001), (Decision::First, Some(79)));
    }
}

//! The lane of each packet to a peer, as one lane of ours decides it: a lane of the session that is served here, or the first lane, to which the packet is
//! handed off.
//!
//! ```text
//!            OpenLanes                    marks, Passed, flow after flow                 no flow left
//! Closed ──────────────▶ Moving ──────────────────────────────────────────▶ … ─────────────────────▶ Open
//!    ▲                                                                                                │
//!    └─────────── HOLD ─────────── Closing ◀─────────── CloseLanes, silence ──────────────────────────┘
//! ```
//! **No flow is reordered by a change of its lane.** The kernel puts all packets of a flow on one queue ([`taut_tun::Tun::steer`]), so this lane reads all
//! of them. Until lanes are open, it hands each packet off to the first lane, in order. Then a [`Mark`] follows these packets there, and the first lane sends
//! a probe behind the last of them, on the same path. The answer ([`taut_node::ToLane::Passed`]) proves that the peer has written all earlier packets to
//! its TUN. A flow with no packet handed off since the mark may take its own lane from then on. The other flows stay, and another mark follows a second
//! later.
//!
//! So a new flow takes its lane at once, and a running flow at its first pause that is as long as the round trip. Where the round trip is short, the lane
//! makes that pause, for one flow after the other: it holds the flow's packets until the answer comes (`held`), while all other packets go on. If lanes open
//! although flows were on extra lanes a moment ago, as with a new session, all packets are held for the first answer, because none may overtake those.
//! On a network that loses or reorders packets, a flow may be reordered once more, at the moment of its change.
//!
//! Closing lanes works the other way round. Packets on a dead lane are lost and cannot be overtaken. But a lane that only looked dead still has packets on
//! their way, so the peer's packets are held for [`HOLD`] before they take the first lane. Lanes that open again meanwhile wait until then. The first lane
//! holds packets and marks that other lanes hand off as well: it may have served several lanes of the session itself.
//!
//! No wait is longer than [`HOLD`], and none holds up another peer. When a bound on held packets is reached, the wait is given up: packets take the first
//! lane at once, and after [`GIVE_UPS`] such waits in a row no pause is made until lanes open again.

use std::time::Duration;

use taut_base::{LaneId, PeerId, Time};

/// The longest round trip for which packets are held until a mark's answer comes, 25 ms.
const SHORT_ROUND_TRIP: Duration = Duration::from_millis(25);
/// The longest time for which packets are held, 50 ms (protocol.md 5.4): while a mark's answer is out, and when lanes close.
const HOLD: Duration = Duration::from_millis(50);
/// Time after which a mark's answer is taken for lost, 1 s: longer than any round trip on which flows are worth lanes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time from an answer to the next mark, if flows are left and no pause was made, 1 s. After a pause that was made, the next one begins at once.
const MARK_INTERVAL: Duration = Duration::from_secs(1);
/// Waits in a row that are given up before no more pause is made, 3: flows that are too fast to be held are not slower soon.
const GIVE_UPS: u8 = 3;
/// Buckets of flows, 256, by the remainder of the flow's number: more than the flows that are busy at once on one lane. Flows of one bucket change together.
const BUCKETS: usize = 256;

/// The lane of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// This lane seals it, for this lane of the session.
    Lane(LaneId),
    /// The first lane seals it.
    First,
    /// It has to wait, like all packets to this peer: it would overtake others.
    Hold,
    /// It has to wait, like all packets of its bucket of flows.
    HoldFlow,
}

/// A request to the first lane: to send a probe behind all packets of the peer that it was handed off before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The peer.
    pub peer: PeerId,
    /// The id of the probe.
    pub barrier: u64,
}

/// Chooses the lane of each packet to one peer.
#[derive(Default)]
pub(crate) struct LaneSelector {
    state: SelectorState,
    /// The lanes that are served here, in their order.
    lanes: Vec<LaneId>,
    /// Id of the last mark's probe. Each mark has another id, so that a late answer is not taken for an early one.
    barrier: u64,
    round_trip: Option<Duration>,
}

#[derive(Default)]
enum SelectorState {
    /// All packets take the first lane.
    #[default]
    Closed,
    /// Flows change to their lanes one by one.
    Moving(Box<MovingFlows>),
    /// Each flow takes its lane.
    Open,
    /// Packets are held until this time. From then on they take the first lane, or lanes open, if the agent has opened them again.
    Closing { until: Time, reopens: bool },
}

/// Flows of which some still take the first lane. Packets that were handed off are numbered since the lanes opened.
struct MovingFlows {
    /// Packets that were handed off.
    handed_off: u64,
    /// The last of these of each bucket's flows.
    last: [u64; BUCKETS],
    /// The last of these that surely arrived. `None` before the first answer: packets from before the lanes opened may still be on their way.
    arrived: Option<u64>,
    pending: Option<PendingMark>,
    /// When the next mark may follow; `None` for at once.
    next: Option<Time>,
    /// Waits that were given up because a bound on held packets was reached.
    given_up: u8,
    /// True until the first answer, if packets may be on their way on extra lanes that were open before.
    after_others: bool,
}

/// A mark whose probe was not answered yet.
struct PendingMark {
    since: Time,
    /// Packets that were handed off before it.
    behind: u64,
    /// Which packets are held until the answer comes.
    holds: Holds,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    /// Those of this bucket of flows.
    Bucket(usize),
    All,
}

impl LaneSelector {
    /// Returns true if all packets take the first lane, and flows need not be looked at.
    pub(crate) fn are_closed(&self) -> bool {
        matches!(self.state, SelectorState::Closed)
    }

    /// Returns true if packets may take extra lanes, now or when a wait is over.
    pub(crate) fn are_open(&self) -> bool {
        matches!(
            self.state,
            SelectorState::Open | SelectorState::Moving(_) | SelectorState::Closing { reopens: true, .. }
        )
    }

    /// Opens these lanes to the peer. The ids that follow `barrier` are for the probes behind marks.
    pub(crate) fn open(&mut self, lanes: Vec<LaneId>, barrier: u64) {
        (self.lanes, self.barrier) = (lanes, barrier);
        match &mut self.state {
            SelectorState::Closing { reopens, .. } => *reopens = true,
            SelectorState::Closed => self.start_moving(None, false),
            SelectorState::Moving(_) | SelectorState::Open => self.start_moving(None, true),
        }
    }

    fn start_moving(&mut self, next: Option<Time>, after_others: bool) {
        self.state = SelectorState::Moving(Box::new(MovingFlows {
            handed_off: 0,
            last: [0; BUCKETS],
            arrived: None,
            pending: None,
            next,
            given_up: 0,
            after_others,
        }));
    }

    /// Closes all lanes except the first.
    pub(crate) fn close(&mut self, now: Time) {
        match &mut self.state {
            SelectorState::Closing { reopens, .. } => *reopens = false,
            SelectorState::Closed => {}
            SelectorState::Moving(_) | SelectorState::Open => {
                self.state = SelectorState::Closing { until: now + HOLD, reopens: false };
            }
        }
    }

    /// Returns true if packets may be on their way on lanes that were closed a moment ago.
    pub(crate) fn is_closing(&mut self, now: Time) -> bool {
        self.end_closing(now);
        matches!(self.state, SelectorState::Closing { .. })
    }

    /// Returns true if a packet that another lane handed off may overtake packets that this lane sent on extra lanes a moment ago: then it waits with the
    /// packets that are read here, as [`Self::choose`] decides.
    pub(crate) fn may_overtake_others(&mut self, now: Time) -> bool {
        self.is_closing(now) || matches!(&self.state, SelectorState::Moving(moving) if moving.after_others)
    }

    /// Takes the step that follows the wait for closed lanes, once it is over.
    fn end_closing(&mut self, now: Time) {
        match self.state {
            SelectorState::Closing { until, .. } if now < until => {}
            SelectorState::Closing { reopens: true, .. } => self.start_moving(None, false),
            SelectorState::Closing { reopens: false, .. } => self.state = SelectorState::Closed,
            SelectorState::Closed | SelectorState::Moving(_) | SelectorState::Open => {}
        }
    }

    /// Handles the answer to a mark's probe.
    pub(crate) fn passed(&mut self, barrier: u64, now: Time) {
        let SelectorState::Moving(moving) = &mut self.state else { return };
        let Some(mark) = moving.pending.take_if(|_| barrier == self.barrier) else { return };
        moving.arrived = Some(mark.behind);
        moving.next = Some(now + MARK_INTERVAL);
        moving.after_others = false;
        if mark.holds != Holds::Nothing {
            (moving.next, moving.given_up) = (None, 0);
        }
        if moving.handed_off == mark.behind {
            self.state = SelectorState::Open;
        }
    }

    /// Has all flows wait for a mark again, because a packet takes the first lane although extra lanes are open.
    pub(crate) fn again(&mut self, now: Time) {
        if matches!(self.state, SelectorState::Moving(_) | SelectorState::Open) {
            self.start_moving(Some(now + MARK_INTERVAL), false);
        }
    }

    /// Sets the round-trip time to the peer.
    pub(crate) fn set_round_trip(&mut self, round_trip: Duration) {
        self.round_trip = Some(round_trip);
    }

    /// Returns the time until which packets are held at most; `None` while none has to be held.
    pub(crate) fn holds_until(&self) -> Option<Time> {
        match &self.state {
            SelectorState::Closing { until, .. } => Some(*until),
            SelectorState::Moving(moving) => {
                moving.pending.as_ref().filter(|mark| mark.holds != Holds::Nothing).map(|mark| mark.since + HOLD)
            }
            SelectorState::Closed | SelectorState::Open => None,
        }
    }

    /// Ends the wait because a bound on held packets was reached: packets take the first lane at once. Returns true if there was a wait.
    pub(crate) fn give_up(&mut self, now: Time) -> bool {
        match &mut self.state {
            SelectorState::Closing { reopens: false, .. } => self.state = SelectorState::Closed,
            SelectorState::Closing { reopens: true, .. } => self.start_moving(Some(now + MARK_INTERVAL), false),
            SelectorState::Moving(moving) => {
                let holding = moving.pending.as_mut().filter(|mark| mark.holds != Holds::Nothing);
                let Some(mark) = holding else { return false };
                mark.holds = Holds::Nothing;
                moving.given_up = moving.given_up.saturating_add(1);
            }
            SelectorState::Closed | SelectorState::Open => return false,
        }
        true
    }

    /// Returns the lane of a flow's next packet. Calls `mark` with the barrier's id if a mark should follow what was handed off, including the present packet
    /// if the decision is [`Decision::First`].
    pub(crate) fn choose(&mut self, flow: usize, now: Time, mark: impl FnOnce(u64)) -> Decision {
        self.end_closing(now);
        let moving = match &mut self.state {
            SelectorState::Closed => return Decision::First,
            SelectorState::Closing { .. } => return Decision::Hold,
            SelectorState::Open => return lane_of(&self.lanes, flow),
            SelectorState::Moving(moving) => moving,
        };
        if moving.may_move(flow) {
            return lane_of(&self.lanes, flow);
        }
        match &mut moving.pending {
            None if moving.next.is_none_or(|next| now >= next) => {
                self.barrier = self.barrier.wrapping_add(1);
                let short = self.round_trip.is_some_and(|round_trip| round_trip <= SHORT_ROUND_TRIP);
                let (holds, decision) = match short && moving.given_up < GIVE_UPS {
                    true if moving.after_others => (Holds::All, Decision::Hold),
                    true => (Holds::Bucket(flow % BUCKETS), Decision::HoldFlow),
                    false => (Holds::Nothing, moving.hand_off(flow)),
                };
                moving.pending = Some(PendingMark { since: now, behind: moving.handed_off, holds });
                mark(self.barrier);
                return decision;
            }
            None => {}
            Some(mark) if now >= mark.since + HOLD => {
                mark.holds = Holds::Nothing;
                moving.pending.take_if(|mark| now >= mark.since + ANSWER_TIMEOUT);
            }
            Some(mark) if mark.holds == Holds::All => return Decision::Hold,
            Some(mark) if mark.holds == Holds::Bucket(flow % BUCKETS) => return Decision::HoldFlow,
            Some(_) => {}
        }
        moving.hand_off(flow)
    }
}

impl MovingFlows {
    /// Returns true if all packets of this flow that were handed off have arrived.
    fn may_move(&self, flow: usize) -> bool {
        self.arrived.is_some_and(|arrived| self.last.get(flow % BUCKETS).is_some_and(|last| *last <= arrived))
    }

    /// Counts a packet of this flow that is handed off.
    fn hand_off(&mut self, flow: usize) -> Decision {
        self.handed_off += 1;
        if let Some(last) = self.last.get_mut(flow % BUCKETS) {
            *last = self.handed_off;
        }
        Decision::First
    }
}

/// An odd factor near the golden ratio of 2¹⁶: a product with it has every bit of a number in its high bits.
const SPREAD: u16 = 0x9e37;

/// Returns a number for a flow that tells the flows of one lane apart. The steering chooses a lane by some bits of a product of
/// the flow's number ([`Placement`](taut_base::Placement)), so the flows of one lane have these bits in common.
pub(crate) fn apart(flow: u16) -> usize {
    usize::from(flow.wrapping_mul(SPREAD).swap_bytes())
}

/// Returns the bucket of a flow's number: its flows change their lane together.
pub(crate) fn bucket(flow: u16) -> usize {
    apart(flow) % BUCKETS
}

/// Returns the lane of a flow, among those that are served here.
fn lane_of(lanes: &[LaneId], flow: usize) -> Decision {
    lanes.get(flow % lanes.len().max(1)).map_or(Decision::First, |lane| Decision::Lane(*lane))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taut_base::Placement;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(1_000_000 + milliseconds)
    }

    #[test]
    fn the_flows_of_one_lane_are_spread_over_the_lanes_that_it_serves() {
        for placement in (2..=8).flat_map(Placement::candidates) {
            let threads = placement.lanes();
            for served in 2..=16 / usize::from(threads) {
                let mut counts = vec![0; served];
                let flows = (0..=u16::MAX).filter(|flow| placement.lane(*flow) == LaneId(1));
                flows.for_each(|flow| counts[apart(flow) % served] += 1);
                let fair = 65_536 / usize::from(threads) / served;
                assert!(counts.iter().all(|count| (fair / 2..fair * 2).contains(count)), "{placement:?} {counts:?}");
            }
        }
    }

    fn proven(round_trip: Option<u64>) -> LaneSelector {
        let mut selector = LaneSelector::default();
        selector.open(vec![LaneId(1), LaneId(3)], 77);
        if let Some(milliseconds) = round_trip {
            selector.set_round_trip(Duration::from_millis(milliseconds));
        }
        selector
    }

    /// Returns the decision for a flow's packet at this time, and the barrier of the mark that followed.
    fn choose_for(selector: &mut LaneSelector, flow: usize, milliseconds: u64) -> (Decision, Option<u64>) {
        let mut marked = None;
        let decision = selector.choose(flow, at(milliseconds), |barrier| marked = Some(barrier));
        (decision, marked)
    }

    fn choose(selector: &mut LaneSelector, milliseconds: u64) -> (Decision, Option<u64>) {
        choose_for(selector, 5, milliseconds)
    }

    #[test]
    fn where_the_round_trip_is_short_one_flow_after_the_other_is_held_until_the_answer() {
        let mut selector = proven(Some(25));
        assert_eq!(choose(&mut selector, 0), (Decision::HoldFlow, Some(78)));
        assert_eq!(
            choose_for(&mut selector, 5 + BUCKETS, 1),
            (Decision::HoldFlow, None),
            "flows of one bucket change together"
        );
        assert_eq!(choose_for(&mut selector, 6, 1), (Decision::First, None), "other flows go on");
        selector.passed(77, at(2));
        assert_eq!(choose(&mut selector, 2), (Decision::HoldFlow, None), "another barrier's answer");
        selector.passed(78, at(3));
        assert_eq!(choose(&mut selector, 3), (Decision::Lane(LaneId(3)), None));
        assert_eq!(
            choose_for(&mut selector, 4, 3).0,
            Decision::Lane(LaneId(1)),
            "flows are spread, and new ones wait for nothing"
        );
        assert_eq!(choose_for(&mut selector, 6, 3), (Decision::HoldFlow, Some(79)), "the next flow, at once");
        selector.passed(79, at(4));
        assert_eq!(choose_for(&mut selector, 6, 4), (Decision::Lane(LaneId(1)), None));
        assert!(matches!(selector.state, SelectorState::Open), "no flow is left to move");
        selector.close(at(4));
        selector.passed(79, at(5));
        selector.again(at(5));
        assert!(!selector.are_open(), "an answer does not open closed lanes");
    }

    #[test]
    fn packets_on_closing_lanes_are_not_overtaken() {
        let mut selector = proven(Some(1));
        assert_eq!(choose(&mut selector, 0), (Decision::HoldFlow, Some(78)));
        selector.passed(78, at(1));
        assert_eq!(choose(&mut selector, 2), (Decision::Lane(LaneId(3)), None));
        selector.close(at(10));
        assert_eq!(choose(&mut selector, 11), (Decision::Hold, None));
        selector.close(at(50));
        assert_eq!(choose_for(&mut selector, 7, 59), (Decision::Hold, None));
        assert!(!selector.are_closed(), "still closing");
        assert_eq!(choose(&mut selector, 60), (Decision::First, None), "the second close changes nothing");
        assert!(selector.are_closed());
    }

    #[test]
    fn lanes_that_open_again_while_they_close_wait_until_nothing_can_be_overtaken() {
        let mut selector = proven(Some(1));
        assert_eq!(choose(&mut selector, 0), (Decision::HoldFlow, Some(78)));
        selector.passed(78, at(1));
        selector.close(at(10));
        selector.open(vec![LaneId(1), LaneId(2)], 90);
        assert!(selector.are_open() && selector.is_closing(at(59)));
        assert_eq!(choose(&mut selector, 59), (Decision::Hold, None));
        assert!(selector.may_overtake_others(at(59)) && !selector.may_overtake_others(at(60)));
        assert_eq!(choose(&mut selector, 60), (Decision::HoldFlow, Some(91)));
        // Closed again before the wait is over: the first lane follows. The wait does not begin again.
        selector.close(at(70));
        selector.open(vec![LaneId(1)], 100);
        selector.close(at(100));
        assert_eq!(
            (choose(&mut selector, 119), choose(&mut selector, 120)),
            ((Decision::Hold, None), (Decision::First, None))
        );
        // A wait that is given up ends at once, and flows change their lanes later.
        selector.open(vec![LaneId(1)], 110);
        selector.close(at(200));
        selector.open(vec![LaneId(1)], 120);
        assert!(selector.give_up(at(210)));
        assert_eq!(
            (choose(&mut selector, 210), choose(&mut selector, 1_210)),
            ((Decision::First, None), (Decision::HoldFlow, Some(121)))
        );
    }

    #[test]
    fn where_lanes_were_open_a_moment_ago_all_packets_are_held_for_the_first_answer() {
        let mut selector = proven(Some(1));
        assert_eq!(choose(&mut selector, 0), (Decision::HoldFlow, Some(78)));
        selector.passed(78, at(1));
        assert_eq!(choose(&mut selector, 2), (Decision::Lane(LaneId(3)), None));
        // A new session has other lanes. Packets of each flow may be on their way on the former ones.
        selector.open(vec![LaneId(1), LaneId(2)], 90);
        assert_eq!(choose_for(&mut selector, 6, 10), (Decision::Hold, Some(91)));
        assert_eq!(choose_for(&mut selector, 7, 11), (Decision::Hold, None));
        selector.passed(91, at(12));
        assert_eq!(choose_for(&mut selector, 7, 12), (Decision::Lane(LaneId(2)), None));
        assert!(matches!(selector.state, SelectorState::Open));
    }

    #[test]
    fn packets_are_held_for_50_ms_at_most() {
        let mut selector = proven(Some(1));
        assert_eq!(choose(&mut selector, 0), (Decision::HoldFlow, Some(78)));
        assert_eq!(choose(&mut selector, 49), (Decision::HoldFlow, None));
        assert_eq!(choose(&mut selector, 50), (Decision::First, None), "the answer is late");
        selector.passed(78, at(51));
        assert_eq!(
            choose(&mut selector, 52),
            (Decision::First, None),
            "too late for this flow: a packet was handed off since the mark"
        );
        assert_eq!(
            choose_for(&mut selector, 6, 52),
            (Decision::Lane(LaneId(1)), None),
            "another flow may take its lane"
        );
        assert_eq!(choose(&mut selector, 1_050), (Decision::First, None));
        assert_eq!(choose(&mut selector, 1_051), (Decision::HoldFlow, Some(79)), "the next mark");
        selector.passed(78, at(1_052));
        assert_eq!(
            choose(&mut selector, 1_053),
            (Decision::HoldFlow, None),
            "the first mark's answer proves nothing about later packets"
        );
        selector.passed(79, at(1_053));
        assert_eq!(choose(&mut selector, 1_054), (Decision::Lane(LaneId(3)), None));
        assert!(matches!(selector.state, SelectorState::Open));
    }

    #[test]
    fn fault_b11_a_wait_that_is_given_up_ends_and_after_three_no_other_begins() {
        let mut selector = proven(Some(1));
        assert!(!selector.give_up(at(0)), "there is no wait");
        for (number, second) in (78..81).zip([0, 6_000, 12_000]) {
            assert_eq!(choose(&mut selector, second), (Decision::HoldFlow, Some(number)));
            assert_eq!(selector.holds_until(), Some(at(second + 50)));
            assert!(selector.give_up(at(second)) && !selector.give_up(at(second)));
            assert_eq!((choose(&mut selector, second), selector.holds_until()), ((Decision::First, None), None));
            // Without an answer, the next mark follows after a second.
            assert_eq!(choose(&mut selector, second + 1_000), (Decision::First, None));
        }
        assert_eq!(choose(&mut selector, 18_000), (Decision::First, Some(81)), "a pause of the traffic still suffices");
        selector.passed(81, at(18_010));
        assert_eq!(choose_for(&mut selector, 6, 18_011).0, Decision::Lane(LaneId(1)));
        selector.close(at(18_020));
        assert_eq!((choose(&mut selector, 18_021).0, selector.holds_until()), (Decision::Hold, Some(at(18_070))));
        assert!(selector.give_up(at(18_022)));
        assert_eq!(choose(&mut selector, 18_022), (Decision::First, None));
    }

    #[test]
    fn over_a_long_round_trip_new_flows_move_at_once_and_running_flows_in_a_pause() {
        for round_trip in [None, Some(26)] {
            let mut selector = proven(round_trip);
            assert_eq!(
                choose(&mut selector, 0),
                (Decision::First, Some(78)),
                "the packet is handed off, and a mark follows it"
            );
            assert_eq!(choose_for(&mut selector, 6, 10), (Decision::First, None), "no answer yet");
            assert_eq!(choose(&mut selector, 30), (Decision::First, None));
            selector.passed(78, at(60));
            assert_eq!(choose(&mut selector, 70), (Decision::First, None), "one of its packets came after the mark");
            assert_eq!(choose_for(&mut selector, 6, 70), (Decision::First, None), "one of this flow's packets, too");
            assert_eq!(choose_for(&mut selector, 7, 71), (Decision::Lane(LaneId(3)), None), "a new flow has none");
            assert_eq!(choose(&mut selector, 1_060), (Decision::First, Some(79)));
            assert_eq!(choose_for(&mut selector, 6, 1_070), (Decision::First, None));
            selector.passed(79, at(1_120));
            assert_eq!(choose(&mut selector, 1_130), (Decision::Lane(LaneId(3)), None), "it paused this time");
            assert_eq!(choose_for(&mut selector, 6, 1_130), (Decision::First, None), "this flow did not");
            assert_eq!(
                choose_for(&mut selector, 7, 1_130),
                (Decision::Lane(LaneId(3)), None),
                "a flow that moved stays"
            );
            assert_eq!(choose(&mut selector, 3_000), (Decision::Lane(LaneId(3)), None), "and asks for no more marks");
            assert_eq!(choose_for(&mut selector, 6, 3_000), (Decision::First, Some(80)));
            selector.passed(80, at(3_060));
            assert!(matches!(selector.state, SelectorState::Open));
        }
    }

    #[test]
    fn a_packet_that_took_the_first_lane_has_all_flows_wait_again() {
        let mut selector = proven(Some(1));
        assert_eq!(choose(&mut selector, 0), (Decision::HoldFlow, Some(78)));
        selector.passed(78, at(1));
        selector.again(at(2));
        assert_eq!(choose(&mut selector, 3), (Decision::First, None));
        assert_eq!(choose(&mut selector, 1_002), (Decision::HoldFlow, Some(79)));
        selector.close(at(1_002));
        selector.again(at(1_003));
        assert!(!selector.are_open());
    }

    #[test]
    fn after_an_answer_that_never_comes_another_mark_follows() {
        let mut selector = proven(None);
        assert_eq!(choose(&mut selector, 0), (Decision::First, Some(78)));
        assert_eq!(choose(&mut selector, 999), (Decision::First, None));
        assert_eq!(choose(&mut selector, 1_000), (Decision::First, None));
        assert_eq!(choose(&mut selector, 1_001), (Decision::First, Some(79)));
    }
}

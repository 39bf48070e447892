//! The further lanes of one peer's sessions, seen from the agent: which there are, and which were proven.
//!
//! ```text
//! an offer or an accept names the peer's lanes ──▶ a probe on each further lane ───▶ … ◀─── answer: it leads there
//! all that one lane of ours serves lead there  ──▶ ToLane::OpenLanes
//! silence, other ports                         ──▶ closed, and probed again;     no session left ──▶ forgotten
//! ```
//! What was proven holds over renewals of the session: sockets and endpoints stay, and a lane that is in use is judged by what comes back on it.
//! Lanes that one lane of ours serves open together, because flows are spread over all of them.
//!
//! Each change of lanes holds the peer's packets for a moment. So a peer changes its lanes at most once within [`APART`] (protocol.md 5.8): what it
//! says sooner is counted, closes what is open, and the newest of it is taken when the time is over. What was proven is not proven again sooner either.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, LaneId, Time};
use taut_wire::control::Lanes;

use crate::talk::Ask;

/// How soon a lane that fell silent is probed again.
const AFTER_SILENCE: Duration = Duration::from_secs(2);

/// Time between two changes of one peer's lanes (protocol.md 5.8). A node says which lanes it has once per session; only one that is started again and
/// again, or a hostile one, says more.
const APART: Duration = Duration::from_secs(5);

/// Probes of one lane whose answers are waited for: an answer to an older one says nothing that the newer will not.
const WAITING: usize = 4;

/// Ids that a barrier has: of one try a second, for longer than anything stays as it is.
const TRIES: u64 = 1 << 32;

/// The further lanes of one peer.
#[derive(Default)]
pub(crate) struct ExtraLanes {
    /// Lanes of ours and of the peer's, once the peer said so.
    lanes: Option<(u8, Lanes)>,
    sides: Vec<Side>,
    /// Lanes of ours that were opened, each with the id of the probe that they wait for before they use it.
    open: Vec<(LaneId, u64)>,
    /// When the peer last said something new of its lanes, and when some were last opened.
    changed: Option<Time>,
    opened: Option<Time>,
    /// What the peer said of its lanes too soon after that.
    later: Option<Lanes>,
    /// Changes that came too soon.
    ignored: u64,
    outputs: VecDeque<LaneOutput>,
}

/// What came of what a peer says of its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learned {
    /// Nothing new.
    Known,
    /// These are its lanes from now on; what was proven before counts no more.
    Changed,
    /// It changed them a moment ago: none beyond the first is used until [`ExtraLanes::take_later`] gives what it said last.
    TooSoon,
}

/// One further lane.
struct Side {
    lane: LaneId,
    /// Asked until it is answered.
    ask: Option<Ask>,
    sent: VecDeque<u64>,
    /// Where it was answered from.
    proven: Option<SocketAddr>,
}

/// The ports of a peer's lanes.
#[derive(Clone, Copy)]
pub(crate) struct Ports(Lanes);

impl Ports {
    /// The port to probe a lane at, where that is not the first lane's.
    pub(crate) fn of(self, lane: LaneId) -> Option<u16> {
        self.0.port(lane.0)
    }
}

/// What the node does for the lanes of a peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LaneOutput {
    /// A probe to be sent on a lane.
    Probe {
        /// The lane.
        lane: LaneId,
        /// The probe's id.
        probe: u64,
    },
    /// Lanes that were proven, see [`crate::ToLane::OpenLanes`].
    Open {
        /// The lane of ours that serves them.
        own: LaneId,
        /// Each lane, and where the peer answered on it.
        lanes: Vec<(LaneId, SocketAddr)>,
        /// The id that the ids of the probes on the first lane follow.
        barrier: u64,
    },
}

impl ExtraLanes {
    /// We have `own` lanes, the peer has these. Where that is known, what is not proven is asked about at once again: it may have been the former session
    /// that nobody answered on.
    pub(crate) fn learn(&mut self, own: u8, theirs: Lanes, now: Time) -> Learned {
        if self.lanes == Some((own, theirs)) && self.later.is_none() {
            let soon = self.may_open(now);
            self.sides.iter_mut().filter_map(|side| side.ask.as_mut()).for_each(|ask| *ask = Ask::new(soon));
            return Learned::Known;
        }
        if self.lanes.is_some() && now < self.rest() {
            self.later = Some(theirs);
            self.ignored += 1;
            self.open.clear();
            self.sides.clear();
            return Learned::TooSoon;
        }
        let sides = (1..own.max(theirs.count())).map(|lane| Side::asked(LaneId(lane), self.may_open(now))).collect();
        let lanes = Some((own, theirs));
        let outputs = std::mem::take(&mut self.outputs);
        *self = Self { lanes, sides, open: Vec::new(), changed: Some(now), later: None, outputs, ..*self };
        Learned::Changed
    }

    /// What the peer said of its lanes when that was too soon, once it is not any more.
    pub(crate) fn take_later(&mut self, now: Time) -> Option<Lanes> {
        if now < self.rest() { None } else { self.later }
    }

    /// Changes of its lanes that the peer asked for too soon after another.
    pub(crate) fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Without a session nothing is known of the peer's lanes. When they last changed is remembered.
    pub(crate) fn forget(&mut self) {
        *self = Self { changed: self.changed, opened: self.opened, ignored: self.ignored, ..Self::default() };
    }

    /// Until when the peer's lanes stay as they are.
    fn rest(&self) -> Time {
        self.changed.max(self.opened).map_or(Time::ZERO, |last| last + APART)
    }

    /// When lanes may be opened that are closed now.
    fn may_open(&self, now: Time) -> Time {
        self.opened.map_or(now, |opened| now.max(opened + APART))
    }

    /// Lanes of the peer's sessions, as far as is known.
    pub(crate) fn count(&self) -> u8 {
        self.lanes.map_or(1, |(own, theirs)| own.max(theirs.count()))
    }

    /// How many of them carry data, the first included.
    pub(crate) fn in_use(&self) -> u8 {
        let used = |side: &&Side| self.open.iter().any(|(own, _)| *own == self.owner(side.lane));
        1 + u8::try_from(self.sides.iter().filter(used).count()).unwrap_or(0)
    }

    /// The peer's ports.
    pub(crate) fn ports(&self) -> Ports {
        Ports(self.lanes.map_or(Lanes::ONE, |(_, theirs)| theirs))
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let later = self.later.map(|_| self.rest());
        self.sides.iter().filter_map(|side| side.ask.as_ref().map(Ask::next)).chain(later).min()
    }

    /// Probes the lanes that are due. `may` says whether the budget of probes has room for one more on that lane; a lane without room is probed again
    /// soon.
    pub(crate) fn handle_timeout(
        &mut self,
        entropy: &mut impl Entropy,
        now: Time,
        mut may: impl FnMut(LaneId) -> bool,
    ) {
        for side in &mut self.sides {
            let Some(ask) = side.ask.as_mut().filter(|ask| now >= ask.next()) else { continue };
            if !may(side.lane) {
                ask.put_back(entropy, now);
                continue;
            }
            ask.due(entropy, now);
            let id = draw(entropy);
            if side.sent.len() == WAITING {
                side.sent.pop_front();
            }
            side.sent.push_back(id);
            self.outputs.push_back(LaneOutput::Probe { lane: side.lane, probe: id });
        }
    }

    /// Returns what the node does next.
    pub(crate) fn poll_output(&mut self) -> Option<LaneOutput> {
        self.outputs.pop_front()
    }

    /// Takes the answer to a probe. Opens the lanes that one lane of ours serves, if this was the last answer that was missing.
    pub(crate) fn handle_answer(
        &mut self,
        lane: LaneId,
        id: u64,
        source: SocketAddr,
        entropy: &mut impl Entropy,
        now: Time,
    ) {
        let known = self.sides.iter_mut().find(|side| side.lane == lane && side.sent.contains(&id));
        let Some(side) = known else { return };
        side.ask = None;
        side.sent.clear();
        side.proven = Some(source);
        let own = self.owner(lane);
        let served = self.sides.iter().filter(|side| self.owner(side.lane) == own);
        let Some(lanes) = served.map(|side| Some((side.lane, side.proven?))).collect::<Option<Vec<_>>>() else {
            return;
        };
        let barrier = draw(entropy);
        self.open.push((own, barrier));
        self.opened = Some(now);
        self.outputs.push_back(LaneOutput::Open { own, lanes, barrier });
    }

    /// Which lane of ours waits for the answer to this probe. It asks under the ids that follow the barrier's, one for each try.
    pub(crate) fn waits_for(&self, id: u64) -> Option<LaneId> {
        self.open.iter().find(|(_, barrier)| id.wrapping_sub(*barrier) <= TRIES).map(|(own, _)| *own)
    }

    /// A lane of ours hears nothing on what it serves, and does without.
    pub(crate) fn silent(&mut self, own: LaneId, now: Time) {
        self.open.retain(|(open, _)| *open != own);
        let count = self.lanes.map_or(1, |(own, _)| own);
        let again = self.may_open(now + AFTER_SILENCE);
        for side in self.sides.iter_mut().filter(|side| side.lane.served_by(count) == own) {
            *side = Side::asked(side.lane, again);
        }
    }

    /// The peer's host is elsewhere, or is reached by a relay: nothing is proven any more.
    pub(crate) fn prove_anew(&mut self, now: Time) {
        let again = self.may_open(now);
        self.open.clear();
        for side in &mut self.sides {
            *side = Side::asked(side.lane, again);
        }
    }

    /// Which lane of ours serves a lane of the session.
    fn owner(&self, lane: LaneId) -> LaneId {
        lane.served_by(self.lanes.map_or(1, |(own, _)| own))
    }
}

impl Side {
    /// A lane of which nothing is known, and that is probed from `first` on.
    fn asked(lane: LaneId, first: Time) -> Self {
        Self { lane, ask: Some(Ask::new(first)), sent: VecDeque::new(), proven: None }
    }
}

fn draw(entropy: &mut impl Entropy) -> u64 {
    u64::from(entropy.next_u32()) << 32 | u64::from(entropy.next_u32())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    fn place(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    /// Each draw is another number.
    fn counting() -> impl Entropy {
        let mut draws = 0_u32;
        move |bytes: &mut [u8]| {
            draws += 1;
            bytes.copy_from_slice(&draws.to_le_bytes()[..bytes.len()]);
        }
    }

    /// Lets time pass, and returns the probes that are sent.
    fn probes(
        further: &mut ExtraLanes,
        entropy: &mut impl Entropy,
        now: Time,
        may: impl FnMut(LaneId) -> bool,
    ) -> Vec<(LaneId, u64)> {
        further.handle_timeout(entropy, now, may);
        let outputs = std::iter::from_fn(|| further.poll_output());
        let probe = |output| match output {
            LaneOutput::Probe { lane, probe } => (lane, probe),
            LaneOutput::Open { .. } => panic!("nothing was answered"),
        };
        outputs.map(probe).collect()
    }

    /// Answers a probe, and returns what is opened.
    fn answer(
        further: &mut ExtraLanes,
        (lane, probe): (LaneId, u64),
        source: SocketAddr,
        entropy: &mut impl Entropy,
        now: Time,
    ) -> Option<(LaneId, Vec<(LaneId, SocketAddr)>, u64)> {
        further.handle_answer(lane, probe, source, entropy, now);
        let output = further.poll_output()?;
        let LaneOutput::Open { own, lanes, barrier } = output else { panic!("{output:?}") };
        Some((own, lanes, barrier))
    }

    #[test]
    fn lanes_that_one_of_ours_serves_open_together() {
        let mut entropy = counting();
        let mut further = ExtraLanes::default();
        assert_eq!((further.count(), further.poll_timeout()), (1, None));
        assert_eq!(further.learn(2, Lanes::with_ports(&[11, 12, 13]), at(0)), Learned::Changed);
        assert_eq!((further.count(), further.in_use()), (4, 1));
        assert_eq!([1, 2, 3].map(|lane| further.ports().of(LaneId(lane))), [Some(11), Some(12), Some(13)]);
        let probes = probes(&mut further, &mut entropy, at(0), |_| true);
        let [one, two, three] = probes[..] else { panic!("{probes:?}") };
        assert_eq!([one.0, two.0, three.0], [LaneId(1), LaneId(2), LaneId(3)]);
        assert_eq!(answer(&mut further, one, place(11), &mut entropy, at(0)), None, "lane 3 is missing");
        assert_eq!(answer(&mut further, (one.0, two.1), place(11), &mut entropy, at(0)), None, "another lane's");
        let (own, lanes, _) = answer(&mut further, two, place(12), &mut entropy, at(0)).unwrap();
        assert_eq!((own, &lanes[..]), (LaneId(0), &[(LaneId(2), place(12))][..]));
        assert_eq!(further.in_use(), 2);
        let (own, lanes, barrier) = answer(&mut further, three, place(40), &mut entropy, at(0)).unwrap();
        assert_eq!((own, &lanes[..]), (LaneId(1), &[(LaneId(1), place(11)), (LaneId(3), place(40))][..]));
        assert_eq!((further.in_use(), further.poll_timeout()), (4, None));
        assert_eq!(further.waits_for(barrier), Some(LaneId(1)));
        assert_eq!(further.waits_for(barrier + 3), Some(LaneId(1)), "its third try");
        assert_eq!(further.waits_for(barrier - 1), None);
    }

    #[test]
    fn a_lane_that_nobody_answers_on_stays_closed_and_is_asked_ever_more_rarely() {
        let mut entropy = |bytes: &mut [u8]| bytes.fill(0);
        let mut further = ExtraLanes::default();
        further.learn(2, Lanes::ONE, at(0));
        let mut asked = Vec::new();
        while let Some(due) = further.poll_timeout().filter(|due| *due < at(200_000)) {
            assert_eq!(probes(&mut further, &mut entropy, due, |_| true).len(), 1);
            asked.push(due.since(Time::ZERO).as_millis());
        }
        assert_eq!(asked[..8], [0, 250, 750, 1_750, 3_750, 7_750, 15_750, 31_750]);
        assert_eq!(asked[8..], [61_750, 91_750, 121_750, 151_750, 181_750]);
        assert_eq!(further.in_use(), 1);
    }

    /// Has the lane that is asked about answered.
    fn open(further: &mut ExtraLanes, entropy: &mut impl Entropy, now: Time) -> u64 {
        let probes = probes(further, entropy, now, |_| true);
        answer(further, probes[0], place(11), entropy, now).unwrap().2
    }

    #[test]
    fn what_was_proven_holds_until_silence_or_other_ports() {
        let mut entropy = counting();
        let mut further = ExtraLanes::default();
        let theirs = Lanes::with_ports(&[11]);
        further.learn(2, theirs, at(0));
        let barrier = open(&mut further, &mut entropy, at(0));
        assert_eq!(further.learn(2, theirs, at(1)), Learned::Known, "said again in the next session");
        assert_eq!((further.in_use(), further.poll_timeout()), (2, None));
        further.silent(LaneId(1), at(6_000));
        assert_eq!((further.in_use(), further.waits_for(barrier)), (1, None));
        assert_eq!(further.poll_timeout(), Some(at(8_000)));
        while further.poll_timeout().is_some_and(|due| due < at(8_500)) {
            probes(&mut further, &mut entropy, at(8_500), |_| true);
        }
        assert_eq!(further.learn(2, theirs, at(8_600)), Learned::Known);
        assert_eq!(further.poll_timeout(), Some(at(8_600)), "in another session, nothing is late");
        open(&mut further, &mut entropy, at(8_600));
        assert_eq!(further.learn(2, Lanes::with_ports(&[12]), at(13_600)), Learned::Changed);
        assert_eq!((further.in_use(), further.poll_timeout()), (1, Some(at(13_600))));
    }

    #[test]
    fn fault_b11_a_peer_changes_its_lanes_once_in_five_seconds_and_the_newest_counts() {
        let mut entropy = counting();
        let mut further = ExtraLanes::default();
        let mut closed = 0;
        let (mut changed, mut opened) = (0, 0);
        // Another port every 48 ms for half a minute, each probe answered at once.
        for (number, now) in (0..).zip((0..30_000).step_by(48)) {
            let before = further.in_use();
            changed += u64::from(further.learn(1, Lanes::with_ports(&[number]), at(now)) == Learned::Changed);
            closed += u64::from(further.in_use() < before);
            for probe in probes(&mut further, &mut entropy, at(now), |_| true) {
                opened += u64::from(answer(&mut further, probe, place(number), &mut entropy, at(now)).is_some());
            }
        }
        assert_eq!((changed, opened, closed, further.ignored()), (6, 6, 6, 30_000 / 48 - 6));
        // What it said last is what it has, once it rests.
        assert_eq!((further.in_use(), further.take_later(at(30_000))), (1, None));
        let due = further.poll_timeout().unwrap();
        assert!(due <= at(35_000));
        assert_eq!(further.take_later(due), Some(Lanes::with_ports(&[624])));
        assert_eq!(further.learn(1, Lanes::with_ports(&[624]), due), Learned::Changed);
        assert_eq!((further.take_later(due), further.poll_timeout()), (None, Some(due)));
        // Without a session in between it is no sooner.
        open(&mut further, &mut entropy, due);
        further.forget();
        assert_eq!(further.learn(1, Lanes::with_ports(&[7]), due), Learned::Changed);
        assert_eq!(further.poll_timeout(), Some(due + APART), "it is not probed before");
    }

    #[test]
    fn fault_b11_lanes_that_were_just_opened_are_not_opened_again_at_once() {
        let mut entropy = counting();
        let mut further = ExtraLanes::default();
        further.learn(2, Lanes::with_ports(&[11]), at(0));
        further.prove_anew(at(100));
        assert_eq!(further.poll_timeout(), Some(at(100)), "nothing was open yet");
        open(&mut further, &mut entropy, at(100));
        further.prove_anew(at(200));
        assert_eq!((further.in_use(), further.poll_timeout()), (1, Some(at(5_100))));
        open(&mut further, &mut entropy, at(5_100));
        further.silent(LaneId(1), at(6_000));
        assert_eq!(further.poll_timeout(), Some(at(10_100)));
        further.learn(2, Lanes::with_ports(&[11]), at(6_001));
        further.prove_anew(at(6_001));
        assert_eq!(further.poll_timeout(), Some(at(10_100)), "whatever else happens");
    }

    #[test]
    fn fault_d16_what_the_budget_refuses_is_asked_a_moment_later() {
        let mut entropy = counting();
        let mut further = ExtraLanes::default();
        further.learn(1, Lanes::with_ports(&[11; 15]), at(0));
        let mut left = 4;
        let mut may = |_| {
            left -= 1;
            left >= 0
        };
        assert_eq!(probes(&mut further, &mut entropy, at(0), &mut may).len(), 4);
        let due = further.poll_timeout().unwrap();
        assert!(due >= at(200) && probes(&mut further, &mut entropy, at(199), |_| true).is_empty(), "{due:?}");
        let later: usize = (200..400).map(|now| probes(&mut further, &mut entropy, at(now), |_| true).len()).sum();
        assert_eq!(later, 11 + 4, "the others, and those of before once more");
    }
}

//! The extra lanes of one peer's sessions, those beyond the first, as the agent sees them: which lanes exist, and which are proven.
//!
//! ```text
//! an offer or an accept names the peer's lanes    ──▶ a probe on each extra lane ───▶ … ◀─── answer: the lane is proven
//! all lanes that one local lane serves are proven ──▶ ToLane::OpenLanes
//! silence, other ports                            ──▶ closed, and probed again;     no session left ──▶ forgotten
//! ```
//! A proof outlives the session: sockets and endpoints stay the same when a session is renewed, and a lane in use is judged by the packets that come
//! back on it. The lanes that one local lane serves open together, because flows are spread over all of them.
//!
//! Each change of lanes holds the peer's packets for a moment. A peer may therefore change its lanes at most once within [`CHANGE_INTERVAL`] (protocol.md
//! 5.8). An earlier change is counted and closes the open lanes; the newest one takes effect when the interval is over. Proofs are not repeated sooner
//! either.

use std::collections::VecDeque;
use std::time::Duration;

use taut_base::{Entropy, LaneId, Time};
use taut_path::Way;
use taut_wire::control::Lanes;

use crate::negotiation::RetryTimer;

/// Time until a lane that fell silent is probed again, 2 s.
const AFTER_SILENCE: Duration = Duration::from_secs(2);

/// Shortest time between two changes of one peer's lanes, 5 s (protocol.md 5.8). A node names its lanes once per session; only a node that restarts again
/// and again, or a hostile one, names them more often.
const CHANGE_INTERVAL: Duration = Duration::from_secs(5);

/// Unanswered probes of one lane that are remembered: the answer to an older probe proves nothing that the answer to a newer one does not prove.
const WAITING: usize = 4;

/// Number of probe ids that belong to one barrier: with one attempt a second they last for a century.
const BARRIER_IDS: u64 = 1 << 32;

/// The extra lanes of one peer.
#[derive(Default)]
pub(crate) struct ExtraLanes {
    /// The number of local lanes, and the peer's lanes; `None` until the peer has named them.
    lanes: Option<(u8, Lanes)>,
    /// The lanes that the peer named before this node's own lanes changed.
    former: Option<Lanes>,
    /// True from a change of this node's own lanes until the next other change: the lanes open at once, and this opening does not count as one of the peer's.
    own_change: bool,
    extra: Vec<ExtraLane>,
    /// Local lanes that were opened, each with the barrier whose probes must be answered before the lane sends data.
    open: Vec<(LaneId, u64)>,
    /// Time of the peer's last change of its lanes.
    changed: Option<Time>,
    /// Time at which lanes were last opened.
    opened: Option<Time>,
    /// The newest change that came before [`CHANGE_INTERVAL`] was over.
    deferred: Option<Lanes>,
    /// Number of changes that came before [`CHANGE_INTERVAL`] was over.
    ignored: u64,
    outputs: VecDeque<LaneOutput>,
}

/// The effect of a message in which a peer names its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneChange {
    /// The lanes were known already.
    Known,
    /// The peer has other lanes than before; earlier proofs are void.
    Changed,
    /// The change came too soon after another one: no extra lane is used until [`ExtraLanes::deferred`] returns the newest change.
    TooSoon,
}

/// One extra lane.
struct ExtraLane {
    lane: LaneId,
    /// When the next probe is sent; `None` once the lane is proven.
    timer: Option<RetryTimer>,
    /// Ids of the latest unanswered probes.
    sent: VecDeque<u64>,
    /// The way by which the peer answered.
    proven: Option<Way>,
}

/// The UDP ports of a peer's lanes.
#[derive(Clone, Copy)]
pub(crate) struct LanePorts(Lanes);

impl LanePorts {
    /// Returns the port to probe a lane at; `None` for the port of the first lane.
    pub(crate) fn of(self, lane: LaneId) -> Option<u16> {
        self.0.port(lane.0)
    }
}

/// What happens to a probe of a lane that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeRoom {
    /// It is sent.
    Send,
    /// The probe budget has no room; it is sent a moment later.
    Later,
    /// The lane cannot be reached at present; [`ExtraLanes::probe_again`] says when it can.
    Nowhere,
}

/// What the node does for the extra lanes of a peer.
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
        /// The local lane that serves them.
        own: LaneId,
        /// Each extra lane, and the way by which the peer answered on it.
        lanes: Vec<(LaneId, Way)>,
        /// Base of the ids of the probes that the local lane sends on the first lane.
        barrier: u64,
    },
}

impl ExtraLanes {
    /// Takes the number of local lanes and the lanes that the peer names. If both are known, unproven lanes are probed again at once: the peer may not have
    /// answered because it had lost the former session.
    pub(crate) fn learn(&mut self, own: u8, theirs: Lanes, now: Time) -> LaneChange {
        if self.lanes == Some((own, theirs)) && self.deferred.is_none() {
            self.probe_again(now);
            return LaneChange::Known;
        }
        let named = self.lanes.map(|(_, lanes)| lanes).or(self.former);
        if named.is_some_and(|named| named != theirs || self.deferred.is_some()) && now < self.unchanged_until() {
            self.deferred = Some(theirs);
            self.ignored += 1;
            self.open.clear();
            self.extra.clear();
            return LaneChange::TooSoon;
        }
        // Our own change is followed at once. The first lanes that a peer names are no change either.
        let own_change = self.own_change && named == Some(theirs);
        let first_probe = if own_change { now } else { self.may_open(now) };
        let changed = if own_change || named.is_none() { self.changed } else { Some(now) };
        let extra = (1..own.max(theirs.count())).map(|lane| ExtraLane::unproven(LaneId(lane), first_probe)).collect();
        let lanes = Some((own, theirs));
        let outputs = std::mem::take(&mut self.outputs);
        *self = Self {
            lanes,
            extra,
            own_change,
            open: Vec::new(),
            changed,
            deferred: None,
            former: None,
            outputs,
            ..*self
        };
        LaneChange::Changed
    }

    /// Probes unproven lanes again as soon as they may open.
    pub(crate) fn probe_again(&mut self, now: Time) {
        let soon = if self.own_change { now } else { self.may_open(now) };
        let timers = self.extra.iter_mut().filter_map(|extra| extra.timer.as_mut());
        timers.for_each(|timer| *timer = RetryTimer::new(soon));
    }

    /// Returns the newest change that came too soon, once [`CHANGE_INTERVAL`] is over.
    pub(crate) fn deferred(&self, now: Time) -> Option<Lanes> {
        if now < self.unchanged_until() { None } else { self.deferred }
    }

    /// Returns the number of changes that came too soon after another one.
    pub(crate) fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Forgets the peer's lanes, because no session is left. The times of the last changes are kept.
    pub(crate) fn forget(&mut self) {
        *self = Self { changed: self.changed, opened: self.opened, ignored: self.ignored, ..Self::default() };
    }

    /// Forgets the newest change that came too soon, because no session can take it: the peer names its lanes again in the next one.
    pub(crate) fn void_deferred(&mut self) {
        let named = self.deferred;
        self.forget();
        self.former = named;
    }

    /// Closes all lanes because this node's own lanes change: the next session has others, and the peer names its lanes again there. This is no change of the
    /// peer's.
    pub(crate) fn handle_own_change(&mut self) {
        let former = self.deferred.or(self.lanes.map(|(_, lanes)| lanes)).or(self.former);
        self.forget();
        (self.former, self.own_change) = (former, true);
    }

    /// Returns the number of local lanes that serve the peer's lanes.
    pub(crate) fn own(&self) -> u8 {
        self.lanes.map_or(1, |(own, _)| own)
    }

    /// Returns the number of the peer's lanes; 1 until it has named them.
    pub(crate) fn theirs(&self) -> u8 {
        self.lanes.map_or(1, |(_, theirs)| theirs.count())
    }

    /// Returns the time before which the peer's lanes do not change.
    fn unchanged_until(&self) -> Time {
        self.changed.max(self.opened).map_or(Time::ZERO, |last| last + CHANGE_INTERVAL)
    }

    /// Returns the earliest time at which closed lanes may open.
    fn may_open(&self, now: Time) -> Time {
        self.opened.map_or(now, |opened| now.max(opened + CHANGE_INTERVAL))
    }

    /// Returns the number of lanes of the peer's sessions; 1 until the peer has named its lanes.
    pub(crate) fn count(&self) -> u8 {
        self.lanes.map_or(1, |(own, theirs)| own.max(theirs.count()))
    }

    /// Returns the number of lanes that carry data, the first one included.
    pub(crate) fn in_use(&self) -> u8 {
        let used = |extra: &&ExtraLane| self.open.iter().any(|(own, _)| *own == self.server_of(extra.lane));
        1 + u8::try_from(self.extra.iter().filter(used).count()).unwrap_or(0)
    }

    /// Returns true if several probes of a lane were not answered.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.extra.iter().any(|extra| extra.sent.len() >= WAITING)
    }

    /// Returns the ports of the peer's lanes.
    pub(crate) fn ports(&self) -> LanePorts {
        LanePorts(self.lanes.map_or(Lanes::ONE, |(_, theirs)| theirs))
    }

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let deferred = self.deferred.map(|_| self.unchanged_until());
        self.extra.iter().filter_map(|extra| extra.timer.as_ref().map(RetryTimer::next)).chain(deferred).min()
    }

    /// Probes the lanes that are due, as `room` says for each.
    pub(crate) fn handle_timeout(
        &mut self,
        entropy: &mut impl Entropy,
        now: Time,
        mut room: impl FnMut(LaneId) -> ProbeRoom,
    ) {
        for extra in &mut self.extra {
            let Some(timer) = extra.timer.as_mut().filter(|timer| now >= timer.next()) else { continue };
            let room = room(extra.lane);
            if room == ProbeRoom::Later {
                timer.postpone(entropy, now);
                continue;
            }
            timer.expire(entropy, now);
            if room == ProbeRoom::Nowhere {
                continue;
            }
            let id = draw(entropy);
            if extra.sent.len() == WAITING {
                extra.sent.pop_front();
            }
            extra.sent.push_back(id);
            self.outputs.push_back(LaneOutput::Probe { lane: extra.lane, probe: id });
        }
    }

    /// Returns what the node does next.
    pub(crate) fn poll_output(&mut self) -> Option<LaneOutput> {
        self.outputs.pop_front()
    }

    /// Takes the answer to a probe. Opens the lanes that one local lane serves, if this was the last of them without a proof.
    pub(crate) fn handle_answer(&mut self, lane: LaneId, id: u64, source: Way, entropy: &mut impl Entropy, now: Time) {
        let known = self.extra.iter_mut().find(|extra| extra.lane == lane && extra.sent.contains(&id));
        let Some(extra) = known else { return };
        extra.timer = None;
        extra.sent.clear();
        extra.proven = Some(source);
        let own = self.server_of(lane);
        let served = self.extra.iter().filter(|extra| self.server_of(extra.lane) == own);
        let Some(lanes) = served.map(|extra| Some((extra.lane, extra.proven?))).collect::<Option<Vec<_>>>() else {
            return;
        };
        let barrier = draw(entropy);
        self.open.push((own, barrier));
        if !self.own_change {
            self.opened = Some(now);
        }
        self.outputs.push_back(LaneOutput::Open { own, lanes, barrier });
    }

    /// Returns the local lane that sent this probe on the first lane after it was opened. Its probes have the ids that follow the barrier's.
    pub(crate) fn waits_for(&self, id: u64) -> Option<LaneId> {
        self.open.iter().find(|(_, barrier)| id.wrapping_sub(*barrier) <= BARRIER_IDS).map(|(own, _)| *own)
    }

    /// Closes the lanes that a local lane serves, because nothing comes back on them, and probes them again later.
    pub(crate) fn handle_silence(&mut self, own: LaneId, now: Time) {
        self.end_own_change(now);
        self.open.retain(|(open, _)| *open != own);
        let count = self.own();
        let again = self.may_open(now + AFTER_SILENCE);
        for extra in self.extra.iter_mut().filter(|extra| extra.lane.served_by(count) == own) {
            *extra = ExtraLane::unproven(extra.lane, again);
        }
    }

    /// Voids all proofs, because the path to the peer leads to another address or through a relay.
    pub(crate) fn void_proofs(&mut self, now: Time) {
        self.end_own_change(now);
        let again = self.may_open(now);
        self.open.clear();
        for extra in &mut self.extra {
            *extra = ExtraLane::unproven(extra.lane, again);
        }
    }

    /// Counts the opening that followed a change of this node's own lanes, because these lanes close and may be opened again.
    fn end_own_change(&mut self, now: Time) {
        if std::mem::take(&mut self.own_change) && !self.open.is_empty() {
            self.opened = Some(now);
        }
    }

    /// Returns the local lane that serves a lane of the session.
    fn server_of(&self, lane: LaneId) -> LaneId {
        lane.served_by(self.own())
    }
}

impl ExtraLane {
    /// Creates a lane without a proof, which is probed from `first` on.
    fn unproven(lane: LaneId, first: Time) -> Self {
        Self { lane, timer: Some(RetryTimer::new(first)), sent: VecDeque::new(), proven: None }
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

    fn place(port: u16) -> Way {
        Way::Direct(std::net::SocketAddr::from(([192, 0, 2, 1], port)))
    }

    /// Entropy whose draws are all different.
    fn counting() -> impl Entropy {
        let mut draws = 0_u32;
        move |bytes: &mut [u8]| {
            draws += 1;
            bytes.copy_from_slice(&draws.to_le_bytes()[..bytes.len()]);
        }
    }

    /// Lets time pass, and returns the probes that are sent.
    fn probes(
        lanes: &mut ExtraLanes,
        entropy: &mut impl Entropy,
        now: Time,
        mut may: impl FnMut(LaneId) -> bool,
    ) -> Vec<(LaneId, u64)> {
        lanes.handle_timeout(entropy, now, |lane| if may(lane) { ProbeRoom::Send } else { ProbeRoom::Later });
        let outputs = std::iter::from_fn(|| lanes.poll_output());
        let probe = |output| match output {
            LaneOutput::Probe { lane, probe } => (lane, probe),
            LaneOutput::Open { .. } => panic!("nothing was answered"),
        };
        outputs.map(probe).collect()
    }

    /// Answers a probe, and returns what is opened.
    fn answer(
        lanes: &mut ExtraLanes,
        (lane, probe): (LaneId, u64),
        source: Way,
        entropy: &mut impl Entropy,
        now: Time,
    ) -> Option<LaneOutput> {
        lanes.handle_answer(lane, probe, source, entropy, now);
        lanes.poll_output()
    }

    #[test]
    fn lanes_that_one_local_lane_serves_open_together() {
        let mut entropy = counting();
        let mut lanes = ExtraLanes::default();
        assert_eq!((lanes.count(), lanes.poll_timeout()), (1, None));
        assert_eq!(lanes.learn(2, Lanes::with_ports(&[11, 12, 13]), at(0)), LaneChange::Changed);
        assert_eq!((lanes.count(), lanes.in_use()), (4, 1));
        assert_eq!([1, 2, 3].map(|lane| lanes.ports().of(LaneId(lane))), [Some(11), Some(12), Some(13)]);
        let probes = probes(&mut lanes, &mut entropy, at(0), |_| true);
        let [one, two, three] = probes[..] else { panic!("{probes:?}") };
        assert_eq!([one.0, two.0, three.0], [LaneId(1), LaneId(2), LaneId(3)]);
        assert_eq!(answer(&mut lanes, one, place(11), &mut entropy, at(0)), None, "lane 3 is not proven yet");
        assert_eq!(
            answer(&mut lanes, (one.0, two.1), place(11), &mut entropy, at(0)),
            None,
            "the probe of another lane"
        );
        let opened = answer(&mut lanes, two, place(12), &mut entropy, at(0));
        let Some(LaneOutput::Open { own: LaneId(0), lanes: open, .. }) = opened else { panic!("{opened:?}") };
        assert_eq!(open, [(LaneId(2), place(12))]);
        assert_eq!(lanes.in_use(), 2);
        let opened = answer(&mut lanes, three, place(40), &mut entropy, at(0));
        let Some(LaneOutput::Open { own: LaneId(1), lanes: open, barrier }) = opened else { panic!("{opened:?}") };
        assert_eq!(open, [(LaneId(1), place(11)), (LaneId(3), place(40))]);
        assert_eq!((lanes.in_use(), lanes.poll_timeout()), (4, None));
        assert_eq!(lanes.waits_for(barrier), Some(LaneId(1)));
        assert_eq!(lanes.waits_for(barrier + 3), Some(LaneId(1)), "its third attempt");
        assert_eq!(lanes.waits_for(barrier - 1), None);
    }

    #[test]
    fn an_unanswered_lane_stays_closed_and_is_probed_with_back_off() {
        let mut entropy = |bytes: &mut [u8]| bytes.fill(0);
        let mut lanes = ExtraLanes::default();
        lanes.learn(2, Lanes::ONE, at(0));
        let mut asked = Vec::new();
        while let Some(due) = lanes.poll_timeout().filter(|due| *due < at(200_000)) {
            assert_eq!(probes(&mut lanes, &mut entropy, due, |_| true).len(), 1);
            asked.push(due.since(Time::ZERO).as_millis());
        }
        assert_eq!(asked[..8], [0, 250, 750, 1_750, 3_750, 7_750, 15_750, 31_750]);
        assert_eq!(asked[8..], [61_750, 91_750, 121_750, 151_750, 181_750]);
        assert_eq!(lanes.in_use(), 1);
    }

    /// Answers the probe of the first extra lane; returns the barrier.
    fn open(lanes: &mut ExtraLanes, entropy: &mut impl Entropy, now: Time) -> u64 {
        let probes = probes(lanes, entropy, now, |_| true);
        let opened = answer(lanes, probes[0], place(11), entropy, now);
        let Some(LaneOutput::Open { barrier, .. }) = opened else { panic!("{opened:?}") };
        barrier
    }

    #[test]
    fn a_proof_holds_until_silence_or_other_ports() {
        let mut entropy = counting();
        let mut lanes = ExtraLanes::default();
        let theirs = Lanes::with_ports(&[11]);
        lanes.learn(2, theirs, at(0));
        let barrier = open(&mut lanes, &mut entropy, at(0));
        assert_eq!(lanes.learn(2, theirs, at(1)), LaneChange::Known, "named again in the next session");
        assert_eq!((lanes.in_use(), lanes.poll_timeout()), (2, None));
        lanes.handle_silence(LaneId(1), at(6_000));
        assert_eq!((lanes.in_use(), lanes.waits_for(barrier)), (1, None));
        assert_eq!(lanes.poll_timeout(), Some(at(8_000)));
        while lanes.poll_timeout().is_some_and(|due| due < at(8_500)) {
            probes(&mut lanes, &mut entropy, at(8_500), |_| true);
        }
        assert_eq!(lanes.learn(2, theirs, at(8_600)), LaneChange::Known);
        assert_eq!(lanes.poll_timeout(), Some(at(8_600)), "the retry timer starts again with a new session");
        open(&mut lanes, &mut entropy, at(8_600));
        assert_eq!(lanes.learn(2, Lanes::with_ports(&[12]), at(13_600)), LaneChange::Changed);
        assert_eq!((lanes.in_use(), lanes.poll_timeout()), (1, Some(at(13_600))));
    }

    #[test]
    fn fault_b11_a_peer_changes_its_lanes_once_in_five_seconds_and_the_newest_counts() {
        let mut entropy = counting();
        let mut lanes = ExtraLanes::default();
        let mut closed = 0;
        let (mut changed, mut opened) = (0, 0);
        // The peer names another port every 48 ms for half a minute, and answers each probe at once.
        for (number, now) in (0..).zip((0..30_000).step_by(48)) {
            let before = lanes.in_use();
            changed += u64::from(lanes.learn(1, Lanes::with_ports(&[number]), at(now)) == LaneChange::Changed);
            closed += u64::from(lanes.in_use() < before);
            for probe in probes(&mut lanes, &mut entropy, at(now), |_| true) {
                opened += u64::from(answer(&mut lanes, probe, place(number), &mut entropy, at(now)).is_some());
            }
        }
        assert_eq!((changed, opened, closed, lanes.ignored()), (6, 6, 6, 30_000 / 48 - 6));
        // The newest change takes effect once the peer rests.
        assert_eq!((lanes.in_use(), lanes.deferred(at(30_000))), (1, None));
        let due = lanes.poll_timeout().unwrap();
        assert!(due <= at(35_000));
        assert_eq!(lanes.deferred(due), Some(Lanes::with_ports(&[624])));
        assert_eq!(lanes.learn(1, Lanes::with_ports(&[624]), due), LaneChange::Changed);
        assert_eq!((lanes.deferred(due), lanes.poll_timeout()), (None, Some(due)));
        // A gap between sessions does not shorten the interval.
        open(&mut lanes, &mut entropy, due);
        lanes.forget();
        assert_eq!(lanes.learn(1, Lanes::with_ports(&[7]), due), LaneChange::Changed);
        assert_eq!(lanes.poll_timeout(), Some(due + CHANGE_INTERVAL), "it is not probed earlier");
    }

    #[test]
    fn fault_b11_lanes_that_were_just_opened_are_not_opened_again_at_once() {
        let mut entropy = counting();
        let mut lanes = ExtraLanes::default();
        lanes.learn(2, Lanes::with_ports(&[11]), at(0));
        lanes.void_proofs(at(100));
        assert_eq!(lanes.poll_timeout(), Some(at(100)), "no lane was open yet");
        open(&mut lanes, &mut entropy, at(100));
        lanes.void_proofs(at(200));
        assert_eq!((lanes.in_use(), lanes.poll_timeout()), (1, Some(at(5_100))));
        open(&mut lanes, &mut entropy, at(5_100));
        lanes.handle_silence(LaneId(1), at(6_000));
        assert_eq!(lanes.poll_timeout(), Some(at(10_100)));
        lanes.learn(2, Lanes::with_ports(&[11]), at(6_001));
        lanes.void_proofs(at(6_001));
        assert_eq!(lanes.poll_timeout(), Some(at(10_100)), "other events do not shorten the interval");
    }

    #[test]
    fn a_lane_that_leads_nowhere_is_not_probed_and_does_not_count_as_unanswered() {
        let mut entropy = counting();
        let mut lanes = ExtraLanes::default();
        lanes.learn(2, Lanes::ONE, at(0));
        for now in (0..60_000).step_by(250) {
            lanes.handle_timeout(&mut entropy, at(now), |_| ProbeRoom::Nowhere);
        }
        assert_eq!((lanes.poll_output(), lanes.is_unanswered()), (None, false));
        lanes.probe_again(at(60_000));
        assert_eq!(probes(&mut lanes, &mut entropy, at(60_000), |_| true).len(), 1);
    }

    #[test]
    fn fault_d16_a_probe_that_the_budget_refuses_is_sent_a_moment_later() {
        let mut entropy = counting();
        let mut lanes = ExtraLanes::default();
        lanes.learn(1, Lanes::with_ports(&[11; 15]), at(0));
        let mut left = 4;
        let mut may = |_| {
            left -= 1;
            left >= 0
        };
        assert_eq!(probes(&mut lanes, &mut entropy, at(0), &mut may).len(), 4);
        let due = lanes.poll_timeout().unwrap();
        assert!(due >= at(200) && probes(&mut lanes, &mut entropy, at(199), |_| true).is_empty(), "{due:?}");
        let later: usize = (200..400).map(|now| probes(&mut lanes, &mut entropy, at(now), |_| true).len()).sum();
        assert_eq!(later, 11 + 4, "the other eleven, and the first four once more");
    }
}

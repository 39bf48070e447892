//! When a node opens more lanes for a peer, and when it gives them back: a rule without clock and system calls (`--lanes auto`, docs/internals/lanes.md).
//!
//! ```text
//! FromLane::Load ──▶ handle_load ──▶ closed ──── 1 s of load ───▶ opening ── threads run ──▶ trial ── it helped ──▶ open
//!                                      ▲                             │                         │                    │
//!                                      ├── after a while ◀── blocked ◀─── refused, no gain ────┘                    │
//!                                      └────────────────────── 5 s without need, 1 s of one flow alone ─────────────┘
//! ```
//! Each peer is judged by its own flows alone: no other peer, and nobody who sends garbage, can open or close lanes for it (law 15).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use taut_base::{LaneId, PeerId, Placement, Time};

use crate::contract::LaneLoad;

/// Share of its time, in thousandths, for which a lane must be busy before another one may help. It is no more than 600, because a lane that limits its flows
/// also waits for the programs and the kernel at both ends: at 10 Gbit/s on two cores it was busy for 62 % (10th percentile) to 92 % (90th). A trial closes
/// the lanes again that do not help.
const FULL: u32 = 600;
/// Share of a lane's time, in thousandths, that a peer's own flows must take: with less, its lanes would hardly relieve this one.
const OWN: u32 = 400;
/// Share of one thread's time, in thousandths, below which a peer's flows need no extra lanes. It is well below [`FULL`], so lanes that were given back are not
/// opened again at once.
const NEEDED: u32 = 300;
/// Share of a lane's time, in thousandths, below which a peer's flows are not looked at.
const NOTABLE: u32 = 50;
/// Time for which a peer's load must last before lanes open for it, 1 s: longer than a web page takes, short beside a transfer. The rate on one lane is
/// measured meanwhile.
const OPEN_AFTER: Duration = Duration::from_secs(1);
/// Longest age of a report that still tells of the present, and longest break of a load, 300 ms: a lane that is busy reports every 100 ms.
const FRESH: Duration = Duration::from_millis(300);
/// Time without need after which a peer's lanes are closed, 5 s. It also keeps a node from changing the lanes of a peer more often (protocol.md 5.8).
const LINGER: Duration = Duration::from_secs(5);
/// The same while one flow keeps a lane busy, 1 s: it is alone, and a second thread only takes time from the programs at its ends.
const LINGER_ALONE: Duration = Duration::from_secs(1);
/// Gain in datagrams per second, in percent, from which lanes stay open: less is not worth a second thread, and may be chance.
const GAIN: u64 = 10;
/// A flow is heavy if it has at least this part of the heaviest flow's datagrams: a quarter.
const HEAVY: u32 = 4;
/// Time for which the threads stay when no peer needs them any more, 3 s: peers learn within it that their lanes are closed, and send nothing there.
const THREADS_LINGER: Duration = Duration::from_secs(3);
/// Time after opening at which the rate is measured, 2 s: flows moved and TCP found its new rate by then. It is measured for [`TRIAL`].
const SETTLE: Duration = Duration::from_secs(2);
/// Time for which the rate is measured, 3.5 s: long beside the changes of a TCP connection's rate. Together with [`SETTLE`] it is longer than the 5 s within which a
/// peer may not change its lanes twice (protocol.md 5.8).
const TRIAL: Duration = Duration::from_millis(3_500);
/// Time for which lanes stay closed after they did not help, 15 s, doubled each time in a row. The first time is short, because one trial proves little: another
/// program may have taken the cores meanwhile.
const BLOCKED: Duration = Duration::from_secs(15);
/// Most doublings of [`BLOCKED`]: 16 minutes.
const DOUBLINGS: u32 = 6;

/// A step that the rule asks the node to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AutoOutput {
    /// These lanes should run, with these flows on each. [`AutoLanes::running`] or [`AutoLanes::refused`] follows.
    Run(Placement),
    /// The peer's next session has all lanes.
    Spread {
        /// The peer.
        peer: PeerId,
        /// Share of its time for which the lane was busy, in thousandths.
        busy: u32,
    },
    /// The peer's next session has one lane.
    Gather {
        /// The peer.
        peer: PeerId,
        /// The reason.
        reason: GatherReason,
    },
}

/// The reason why a peer's lanes were given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherReason {
    /// Its flows need no more than one lane.
    Idle,
    /// They carried no more than one lane did.
    NoGain,
    /// The ports of the further lanes did not answer.
    PortsClosed,
}

/// The number of lanes that a peer's load asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AutoState {
    /// There was no need for more.
    Quiet,
    /// More are being opened, or are open.
    Wanted,
    /// More did not help, or could not be opened, a short time ago.
    Blocked,
}

/// Opens and closes lanes by load.
pub(crate) struct AutoLanes {
    /// Most lanes: the cores that the process may use.
    most: u8,
    /// The lanes that run.
    running: Placement,
    /// The lanes that the agent was asked for and has not reported yet.
    asked: Option<Placement>,
    /// Since when no peer has needed the lanes that run.
    spare: Option<Time>,
    peers: BTreeMap<PeerId, Watched>,
    outputs: VecDeque<AutoOutput>,
}

/// A peer with notable flows.
struct Watched {
    state: State,
    /// The latest report of each lane.
    parts: Vec<Part>,
    /// Since when its load has been worth more lanes, without a break of [`FRESH`].
    loaded: Option<Time>,
    /// Its datagrams since then, and the time that they were counted for.
    before: (u64, Duration),
    /// Share of its time for which the lane was busy when they were found worth their threads, in thousandths.
    busy: u32,
    /// When it last needed its lanes.
    needed: Time,
    /// At the last report one flow kept a lane busy, and nothing was left to spread.
    is_alone: bool,
    /// When its lanes were closed.
    closed: Option<Time>,
    /// Times in a row that lanes did not help.
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    /// The agent starts threads.
    Opening,
    /// Lanes are open since then. `before` is the peer's rate on one lane, in datagrams per second.
    Trial {
        since: Time,
        before: u64,
    },
    Open,
    Blocked {
        until: Time,
    },
}

/// The latest report of one lane about one peer.
struct Part {
    lane: LaneId,
    at: Time,
    /// Share of the lane's time that the peer's flows took, in thousandths.
    own: u32,
    /// Datagrams of each flow.
    flows: Vec<(u16, u32)>,
    /// Datagrams during the trial, and the time that they were counted for.
    trial: (u64, Duration),
}

impl AutoLanes {
    /// Returns the state of a node with one lane that may have up to `most`.
    pub(crate) fn new(most: u8) -> Self {
        Self {
            most,
            running: Placement::FIRST,
            asked: None,
            spare: None,
            peers: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Returns the most lanes that may run.
    pub(crate) fn most(&self) -> u8 {
        self.most
    }

    /// Returns what the peer's load asks for.
    pub(crate) fn state(&self, peer: PeerId) -> AutoState {
        match self.peers.get(&peer).map(|watched| watched.state) {
            None | Some(State::Closed) => AutoState::Quiet,
            Some(State::Opening | State::Trial { .. } | State::Open) => AutoState::Wanted,
            Some(State::Blocked { .. }) => AutoState::Blocked,
        }
    }

    /// Returns what the node does next.
    pub(crate) fn poll_output(&mut self) -> Option<AutoOutput> {
        self.outputs.pop_front()
    }

    /// Takes the report of a lane. `may` returns true for peers that can have extra lanes.
    pub(crate) fn handle_load(&mut self, lane: LaneId, load: &LaneLoad, may: impl Fn(PeerId) -> bool, now: Time) {
        if self.most < 2 {
            return;
        }
        let mut by_peer: BTreeMap<PeerId, Vec<(u16, u32)>> = BTreeMap::new();
        for flow in &load.flows {
            by_peer.entry(flow.peer).or_default().push((flow.flow, flow.datagrams));
        }
        for (peer, flows) in by_peer {
            let datagrams = flows.iter().map(|(_, count)| u64::from(*count)).sum::<u64>();
            let share = (1000 * datagrams / load.datagrams.max(1)).min(1000);
            let own = u32::try_from(u64::from(load.busy) * share / 1000).unwrap_or(0);
            if own < NOTABLE && !self.peers.contains_key(&peer) {
                continue;
            }
            let watched = self.peers.entry(peer).or_insert_with(|| Watched::new(now));
            watched.note(lane, own, flows, (datagrams, load.span), now);
            let full = u32::from(load.busy) >= FULL && own >= OWN && may(peer);
            let best = if full { best_placement(&watched.flows(now), self.most, self.running) } else { None };
            watched.judge(self.running, best.is_some(), (datagrams, load.span), now);
            if let Some(placement) = best
                && watched.is_due(now)
                && self.asked.is_none()
            {
                (watched.state, watched.busy) = (State::Opening, load.busy.into());
                if self.running.lanes() > 1 {
                    watched.open(now);
                    self.outputs.push_back(AutoOutput::Spread { peer, busy: watched.busy });
                } else {
                    self.asked = Some(placement);
                    self.outputs.push_back(AutoOutput::Run(placement));
                }
                self.spare = None;
            }
        }
        self.peers.retain(|_, watched| watched.is_of_interest(now));
    }

    /// Notes that this number of lanes runs now: peers that waited for them get them.
    pub(crate) fn running(&mut self, lanes: u8, now: Time) {
        let asked = self.asked.take().filter(|asked| asked.lanes() == lanes);
        self.running = asked.unwrap_or(Placement::new(lanes));
        if lanes < 2 {
            self.spare = None;
            return;
        }
        for (peer, watched) in self.peers.iter_mut().filter(|(_, watched)| watched.state == State::Opening) {
            watched.open(now);
            self.outputs.push_back(AutoOutput::Spread { peer: *peer, busy: watched.busy });
        }
        self.note_spare(now);
    }

    /// Notes that the agent could not start more lanes.
    pub(crate) fn refused(&mut self, now: Time) {
        self.asked = None;
        for watched in self.peers.values_mut().filter(|watched| watched.state == State::Opening) {
            watched.block(now);
        }
    }

    /// Forgets a peer that was removed.
    pub(crate) fn forget(&mut self, peer: PeerId, now: Time) {
        self.peers.remove(&peer);
        self.note_spare(now);
    }

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let threads = self.spare.filter(|_| self.asked.is_none()).map(|since| since + THREADS_LINGER);
        self.peers.values().filter_map(Watched::poll_timeout).chain(threads).min()
    }

    /// Ends trials, and gives back what is not needed.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        for (peer, watched) in &mut self.peers {
            if let Some(reason) = watched.handle_timeout(now) {
                self.outputs.push_back(AutoOutput::Gather { peer: *peer, reason });
            }
        }
        self.note_spare(now);
        if self.asked.is_none() && self.spare.take_if(|since| now >= *since + THREADS_LINGER).is_some() {
            self.asked = Some(Placement::FIRST);
            self.outputs.push_back(AutoOutput::Run(Placement::FIRST));
        }
    }

    /// Notes since when the lanes that run have been of no use.
    fn note_spare(&mut self, now: Time) {
        let used = self.peers.values().any(|watched| watched.wants_lanes());
        if self.running.lanes() < 2 || used {
            self.spare = None;
        } else {
            self.spare.get_or_insert(now);
        }
    }
}

impl Watched {
    fn new(now: Time) -> Self {
        Self {
            state: State::Closed,
            parts: Vec::new(),
            loaded: None,
            before: (0, Duration::ZERO),
            busy: 0,
            needed: now,
            is_alone: false,
            closed: None,
            failures: 0,
        }
    }

    /// Replaces what the lane said before.
    fn note(&mut self, lane: LaneId, own: u32, flows: Vec<(u16, u32)>, counted: (u64, Duration), now: Time) {
        let place = self.parts.iter().position(|part| part.lane == lane).unwrap_or_else(|| {
            self.parts.push(Part { lane, at: now, own, flows: Vec::new(), trial: (0, Duration::ZERO) });
            self.parts.len() - 1
        });
        let state = self.state;
        let Some(part) = self.parts.get_mut(place) else { return };
        (part.at, part.own, part.flows) = (now, own, flows);
        if let State::Trial { since, .. } = state
            && now >= since + SETTLE
        {
            part.trial = (part.trial.0 + counted.0, part.trial.1 + counted.1);
        }
    }

    /// Returns the datagrams of each flow, on all lanes, in recent reports.
    fn flows(&self, now: Time) -> Vec<(u16, u32)> {
        self.recent(now).flat_map(|part| part.flows.iter().copied()).collect()
    }

    fn recent(&self, now: Time) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| now < part.at + FRESH)
    }

    /// Notes whether the load is worth more lanes, or those that are open.
    fn judge(&mut self, running: Placement, worth_more: bool, counted: (u64, Duration), now: Time) {
        if matches!(self.state, State::Blocked { until } if now >= until) {
            self.state = State::Closed;
        }
        match self.state {
            State::Trial { .. } | State::Open => {
                let is_busy = self.recent(now).map(|part| part.own).sum::<u32>() >= NEEDED;
                let is_spread = is_spread(&self.flows(now), running);
                self.is_alone = is_busy && !is_spread;
                if is_busy && is_spread {
                    self.needed = now;
                }
            }
            State::Closed => {
                self.loaded = self.loaded.filter(|_| now < self.needed + FRESH);
                if self.loaded.is_some() {
                    self.before = (self.before.0 + counted.0, self.before.1 + counted.1);
                } else if worth_more {
                    (self.loaded, self.before) = (Some(now), (0, Duration::ZERO));
                }
                if worth_more {
                    self.needed = now;
                }
            }
            State::Opening | State::Blocked { .. } => {}
        }
    }

    /// Returns true if lanes should open: the load has lasted, and the last change was long ago.
    fn is_due(&self, now: Time) -> bool {
        self.state == State::Closed
            && self.loaded.is_some_and(|since| now >= since + OPEN_AFTER)
            && !self.has_just_closed(now)
    }

    /// Returns true if the peer's lanes were closed so shortly ago that they may not open yet.
    fn has_just_closed(&self, now: Time) -> bool {
        self.closed.is_some_and(|closed| now < closed + LINGER)
    }

    /// Starts the trial of lanes that open now.
    fn open(&mut self, now: Time) {
        let before = rate(self.before);
        self.parts.iter_mut().for_each(|part| part.trial = (0, Duration::ZERO));
        (self.state, self.needed, self.loaded) = (State::Trial { since: now, before }, now, None);
        self.is_alone = false;
    }

    fn block(&mut self, now: Time) {
        let wait = BLOCKED * 2_u32.pow(self.failures.min(DOUBLINGS));
        self.failures += 1;
        (self.state, self.loaded) = (State::Blocked { until: now + wait }, None);
    }

    fn wants_lanes(&self) -> bool {
        matches!(self.state, State::Opening | State::Trial { .. } | State::Open)
    }

    /// Returns true while something about the peer must be remembered.
    fn is_of_interest(&self, now: Time) -> bool {
        match self.state {
            State::Closed => self.recent(now).next().is_some() || self.has_just_closed(now),
            State::Blocked { until } => now < until,
            _ => true,
        }
    }

    /// Returns the time without need after which lanes that are open are closed.
    fn linger(&self) -> Duration {
        if self.is_alone { LINGER_ALONE } else { LINGER }
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Trial { since, .. } => Some(since + SETTLE + TRIAL),
            State::Open => Some(self.needed + self.linger()),
            State::Closed | State::Opening | State::Blocked { .. } => None,
        }
    }

    /// Returns the reason why the peer's lanes are given back now, if they are.
    fn handle_timeout(&mut self, now: Time) -> Option<GatherReason> {
        if let State::Trial { since, before } = self.state
            && now >= since + SETTLE + TRIAL
        {
            // Where the transfer ended meanwhile, there is nothing to compare.
            let lasts = now < self.needed + FRESH;
            let after: u64 = self.parts.iter().map(|part| rate(part.trial)).sum();
            if lasts && after * 100 < before * (100 + GAIN) {
                self.block(now);
                return Some(GatherReason::NoGain);
            }
            self.failures = if lasts { 0 } else { self.failures };
            self.state = State::Open;
        }
        if self.state == State::Open && now >= self.needed + self.linger() {
            (self.state, self.closed) = (State::Closed, Some(now));
            return Some(GatherReason::Idle);
        }
        None
    }
}

/// Returns datagrams per second.
fn rate((datagrams, span): (u64, Duration)) -> u64 {
    let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1);
    datagrams.saturating_mul(1_000_000) / micros
}

/// Returns true if the busiest of these lanes carries at most four fifths of the flows' datagrams.
fn is_spread(flows: &[(u16, u32)], placement: Placement) -> bool {
    placement.busiest(flows) * 5 <= Placement::FIRST.busiest(flows) * 4
}

/// Returns the lanes that are worth their threads for these flows, up to `most`, and the placement that spreads the flows best: each step to more lanes takes a
/// fifth of its load from the busiest lane. If several lanes run already, only these come into question.
///
/// Heavy flows count alike, and of equal placements the first is taken: both nodes see the same flows, and shall make the same choice, though what they counted
/// differs a little. Otherwise a flow's answers use another lane than the flow, and wake two threads at each end instead of one: a single stream has two
/// thirds of its speed then.
fn best_placement(flows: &[(u16, u32)], most: u8, running: Placement) -> Option<Placement> {
    if running.lanes() > 1 {
        return Some(running).filter(|running| is_spread(flows, *running));
    }
    let heavy = heavy_flows(flows);
    let mut best = (Placement::FIRST, Placement::FIRST.busiest(&heavy));
    for lanes in 2..=most {
        let tops = Placement::candidates(lanes).map(|placement| (placement, placement.busiest(&heavy)));
        let Some((placement, top)) = tops.min_by_key(|(_, top)| *top) else { continue };
        if top * 5 <= best.1 * 4 {
            best = (placement, top);
        }
    }
    Some(best.0).filter(|placement| placement.lanes() > 1 && is_spread(flows, *placement))
}

/// Returns the flows with at least the [`HEAVY`]th part of the heaviest flow's datagrams, each with weight 1.
fn heavy_flows(flows: &[(u16, u32)]) -> Vec<(u16, u32)> {
    let heaviest = flows.iter().map(|(_, weight)| *weight).max().unwrap_or(0);
    flows.iter().filter(|(_, weight)| *weight >= heaviest.div_ceil(HEAVY)).map(|(flow, _)| (*flow, 1)).collect()
}

#[cfg(test)]
mod tests;

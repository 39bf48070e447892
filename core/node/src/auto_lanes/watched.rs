//! The load of one peer, as the lanes report it, and the state of the peer's lanes.

use std::time::Duration;

use taut_base::{LaneId, Placement, Time};

use super::placing::is_spread;
use super::{AutoState, GatherReason};

/// Share of one thread's time, in thousandths, below which a peer's flows need no extra lanes. It is well below [`super::FULL`], so lanes that were given back are not
/// opened again at once.
const NEEDED: u32 = 300;
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
/// Time after opening at which the rate is measured, 2 s: flows moved and TCP found its new rate by then. It is measured for [`TRIAL`].
const SETTLE: Duration = Duration::from_secs(2);
/// Time for which the rate is measured, 3.5 s: long beside the changes of a TCP connection's rate. Together with [`SETTLE`] it is longer than the 5 s within which a
/// peer may not change its lanes twice (protocol.md 5.8).
const TRIAL: Duration = Duration::from_millis(3_500);
/// Time for which lanes stay closed after they did not help, 15 s, doubled each time in a row. The first time is short, because one trial proves little: another
/// program may have taken the cores meanwhile.
const BLOCKED: Duration = Duration::from_secs(15);
/// Most doublings of [`BLOCKED`], 16 minutes, and of [`GROW_AGAIN`], about an hour.
const DOUBLINGS: u32 = 6;
/// Time for which lanes that run must be too few before they are given back to open more, 3 s: it costs 5 s with one lane.
const GROW_AFTER: Duration = Duration::from_secs(3);
/// Shortest time between two such changes, 1 minute: at most a twelfth of the time with one lane. It is doubled each time in a row that no more lanes open
/// than before: where the flows want more than there can be, each attempt only costs.
const GROW_AGAIN: Duration = Duration::from_secs(60);

/// A peer with notable flows.
pub(super) struct Watched {
    state: State,
    /// The latest report of each lane.
    parts: Vec<Part>,
    /// Since when its load has been worth more lanes than it has, without a break of [`FRESH`].
    loaded: Option<Loaded>,
    /// Its datagrams since then, and the time that they were counted for.
    before: (u64, Duration),
    /// Share of its time for which the lane was busy when they were found worth their threads, in thousandths.
    busy: u32,
    /// When it last needed the lanes that are open.
    needed: Time,
    /// At the last report one flow kept a lane busy, and nothing was left to spread.
    is_alone: bool,
    /// When its lanes were closed.
    closed: Option<Time>,
    /// Times in a row that lanes did not help.
    failures: u32,
    /// When its lanes were last closed to open more.
    grown: Option<Time>,
    /// They were, and have not opened again.
    is_growing: bool,
    /// The number of lanes that were open then.
    grown_from: u8,
    /// Times in a row that no more lanes opened.
    in_vain: u32,
}

/// A load that is worth more lanes.
#[derive(Clone, Copy)]
struct Loaded {
    since: Time,
    /// The latest report of it.
    last: Time,
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

impl Watched {
    pub(super) fn new(now: Time) -> Self {
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
            grown: None,
            is_growing: false,
            grown_from: 0,
            in_vain: 0,
        }
    }

    /// Replaces what the lane said before.
    pub(super) fn note(&mut self, lane: LaneId, own: u32, flows: Vec<(u16, u32)>, counted: (u64, Duration), now: Time) {
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
    pub(super) fn flows(&self, now: Time) -> Vec<(u16, u32)> {
        self.recent(now).flat_map(|part| part.flows.iter().copied()).collect()
    }

    fn recent(&self, now: Time) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| now < part.at + FRESH)
    }

    /// Notes whether the load is worth more lanes, and whether it needs those that are open.
    pub(super) fn judge(&mut self, running: Placement, worth_more: bool, counted: (u64, Duration), now: Time) {
        if matches!(self.state, State::Blocked { until } if now >= until) {
            self.state = State::Closed;
        }
        if matches!(self.state, State::Trial { .. } | State::Open) {
            let is_busy = self.recent(now).map(|part| part.own).sum::<u32>() >= NEEDED;
            let is_spread = is_spread(&self.flows(now), running);
            self.is_alone = is_busy && !is_spread;
            if is_busy && is_spread {
                self.needed = now;
            }
        }
        if matches!(self.state, State::Closed | State::Open) {
            self.note_worth(worth_more, counted, now);
        }
    }

    fn note_worth(&mut self, worth_more: bool, counted: (u64, Duration), now: Time) {
        self.loaded = self.loaded.filter(|loaded| now < loaded.last + FRESH);
        match &mut self.loaded {
            Some(loaded) => {
                self.before = (self.before.0 + counted.0, self.before.1 + counted.1);
                loaded.last = if worth_more { now } else { loaded.last };
            }
            None if worth_more => {
                (self.loaded, self.before) = (Some(Loaded { since: now, last: now }), (0, Duration::ZERO));
            }
            None => {}
        }
    }

    /// Returns true if the load has been worth more lanes for this long.
    fn is_loaded_for(&self, duration: Duration, now: Time) -> bool {
        self.loaded.is_some_and(|loaded| now >= loaded.since + duration)
    }

    /// Returns true if lanes should open: the load has lasted, and the last change was long ago.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.state == State::Closed && self.is_loaded_for(OPEN_AFTER, now) && !self.has_just_closed(now)
    }

    /// Returns true if the lanes that are open should close, to open more.
    pub(super) fn is_due_to_grow(&self, now: Time) -> bool {
        let pause = GROW_AGAIN * 2_u32.pow(self.in_vain.min(DOUBLINGS));
        let is_soon = self.grown.is_some_and(|grown| now < grown + pause);
        self.state == State::Open && self.is_loaded_for(GROW_AFTER, now) && !is_soon
    }

    /// Closes these lanes, to open more as soon as a peer may change its lanes again.
    pub(super) fn grow(&mut self, lanes: u8, now: Time) {
        (self.state, self.closed, self.loaded) = (State::Closed, Some(now), None);
        (self.grown, self.is_growing, self.grown_from) = (Some(now), true, lanes);
    }

    /// Notes that the agent starts threads for the peer's lanes.
    pub(super) fn wait_for_threads(&mut self, busy: u32) {
        (self.state, self.busy) = (State::Opening, busy);
    }

    pub(super) fn is_waiting_for_threads(&self) -> bool {
        self.state == State::Opening
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Returns the share of its time for which the lane was busy when more were found worth their threads, in thousandths.
    pub(super) fn busy(&self) -> u32 {
        self.busy
    }

    pub(super) fn state(&self) -> AutoState {
        match self.state {
            State::Closed if self.is_growing => AutoState::Wanted,
            State::Closed => AutoState::Quiet,
            State::Opening | State::Trial { .. } | State::Open => AutoState::Wanted,
            State::Blocked { .. } => AutoState::Blocked,
        }
    }

    /// Returns true if the peer's lanes were closed so shortly ago that they may not open yet.
    fn has_just_closed(&self, now: Time) -> bool {
        self.closed.is_some_and(|closed| now < closed + LINGER)
    }

    /// Starts the trial of these lanes, which open now.
    pub(super) fn open(&mut self, lanes: u8, now: Time) {
        if self.is_growing {
            self.in_vain = if lanes > self.grown_from { 0 } else { self.in_vain + 1 };
        }
        let before = rate(self.before);
        self.parts.iter_mut().for_each(|part| part.trial = (0, Duration::ZERO));
        (self.state, self.needed, self.loaded) = (State::Trial { since: now, before }, now, None);
        (self.is_alone, self.is_growing) = (false, false);
    }

    pub(super) fn block(&mut self, now: Time) {
        let wait = BLOCKED * 2_u32.pow(self.failures.min(DOUBLINGS));
        self.failures += 1;
        (self.state, self.loaded, self.is_growing) = (State::Blocked { until: now + wait }, None, false);
    }

    pub(super) fn wants_lanes(&self) -> bool {
        matches!(self.state, State::Opening | State::Trial { .. } | State::Open)
    }

    /// Returns true while something about the peer must be remembered.
    pub(super) fn is_of_interest(&self, now: Time) -> bool {
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

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match self.state {
            State::Trial { since, .. } => Some(since + SETTLE + TRIAL),
            State::Open => Some(self.needed + self.linger()),
            State::Closed | State::Opening | State::Blocked { .. } => None,
        }
    }

    /// Returns the reason why the peer's lanes are given back now, if they are.
    pub(super) fn handle_timeout(&mut self, now: Time) -> Option<GatherReason> {
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
            (self.state, self.closed, self.loaded) = (State::Closed, Some(now), None);
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

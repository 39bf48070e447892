//! When a node opens more lanes for a peer, and when it gives them back: a rule without clock and system calls (`--lanes auto`, docs/internals/lanes.md).
//!
//! ```text
//! FromLane::Load ──▶ handle_load ──▶ closed ──── 1 s of load ───▶ opening ── threads run ──▶ trial ── it helped ──▶ open
//!                                      ▲                             │                         │                    │
//!                                      ├── after a while ◀── blocked ◀─── refused, no gain ────┘                    │
//!                                      └──────────── 5 s without need, 1 s of one flow alone, 3 s with too few ──────┘
//! ```
//! Each peer is judged by its own flows alone: no other peer, and nobody who sends garbage, can open or close lanes for it (law 15).

mod placing;
mod watched;

use std::collections::VecDeque;
use std::time::Duration;

use taut_base::{LaneId, PeerId, Placement, SortedMap, Time};

use crate::contract::LaneLoad;
use placing::{best_placement, larger_placement};
use watched::Watched;

/// Share of its time, in thousandths, for which a lane must be busy before another one may help. It is no more than 600, because a lane that limits its flows
/// also waits for the programs and the kernel at both ends: at 10 Gbit/s on two cores it was busy for 62 % (10th percentile) to 92 % (90th). A trial closes
/// the lanes again that do not help.
const FULL: u32 = 600;
/// Share of a lane's time, in thousandths, that a peer's own flows must take: with less, its lanes would hardly relieve this one.
const OWN: u32 = 400;
/// Share of a lane's time, in thousandths, below which a peer's flows are not looked at.
const NOTABLE: u32 = 50;
/// Time for which the threads stay when no peer needs them any more, 3 s: peers learn within it that their lanes are closed, and send nothing there.
const THREADS_LINGER: Duration = Duration::from_secs(3);

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
    /// They are too few: more open as soon as the peer may change its lanes again.
    TooFew,
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
    peers: SortedMap<PeerId, Watched>,
    outputs: VecDeque<AutoOutput>,
}

impl AutoLanes {
    /// Returns the state of a node with one lane that may have up to `most`.
    pub(crate) fn new(most: u8) -> Self {
        Self {
            most,
            running: Placement::FIRST,
            asked: None,
            spare: None,
            peers: SortedMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Returns the most lanes that may run.
    pub(crate) fn most(&self) -> u8 {
        self.most
    }

    /// Returns what the peer's load asks for.
    pub(crate) fn state(&self, peer: PeerId) -> AutoState {
        self.peers.get(&peer).map_or(AutoState::Quiet, Watched::state)
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
        let mut by_peer: SortedMap<PeerId, Vec<(u16, u32)>> = SortedMap::new();
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
            let best = if watched.is_open() {
                // Growing closes the lanes for a while, so the load of others must not cause it (law 15).
                (own >= FULL && may(peer)).then(|| larger_placement(&watched.flows(now), self.most, self.running))
            } else {
                let is_full = u32::from(load.busy) >= FULL && own >= OWN;
                (is_full && may(peer)).then(|| best_placement(&watched.flows(now), self.most, self.running))
            }
            .flatten();
            watched.judge(self.running, best.is_some(), (datagrams, load.span), now);
            if let Some(placement) = best {
                self.change(peer, placement, load.busy.into(), now);
            }
        }
        self.peers.retain(|_, watched| watched.is_of_interest(now));
    }

    /// Opens lanes for a peer whose load is worth this placement, or closes those that are too few for it, if it is time for either.
    fn change(&mut self, peer: PeerId, placement: Placement, busy: u32, now: Time) {
        let others = self.peers.iter().any(|(other, watched)| *other != peer && watched.wants_lanes());
        let Some(watched) = self.peers.get_mut(&peer) else { return };
        if watched.is_due(now) && self.asked.is_none() {
            watched.wait_for_threads(busy);
            if self.running.lanes() > 1 {
                watched.open(self.running.lanes(), now);
                self.outputs.push_back(AutoOutput::Spread { peer, busy });
            } else {
                self.asked = Some(placement);
                self.outputs.push_back(AutoOutput::Run(placement));
            }
            self.spare = None;
        } else if watched.is_due_to_grow(now) && !others {
            // More threads can only start when those that run have ended, which would close the lanes of other peers (law 15).
            watched.grow(self.running.lanes(), now);
            self.outputs.push_back(AutoOutput::Gather { peer, reason: GatherReason::TooFew });
            self.spare = Some(now);
        }
    }

    /// Notes that this number of lanes runs now: peers that waited for them get them.
    pub(crate) fn running(&mut self, lanes: u8, now: Time) {
        let asked = self.asked.take().filter(|asked| asked.lanes() == lanes);
        self.running = asked.unwrap_or(Placement::new(lanes));
        if lanes < 2 {
            self.spare = None;
            return;
        }
        for (peer, watched) in self.peers.iter_mut().filter(|(_, watched)| watched.is_waiting_for_threads()) {
            watched.open(lanes, now);
            self.outputs.push_back(AutoOutput::Spread { peer: *peer, busy: watched.busy() });
        }
        self.note_spare(now);
    }

    /// Notes that the agent could not start more lanes.
    pub(crate) fn refused(&mut self, now: Time) {
        self.asked = None;
        for watched in self.peers.values_mut().filter(|watched| watched.is_waiting_for_threads()) {
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

#[cfg(test)]
mod tests;

//! The choice of home relays: the nearest relay, where peers look for this node, and a second one that is ready when the first is lost.
//!
//! ```text
//! measured: round-trip time   ──▶ ┌───────────┐
//! lost: no answers            ──▶ │ HomeRelay │ ──▶ at most two relays, best first, when they changed
//! set_listed: the map         ──▶ └───────────┘
//! ```
//! A change costs: the coordinator and all peers have to learn of it, and a peer that looks for this node meanwhile asks the wrong relay first. A
//! home relay is therefore kept until another one is nearer by a fifth and by 10 ms, which is more than round-trip times vary within a day. A lost
//! home relay is left at once. It is considered again a minute later if it answers, or when there is no other.
//!
//! A relay that says that it can hardly take more nodes (*busy*) is chosen only if there is no other. A node that it is home to stays.

use core::time::Duration;
use std::vec::Vec;

use taut_base::{RelayId, SortedMap, Time};

use crate::event::{EventQueue, HomeChangeReason, HomeRelayEvent};

/// The number of home relays: the nearest and a second one.
const MAX_HOMES: usize = 2;

/// Least gain in round-trip time of another relay: in time, and as a part of the present one.
const MIN_GAIN: Duration = Duration::from_millis(10);
const GAIN_PART: u32 = 5;

/// Time for which a lost relay is chosen only if there is no other, 1 minute.
const LOST_PENALTY: Duration = Duration::from_secs(60);

/// The relays of the map, and the home relays among them.
#[derive(Clone, Debug, Default)]
pub struct HomeRelay {
    known: SortedMap<RelayId, RelayState>,
    /// The map's order, which decides before anything was measured.
    order: Vec<RelayId>,
    homes: Vec<RelayId>,
    changed: bool,
    events: EventQueue<HomeRelayEvent>,
}

/// Something that the choice of home relays asks the node to do, or reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HomeRelayOutput {
    /// The node binds to these relays from now on, best first.
    Homes(Vec<RelayId>),
    /// A state changed.
    Event(HomeRelayEvent),
}

#[derive(Clone, Copy, Debug, Default)]
struct RelayState {
    round_trip: Option<Duration>,
    lost: Option<Time>,
    busy: bool,
}

impl HomeRelay {
    /// Replaces the relays of the map, each with true if it is busy.
    pub fn set_listed(&mut self, relays: &[(RelayId, bool)], now: Time) {
        self.order = relays.iter().map(|(id, _)| *id).collect();
        self.known.retain(|id, _| self.order.contains(id));
        for (id, busy) in relays {
            self.known.entry(*id).or_default().busy = *busy;
        }
        let homes: Vec<RelayId> = self.homes.iter().copied().filter(|id| self.order.contains(id)).collect();
        self.choose(&homes, HomeChangeReason::MapChanged, now);
    }

    /// Takes the shortest round-trip time of a few requests to a relay.
    pub fn measured(&mut self, relay: RelayId, round_trip: Duration, now: Time) {
        if let Some(relay_state) = self.known.get_mut(&relay) {
            relay_state.round_trip = Some(round_trip);
        }
        self.choose(&self.homes.clone(), HomeChangeReason::Measured, now);
    }

    /// A relay does not answer.
    pub fn lost(&mut self, relay: RelayId, now: Time) {
        if let Some(relay_state) = self.known.get_mut(&relay) {
            if relay_state.round_trip.is_some() || relay_state.lost.is_none() {
                self.events.push(HomeRelayEvent::Lost(relay));
            }
            (relay_state.round_trip, relay_state.lost) = (None, Some(now));
        }
        self.choose(&self.homes.clone(), HomeChangeReason::Lost, now);
    }

    /// Returns the home relays, best first.
    pub fn homes(&self) -> &[RelayId] {
        &self.homes
    }

    /// Returns the round-trip time of a relay.
    pub fn round_trip(&self, relay: RelayId) -> Option<Duration> {
        self.known.get(&relay)?.round_trip
    }

    /// Returns the next output. Call it after every input, until it returns `None`.
    pub fn poll_output(&mut self) -> Option<HomeRelayOutput> {
        if std::mem::take(&mut self.changed) {
            return Some(HomeRelayOutput::Homes(self.homes.clone()));
        }
        self.events.pop().map(HomeRelayOutput::Event)
    }

    /// Returns the rank of a relay, lower is better: lost relays last, before them the busy ones that are no home relays, then by distance; relays that were not
    /// measured follow in the map's order.
    fn rank(&self, id: RelayId, now: Time) -> (bool, bool, Duration, usize) {
        let relay_state = self.known.get(&id).copied().unwrap_or_default();
        let is_avoided =
            relay_state.lost.is_some_and(|lost| now.since(lost) < LOST_PENALTY || relay_state.round_trip.is_none());
        let place = self.order.iter().position(|other| *other == id).unwrap_or(usize::MAX);
        let is_full = relay_state.busy && !self.homes.contains(&id);
        (is_avoided, is_full, relay_state.round_trip.unwrap_or(Duration::MAX), place)
    }

    /// Chooses again. `present_homes`: the home relays that are still listed.
    fn choose(&mut self, present_homes: &[RelayId], reason: HomeChangeReason, now: Time) {
        let mut ranked = self.order.clone();
        ranked.sort_by_key(|id| self.rank(*id, now));
        let mut homes: Vec<RelayId> = Vec::with_capacity(MAX_HOMES);
        for place in 0..MAX_HOMES {
            // The relay at this place stays unless another one is clearly nearer.
            let present = present_homes.get(place).copied().filter(|id| !homes.contains(id));
            let Some(best) = ranked.iter().copied().find(|id| !homes.contains(id)) else { break };
            homes.push(present.filter(|present| !self.is_clearly_better(best, *present, now)).unwrap_or(best));
        }
        self.changed |= homes != present_homes;
        if homes != self.homes {
            let from = std::mem::replace(&mut self.homes, homes);
            self.events.push(HomeRelayEvent::Changed { from, to: self.homes.clone(), reason });
        }
    }

    fn is_clearly_better(&self, best: RelayId, present: RelayId, now: Time) -> bool {
        let (lost, is_full, near, _) = self.rank(best, now);
        let (present_lost, _, far, _) = self.rank(present, now);
        let gain = far.saturating_sub(near);
        let clear = !is_full && gain > MIN_GAIN && gain > far / GAIN_PART;
        present_lost && !lost || present_lost == lost && clear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn millis(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn three() -> (HomeRelay, [RelayId; 3]) {
        let ids = [RelayId(1), RelayId(2), RelayId(3)];
        let mut home = HomeRelay::default();
        home.set_listed(&ids.map(|id| (id, false)), at(0));
        (home, ids)
    }

    #[test]
    fn a_busy_relay_keeps_its_nodes_and_gets_no_new_ones_while_there_are_others() {
        let (mut home, [one, two, three]) = three();
        for (id, far) in [(one, 10), (two, 60), (three, 200)] {
            home.measured(id, millis(far), at(1));
        }
        assert_eq!(home.homes(), [one, two]);
        home.set_listed(&[(one, true), (two, true), (three, false)], at(2));
        assert_eq!(home.homes(), [one, two], "it is bound there");
        home.lost(one, at(3));
        home.measured(one, millis(10), at(100));
        assert_eq!(home.homes(), [two, three], "it was left, and is full");
        home.set_listed(&[(one, true), (two, true)], at(101));
        assert_eq!(home.homes(), [two, one], "there is no other");
        home.set_listed(&[(one, false), (two, true), (three, false)], at(102));
        assert_eq!(home.homes(), [one, two]);
    }

    #[test]
    fn homes_are_the_nearest_two_and_before_any_measurement_the_first_two() {
        let (mut home, [one, two, three]) = three();
        assert_eq!(home.poll_output(), Some(HomeRelayOutput::Homes(vec![one, two])));
        let changed = |from, to, reason| HomeRelayOutput::Event(HomeRelayEvent::Changed { from, to, reason });
        assert_eq!(home.poll_output(), Some(changed(vec![], vec![one, two], HomeChangeReason::MapChanged)));
        assert_eq!(home.poll_output(), None);
        home.measured(one, millis(80), at(1));
        home.measured(two, millis(50), at(1));
        home.measured(three, millis(20), at(1));
        assert_eq!(home.homes(), [three, two]);
    }

    #[test]
    fn a_home_is_kept_for_small_gains_and_left_at_once_when_it_is_lost() {
        let (mut home, [one, two, three]) = three();
        for (id, far) in [(one, 50), (two, 60), (three, 200)] {
            home.measured(id, millis(far), at(1));
        }
        home.measured(two, millis(41), at(2));
        assert_eq!(home.homes(), [one, two], "9 ms are no clear gain");
        home.measured(two, millis(30), at(3));
        assert_eq!(home.homes(), [two, one]);
        home.lost(two, at(4));
        assert_eq!(home.homes(), [one, three]);
        home.measured(two, millis(30), at(5));
        assert_eq!(home.homes(), [one, three], "it answered once");
        home.measured(two, millis(30), at(65));
        assert_eq!(home.homes(), [two, one]);
        home.lost(one, at(66));
        home.lost(two, at(66));
        home.lost(three, at(66));
        assert_eq!(home.homes().len(), 2, "some relay has to be tried");
    }

    #[test]
    fn a_relay_that_is_not_listed_any_more_is_no_home_relay() {
        let (mut home, [one, two, three]) = three();
        home.set_listed(&[(three, false)], at(1));
        assert_eq!(home.homes(), [three]);
        home.set_listed(&[], at(2));
        assert_eq!(home.homes(), []);
        home.measured(one, millis(1), at(3));
        assert_eq!((home.homes(), home.round_trip(two)), (&[][..], None));
    }
}

//! Which relays are ours: the nearest one, where peers look for us, and a second one that is warm when the first one is lost.
//!
//! ```text
//! measured, all of them       ──▶ ┌──────┐
//! lost: nobody answers there  ──▶ │ HomeRelay │ ──▶ at most two, best first, when they are others than before
//! the map lists others        ──▶ └──────┘
//! ```
//! Moving costs: the coordinator and all peers have to hear of it, and who looks for us meanwhile asks at the wrong relay first. So a home is kept until
//! another relay is nearer by a fifth and by 10 ms: round trips of one day vary by less than that. A home that is lost is left at once, and comes
//! into question again a minute after it answered, or when nothing else is left.

use core::time::Duration;
use std::collections::BTreeMap;
use std::vec::Vec;

use taut_base::{RelayId, Time};

use crate::event::{EventQueue, HomeChangeReason, HomeRelayEvent};

/// The nearest and a second one.
const HOMES: usize = 2;

/// What another relay must gain.
const LEAST_GAIN: Duration = Duration::from_millis(10);
const GAIN_PART: u32 = 5;

/// After it was lost, for so long a relay is only taken when there is no other.
const SHUNNED: Duration = Duration::from_secs(60);

/// The relays of the map, and which of them are ours.
#[derive(Clone, Debug, Default)]
pub struct HomeRelay {
    known: BTreeMap<RelayId, Standing>,
    /// As the map has them: whom to take before anything was measured.
    order: Vec<RelayId>,
    homes: Vec<RelayId>,
    changed: bool,
    events: EventQueue<HomeRelayEvent>,
}

/// What the choice of home relays asks the node to do, or reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HomeRelayOutput {
    /// The node binds to these relays from now on, best first.
    Homes(Vec<RelayId>),
    /// A state changed.
    Event(HomeRelayEvent),
}

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    round_trip: Option<Duration>,
    lost: Option<Time>,
}

impl HomeRelay {
    /// The relays of the map.
    pub fn set_listed(&mut self, relays: &[RelayId], now: Time) {
        self.known.retain(|id, _| relays.contains(id));
        for id in relays {
            self.known.entry(*id).or_default();
        }
        self.order = relays.to_vec();
        let homes: Vec<RelayId> = self.homes.iter().copied().filter(|id| relays.contains(id)).collect();
        self.choose(&homes, HomeChangeReason::MapChanged, now);
    }

    /// So far away is a relay, by the shortest of a few tries.
    pub fn measured(&mut self, relay: RelayId, round_trip: Duration, now: Time) {
        if let Some(standing) = self.known.get_mut(&relay) {
            standing.round_trip = Some(round_trip);
        }
        self.choose(&self.homes.clone(), HomeChangeReason::Measured, now);
    }

    /// Nobody answers there.
    pub fn lost(&mut self, relay: RelayId, now: Time) {
        if let Some(standing) = self.known.get_mut(&relay) {
            if standing.round_trip.is_some() || standing.lost.is_none() {
                self.events.push(HomeRelayEvent::Lost(relay));
            }
            (standing.round_trip, standing.lost) = (None, Some(now));
        }
        self.choose(&self.homes.clone(), HomeChangeReason::Lost, now);
    }

    /// Ours, best first.
    pub fn homes(&self) -> &[RelayId] {
        &self.homes
    }

    /// How far away a relay is.
    pub fn round_trip(&self, relay: RelayId) -> Option<Duration> {
        self.known.get(&relay)?.round_trip
    }

    /// Returns the next thing to do or to know of. Call it after every input, until it returns `None`.
    pub fn poll_output(&mut self) -> Option<HomeRelayOutput> {
        if std::mem::take(&mut self.changed) {
            return Some(HomeRelayOutput::Homes(self.homes.clone()));
        }
        self.events.pop().map(HomeRelayOutput::Event)
    }

    /// What a relay is worth, less is better: lost ones last, then by distance; one that was not measured is as far away as any, in the map's order.
    fn worth(&self, id: RelayId, now: Time) -> (bool, Duration, usize) {
        let standing = self.known.get(&id).copied().unwrap_or_default();
        let shunned = standing.lost.is_some_and(|lost| now.since(lost) < SHUNNED || standing.round_trip.is_none());
        let place = self.order.iter().position(|other| *other == id).unwrap_or(usize::MAX);
        (shunned, standing.round_trip.unwrap_or(Duration::MAX), place)
    }

    /// Chooses again. `present`: the home relays, those of them that are still listed.
    fn choose(&mut self, present_homes: &[RelayId], reason: HomeChangeReason, now: Time) {
        let mut ranked = self.order.clone();
        ranked.sort_by_key(|id| self.worth(*id, now));
        let mut homes: Vec<RelayId> = Vec::with_capacity(HOMES);
        for place in 0..HOMES {
            // Who is at this place stays unless another one is clearly nearer.
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
        let (lost, near, _) = self.worth(best, now);
        let (present_lost, far, _) = self.worth(present, now);
        let gain = far.saturating_sub(near);
        let clear = gain > LEAST_GAIN && gain > far / GAIN_PART;
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
        home.set_listed(&ids, at(0));
        (home, ids)
    }

    #[test]
    fn the_nearest_two_and_before_anything_was_measured_the_first_two() {
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
        assert_eq!(home.homes(), [one, two], "9 ms are none");
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
        assert_eq!(home.homes().len(), 2, "somewhere one has to try");
    }

    #[test]
    fn who_is_listed_no_more_is_no_home() {
        let (mut home, [one, two, three]) = three();
        home.set_listed(&[three], at(1));
        assert_eq!(home.homes(), [three]);
        home.set_listed(&[], at(2));
        assert_eq!(home.homes(), []);
        home.measured(one, millis(1), at(3));
        assert_eq!((home.homes(), home.round_trip(two)), (&[][..], None));
    }
}

//! Simulated relays, and how members spread over them.
//!
//! ```text
//!   ring of the world: relays in equal distances; members around them, most near the first, half as many near the second, …
//!   member: round-trip times by distance ──▶ HomeRelay (the rule of real nodes) ──▶ two relays ──▶ coordinator
//!   relay:  clients of its places ──▶ channel ──▶ coordinator: busy? ──▶ maps ──▶ members that choose later
//! ```
//! Nothing is forwarded. The channels of the relays, the maps and the choice are real; places, distances and clients are simulated.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use taut_base::{PrivateKey, PublicKey, RelayId, Time};
use taut_noise::public_key;
use taut_path::{HomeRelay, HomeRelayOutput};
use tokio::time::Instant;

use crate::state::random;

/// Round-trip time to a relay in the same place, and around half of the world.
const NEAR: Duration = Duration::from_millis(4);
const HALF_WORLD: Duration = Duration::from_millis(200);

/// One relay.
pub(super) struct Site {
    pub(super) key: PrivateKey,
    public: PublicKey,
    /// Its place on the ring, from 0 to 1.
    at: f64,
    /// Members that are bound to it as their first or second relay.
    pub(super) bound: AtomicUsize,
    /// Members that it is the nearest one to, and that have chosen.
    nearest: AtomicUsize,
}

/// All relays.
pub(super) struct Sites {
    all: Vec<Site>,
    /// Places for members at each relay.
    pub(super) places: usize,
}

/// Number of members at one relay at the end.
pub(super) struct SiteReport {
    pub(super) name: String,
    pub(super) nearest: usize,
    pub(super) bound: usize,
    pub(super) places: usize,
}

impl Sites {
    /// Returns relays in equal distances, with this number of places each.
    pub(super) fn new(number: usize, places: usize) -> Self {
        let site = |place: usize| {
            let key = PrivateKey::from_bytes(random());
            let at = place as f64 / number as f64;
            Site { public: public_key(&key), key, at, bound: AtomicUsize::new(0), nearest: AtomicUsize::new(0) }
        };
        Self { all: (0..number).map(site).collect(), places }
    }

    /// Returns the names and keys of all relays.
    pub(super) fn named(&self) -> impl Iterator<Item = (String, PublicKey)> {
        self.all.iter().enumerate().map(|(place, site)| (name(place), site.public))
    }

    pub(super) fn get(&self, place: usize) -> Option<&Site> {
        self.all.get(place)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Draws the place of a member: near the first relay most often, half as often near the second, a third as often near the third, and so on.
    pub(super) fn draw(&self) -> f64 {
        let weights = || (0..self.all.len()).map(|place| 1.0 / (place + 1) as f64);
        let mut left = share() * weights().sum::<f64>();
        let mut drawn = 0;
        for (place, weight) in weights().enumerate() {
            drawn = place;
            left -= weight;
            if left < 0.0 {
                break;
            }
        }
        let site = self.all.get(drawn).map_or(0.0, |site| site.at);
        (site + (share() - 0.5) / self.all.len().max(1) as f64).rem_euclid(1.0)
    }

    pub(super) fn reports(&self) -> Vec<SiteReport> {
        let report = |(place, site): (usize, &Site)| SiteReport {
            name: name(place),
            nearest: site.nearest.load(Ordering::Relaxed),
            bound: site.bound.load(Ordering::Relaxed),
            places: self.places,
        };
        self.all.iter().enumerate().map(report).collect()
    }
}

fn name(place: usize) -> String {
    format!("region-{}", place + 1)
}

/// Returns a random number from 0 to 1.
fn share() -> f64 {
    f64::from(u32::from_le_bytes(random())) / f64::from(u32::MAX)
}

/// Returns the round-trip time between two places on the ring.
fn round_trip(one: f64, other: f64) -> Duration {
    let around = (one - other).abs();
    NEAR + HALF_WORLD.mul_f64(2.0 * around.min(1.0 - around))
}

/// A member's choice of relays.
pub(super) struct Chooser {
    at: f64,
    home: HomeRelay,
    began: Instant,
    /// The relays of its map, by number, and in the map's order with true for a busy one.
    sites: BTreeMap<RelayId, usize>,
    listed: Vec<(RelayId, bool)>,
    homes: Vec<RelayId>,
    chooses: bool,
}

impl Chooser {
    pub(super) fn new(sites: &Sites) -> Self {
        Self {
            at: sites.draw(),
            home: HomeRelay::default(),
            began: Instant::now(),
            sites: BTreeMap::new(),
            listed: Vec::new(),
            homes: Vec::new(),
            chooses: false,
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    /// Takes the relays of a map.
    pub(super) fn set_map(&mut self, relays: &[taut_netmap::Relay], sites: &Sites) {
        let place = |key: &PublicKey| sites.all.iter().position(|site| site.public == *key);
        self.sites = relays.iter().filter_map(|relay| Some((relay.id, place(&relay.key)?))).collect();
        self.listed = relays.iter().map(|relay| (relay.id, relay.busy)).collect();
        // A node that is not there yet has no relay that it would keep.
        if self.chooses {
            self.home.set_listed(&self.listed, self.now());
        }
    }

    /// Measures all relays, and chooses from now on.
    pub(super) fn begin(&mut self, sites: &Sites) {
        self.chooses = true;
        self.home.set_listed(&self.listed, self.now());
        let distance = |place: &usize| sites.all.get(*place).map(|site| round_trip(self.at, site.at));
        let measured: Vec<_> =
            self.sites.iter().filter_map(|(id, place)| Some((*id, *place, distance(place)?))).collect();
        for (id, _, distance) in &measured {
            self.home.measured(*id, *distance, self.now());
        }
        let nearest = measured.iter().min_by_key(|(_, _, distance)| *distance);
        if let Some(site) = nearest.and_then(|(_, place, _)| sites.all.get(*place)) {
            site.nearest.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the relays to report, if they changed.
    pub(super) fn choice(&mut self, sites: &Sites) -> Option<Vec<RelayId>> {
        let mut changed = None;
        while let Some(output) = self.home.poll_output() {
            if let HomeRelayOutput::Homes(homes) = output {
                changed = Some(homes);
            }
        }
        let homes = if self.chooses { self.home.homes().to_vec() } else { return None };
        if changed.is_none() && homes == self.homes {
            return None;
        }
        let site = |id: &RelayId| self.sites.get(id).and_then(|place| sites.all.get(*place));
        self.homes.iter().filter_map(site).for_each(|site| _ = site.bound.fetch_sub(1, Ordering::Relaxed));
        homes.iter().filter_map(site).for_each(|site| _ = site.bound.fetch_add(1, Ordering::Relaxed));
        self.homes.clone_from(&homes);
        Some(homes)
    }

    /// Returns the relays of the last choice.
    pub(super) fn homes(&self) -> &[RelayId] {
        &self.homes
    }

    /// Returns how much farther the first relay is than the nearest; `None` if it has not chosen.
    pub(super) fn detour(&self, sites: &Sites) -> Option<Duration> {
        let first = sites.all.get(*self.sites.get(self.homes.first()?)?)?;
        let nearest = sites.all.iter().map(|site| round_trip(self.at, site.at)).min()?;
        Some(round_trip(self.at, first.at).saturating_sub(nearest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_on_a_ring() {
        assert_eq!(round_trip(0.25, 0.25), NEAR);
        assert_eq!(round_trip(0.0, 0.5), NEAR + HALF_WORLD);
        assert_eq!(round_trip(0.95, 0.05), round_trip(0.05, 0.15));
    }

    #[test]
    fn members_are_near_all_relays_and_most_of_them_near_the_first() {
        let sites = Sites::new(4, 1);
        let mut near = [0; 4];
        for _ in 0..4_000 {
            let at = sites.draw();
            assert!((0.0..1.0).contains(&at));
            near[((at * 4.0).round() as usize) % 4] += 1;
        }
        assert!(near.is_sorted_by(|one, other| one > other) && near[3] > 200, "{near:?}");
    }

    #[test]
    fn a_member_chooses_the_nearest_two_and_leaves_a_busy_one_to_others() {
        let sites = Sites::new(4, 1);
        let relay = |place: usize, busy| taut_netmap::Relay {
            id: RelayId(place as u32 + 1),
            name: name(place),
            key: sites.all[place].public,
            endpoints: Vec::new(),
            stun_port: 0,
            web: None,
            busy,
        };
        let mut chooser = Chooser { at: 0.05, ..Chooser::new(&sites) };
        chooser.set_map(&[0, 1, 2, 3].map(|place| relay(place, place == 0)), &sites);
        assert_eq!(chooser.choice(&sites), None, "it has not measured them");
        chooser.begin(&sites);
        assert_eq!(chooser.choice(&sites), Some(vec![RelayId(2), RelayId(4)]));
        assert_eq!(chooser.choice(&sites), None);
        assert_eq!(
            sites.reports().iter().map(|site| (site.nearest, site.bound)).collect::<Vec<_>>(),
            [(1, 0), (0, 1), (0, 0), (0, 1)]
        );
        assert_eq!(chooser.detour(&sites), Some(round_trip(0.05, 0.25) - round_trip(0.05, 0.0)));
    }
}

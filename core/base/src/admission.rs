//! Admission to a resource with a limited number of places: unauthenticated connections, or members' connections.
//!
//! Each place belongs to a *host* (an address, a member) of a *group* (an address prefix, a network). Hosts, groups and the whole table have limits. When one is
//! reached, the oldest idle place is evicted: that of the host at its limit, that of the largest host in the group at its limit, or that of the largest host in
//! the largest group. A flood therefore evicts itself, and every other party keeps its places (law 15).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;

/// Limits of one party, in places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Places of one host.
    pub host: usize,
    /// Places of all hosts of one group.
    pub group: usize,
}

/// What happens to a newcomer when the whole table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest idle place of the largest party is evicted: right for holders that are done within moments, or never.
    Displace,
    /// The same, but only if the largest group has at least two places more than the newcomer's; otherwise the newcomer is refused. Right for holders that
    /// stay: two groups of equal size do not evict each other in turn. A host that has a place already gives that one up.
    Balance,
}

/// A limit is reached, and no place can be evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdmissionDenied;

/// Number of idle places, the oldest of them, and the party that has them. The greatest rank is evicted from.
type Rank<K> = (usize, Reverse<u64>, K);

/// Which party has which places. A place is known by its number; lower numbers are older.
#[derive(Debug)]
pub struct Admission<G, H> {
    all: usize,
    when_full: WhenFull,
    places: BTreeMap<u64, Place<G, H>>,
    groups: BTreeMap<G, Group<H>>,
    ranks: BTreeSet<Rank<G>>,
}

#[derive(Clone, Copy, Debug)]
struct Place<G, H> {
    group: G,
    host: H,
    is_idle: bool,
}

/// The places of one group or host: how many, and which of them are idle.
#[derive(Debug, Default)]
struct Held {
    count: usize,
    idle: BTreeSet<u64>,
}

#[derive(Debug)]
struct Group<H> {
    held: Held,
    hosts: BTreeMap<H, Held>,
    ranks: BTreeSet<Rank<H>>,
}

impl<G: Copy + Ord, H: Copy + Ord> Admission<G, H> {
    /// An empty table of `all` places.
    pub fn new(all: usize, when_full: WhenFull) -> Self {
        Self { all, when_full, places: BTreeMap::new(), groups: BTreeMap::new(), ranks: BTreeSet::new() }
    }

    /// Gives a place to `host` of `group`. `number` is not in use; lower numbers are older. Returns the place that was evicted for it.
    ///
    /// # Errors
    /// [`AdmissionDenied`] when a limit is reached and no place can be evicted.
    pub fn enter(&mut self, number: u64, group: G, host: H, bounds: Bounds) -> Result<Option<u64>, AdmissionDenied> {
        let displaced = self.room_for(group, host, bounds)?;
        if let Some(displaced) = displaced {
            self.leave(displaced);
        }
        self.put(number, Place { group, host, is_idle: true });
        Ok(displaced)
    }

    /// Gives the place to another party: its holder turned out to be `host` of `group`. Returns the place that was evicted for it.
    ///
    /// # Errors
    /// [`AdmissionDenied`] when the other party is at its limit and no place can be evicted; the place is free then.
    pub fn assign(&mut self, number: u64, group: G, host: H, bounds: Bounds) -> Result<Option<u64>, AdmissionDenied> {
        let Some(place) = self.leave(number) else { return Err(AdmissionDenied) };
        let displaced = self.room_for(group, host, bounds)?;
        if let Some(displaced) = displaced {
            self.leave(displaced);
        }
        self.put(number, Place { group, host, ..place });
        Ok(displaced)
    }

    /// Says whether the place is idle. One that is not idle stays.
    pub fn set_idle(&mut self, number: u64, is_idle: bool) {
        if let Some(place) = self.leave(number) {
            self.put(number, Place { is_idle, ..place });
        }
    }

    /// Frees the place. Returns false if it was free.
    pub fn remove(&mut self, number: u64) -> bool {
        self.leave(number).is_some()
    }

    /// Returns the number of places that are taken.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns true if no place is taken.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the place that has to make room for this party; `None` while there is room.
    fn room_for(&self, group: G, host: H, bounds: Bounds) -> Result<Option<u64>, AdmissionDenied> {
        let of_group = self.groups.get(&group);
        let of_host = of_group.and_then(|group| group.hosts.get(&host));
        let count = |held: Option<&Held>| held.map_or(0, |held| held.count);
        let displaced = if count(of_host) >= bounds.host {
            of_host.and_then(|host| host.idle.first().copied())
        } else if count(of_group.map(|group| &group.held)) >= bounds.group {
            of_group.and_then(Group::oldest_of_greediest)
        } else if self.places.len() >= self.all {
            let own = of_host.and_then(|host| host.idle.first().copied());
            let own = own.filter(|_| self.when_full == WhenFull::Balance);
            own.or_else(|| self.oldest_of_greediest(count(of_group.map(|group| &group.held))))
        } else {
            return Ok(None);
        };
        displaced.map(Some).ok_or(AdmissionDenied)
    }

    /// Returns the place that makes room for a newcomer whose group has `count` places.
    fn oldest_of_greediest(&self, count: usize) -> Option<u64> {
        let (_, _, greediest) = self.ranks.last()?;
        let greediest = self.groups.get(greediest)?;
        let is_fair = self.when_full == WhenFull::Displace || greediest.held.count >= count + 2;
        greediest.oldest_of_greediest().filter(|_| is_fair)
    }

    fn put(&mut self, number: u64, place: Place<G, H>) {
        self.places.insert(number, place);
        self.note(number, &place, true);
    }

    fn leave(&mut self, number: u64) -> Option<Place<G, H>> {
        let place = self.places.remove(&number)?;
        self.note(number, &place, false);
        Some(place)
    }

    /// Counts a place that was taken or freed, and keeps the ranks true.
    fn note(&mut self, number: u64, place: &Place<G, H>, is_taken: bool) {
        let group = self.groups.entry(place.group).or_default();
        if let Some(rank) = group.held.rank(place.group) {
            self.ranks.remove(&rank);
        }
        group.note(number, place, is_taken);
        if let Some(rank) = group.held.rank(place.group) {
            self.ranks.insert(rank);
        }
        if group.held.count == 0 {
            self.groups.remove(&place.group);
        }
    }
}

impl<H: Copy + Ord> Group<H> {
    fn note<G>(&mut self, number: u64, place: &Place<G, H>, is_taken: bool) {
        let host = self.hosts.entry(place.host).or_default();
        if let Some(rank) = host.rank(place.host) {
            self.ranks.remove(&rank);
        }
        host.note(number, place.is_idle, is_taken);
        self.held.note(number, place.is_idle, is_taken);
        if let Some(rank) = host.rank(place.host) {
            self.ranks.insert(rank);
        }
        if host.count == 0 {
            self.hosts.remove(&place.host);
        }
    }

    /// Returns the oldest idle place of the host that has most of them.
    fn oldest_of_greediest(&self) -> Option<u64> {
        self.ranks.last().map(|(_, Reverse(oldest), _)| *oldest)
    }
}

impl<H> Default for Group<H> {
    fn default() -> Self {
        Self { held: Held::default(), hosts: BTreeMap::new(), ranks: BTreeSet::new() }
    }
}

impl Held {
    fn note(&mut self, number: u64, is_idle: bool, is_taken: bool) {
        if is_taken {
            self.count += 1;
            if is_idle {
                self.idle.insert(number);
            }
        } else {
            self.count -= 1;
            self.idle.remove(&number);
        }
    }

    fn rank<K>(&self, key: K) -> Option<Rank<K>> {
        self.idle.first().map(|oldest| (self.idle.len(), Reverse(*oldest), key))
    }
}

impl fmt::Display for AdmissionDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("all places of this party are taken")
    }
}

impl Error for AdmissionDenied {}

#[cfg(test)]
mod tests;

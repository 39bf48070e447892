//! How much comes from each of very many sources, in a table of fixed size; and what a source is counted as.

use std::boxed::Box;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use crate::{Bucket, Rate, Time};

/// Places that a source may stand at.
const WAYS: usize = 4;
/// Groups of places that come into being together: a page of memory.
const SETS: usize = 64;
/// All of them together hold 4,096 sources in 64 KiB, of which there is as much as sources came.
const PAGES: usize = 16;

type Page = [[Place; WAYS]; SETS];

/// One token bucket per source. Where more sources come than it holds, those that sent least are forgotten first: a flood from anywhere
/// does not make a flood from one place look new.
#[derive(Debug)]
pub struct Meter {
    rate: Rate,
    pages: [Option<Box<Page>>; PAGES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// A keyed hash of the source: nobody outside can choose who shares a place with whom.
    source: u64,
    bucket: Bucket,
}

impl Meter {
    /// Nobody has sent anything yet; each source may send at this rate.
    pub fn new(rate: Rate) -> Self {
        Self { rate, pages: Default::default() }
    }

    /// Whether `source` may send one more now.
    pub fn has(&self, source: u64, now: Time) -> bool {
        let found = self.set(source).and_then(|set| set.iter().find(|place| place.source == source));
        found.is_none_or(|place| place.bucket.has(&self.rate, now))
    }

    /// `source` sends one; says whether it may.
    pub fn take(&mut self, source: u64, now: Time) -> bool {
        let rate = self.rate;
        let (page, set) = place_of(source);
        let Some(page) = self.pages.get_mut(page) else { return false };
        let page = page.get_or_insert_with(|| Box::new([[Place::default(); WAYS]; SETS]));
        let Some(set) = page.get_mut(set) else { return false };
        if let Some(place) = set.iter_mut().find(|place| place.source == source) {
            return place.bucket.take(&rate, now);
        }
        let Some(place) = set.iter_mut().min_by_key(|place| place.bucket) else { return false };
        *place = Place { source, bucket: Bucket::default() };
        place.bucket.take(&rate, now)
    }

    fn set(&self, source: u64) -> Option<&[Place; WAYS]> {
        let (page, set) = place_of(source);
        self.pages.get(page)?.as_deref()?.get(set)
    }
}

/// Hashes that nobody outside can choose: what sources are told apart by in a [`Meter`].
#[derive(Clone, Copy)]
pub struct KeyedHash([u8; 16]);

impl KeyedHash {
    /// By this key, which is drawn at random and kept secret.
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// The hash of a source.
    pub fn of(&self, what: &impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(&self.0);
        what.hash(&mut hasher);
        hasher.finish()
    }
}

/// The key is a secret (law 12).
impl fmt::Debug for KeyedHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedHash")
    }
}

/// The prefix that one host or one NAT has: an IPv4 address, or an IPv6 /64.
pub fn network(address: IpAddr) -> [u8; 8] {
    prefix(address, 4, 8)
}

/// The prefix that one customer of a provider may have as a whole, with an address for each of many senders: an IPv4 /24, or an IPv6 /48.
pub fn site(address: IpAddr) -> [u8; 8] {
    prefix(address, 3, 6)
}

/// The first bytes of an address. IPv4 is written behind `0000:0004::/32`, which IANA has not assigned: no IPv6 prefix is counted as an IPv4 one.
fn prefix(address: IpAddr, v4_bytes: usize, v6_bytes: usize) -> [u8; 8] {
    let mut prefix = [0; 8];
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            prefix[3] = 4;
            prefix[4..4 + v4_bytes].copy_from_slice(&v4.octets()[..v4_bytes]);
        }
        IpAddr::V6(v6) => prefix[..v6_bytes].copy_from_slice(&v6.octets()[..v6_bytes]),
    }
    prefix
}

/// In which page a source has its group, and which of that page's groups it is.
fn place_of(source: u64) -> (usize, usize) {
    let group = usize::try_from(source % (PAGES * SETS) as u64).unwrap_or(0);
    (group / SETS, group % SETS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(100_000 + milliseconds)
    }

    #[test]
    fn fault_b4_who_floods_is_held_back_and_nobody_else() {
        let mut meter = Meter::new(Rate::new(20, 5));
        let passed = (0..1_000).filter(|time| meter.take(1, at(*time))).count();
        assert_eq!(passed, 5 + 19);
        assert!(!meter.has(1, at(999)) && meter.has(2, at(999)));
        // The same group of places, and any other.
        assert!((2..5_000).all(|source| meter.take(source, at(999))));
    }

    #[test]
    fn memory_comes_with_sources() {
        let mut meter = Meter::new(Rate::new(20, 5));
        let pages = |meter: &Meter| meter.pages.iter().flatten().count();
        assert!(meter.has(70, at(0)) && pages(&meter) == 0, "who only asks takes none");
        assert!(meter.take(70, at(0)) && meter.take(71, at(0)) && pages(&meter) == 1);
        (0..100_000).for_each(|source| assert!(meter.take(source, at(0))));
        assert_eq!(pages(&meter), PAGES);
    }

    #[test]
    fn a_flood_from_everywhere_does_not_make_the_heavy_ones_look_new() {
        let mut meter = Meter::new(Rate::new(20, 5));
        while meter.take(7, at(0)) {}
        for source in 0..100_000 {
            meter.take(0x1234_5678_0000 + source, at(0));
        }
        assert!(!meter.has(7, at(0)));
    }

    #[test]
    fn addresses_of_one_host_and_of_one_customer_count_as_one() {
        let of = |text: &str| text.parse::<IpAddr>().unwrap();
        let (same, other) = (of("192.0.2.1"), of("192.0.2.2"));
        assert_ne!(network(same), network(other));
        assert_eq!((network(same), site(same)), (network(of("::ffff:192.0.2.1")), site(other)));
        assert_ne!(site(same), site(of("192.0.3.1")));
        let (near, far) = (of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(network(near), network(of("2001:db8:1:2::9")));
        assert_ne!(network(near), network(far));
        assert_eq!(site(near), site(far));
        assert_ne!(site(near), site(of("2001:db8:2::1")));
        // An owner of 2001:db8::/64 does not share the limits of 32.1.13.184.
        assert_ne!(network(of("32.1.13.184")), network(of("2001:db8::1")));
    }

    #[test]
    fn hosts_and_sites_of_addresses() {
        let site = |text: &str| site(text.parse().unwrap());
        assert_eq!(site("192.0.2.1"), site("::ffff:192.0.2.200"));
        assert_ne!(site("192.0.2.1"), site("192.0.3.1"));
        assert_eq!(site("2001:db8:1:2::3"), site("2001:db8:1:ffff::"));
        assert_ne!(site("2001:db8:1:2::3"), site("2001:db8:2:2::3"));
    }
}

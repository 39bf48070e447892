//! Rate limits for very many sources in a table of fixed size, and the prefixes by which addresses count as one source.

use std::boxed::Box;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use crate::{Bucket, Rate, Time};

/// Entries in which a source may be stored: a 4-way associative table.
const WAYS: usize = 4;
/// Sets that are allocated together, 64: a page of memory.
const SETS: usize = 64;
/// Pages of the table, 16: up to 4,096 sources in 64 KiB. A page is allocated with its first source.
const PAGES: usize = 16;

type Page = [[Entry; WAYS]; SETS];

/// A token bucket per source. If there are more sources than entries, those that sent least are evicted first, so that a flood from many sources does not reset
/// the limit of one heavy source.
#[derive(Debug)]
pub struct Meter {
    rate: Rate,
    pages: [Option<Box<Page>>; PAGES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Keyed hash of the source, so that an attacker cannot choose collisions.
    source: u64,
    bucket: Bucket,
}

impl Meter {
    /// Returns a meter that allows this rate to each source.
    pub fn new(rate: Rate) -> Self {
        Self { rate, pages: Default::default() }
    }

    /// Returns true if `source` may send one more now.
    pub fn has(&self, source: u64, now: Time) -> bool {
        let found = self.set(source).and_then(|set| set.iter().find(|entry| entry.source == source));
        found.is_none_or(|entry| entry.bucket.has(&self.rate, now))
    }

    /// Counts one message of `source`. Returns false if it is over the rate.
    pub fn take(&mut self, source: u64, now: Time) -> bool {
        let rate = self.rate;
        let (page, set) = position_of(source);
        let Some(page) = self.pages.get_mut(page) else { return false };
        let page = page.get_or_insert_with(|| Box::new([[Entry::default(); WAYS]; SETS]));
        let Some(set) = page.get_mut(set) else { return false };
        if let Some(entry) = set.iter_mut().find(|entry| entry.source == source) {
            return entry.bucket.take(&rate, now);
        }
        let Some(entry) = set.iter_mut().min_by_key(|entry| entry.bucket) else { return false };
        *entry = Entry { source, bucket: Bucket::default() };
        entry.bucket.take(&rate, now)
    }

    fn set(&self, source: u64) -> Option<&[Entry; WAYS]> {
        let (page, set) = position_of(source);
        self.pages.get(page)?.as_deref()?.get(set)
    }
}

/// Keyed hashes of sources for a [`Meter`]. An attacker cannot choose collisions.
#[derive(Clone, Copy)]
pub struct KeyedHash([u8; 16]);

impl KeyedHash {
    /// Returns hashes with this key, which is random and secret.
    pub const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }

    /// Returns the hash of a source.
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

/// Returns the prefix of one host or one NAT: an IPv4 address, or an IPv6 /64.
pub fn network(address: IpAddr) -> [u8; 8] {
    prefix(address, 4, 8)
}

/// Returns the prefix that one customer of a provider may control, with many addresses: an IPv4 /24, or an IPv6 /48.
pub fn site(address: IpAddr) -> [u8; 8] {
    prefix(address, 3, 6)
}

/// Returns the first bytes of an address. IPv4 addresses are mapped into `0000:0004::/32`, which IANA has not assigned, so that they never equal an IPv6
/// prefix.
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

/// Returns the page of a source, and its set in that page.
fn position_of(source: u64) -> (usize, usize) {
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
    fn fault_b4_a_flooding_source_is_limited_and_no_other() {
        let mut meter = Meter::new(Rate::new(20, 5));
        let passed = (0..1_000).filter(|time| meter.take(1, at(*time))).count();
        assert_eq!(passed, 5 + 19);
        assert!(!meter.has(1, at(999)) && meter.has(2, at(999)));
        // Sources of the same set, and of all others.
        assert!((2..5_000).all(|source| meter.take(source, at(999))));
    }

    #[test]
    fn memory_is_allocated_with_sources() {
        let mut meter = Meter::new(Rate::new(20, 5));
        let pages = |meter: &Meter| meter.pages.iter().flatten().count();
        assert!(meter.has(70, at(0)) && pages(&meter) == 0, "a query allocates nothing");
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

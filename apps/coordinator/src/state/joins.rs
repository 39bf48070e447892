//! Rate limit on joins with one enrolment key (fault E21), and the shares of one address and one prefix in it. A join is a write to the disk and a change for
//! every member. One holder of a join token, or a leaked token, must not block the network's other work, nor the other holders of the token.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use taut_base::{KeyedHash, Meter, Rate, Time, network, site};

use super::random;
use crate::store::Marks;

/// Joins with one enrolment key: 1,024 at once, then 10 per second, so that four addresses can use their [`HOST`] at the same time.
const KEY: Rate = Rate::new(10, 1_024);

/// Joins with one enrolment key from one prefix: half of [`KEY`].
const SITE: Rate = Rate::new(5, 512);

/// Joins with one enrolment key from one address: a quarter of [`KEY`]. 256 at once are enough for a cloud site that boots behind one NAT; 1,000 nodes of such
/// a site join within 5 minutes.
const HOST: Rate = Rate::every(Duration::from_millis(400), 256);

/// Limit on marks of removed nodes that joined with one key, within the time for which marks are kept (73 h): as many as the largest network has members, so
/// that a whole network can be replaced. They take some 15 MB on disk, and 45 MB of memory after a start.
const KEY_MARKS: u64 = 65_536;

/// Marks of one key from one prefix: half of [`KEY_MARKS`].
const SITE_MARKS: u64 = 32_768;

/// Marks of one key from one address: a quarter of [`KEY_MARKS`]. A site behind one NAT may replace 224 short-lived machines an hour.
const HOST_MARKS: u64 = 16_384;

/// Counts joins, in tables of fixed size.
pub(super) struct Joins {
    start: Instant,
    hash: KeyedHash,
    meters: Mutex<Meters>,
}

struct Meters {
    keys: Meter,
    sites: Meter,
    hosts: Meter,
}

impl Joins {
    /// Returns empty tables.
    pub(super) fn new() -> Self {
        let [keys, sites, hosts] = [KEY, SITE, HOST].map(Meter::new);
        Self {
            start: Instant::now(),
            hash: KeyedHash::new(random()),
            meters: Mutex::new(Meters { keys, sites, hosts }),
        }
    }

    /// Counts a join with this key from this address. Returns true if it is within all rates; otherwise it is not counted.
    pub(super) fn take(&self, key: i64, from: IpAddr, now: Instant) -> bool {
        let now = Time::from_duration(now.saturating_duration_since(self.start));
        let (host, site) = (self.hash.of(&(key, network(from))), self.hash.of(&(key, site(from))));
        let key = self.hash.of(&key);
        let mut meters = self.meters.lock().unwrap_or_else(PoisonError::into_inner);
        meters.hosts.has(host, now)
            && meters.sites.has(site, now)
            && meters.keys.take(key, now)
            && meters.sites.take(site, now)
            && meters.hosts.take(host, now)
    }
}

/// Returns true if there is room for the mark that another node may leave.
pub(super) fn has_room(marks: &Marks) -> bool {
    marks.host < HOST_MARKS && marks.site < SITE_MARKS && marks.key < KEY_MARKS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many joins of 10,000 attempts are possible at this moment.
    fn possible(joins: &Joins, from: &str, now: Instant) -> usize {
        let from = from.parse().unwrap();
        (0..10_000).filter(|_| joins.take(1, from, now)).count()
    }

    #[test]
    fn fault_e21_one_address_leaves_most_joins_of_its_key_to_other_addresses() {
        let (joins, start) = (Joins::new(), Instant::now());
        assert_eq!(possible(&joins, "192.0.2.1", start), 256, "a site that boots");
        assert_eq!(possible(&joins, "203.0.113.1", start), 256, "another site does, too");
        // The first address tries without end for a minute.
        let later = |seconds| start + Duration::from_secs(seconds);
        let taken: usize = (1..=60).map(|second| possible(&joins, "192.0.2.1", later(second))).sum();
        assert!((145..=155).contains(&taken), "{taken}");
        assert_eq!(
            possible(&joins, "2001:db8::1", later(60)),
            256,
            "a fleet from elsewhere joins at once all the same"
        );
        assert!(joins.take(2, "192.0.2.1".parse().unwrap(), later(60)), "another key has its own joins");
    }

    #[test]
    fn fault_e21_one_prefix_leaves_half_of_the_joins_of_its_key() {
        let (joins, start) = (Joins::new(), Instant::now());
        let taken: usize = (1..=100).map(|host| possible(&joins, &format!("192.0.2.{host}"), start)).sum();
        assert_eq!(taken, 512);
        assert_eq!(possible(&joins, "203.0.113.1", start), 256);
        let taken: usize = (1..=100).map(|net| possible(&joins, &format!("198.51.{net}.1"), start)).sum();
        assert_eq!(taken, 1_024 - 512 - 256, "all addresses together");
    }

    #[test]
    fn fault_e21_marks_have_a_share_per_address_and_prefix() {
        let room = |key, site, host| has_room(&Marks { key, site, host });
        assert!(room(KEY_MARKS - 1, SITE_MARKS - 1, HOST_MARKS - 1));
        assert!(
            !room(KEY_MARKS, 0, 0) && !room(SITE_MARKS, SITE_MARKS, 0) && !room(HOST_MARKS, HOST_MARKS, HOST_MARKS)
        );
    }
}

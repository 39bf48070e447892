//! Rate limit on unauthenticated requests per address (faults E11, E13). Each request costs CPU time, and a guess at a token a read of the database. A request
//! beyond the rate is answered a second later. It is not refused, because an operator may be behind the same NAT as an attacker. The number of connections per
//! address is limited, so the number of delayed requests is, too.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use taut_base::{KeyedHash, Meter, Rate, Time, network};

use crate::state::random;

/// Requests of one IPv4 address or IPv6 /64 that are answered without delay: 200 at once, then 20 per second. That is enough for 200 nodes behind one NAT that
/// reconnect together, and a monitoring system that asks every second.
const REQUESTS: Rate = Rate::new(20, 200);

/// Delay of a request beyond [`REQUESTS`], 1 s.
pub(super) const DELAY: Duration = Duration::from_secs(1);

/// Counts requests by address, in a table of fixed size. Requests with a valid operator token do not count.
pub(super) struct RequestLimits {
    start: Instant,
    hash: KeyedHash,
    meter: Mutex<Meter>,
}

impl RequestLimits {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), hash: KeyedHash::new(random()), meter: Mutex::new(Meter::new(REQUESTS)) }
    }

    /// Returns the delay of a request from this address.
    pub(super) fn delay(&self, address: IpAddr, now: Instant) -> Duration {
        let meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = meter.has(self.hash.of(&network(address)), self.time(now));
        if is_free { Duration::ZERO } else { DELAY }
    }

    /// Counts an answered request from this address.
    pub(super) fn count(&self, address: IpAddr, now: Instant) {
        let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
        meter.take(self.hash.of(&network(address)), self.time(now));
    }

    fn time(&self, now: Instant) -> Time {
        Time::from_duration(now.saturating_duration_since(self.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e13_an_address_that_asks_without_end_waits_and_no_other() {
        let (requests, start) = (RequestLimits::new(), Instant::now());
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        for _ in 0..200 {
            assert_eq!(requests.delay(ip("192.0.2.1"), start), Duration::ZERO);
            requests.count(ip("192.0.2.1"), start);
        }
        assert_eq!(requests.delay(ip("192.0.2.1"), start), DELAY);
        assert_eq!(requests.delay(ip("192.0.2.2"), start), Duration::ZERO);
        assert_eq!(requests.delay(ip("192.0.2.1"), start + DELAY), Duration::ZERO);
        (0..200).for_each(|_| requests.count(ip("2001:db8::1"), start));
        assert_eq!(requests.delay(ip("2001:db8::2"), start), DELAY, "a host has a /64");
    }
}

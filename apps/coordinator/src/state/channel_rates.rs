//! Rate limit on control channels per machine, in memory only. Limits that must survive a restart are in the database.

use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use taut_base::{KeyedHash, Meter, Rate, Time};

use super::random;

/// Control channels of one machine (fault E25): 30 at once, then 30 per minute. Each costs a read of the database and up to a full map, and every member is
/// told of its start and its end. A node retries with a doubling back-off, so it opens fewer even on a bad link.
pub(super) const CHANNELS: Rate = Rate::every(Duration::from_secs(2), 30);

/// Rate limit per party, in a table of fixed size.
pub(super) struct PartyRates {
    start: Instant,
    hash: KeyedHash,
    meter: Mutex<Meter>,
}

impl PartyRates {
    /// Gives each party this rate.
    pub(super) fn new(rate: Rate) -> Self {
        Self { start: Instant::now(), hash: KeyedHash::new(random()), meter: Mutex::new(Meter::new(rate)) }
    }

    /// Counts an action of a party. Returns true if it is within the rate.
    pub(super) fn take(&self, party: &impl Hash, now: Instant) -> bool {
        let now = Time(u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX));
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).take(self.hash.of(party), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e25_one_machine_spends_its_own_share() {
        let (channel_rates, now) = (PartyRates::new(CHANNELS), Instant::now());
        let let_in = (0..100).filter(|_| channel_rates.take(&"one", now)).count();
        assert_eq!(let_in, 30);
        assert!(channel_rates.take(&"other", now));
        assert!(channel_rates.take(&"one", now + Duration::from_secs(3)));
    }
}

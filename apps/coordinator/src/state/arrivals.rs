//! How often one machine may open a control channel. In memory only; what has to survive a restart is in the database.

use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use taut_base::{KeyedHash, Meter, Rate, Time};

use super::random;

/// Control channels of one machine (fault E25): each costs a read of the database and up to a whole map, and both its beginning and its end are
/// told to every member. A node waits with a backoff that doubles, so 30 channels a minute are more than an honest one on the worst of links opens.
pub(super) const CHANNELS: Rate = Rate::every(Duration::from_secs(2), 30);

/// Counts what each party does, in a table of fixed size.
pub(super) struct Arrivals {
    start: Instant,
    hash: KeyedHash,
    meter: Mutex<Meter>,
}

impl Arrivals {
    /// Each party may do it at this rate.
    pub(super) fn new(rate: Rate) -> Self {
        Self { start: Instant::now(), hash: KeyedHash::new(random()), meter: Mutex::new(Meter::new(rate)) }
    }

    /// Counts one more of a party. Returns true if it is within the rate.
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
        let (arrivals, now) = (Arrivals::new(CHANNELS), Instant::now());
        let let_in = (0..100).filter(|_| arrivals.take(&"one", now)).count();
        assert_eq!(let_in, 30);
        assert!(arrivals.take(&"other", now));
        assert!(arrivals.take(&"one", now + Duration::from_secs(3)));
    }
}

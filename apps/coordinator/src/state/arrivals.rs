//! How often one machine may open a control channel (fault E25). Each channel costs a read of the database and up to a whole map, and both its
//! beginning and its end are told to every member: who comes and goes without end must not cost all the others that.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use taut_base::{KeyedHash, Meter, PublicKey, Rate, Time};

use super::random;

/// A node waits with a backoff that doubles, so 30 channels a minute are more than an honest one on the worst of links opens.
const CHANNELS: Rate = Rate::every(Duration::from_secs(2), 30);

/// Counts channels by machine, in a table of fixed size.
pub(super) struct Arrivals {
    start: Instant,
    hash: KeyedHash,
    meter: Mutex<Meter>,
}

impl Arrivals {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), hash: KeyedHash::new(random()), meter: Mutex::new(Meter::new(CHANNELS)) }
    }

    /// A machine that has proven its key opens a channel; whether it may.
    pub(super) fn take(&self, machine: PublicKey, now: Instant) -> bool {
        let now = Time(u64::try_from(now.saturating_duration_since(self.start).as_nanos()).unwrap_or(u64::MAX));
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).take(self.hash.of(&machine), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e25_one_machine_spends_its_own_share() {
        let (arrivals, now) = (Arrivals::new(), Instant::now());
        let (one, other) = (PublicKey([1; 32]), PublicKey([2; 32]));
        let let_in = (0..100).filter(|_| arrivals.take(one, now)).count();
        assert_eq!(let_in, 30);
        assert!(arrivals.take(other, now));
        assert!(arrivals.take(one, now + Duration::from_secs(3)));
    }
}

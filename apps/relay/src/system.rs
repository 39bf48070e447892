//! Randomness, clocks and locks of the relay's threads.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};
use taut_base::{Entropy, Time};
use taut_event::{boot_time, wall_clock};
use taut_relay::ServerClocks;

/// The operating system's randomness.
pub(crate) struct OsEntropy(pub(crate) SystemRandom);

impl Entropy for OsEntropy {
    fn fill(&mut self, bytes: &mut [u8]) {
        // On Linux this fails only before the random pool is ready at boot. A relay without randomness must not make keys.
        self.0.fill(bytes).expect("the operating system gives randomness");
    }
}

/// Reads the two clocks at the same moment. No other function of this program reads a clock.
pub(crate) fn clocks() -> ServerClocks {
    ServerClocks { now: Time::from_duration(boot_time()), wall: wall_clock() }
}

/// Locks a mutex, also after a panic of another thread that held it: the rules never panic, and if one did, the tables would be consistent enough to go on.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

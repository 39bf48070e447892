//! A number of 64 bits that threads share.
//!
//! Processors with atomic instructions for 64 bits have [`AtomicU64`] in the standard library. 32-bit MIPS and PowerPC have none; there, a lock around the number takes their place.

#[cfg(target_has_atomic = "64")]
pub use std::sync::atomic::AtomicU64;

#[cfg(not(target_has_atomic = "64"))]
pub use locked::AtomicU64;

#[cfg(any(test, not(target_has_atomic = "64")))]
#[cfg_attr(
    target_has_atomic = "64",
    expect(unreachable_pub, reason = "it is public on the processors that need it; on others only its test uses it")
)]
mod locked {
    use std::sync::atomic::Ordering;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// A number of 64 bits that threads share, with the methods of the standard library's type of this name that this project uses. A lock is a stronger order than each of
    /// [`Ordering`], so that argument has no effect.
    #[derive(Debug, Default)]
    pub struct AtomicU64(Mutex<u64>);

    impl AtomicU64 {
        /// Returns a shared number with this value.
        pub const fn new(value: u64) -> Self {
            Self(Mutex::new(value))
        }

        fn lock(&self) -> MutexGuard<'_, u64> {
            // A number is whole at each moment, so a panic of another thread left nothing half done.
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// Replaces the value by `next` of it, and returns the previous value.
        fn replace(&self, next: impl FnOnce(u64) -> u64) -> u64 {
            let mut value = self.lock();
            let before = *value;
            *value = next(before);
            before
        }

        /// Returns the value.
        pub fn load(&self, _: Ordering) -> u64 {
            *self.lock()
        }

        /// Sets the value.
        pub fn store(&self, value: u64, _: Ordering) {
            *self.lock() = value;
        }

        /// Sets the value, and returns the previous one.
        pub fn swap(&self, value: u64, _: Ordering) -> u64 {
            self.replace(|_| value)
        }

        /// Adds, wrapping around at the end, and returns the previous value.
        pub fn fetch_add(&self, amount: u64, _: Ordering) -> u64 {
            self.replace(|value| value.wrapping_add(amount))
        }

        /// Subtracts, wrapping around at zero, and returns the previous value.
        pub fn fetch_sub(&self, amount: u64, _: Ordering) -> u64 {
            self.replace(|value| value.wrapping_sub(amount))
        }

        /// Sets the larger of the value and another, and returns the previous value.
        pub fn fetch_max(&self, other: u64, _: Ordering) -> u64 {
            self.replace(|value| value.max(other))
        }

        /// Sets a new value if the present one is `expected`. Returns the previous value, as an error if it was another.
        pub fn compare_exchange(&self, expected: u64, new: u64, _: Ordering, _: Ordering) -> Result<u64, u64> {
            let mut value = self.lock();
            if *value != expected {
                return Err(*value);
            }
            *value = new;
            Ok(expected)
        }

        /// The same as [`Self::compare_exchange`]; a lock never fails without a reason.
        pub fn compare_exchange_weak(
            &self,
            expected: u64,
            new: u64,
            set: Ordering,
            fetch: Ordering,
        ) -> Result<u64, u64> {
            self.compare_exchange(expected, new, set, fetch)
        }

        /// Replaces the value by `next` of it, if that is one. Returns the previous value, as an error if `next` was `None`.
        pub fn fetch_update(
            &self,
            _: Ordering,
            _: Ordering,
            mut next: impl FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            let mut value = self.lock();
            let before = *value;
            *value = next(before).ok_or(before)?;
            Ok(before)
        }
    }

    impl From<u64> for AtomicU64 {
        fn from(value: u64) -> Self {
            Self::new(value)
        }
    }
}

// Where the standard library has no such type, there is nothing to compare with.
#[cfg(all(test, target_has_atomic = "64"))]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::locked::AtomicU64;

    /// Runs every operation on both types with the same numbers, and compares what they return and leave.
    #[test]
    fn a_locked_number_is_as_one_of_the_standard_library() {
        type Standard = std::sync::atomic::AtomicU64;
        let (ours, theirs) = (AtomicU64::new(7), Standard::new(7));
        for number in [0, 1, 7, 8, u64::MAX, 1 << 33] {
            assert_eq!(ours.fetch_add(number, Relaxed), theirs.fetch_add(number, Relaxed));
            assert_eq!(ours.fetch_max(number, Relaxed), theirs.fetch_max(number, Relaxed));
            assert_eq!(ours.fetch_sub(3, Relaxed), theirs.fetch_sub(3, Relaxed));
            assert_eq!(
                ours.compare_exchange(number, 5, Relaxed, Relaxed),
                theirs.compare_exchange(number, 5, Relaxed, Relaxed)
            );
            let present = theirs.load(Relaxed);
            assert_eq!(
                ours.compare_exchange_weak(present, number, Relaxed, Relaxed),
                theirs.compare_exchange(present, number, Relaxed, Relaxed)
            );
            assert_eq!(ours.swap(number / 2, Relaxed), theirs.swap(number / 2, Relaxed));
            let halved = |value: u64| value.is_multiple_of(2).then_some(value / 2);
            assert_eq!(ours.fetch_update(Relaxed, Relaxed, halved), theirs.fetch_update(Relaxed, Relaxed, halved));
            assert_eq!(ours.load(Relaxed), theirs.load(Relaxed));
            ours.store(number, Relaxed);
            theirs.store(number, Relaxed);
        }
    }
}

//! The replay window (RFC 6479): a bitmap of the last 8,192 counters.

/// Bits in the window, 8,192 as in WireGuard's kernel module: more than the reordering of one batch.
const BITS: u64 = 8192;
const WORD: u64 = 64;
const WORDS: usize = 128;
/// Distance below the highest counter within which counters are still recognised: one word less than [`BITS`], because the word of the highest counter is
/// only partly filled.
pub(crate) const REACH: u64 = BITS - WORD;

/// A sliding window over received counters. The caller asks [`Self::is_fresh`] before it decrypts, and calls [`Self::record`] only for an authentic packet
/// (fault C4).
///
/// It has one owner (fault C8): neither the window nor the session around it can be changed through a shared reference, or cloned.
/// ```compile_fail,E0596
/// fn shared(window: &taut_tunnel::ReplayWindow) -> bool {
///     window.record(1)
/// }
/// ```
/// ```compile_fail,E0596
/// fn shared(pair: &taut_tunnel::Pair, ciphertext: &mut [u8]) -> bool {
///     pair.open(1, ciphertext).is_ok()
/// }
/// ```
/// ```compile_fail,E0277
/// fn two_owners<T: Clone>() {}
/// two_owners::<taut_tunnel::Pair>();
/// ```
/// ```compile_fail,E0277
/// fn two_owners<T: Clone>() {}
/// two_owners::<taut_tunnel::SessionKeys>();
/// ```
pub struct ReplayWindow {
    /// One more than the highest recorded counter; 0 before the first.
    next: u64,
    seen: [u64; WORDS],
}

impl ReplayWindow {
    /// Returns an empty window.
    pub fn new() -> Self {
        Self { next: 0, seen: [0; WORDS] }
    }

    /// Returns true if `counter` is new: neither recorded nor too old for the window.
    pub fn is_fresh(&self, counter: u64) -> bool {
        if counter >= self.next {
            return true;
        }
        if self.next - counter > REACH {
            return false;
        }
        self.seen[place(counter)] & bit(counter) == 0
    }

    /// Returns the highest recorded counter.
    pub fn highest(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    /// Records `counter`, whose packet was authentic. Returns false if it was recorded before or is too old.
    pub fn record(&mut self, counter: u64) -> bool {
        if !self.is_fresh(counter) {
            return false;
        }
        if counter >= self.next {
            self.slide_to(counter);
        }
        self.seen[place(counter)] |= bit(counter);
        true
    }

    /// Clears the words between the highest counter and `counter`.
    fn slide_to(&mut self, counter: u64) {
        let newest = counter / WORD;
        let passed = match self.next.checked_sub(1) {
            Some(highest) => (newest - highest / WORD).min(BITS / WORD),
            None => BITS / WORD,
        };
        for step in 0..passed {
            self.seen[place((newest - step) * WORD)] = 0;
            if newest == step {
                break;
            }
        }
        self.next = counter.saturating_add(1);
    }
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}

fn place(counter: u64) -> usize {
    usize::try_from((counter / WORD) % (BITS / WORD)).unwrap_or(0)
}

fn bit(counter: u64) -> u64 {
    1 << (counter % WORD)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fault_c1_edges() {
        let mut window = ReplayWindow::new();
        assert!(window.record(0));
        assert!(!window.record(0));
        assert!(window.record(1));
        assert!(window.record(REACH + 1));
        assert!(!window.record(1), "too old");
        assert!(window.record(2), "just inside");
        assert!(!window.record(2));
        assert!(window.record(u64::MAX - 1));
        assert!(!window.record(REACH));
        assert!(window.record(u64::MAX - REACH));
        assert!(!window.record(u64::MAX - 1 - REACH));
    }

    #[test]
    fn looking_does_not_move_it() {
        let mut window = ReplayWindow::new();
        assert!(window.record(5));
        assert!(window.is_fresh(1 << 40));
        assert!(window.record(4));
    }

    /// Compares the window with a set of all counters, for steps of any length in both directions.
    fn agrees_with_a_set(steps: &[(bool, u64)]) {
        let mut window = ReplayWindow::new();
        let mut seen = BTreeSet::new();
        let mut at = 0_u64;
        for (forward, distance) in steps {
            let counter = if *forward { at.saturating_add(*distance) } else { at.saturating_sub(*distance) };
            let highest = seen.last().copied();
            let too_old = highest.is_some_and(|highest: u64| highest + 1 > counter && highest + 1 - counter > REACH);
            let expected = !too_old && !seen.contains(&counter);
            assert_eq!(window.is_fresh(counter), expected, "{counter} after {highest:?}");
            assert_eq!(window.record(counter), expected, "{counter} after {highest:?}");
            if expected {
                seen.insert(counter);
            }
            at = counter;
        }
    }

    proptest! {
        #[test]
        fn says_what_a_set_says(steps in proptest::collection::vec((any::<bool>(), prop_oneof![0..4_u64, 0..200_u64, 0..20_000_u64]), 0..200)) {
            agrees_with_a_set(&steps);
        }
    }
}

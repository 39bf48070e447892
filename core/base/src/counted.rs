//! Counting of comparisons, for tests of ordered maps.

/// A key that counts comparisons.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Counted(pub(crate) u32);

thread_local! {
    static COMPARISONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Ord for Counted {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Counted {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the number of comparisons in `work`.
pub(crate) fn comparisons(work: impl FnOnce()) -> usize {
    let before = COMPARISONS.get();
    work();
    COMPARISONS.get() - before
}

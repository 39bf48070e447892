//! An admission table ([`taut_base::Admission`]) for several threads, whose entries are held by guards.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use taut_base::{Admission, AdmissionDenied, Bounds, WhenFull};

use crate::system::locked;

/// Called once when an entry is evicted. It must not block: another party waits for the entry.
type Call = Box<dyn FnOnce() + Send>;

/// A bounded table of entries that groups and their hosts share.
pub struct AdmissionTable<G, H> {
    inner: Mutex<Inner<G, H>>,
}

struct Inner<G, H> {
    table: Admission<G, H>,
    next: u64,
    calls: BTreeMap<u64, Call>,
}

/// Holds an entry. Dropping the guard frees the entry.
pub struct AdmissionGuard<G: Copy + Ord, H: Copy + Ord> {
    places: Arc<AdmissionTable<G, H>>,
    number: u64,
}

impl<G: Copy + Ord, H: Copy + Ord> AdmissionTable<G, H> {
    /// Returns a table of `all` free entries.
    pub fn new(all: usize, when_full: WhenFull) -> Arc<Self> {
        let table = Admission::new(all, when_full);
        Arc::new(Self { inner: Mutex::new(Inner { table, next: 0, calls: BTreeMap::new() }) })
    }

    /// Takes an entry for `host` of `group`. `on_loss` is called if the entry is evicted later.
    ///
    /// # Errors
    /// [`AdmissionDenied`] if a limit is reached and no entry can be evicted.
    pub fn enter(
        self: &Arc<Self>,
        group: G,
        host: H,
        bounds: Bounds,
        on_loss: impl FnOnce() + Send + 'static,
    ) -> Result<AdmissionGuard<G, H>, AdmissionDenied> {
        let mut inner = locked(&self.inner);
        let number = inner.next;
        let displaced = inner.table.enter(number, group, host, bounds)?;
        inner.next += 1;
        inner.calls.insert(number, Box::new(on_loss));
        tell(inner, displaced);
        Ok(AdmissionGuard { places: Arc::clone(self), number })
    }

    /// Returns the number of entries in use.
    pub fn count(&self) -> usize {
        locked(&self.inner).table.len()
    }
}

/// Tells the holder of an evicted entry, after releasing the lock.
fn tell<G, H>(mut inner: std::sync::MutexGuard<'_, Inner<G, H>>, displaced: Option<u64>) {
    let call = displaced.and_then(|displaced| inner.calls.remove(&displaced));
    drop(inner);
    if let Some(call) = call {
        call();
    }
}

impl<G: Copy + Ord, H: Copy + Ord> AdmissionGuard<G, H> {
    /// Counts the entry for another party: its holder turned out to be `host` of `group`.
    ///
    /// # Errors
    /// [`AdmissionDenied`] if that party is at its limit, or if the entry was evicted already. The entry is lost then, and the holder is told.
    pub fn assign(&self, group: G, host: H, bounds: Bounds) -> Result<(), AdmissionDenied> {
        let mut inner = locked(&self.places.inner);
        let assigned = inner.table.assign(self.number, group, host, bounds);
        let lost = assigned.unwrap_or(Some(self.number));
        tell(inner, lost);
        assigned.map(drop)
    }

    /// Sets whether the holder is idle. Only entries of idle holders are evicted.
    pub fn set_idle(&self, is_idle: bool) {
        locked(&self.places.inner).table.set_idle(self.number, is_idle);
    }

    /// Replaces the function that is called on eviction. Returns false if the entry was evicted already.
    pub fn on_loss(&self, on_loss: impl FnOnce() + Send + 'static) -> bool {
        let mut inner = locked(&self.places.inner);
        let call = inner.calls.get_mut(&self.number);
        call.map(|call| *call = Box::new(on_loss)).is_some()
    }
}

impl<G: Copy + Ord, H: Copy + Ord> Drop for AdmissionGuard<G, H> {
    fn drop(&mut self) {
        let mut inner = locked(&self.places.inner);
        inner.table.remove(self.number);
        let call = inner.calls.remove(&self.number);
        // The function may own other guards, whose drop takes the lock.
        drop(inner);
        drop(call);
    }
}

impl<G, H> fmt::Debug for AdmissionTable<G, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdmissionTable")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const BOUNDS: Bounds = Bounds { host: 2, group: 4 };

    #[test]
    fn an_evicted_holder_is_told_once_and_a_free_entry_is_taken_again() {
        let places: Arc<AdmissionTable<u8, u8>> = AdmissionTable::new(3, WhenFull::Displace);
        let lost = Arc::new(AtomicUsize::new(0));
        let enter = |host| {
            let lost = Arc::clone(&lost);
            places.enter(1, host, BOUNDS, move || _ = lost.fetch_add(1, Ordering::Relaxed))
        };
        let (first, second) = (enter(1).unwrap(), enter(1).unwrap());
        let third = enter(1).unwrap();
        assert_eq!((lost.load(Ordering::Relaxed), places.count()), (1, 2));
        assert!(!first.on_loss(|| ()) && second.on_loss(|| ()));
        drop(first);
        assert_eq!(places.count(), 2, "the entry belonged to another holder already");
        second.set_idle(false);
        third.set_idle(false);
        assert!(enter(1).is_err());
        assert!(third.assign(1, 2, Bounds { host: 0, group: 0 }).is_err());
        assert_eq!(lost.swap(1, Ordering::Relaxed), 2, "an entry without a party is lost");
        drop((second, third));
        assert!(enter(1).is_ok() && places.count() == 0 && lost.load(Ordering::Relaxed) == 1);
        assert!(locked(&places.inner).calls.is_empty());
    }
}

//! The part of a queue that does not depend on the type of its items.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::mpsc::TryRecvError;
use std::sync::{Condvar, Mutex, PoisonError};

use super::lock;

/// The count of a queue's items, and the wait for room among them.
///
/// All accesses are sequentially consistent: an end that changes one of these values and then reads another one (here, or a flag of the caller beside
/// the queue) sees what the other end changed, or the other end sees its change.
pub(super) struct Gate {
    bound: usize,
    /// Items that were sent and not received. The receiver's `taken` counts, so both together keep to the bound.
    length: AtomicUsize,
    /// True if the receiver is gone.
    closed: AtomicBool,
    /// True if a sender waits for room.
    awaited: AtomicBool,
    /// Locked by a sender from its look for room until it sleeps, and by the receiver that wakes it.
    waiting: Mutex<()>,
    room: Condvar,
}

impl Gate {
    pub(super) const fn new(bound: usize) -> Self {
        Self {
            bound,
            length: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            waiting: Mutex::new(()),
            room: Condvar::new(),
        }
    }

    /// Takes a place for one item. Returns false if none is free.
    pub(super) fn enter(&self) -> bool {
        let next = |length| (length < self.bound).then(|| length + 1);
        self.length.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok()
    }

    /// Frees the place of an item that is received.
    pub(super) fn leave(&self) {
        self.length.fetch_sub(1, Ordering::SeqCst);
        if self.awaited.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Returns an error if no item was sent, which is final if `ends`, the number of ends of the queue, is one.
    pub(super) fn look(&self, ends: usize) -> Result<(), TryRecvError> {
        // The count of ends is read before the length, so that the last item of the last sender is not missed.
        fence(Ordering::Acquire);
        if self.length.load(Ordering::SeqCst) > 0 {
            return Ok(());
        }
        Err(if ends == 1 { TryRecvError::Disconnected } else { TryRecvError::Empty })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Notes that the receiver is gone.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes the senders that wait for room.
    fn wake(&self) {
        let waiting = lock(&self.waiting);
        self.awaited.store(false, Ordering::SeqCst);
        drop(waiting);
        self.room.notify_all();
    }

    /// Waits until there is room, or the receiver is gone.
    pub(super) fn wait(&self) {
        let mut waiting = lock(&self.waiting);
        loop {
            self.awaited.store(true, Ordering::SeqCst);
            if self.is_closed() || self.length.load(Ordering::SeqCst) < self.bound {
                return;
            }
            waiting = self.room.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

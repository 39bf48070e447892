//! A bounded queue of items from threads that send to one thread that receives.
//!
//! Each end notices that the other one is gone. The receiver has a loop of its own, so it never waits here: the sender wakes it with a
//! [`Waker`](crate::Waker). The errors are those of [`std::sync::mpsc`]. Its channels contain three kinds of queue, each with waiting and selection, for each
//! type of item; here only what moves an item depends on the type, and the rest exists once, in [`Gate`].

mod gate;

use std::cell::RefCell;
use std::fmt;
use std::mem;
use std::sync::mpsc::{SendError, TryRecvError, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gate::Gate;

/// A bound that is never reached.
pub const UNBOUNDED: usize = usize::MAX;

/// Memory that an empty queue keeps for its next items, 2 KiB: enough for the packets between two lanes, so that those cause no allocation. What a longer
/// queue took is freed when it is empty.
const KEPT: usize = 2_048;

/// Returns both ends of a queue of at most `bound` items. Its memory grows with its items.
pub fn channel<T>(bound: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared { gate: Gate::new(bound), sent: Mutex::default() });
    (Sender(Arc::clone(&shared)), Receiver { shared, taken: RefCell::default() })
}

/// The state that senders and receiver share. It fills one cache line (64 bytes), so that handing an item to another core moves one line.
#[repr(align(64))]
struct Shared<T> {
    gate: Gate,
    /// Items that the receiver has not taken, the oldest first.
    sent: Mutex<Vec<T>>,
}

/// The end that sends. Clones send to the same receiver.
pub struct Sender<T>(Arc<Shared<T>>);

/// The end that receives.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    /// Items that were taken out of the queue with one lock, the oldest last.
    taken: RefCell<Vec<T>>,
}

impl<T> Sender<T> {
    /// Sends an item, or returns it as an error if the queue is full or the receiver is gone. Never waits for room.
    pub fn try_send(&self, item: T) -> Result<(), TrySendError<T>> {
        let Shared { gate, sent } = &*self.0;
        if !gate.enter() {
            return Err(if gate.is_closed() { TrySendError::Disconnected(item) } else { TrySendError::Full(item) });
        }
        let mut sent = lock(sent);
        // Locked, so that no item enters after the receiver has dropped those that were left.
        if gate.is_closed() {
            return Err(TrySendError::Disconnected(item));
        }
        sent.push(item);
        Ok(())
    }

    /// Sends an item, and waits for room if the queue is full. Returns the item as an error if the receiver is gone.
    pub fn send(&self, mut item: T) -> Result<(), SendError<T>> {
        loop {
            match self.try_send(item) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Disconnected(item)) => return Err(SendError(item)),
                Err(TrySendError::Full(refused)) => item = refused,
            }
            self.0.gate.wait();
        }
    }
}

impl<T> Receiver<T> {
    /// Returns the oldest item. Never waits. Takes no lock while the queue is empty, and otherwise one for all items that it has.
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut taken = self.taken.borrow_mut();
        if taken.is_empty() {
            self.shared.gate.look(Arc::strong_count(&self.shared))?;
            mem::swap(&mut *taken, &mut *lock(&self.shared.sent));
            taken.reverse();
        }
        // There is no item if a sender has entered and is about to add it.
        let item = taken.pop().ok_or(TryRecvError::Empty)?;
        if taken.is_empty() && taken.capacity() * size_of::<T>() > KEPT {
            *taken = Vec::new();
        }
        self.shared.gate.leave();
        Ok(item)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.gate.close();
        // The items are dropped after the lock is free, because they may hold an end of this queue.
        let left = mem::take(&mut *lock(&self.shared.sent));
        drop(left);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

/// Locks a value that is whole after each statement, so a panic elsewhere leaves it usable.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;

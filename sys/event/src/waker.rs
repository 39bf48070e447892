//! A flag that one thread sets to wake the [`Poller`](crate::Poller) of another thread.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Wakes the thread that watches it. Clones wake the same thread; many wakes before a [`drain`](Self::drain) are one
/// event.
#[derive(Clone, Debug)]
pub struct Waker {
    counter: Arc<File>,
}

impl Waker {
    /// Returns a waker whose flag is not set. Fails only if the process or the host is out of descriptors or memory.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is a new descriptor.
        let counter = unsafe { crate::owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK)) }?;
        Ok(Self { counter: Arc::new(File::from(counter)) })
    }

    /// Sets the flag. Never blocks, never fails: a full counter means that the flag is set already.
    pub fn wake(&self) {
        let _ = (&*self.counter).write(&1_u64.to_ne_bytes());
    }

    /// Clears the flag. Call it *before* reading the data that the waker announces, so that no wake is lost.
    pub fn drain(&self) {
        let _ = (&*self.counter).read(&mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.counter.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::Waker;
    use crate::{Events, Interest, Poller};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn another_thread_ends_an_endless_wait() {
        let (poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        poller.add(waker.as_fd(), 1, Interest::READ).unwrap();
        let remote = waker.clone();
        let thread = std::thread::spawn(move || remote.wake());
        let mut events = Events::with_capacity(1);
        while events.is_empty() {
            poller.wait(&mut events, None).unwrap();
        }
        thread.join().unwrap();
    }

    #[test]
    fn many_wakes_are_one_event_and_drain_lowers_the_flag() {
        let (poller, waker) = (Poller::new().unwrap(), Waker::new().unwrap());
        poller.add(waker.as_fd(), 1, Interest::READ).unwrap();
        waker.drain();
        waker.wake();
        waker.wake();
        let mut events = Events::with_capacity(4);
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert_eq!(events.len(), 1);
        waker.drain();
        poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty());
    }
}

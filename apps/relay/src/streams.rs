//! What waits for clients at the end of connections: a queue for each, so that a slow reader loses its own frames and nobody else's (fault F5).

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use taut_event::Waker;

use crate::shared::locked;

/// Connections that wait to be taken from a web server: more than come while the thread has one turn.
const MOST_ARRIVALS: usize = 64;

/// Bytes that wait for one client: 20 ms at 100 Mbit/s. More would only be delay.
const MOST: usize = 256 * 1024;

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// The queues of all connections.
pub(crate) struct Streams {
    queues: RwLock<BTreeMap<u64, Arc<Mutex<Waiting>>>>,
    /// Wakes the thread that has the connections.
    waker: Waker,
    /// Connections that a web server gave away, with what was read of them already.
    arrivals: Mutex<Vec<(TcpStream, Vec<u8>)>>,
    /// Frames that found no room.
    pub(crate) dropped: AtomicU64,
}

impl Streams {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { queues: RwLock::default(), waker, arrivals: Mutex::default(), dropped: AtomicU64::new(0) }
    }

    /// A connection comes from a web server. Where there is no room it is closed.
    pub(crate) fn arrive(&self, tcp: TcpStream, read: Vec<u8>) {
        let mut arrivals = locked(&self.arrivals);
        if arrivals.len() < MOST_ARRIVALS {
            arrivals.push((tcp, read));
            self.waker.wake();
        }
    }

    /// The connections that came.
    pub(crate) fn arrivals(&self) -> Vec<(TcpStream, Vec<u8>)> {
        std::mem::take(&mut locked(&self.arrivals))
    }

    /// A connection begins, or ends.
    pub(crate) fn set(&self, number: u64, is_there: bool) {
        let mut queues = self.queues.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if is_there {
            queues.insert(number, Arc::default());
        } else {
            queues.remove(&number);
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.queues.read().unwrap_or_else(std::sync::PoisonError::into_inner).len() as u64
    }

    /// Leaves a frame for a client.
    pub(crate) fn push(&self, number: u64, frame: &[u8]) {
        let Some(queue) = self.queue(number) else { return };
        let mut waiting = locked(&queue);
        if waiting.bytes + frame.len() > MOST {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.bytes += frame.len();
        waiting.frames.push_back(frame.to_vec());
        if waiting.frames.len() == 1 {
            self.waker.wake();
        }
    }

    /// The next frame for a client.
    pub(crate) fn pop(&self, number: u64) -> Option<Vec<u8>> {
        let queue = self.queue(number)?;
        let mut waiting = locked(&queue);
        let frame = waiting.frames.pop_front()?;
        waiting.bytes -= frame.len();
        Some(frame)
    }

    fn queue(&self, number: u64) -> Option<Arc<Mutex<Waiting>>> {
        self.queues.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(&number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_f5_a_slow_reader_loses_its_own_frames_only() {
        let streams = Streams::new(Waker::new().unwrap());
        streams.set(1, true);
        streams.set(2, true);
        for _ in 0..1000 {
            streams.push(1, &[0; 1400]);
        }
        streams.push(2, b"mine");
        assert_eq!(streams.pop(2).as_deref(), Some(b"mine".as_slice()));
        let kept = std::iter::from_fn(|| streams.pop(1)).count();
        assert_eq!(kept, MOST / 1400);
        assert_eq!(streams.dropped.load(Ordering::Relaxed), 1000 - kept as u64);
        streams.set(1, false);
        streams.push(1, b"nobody");
        assert!(streams.pop(1).is_none());
    }
}

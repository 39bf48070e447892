//! What waits for clients at the end of connections: a queue for each, so that a slow reader loses its own frames and nobody else's (fault F5).

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use taut_event::Waker;

use crate::admission::Pass;
use crate::system::locked;

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
    /// Connections that a web server gave away, with what was read of them already. Each holds a place among the unauthenticated, which bounds them.
    arrivals: Mutex<Vec<Arrival>>,
    /// Connections for which frames began to wait.
    ready: Mutex<Vec<u64>>,
    /// Connections that have to be closed, because their places were given away.
    lost: Mutex<Vec<u64>>,
    /// Frames that found no room.
    pub(crate) dropped: AtomicU64,
    /// Frames of connections that are not bound, beyond what their address may send.
    pub(crate) hurried: AtomicU64,
    /// Connections that were closed because others needed the place.
    pub(crate) crowded: AtomicU64,
    /// Connections that were closed because no client was bound in time.
    pub(crate) late: AtomicU64,
}

/// A connection from a web server, what came behind its handshake, and its leave to be unauthenticated.
type Arrival = (TcpStream, Vec<u8>, Arc<Pass>);

impl Streams {
    pub(crate) fn new(waker: Waker) -> Self {
        Self {
            queues: RwLock::default(),
            waker,
            arrivals: Mutex::default(),
            ready: Mutex::default(),
            lost: Mutex::default(),
            dropped: AtomicU64::new(0),
            hurried: AtomicU64::new(0),
            crowded: AtomicU64::new(0),
            late: AtomicU64::new(0),
        }
    }

    /// A connection comes from a web server.
    pub(crate) fn arrive(&self, tcp: TcpStream, read: Vec<u8>, pass: Arc<Pass>) {
        locked(&self.arrivals).push((tcp, read, pass));
        self.waker.wake();
    }

    /// Returns the connections that came.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        std::mem::take(&mut locked(&self.arrivals))
    }

    /// The connection's place was given away.
    pub(crate) fn lose(&self, number: u64) {
        locked(&self.lost).push(number);
        self.waker.wake();
    }

    /// Returns the connections whose places were given away.
    pub(crate) fn lost(&self) -> Vec<u64> {
        std::mem::take(&mut locked(&self.lost))
    }

    /// Returns the connections for which frames began to wait. A connection is named once for all frames that wait then.
    pub(crate) fn ready(&self) -> Vec<u64> {
        std::mem::take(&mut locked(&self.ready))
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
            locked(&self.ready).push(number);
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
        assert_eq!((streams.ready(), streams.ready()), (vec![1, 2], vec![]), "each once");
        streams.set(1, false);
        streams.push(1, b"nobody");
        assert!(streams.pop(1).is_none());
    }
}

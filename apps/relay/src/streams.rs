//! Send queues of the connections. Each connection has its own, so that a slow reader loses only its own frames (fault F5).

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, RwLock};

use rustls::ServerConnection;
use taut_base::AtomicU64;
use taut_event::Waker;

use crate::admission::Pass;
use crate::system::locked;

/// Maximum bytes that wait for one client, 256 KiB: 20 ms at 100 Mbit/s. A longer queue would only add delay.
const MOST: usize = 256 * 1024;

#[derive(Default)]
struct Waiting {
    frames: VecDeque<Vec<u8>>,
    bytes: usize,
}

/// The queues of all connections.
pub(crate) struct Streams {
    queues: RwLock<BTreeMap<u64, Arc<Mutex<Waiting>>>>,
    /// Wakes the thread that owns the connections.
    waker: Waker,
    /// Connections that a web server passed on. The permit in each bounds their number.
    arrivals: Mutex<Vec<Arrival>>,
    /// Connections whose queues are no longer empty.
    ready: Mutex<Vec<u64>>,
    /// Evicted connections, which have to be closed.
    lost: Mutex<Vec<u64>>,
    /// Frames dropped because a queue was full.
    pub(crate) dropped: AtomicU64,
    /// Frames of unbound connections over the limit of their address.
    pub(crate) hurried: AtomicU64,
    /// Evicted connections.
    pub(crate) crowded: AtomicU64,
    /// Connections closed because no client was bound in time.
    pub(crate) late: AtomicU64,
}

/// A connection after the WebSocket handshake of a web server.
pub struct Arrival {
    /// The connection.
    pub tcp: TcpStream,
    /// The TLS session of an https connection.
    pub tls: Option<Box<ServerConnection>>,
    /// Bytes that were read from `tcp` and that nobody processed yet: TLS records with a session, frames without one.
    pub unread: Vec<u8>,
    /// Frames that were read after the handshake, decrypted.
    pub read: Vec<u8>,
    /// The permit, which bounds the number of connections.
    pub pass: Arc<Pass>,
}

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

    /// Adds a connection from a web server.
    pub(crate) fn arrive(&self, arrival: Arrival) {
        locked(&self.arrivals).push(arrival);
        self.waker.wake();
    }

    /// Takes the connections from web servers.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        std::mem::take(&mut locked(&self.arrivals))
    }

    /// Notes that a connection was evicted.
    pub(crate) fn lose(&self, number: u64) {
        locked(&self.lost).push(number);
        self.waker.wake();
    }

    /// Takes the evicted connections.
    pub(crate) fn lost(&self) -> Vec<u64> {
        std::mem::take(&mut locked(&self.lost))
    }

    /// Takes the connections whose queues are no longer empty. Each is returned once for all frames in its queue.
    pub(crate) fn ready(&self) -> Vec<u64> {
        std::mem::take(&mut locked(&self.ready))
    }

    /// Adds or removes the queue of a connection.
    pub(crate) fn set(&self, number: u64, is_there: bool) {
        let mut queues = self.queues.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if is_there {
            queues.insert(number, Arc::default());
        } else {
            queues.remove(&number);
        }
    }

    /// Returns the number of connections.
    pub(crate) fn count(&self) -> u64 {
        self.queues.read().unwrap_or_else(std::sync::PoisonError::into_inner).len() as u64
    }

    /// Queues a frame for a client.
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

    /// Takes the next frame for a client.
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

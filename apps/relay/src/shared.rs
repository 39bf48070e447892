//! State that all threads of a relay share: the server behind a lock, and a queue of its changes for each thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use taut_event::Waker;
use taut_relay::{Change, ClientAddress, Forward, ForwardCounts, Reply, Server, ServerOutput};
use taut_udp::{Transmit, UdpSocket};

use crate::streams::Streams;
use crate::system::locked;

/// Changes for one worker. The worker takes all of them in each turn. A turn is bounded in messages and bytes, whatever the peers send, so the queue holds no more
/// than the limits on binds and control frames allow in one turn.
struct Queue {
    changes: Mutex<VecDeque<Change>>,
    /// Whether there are changes. It is read without a lock, because every datagram without a receiver reads it.
    waiting: AtomicBool,
    waker: Waker,
}

/// The counters of one worker, readable by other threads.
#[derive(Default)]
pub(crate) struct Published {
    pub(crate) datagrams: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) not_wireguard: AtomicU64,
    pub(crate) unknown_id: AtomicU64,
    pub(crate) over_share: AtomicU64,
    pub(crate) unbound: AtomicU64,
    pub(crate) not_sent: AtomicU64,
    pub(crate) stun: AtomicU64,
    pub(crate) bad_stun: AtomicU64,
    pub(crate) kernel: AtomicU64,
    /// Turns of the thread, which show that it works.
    pub(crate) turns: AtomicUsize,
}

impl Published {
    /// Publishes a worker's own counters at the end of a turn.
    pub(crate) fn show(&self, counts: &ForwardCounts) {
        let pairs = [
            (&self.datagrams, counts.datagrams),
            (&self.bytes, counts.bytes),
            (&self.not_wireguard, counts.not_wireguard),
            (&self.unknown_id, counts.unknown_id),
            (&self.over_share, counts.over_share),
            (&self.unbound, counts.unbound),
        ];
        for (shown, count) in pairs {
            shown.store(count, Ordering::Relaxed);
        }
        self.turns.fetch_add(1, Ordering::Relaxed);
    }
}

/// The shared state of one relay.
pub(crate) struct Shared {
    server: Mutex<Server>,
    queues: Vec<Queue>,
    pub(crate) published: Vec<Published>,
    pub(crate) streams: Streams,
    stopping: AtomicBool,
    /// Coordinators to which there is a channel.
    pub(crate) coordinators: AtomicU64,
    /// Revocations that coordinators told of.
    pub(crate) revocations: AtomicU64,
}

impl Shared {
    /// Returns the state for workers with these wakers. If the relay has WebSocket, the last waker is that of its thread.
    pub(crate) fn new(server: Server, wakers: Vec<Waker>, web: Waker) -> Self {
        let published = wakers.iter().map(|_| Published::default()).collect();
        let queue = |waker| Queue { changes: Mutex::default(), waiting: AtomicBool::new(false), waker };
        let queues = wakers.into_iter().map(queue).collect();
        Self {
            server: Mutex::new(server),
            queues,
            published,
            streams: Streams::new(web),
            stopping: AtomicBool::new(false),
            coordinators: AtomicU64::new(0),
            revocations: AtomicU64::new(0),
        }
    }

    /// Calls `act` with the server for worker `number`, and drains the server's outputs. The changes are applied to that worker's table and queued for the others,
    /// in the same order for all. The frames to be sent are added to `replies`.
    pub(crate) fn with_server<R>(
        &self,
        number: usize,
        forward: &mut Forward,
        replies: &mut Vec<Reply>,
        act: impl FnOnce(&mut Server) -> R,
    ) -> R {
        let mut server = self.lock();
        let outcome = act(&mut server);
        self.take_changes(number, forward);
        let mut changed = false;
        while let Some(output) = server.poll_output() {
            match output {
                ServerOutput::Change(change) => {
                    forward.apply(&change);
                    self.queue_for_others(number, change);
                    changed = true;
                }
                ServerOutput::Reply(reply) => replies.push(reply),
            }
        }
        drop(server);
        if changed {
            self.others(number).for_each(|(_, queue)| queue.waker.wake());
        }
        outcome
    }

    /// Calls `act` with the server, for work that changes no table.
    pub(crate) fn ask<R>(&self, act: impl FnOnce(&mut Server) -> R) -> R {
        act(&mut self.lock())
    }

    /// Calls `act` with the server from outside the workers, and wakes the first worker, which drains the server's outputs.
    pub(crate) fn order<R>(&self, act: impl FnOnce(&mut Server) -> R) -> R {
        let outcome = self.ask(act);
        self.queues.iter().take(1).for_each(|queue| queue.waker.wake());
        outcome
    }

    /// Applies the changes that other workers caused. Returns true if there were any.
    pub(crate) fn take_changes(&self, number: usize, forward: &mut Forward) -> bool {
        let Some(queue) = self.queues.get(number).filter(|queue| queue.waiting.load(Ordering::Acquire)) else {
            return false;
        };
        let mut changes = locked(&queue.changes);
        queue.waiting.store(false, Ordering::Release);
        changes.drain(..).for_each(|change| forward.apply(&change));
        true
    }

    /// Sends a frame to a client by UDP or WebSocket. A frame that the socket does not take is lost, as on any network.
    pub(crate) fn send(&self, socket: &UdpSocket, place: ClientAddress, contents: &[u8]) {
        match place {
            ClientAddress::Udp(destination) => {
                let _ = socket.send(&[Transmit { destination, contents, segment_size: 0, ecn: 0 }]);
            }
            ClientAddress::Stream(number) => self.streams.push(number, contents),
        }
    }

    /// Makes all workers end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.queues.iter().for_each(|queue| queue.waker.wake());
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    fn queue_for_others(&self, number: usize, change: Change) {
        for (_, queue) in self.others(number) {
            locked(&queue.changes).push_back(change);
            queue.waiting.store(true, Ordering::Release);
        }
    }

    fn others(&self, number: usize) -> impl Iterator<Item = (usize, &Queue)> {
        self.queues.iter().enumerate().filter(move |(other, _)| *other != number)
    }

    fn lock(&self) -> MutexGuard<'_, Server> {
        locked(&self.server)
    }
}

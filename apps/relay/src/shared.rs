//! What all threads of a relay share: the rare work behind one lock, and the queues by which its outcome reaches them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use taut_event::Waker;
use taut_relay::{Change, ClientAddress, Forward, ForwardCounts, Reply, Server, ServerOutput};
use taut_udp::{Transmit, UdpSocket};

use crate::streams::Streams;
use crate::system::locked;

/// Changes on their way to one worker. It takes all of them in each of its turns, and a turn is bounded by messages and bytes whatever the peers send, so
/// the queue holds what the limits on binds and control frames let happen in one turn.
struct Queue {
    changes: Mutex<VecDeque<Change>>,
    /// Whether there are any: asked for every datagram that leads nowhere, so it takes no lock.
    waiting: AtomicBool,
    waker: Waker,
}

/// What one worker has counted, for whoever asks.
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
}

impl Published {
    /// Shows a worker's own counts.
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
    }
}

/// One per relay.
pub(crate) struct Shared {
    server: Mutex<Server>,
    queues: Vec<Queue>,
    pub(crate) published: Vec<Published>,
    pub(crate) streams: Streams,
    stopping: AtomicBool,
}

impl Shared {
    /// For workers that are woken by these, of which the last one has the connections.
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
        }
    }

    /// Does something with the rules for worker `number`. What changed by it stands in that worker's table and in the queues of the others when this
    /// returns, everywhere in the same order; what is to be sent is added to `replies`.
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

    /// Does something with the rules that changes no table.
    pub(crate) fn ask<R>(&self, act: impl FnOnce(&mut Server) -> R) -> R {
        act(&mut self.lock())
    }

    /// Does something with the rules from outside the workers, and wakes the first worker to carry out the changes and send the replies.
    pub(crate) fn order<R>(&self, act: impl FnOnce(&mut Server) -> R) -> R {
        let outcome = self.ask(act);
        self.queues.iter().take(1).for_each(|queue| queue.waker.wake());
        outcome
    }

    /// Carries out what the other workers decided. Says whether there was anything.
    pub(crate) fn take_changes(&self, number: usize, forward: &mut Forward) -> bool {
        let Some(queue) = self.queues.get(number).filter(|queue| queue.waiting.load(Ordering::Acquire)) else {
            return false;
        };
        let mut changes = locked(&queue.changes);
        queue.waiting.store(false, Ordering::Release);
        changes.drain(..).for_each(|change| forward.apply(&change));
        true
    }

    /// Sends a frame to a client, wherever it is. One that does not leave is lost, as on the way.
    pub(crate) fn send(&self, socket: &UdpSocket, place: ClientAddress, contents: &[u8]) {
        match place {
            ClientAddress::Udp(destination) => {
                let _ = socket.send(&[Transmit { destination, contents, segment_size: 0, ecn: 0 }]);
            }
            ClientAddress::Stream(number) => self.streams.push(number, contents),
        }
    }

    /// Has all workers end.
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

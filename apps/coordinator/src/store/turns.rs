//! Turns at the database: a fixed number at a time, given to parties in rotation (law 15).
//!
//! A queue in order of arrival would let the members of one large network keep the one writer for themselves: each of them may ask once a
//! second. Here each party has a queue of its own, and the queues are served one after the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Turns, and the callers that wait for one. While anyone waits no turn is free.
pub(super) struct Turns<P: Ord + Copy>(Arc<Mutex<Queues<P>>>);

struct Queues<P: Ord + Copy> {
    free: usize,
    /// Parties that wait, each once, in the order in which they are served.
    order: VecDeque<P>,
    waiting: BTreeMap<P, VecDeque<oneshot::Sender<Turn<P>>>>,
}

/// The right to use the database now; the next caller gets it when this is dropped.
pub(super) struct Turn<P: Ord + Copy>(Option<Arc<Mutex<Queues<P>>>>);

impl<P: Ord + Copy> Turns<P> {
    /// `count` turns at a time, all of them free.
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Queues { free: count, order: VecDeque::new(), waiting: BTreeMap::new() })))
    }

    /// Waits for a turn. Dropping this future gives the place in the queue up.
    pub(super) async fn take(&self, party: P) -> Turn<P> {
        let receiver = {
            let mut queues = lock(&self.0);
            if queues.free > 0 {
                queues.free -= 1;
                return Turn(Some(Arc::clone(&self.0)));
            }
            queues.enter(party)
        };
        receiver.await.expect("the queues live as long as what waits in them")
    }
}

impl<P: Ord + Copy> Queues<P> {
    fn enter(&mut self, party: P) -> oneshot::Receiver<Turn<P>> {
        let (sender, receiver) = oneshot::channel();
        let queue = self.waiting.entry(party).or_default();
        if queue.is_empty() {
            self.order.push_back(party);
        }
        // Callers that gave up have waited longest. They go, so that the queue is no longer than what waits.
        while queue.front().is_some_and(oneshot::Sender::is_closed) {
            queue.pop_front();
        }
        queue.push_back(sender);
        receiver
    }

    /// Returns the caller that is next, and moves its party to the end of the order.
    fn next(&mut self) -> Option<oneshot::Sender<Turn<P>>> {
        let party = self.order.pop_front()?;
        let queue = self.waiting.get_mut(&party)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&party);
        } else {
            self.order.push_back(party);
        }
        next
    }
}

impl<P: Ord + Copy> Drop for Turn<P> {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        let mut queues = lock(&shared);
        while let Some(next) = queues.next() {
            match next.send(Self(Some(Arc::clone(&shared)))) {
                Ok(()) => return,
                // That caller gave up. Its turn must not be dropped as one: the queues are locked here.
                Err(mut unused) => unused.0 = None,
            }
        }
        queues.free += 1;
    }
}

fn lock<P: Ord + Copy>(queues: &Mutex<Queues<P>>) -> MutexGuard<'_, Queues<P>> {
    // Nothing in here is left half done by a panic: every change is one call.
    queues.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: &mut Pin<&mut F>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn taken<F: Future>(future: F) -> F::Output {
        match poll(&mut pin!(future)) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("there was no turn"),
        }
    }

    #[test]
    fn fault_e21_a_crowd_of_one_party_does_not_delay_the_others() {
        let turns = Turns::new(1);
        let mut held = Some(taken(turns.take(1)));
        let parties = std::iter::repeat_n(1, 100).chain([2, 3]);
        let mut waiting: Vec<_> = parties.map(|party| (party, Box::pin(turns.take(party)))).collect();
        assert!(waiting.iter_mut().all(|(_, take)| poll(&mut take.as_mut()).is_pending()));
        let mut served = Vec::new();
        while served.len() < 5 {
            drop(held.take());
            let next = waiting.iter_mut().position(|(_, take)| match poll(&mut take.as_mut()) {
                Poll::Ready(turn) => held.replace(turn).is_none(),
                Poll::Pending => false,
            });
            served.push(waiting.remove(next.unwrap()).0);
        }
        assert_eq!(served, [1, 2, 3, 1, 1]);
    }

    #[test]
    fn a_caller_that_gives_up_leaves_its_turn_to_the_next() {
        let turns = Turns::new(2);
        let (one, other) = (taken(turns.take(1)), taken(turns.take(1)));
        let mut last = pin!(turns.take(2));
        {
            let mut gone: Vec<_> = (0..10).map(|_| Box::pin(turns.take(1))).collect();
            assert!(gone.iter_mut().all(|waiting| poll(&mut waiting.as_mut()).is_pending()));
            assert!(poll(&mut last).is_pending());
            // One of them was given its turn, and gave up before it knew.
            drop(one);
        }
        let Poll::Ready(turn) = poll(&mut last) else { panic!("the turn was lost") };
        drop((turn, other));
        let all: Vec<_> = (0..2).map(|_| taken(turns.take(3))).collect();
        assert_eq!(lock(&turns.0).free, 0);
        drop(all);
        let queues = lock(&turns.0);
        assert_eq!((queues.free, queues.waiting.len(), queues.order.len()), (2, 0, 0));
    }

    #[test]
    fn a_queue_is_no_longer_than_what_waits() {
        let turns = Turns::new(1);
        let _held = taken(turns.take(1));
        for _ in 0..1_000 {
            assert!(poll(&mut pin!(turns.take(1))).is_pending());
        }
        let queues = lock(&turns.0);
        assert!(queues.waiting[&1].len() <= 2);
        assert_eq!(queues.order.len(), 1);
    }
}

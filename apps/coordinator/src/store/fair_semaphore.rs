//! A fair semaphore: a fixed number of permits, given to parties in rotation (law 15).
//!
//! With one queue in order of arrival, the members of a large network could occupy the one writer, because each may ask once a second. Here each party has a
//! queue of its own, and the queues are served one after the other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The semaphore. While a caller waits, no permit is free.
pub(super) struct FairSemaphore<P: Ord + Copy>(Arc<Mutex<Queues<P>>>);

struct Queues<P: Ord + Copy> {
    free: usize,
    /// Parties with waiting callers, each once, in the order of service.
    order: VecDeque<P>,
    waiting: BTreeMap<P, VecDeque<oneshot::Sender<Permit<P>>>>,
}

/// A permit to use the database. Dropping it passes it to the next caller.
pub(super) struct Permit<P: Ord + Copy>(Option<Arc<Mutex<Queues<P>>>>);

impl<P: Ord + Copy> FairSemaphore<P> {
    /// Returns a semaphore with `count` free permits.
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Queues { free: count, order: VecDeque::new(), waiting: BTreeMap::new() })))
    }

    /// Returns the number of callers that wait for a permit.
    pub(super) fn waiting(&self) -> usize {
        let is_waiting = |sender: &&oneshot::Sender<Permit<P>>| !sender.is_closed();
        lock(&self.0).waiting.values().flatten().filter(is_waiting).count()
    }

    /// Waits for a permit. Dropping this future gives up the place in the queue.
    pub(super) async fn take(&self, party: P) -> Permit<P> {
        let receiver = {
            let mut queues = lock(&self.0);
            if queues.free > 0 {
                queues.free -= 1;
                return Permit(Some(Arc::clone(&self.0)));
            }
            queues.enter(party)
        };
        receiver.await.expect("the queues live as long as what waits in them")
    }
}

impl<P: Ord + Copy> Queues<P> {
    fn enter(&mut self, party: P) -> oneshot::Receiver<Permit<P>> {
        let (sender, receiver) = oneshot::channel();
        let queue = self.waiting.entry(party).or_default();
        if queue.is_empty() {
            self.order.push_back(party);
        }
        // Callers that gave up are at the front. They are removed, so that the queue is no longer than the number of waiting callers.
        while queue.front().is_some_and(oneshot::Sender::is_closed) {
            queue.pop_front();
        }
        queue.push_back(sender);
        receiver
    }

    /// Returns the next caller, and moves its party to the end of the order.
    fn next(&mut self) -> Option<oneshot::Sender<Permit<P>>> {
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

impl<P: Ord + Copy> Drop for Permit<P> {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        let mut queues = lock(&shared);
        while let Some(next) = queues.next() {
            match next.send(Self(Some(Arc::clone(&shared)))) {
                Ok(()) => return,
                // The caller gave up. Its permit must not run `drop`, because the queues are locked here.
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
    fn fault_e21_many_callers_of_one_party_do_not_delay_other_parties() {
        let semaphore = FairSemaphore::new(1);
        let mut held = Some(taken(semaphore.take(1)));
        let parties = std::iter::repeat_n(1, 100).chain([2, 3]);
        let mut waiting: Vec<_> = parties.map(|party| (party, Box::pin(semaphore.take(party)))).collect();
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
    fn a_caller_that_gives_up_leaves_its_permit_to_the_next() {
        let semaphore = FairSemaphore::new(2);
        let (one, other) = (taken(semaphore.take(1)), taken(semaphore.take(1)));
        let mut last = pin!(semaphore.take(2));
        {
            let mut gone: Vec<_> = (0..10).map(|_| Box::pin(semaphore.take(1))).collect();
            assert!(gone.iter_mut().all(|waiting| poll(&mut waiting.as_mut()).is_pending()));
            assert!(poll(&mut last).is_pending());
            // One of them was given its turn, and gave up before it knew.
            drop(one);
        }
        let Poll::Ready(turn) = poll(&mut last) else { panic!("the turn was lost") };
        drop((turn, other));
        let all: Vec<_> = (0..2).map(|_| taken(semaphore.take(3))).collect();
        assert_eq!(lock(&semaphore.0).free, 0);
        drop(all);
        let queues = lock(&semaphore.0);
        assert_eq!((queues.free, queues.waiting.len(), queues.order.len()), (2, 0, 0));
    }

    #[test]
    fn a_queue_is_no_longer_than_its_waiting_callers() {
        let semaphore = FairSemaphore::new(1);
        let _held = taken(semaphore.take(1));
        for _ in 0..1_000 {
            assert!(poll(&mut pin!(semaphore.take(1))).is_pending());
        }
        let queues = lock(&semaphore.0);
        assert!(queues.waiting[&1].len() <= 2);
        assert_eq!(queues.order.len(), 1);
    }
}

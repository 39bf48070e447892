use super::{KEPT, Receiver, UNBOUNDED, channel};
use crate::{Events, Interest, Poller, Waker};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{TryRecvError, TrySendError};
use std::thread;
use std::time::Duration;

/// Items of a test with threads.
const MANY: usize = 100_000;

fn all<T>(receiver: &Receiver<T>) -> Vec<T> {
    std::iter::from_fn(|| receiver.try_recv().ok()).collect()
}

/// Receives until all senders are gone.
fn all_until_the_end<T>(receiver: &Receiver<T>) -> Vec<T> {
    let mut received = Vec::new();
    loop {
        match receiver.try_recv() {
            Ok(item) => received.push(item),
            Err(TryRecvError::Empty) => thread::yield_now(),
            Err(TryRecvError::Disconnected) => return received,
        }
    }
}

#[test]
fn items_arrive_in_order() {
    let (sender, receiver) = channel(UNBOUNDED);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    (0..5).for_each(|number| sender.try_send(number).unwrap());
    assert_eq!(receiver.try_recv(), Ok(0));
    // The receiver has taken out the first five by now.
    (5..9).for_each(|number| sender.try_send(number).unwrap());
    assert_eq!(all(&receiver), (1..9).collect::<Vec<_>>());
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn the_bound_counts_items_that_the_receiver_took_out_and_did_not_return_yet() {
    let (sender, receiver) = channel(4);
    (0..4).for_each(|number| sender.try_send(number).unwrap());
    assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
    for number in 4..40 {
        assert_eq!(receiver.try_recv(), Ok(number - 4));
        assert_eq!(sender.try_send(number), Ok(()), "one place is free");
        assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)), "and no second one");
    }
    assert_eq!(all(&receiver), [36, 37, 38, 39]);
}

#[test]
fn the_receiver_gets_what_was_sent_before_the_last_sender_was_gone() {
    let (sender, receiver) = channel(4);
    let second = sender.clone();
    sender.try_send(1).unwrap();
    drop(sender);
    second.try_send(2).unwrap();
    assert_eq!(all(&receiver), [1, 2]);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "one sender is left");
    second.try_send(3).unwrap();
    drop(second);
    assert_eq!(receiver.try_recv(), Ok(3));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
}

#[test]
fn a_sender_gets_its_item_back_when_the_receiver_is_gone() {
    let (sender, receiver) = channel(2);
    sender.try_send(1).unwrap();
    drop(receiver);
    for _ in 0..5 {
        assert_eq!(sender.try_send(2), Err(TrySendError::Disconnected(2)), "not full, however often");
        assert_eq!(sender.send(3).unwrap_err().0, 3);
    }
}

#[test]
fn the_items_that_are_left_are_dropped_with_the_receiver() {
    let (sender, receiver) = channel(10);
    let item = Arc::new(());
    (0..4).for_each(|_| sender.try_send(Arc::clone(&item)).unwrap());
    drop(receiver.try_recv().unwrap());
    (0..2).for_each(|_| sender.try_send(Arc::clone(&item)).unwrap());
    assert_eq!(Arc::strong_count(&item), 1 + 5);
    drop(receiver);
    assert_eq!(Arc::strong_count(&item), 1, "neither those taken out nor those in the queue are left");
    drop(sender.try_send(Arc::clone(&item)));
    assert_eq!(Arc::strong_count(&item), 1);
}

#[test]
fn an_item_may_hold_an_end_of_its_queue() {
    struct Knot(#[expect(dead_code, reason = "only dropped")] super::Sender<Knot>);
    let (sender, receiver) = channel(2);
    sender.try_send(Knot(sender.clone())).unwrap();
    drop(receiver);
    assert!(matches!(sender.try_send(Knot(sender.clone())), Err(TrySendError::Disconnected(_))));
}

#[test]
fn an_empty_queue_keeps_little_memory() {
    let (sender, receiver) = channel(UNBOUNDED);
    for _ in 0..3 {
        (0..1_000).for_each(|_| sender.try_send([0_u8; 100]).unwrap());
        assert_eq!(all(&receiver).len(), 1_000);
        let kept = receiver.taken.borrow().capacity() + receiver.shared.sent.lock().unwrap().capacity();
        assert!(kept * 100 <= 2 * KEPT, "{kept} places are kept");
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn both_ends_share_one_cache_line() {
    assert_eq!(size_of::<super::Shared<[u8; 200]>>(), 64);
}

#[test]
fn no_item_of_a_thread_is_lost_or_out_of_order() {
    for bound in [1, 3, 32] {
        let (sender, receiver) = channel(bound);
        let thread = thread::spawn(move || (0..MANY).for_each(|number| sender.send(number).unwrap()));
        assert!(all_until_the_end(&receiver).into_iter().eq(0..MANY));
        thread.join().unwrap();
    }
}

#[test]
fn no_item_of_several_threads_is_lost() {
    const SENDERS: usize = 4;
    let (sender, receiver) = channel(8);
    let send = |own: usize| {
        let sender = sender.clone();
        thread::spawn(move || (0..MANY / SENDERS).for_each(|number| sender.send((own, number)).unwrap()))
    };
    let threads: Vec<_> = (0..SENDERS).map(send).collect();
    drop(sender);
    let mut next = [0; SENDERS];
    for (from, number) in all_until_the_end(&receiver) {
        assert_eq!(number, next[from]);
        next[from] += 1;
    }
    assert_eq!(next, [MANY / SENDERS; SENDERS]);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_receiver_that_sleeps_until_it_is_woken_gets_every_item() {
    let (waker, sleeper) = (Waker::new().unwrap(), Poller::new().unwrap());
    sleeper.add(waker.as_fd(), 0, Interest::READ).unwrap();
    let (sender, receiver) = channel(32);
    let remote = waker.clone();
    let thread = thread::spawn(move || {
        for number in 0..MANY {
            let mut refused = sender.try_send(number);
            while let Err(TrySendError::Full(number)) = refused {
                thread::yield_now();
                refused = sender.try_send(number);
            }
            remote.wake();
        }
    });
    let (mut next, mut events) = (0, Events::with_capacity(1));
    while next < MANY {
        sleeper.wait(&mut events, Some(Duration::from_secs(60))).unwrap();
        assert!(!events.is_empty(), "an item was sent without a wake: {next} came");
        waker.drain();
        while let Ok(number) = receiver.try_recv() {
            assert_eq!(number, next);
            next += 1;
        }
    }
    thread.join().unwrap();
}

#[test]
fn a_sender_that_waits_for_room_is_woken_by_it() {
    let (sender, receiver) = channel(1);
    sender.try_send(0).unwrap();
    let thread = thread::spawn(move || sender.send(1).is_ok());
    thread::sleep(Duration::from_millis(20));
    assert!(!thread.is_finished(), "it waits");
    assert_eq!(receiver.try_recv(), Ok(0));
    assert!(thread.join().unwrap());
    assert_eq!(all(&receiver), [1]);
}

#[test]
fn all_senders_that_wait_for_room_are_woken_when_the_receiver_is_gone() {
    let (sender, receiver) = channel(1);
    sender.try_send(0).unwrap();
    let send = |number| {
        let sender = sender.clone();
        thread::spawn(move || sender.send(number).unwrap_err().0)
    };
    let threads = [1, 2, 3].map(send);
    thread::sleep(Duration::from_millis(20));
    drop(receiver);
    assert_eq!(threads.map(|thread| thread.join().unwrap()), [1, 2, 3]);
}

#[test]
fn no_item_is_left_when_the_receiver_goes_among_senders_that_wait() {
    for taken in 0..200 {
        let (sender, receiver) = channel(3);
        let item = Arc::new(());
        let threads = [(); 4].map(|()| {
            let (sender, item) = (sender.clone(), Arc::clone(&item));
            thread::spawn(move || while sender.send(Arc::clone(&item)).is_ok() {})
        });
        let mut left = taken;
        while left > 0 {
            left -= u32::from(receiver.try_recv().is_ok());
        }
        drop(receiver);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(Arc::strong_count(&item), 1);
    }
}

use super::{Event, Events, Interest, Poller, decode, round_up_to_milliseconds};
use crate::{Waker, boot_time};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Duration;

const NO_WAIT: Option<Duration> = Some(Duration::ZERO);

fn found(poller: &Poller) -> Vec<Event> {
    let mut events = Events::with_capacity(8);
    poller.wait(&mut events, NO_WAIT).unwrap();
    let found: Vec<_> = events.iter().collect();
    assert_eq!((found.len(), found.is_empty()), (events.len(), events.is_empty()));
    found
}

#[test]
fn only_requested_events_are_reported() {
    let poller = Poller::new().unwrap();
    let (left, mut right) = UnixStream::pair().unwrap();
    poller.add(left.as_fd(), 7, Interest::READ).unwrap();
    assert_eq!(found(&poller), []);

    right.write_all(b"x").unwrap();
    assert_eq!(found(&poller), [Event { token: 7, readable: true, writable: false, hangup: false }]);
    assert_eq!(found(&poller).len(), 1, "level-triggered: unread data is reported again");

    poller.modify(left.as_fd(), 8, Interest::READ_WRITE).unwrap();
    assert_eq!(found(&poller), [Event { token: 8, readable: true, writable: true, hangup: false }]);
    poller.modify(left.as_fd(), 8, Interest::WRITE).unwrap();
    assert_eq!(found(&poller), [Event { token: 8, readable: false, writable: true, hangup: false }]);
    poller.modify(left.as_fd(), 8, Interest::NONE).unwrap();
    assert_eq!(found(&poller), []);

    poller.modify(left.as_fd(), 9, Interest::READ).unwrap();
    poller.remove(left.as_fd());
    poller.remove(left.as_fd());
    assert_eq!(found(&poller), []);
}

#[test]
fn a_closed_peer_is_a_hangup_even_without_interest() {
    let poller = Poller::new().unwrap();
    let (left, right) = UnixStream::pair().unwrap();
    poller.add(left.as_fd(), 1, Interest::NONE).unwrap();
    drop(right);
    assert_eq!(found(&poller), [Event { token: 1, readable: true, writable: true, hangup: true }]);
}

#[test]
fn misuse_is_an_error() {
    let poller = Poller::new().unwrap();
    let (left, _right) = UnixStream::pair().unwrap();
    assert_eq!(poller.modify(left.as_fd(), 1, Interest::READ).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    poller.add(left.as_fd(), 1, Interest::READ).unwrap();
    assert_eq!(poller.add(left.as_fd(), 1, Interest::READ).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
}

#[test]
fn events_above_the_capacity_are_reported_by_later_waits() {
    let poller = Poller::new().unwrap();
    let wakers: Vec<Waker> = (0..3).map(|_| Waker::new().unwrap()).collect();
    for (token, waker) in (0..).zip(&wakers) {
        poller.add(waker.as_fd(), token, Interest::READ).unwrap();
        waker.wake();
    }
    let mut events = Events::with_capacity(1);
    let mut seen = Vec::new();
    for _ in 0..3 {
        poller.wait(&mut events, NO_WAIT).unwrap();
        let event = events.iter().next().unwrap();
        assert_eq!(events.len(), 1);
        wakers[usize::try_from(event.token).unwrap()].drain();
        seen.push(event.token);
    }
    seen.sort_unstable();
    assert_eq!(seen, [0, 1, 2]);
}

#[test]
fn a_short_timeout_sleeps_at_least_that_long_with_and_without_precise_waits() {
    for precise in [true, false] {
        let poller = Poller::new().unwrap();
        poller.precise.store(precise, Ordering::Relaxed);
        let before = boot_time();
        poller.wait(&mut Events::with_capacity(1), Some(Duration::from_micros(300))).unwrap();
        assert!(boot_time() - before >= Duration::from_micros(300), "precise: {precise}");
    }
}

#[test]
fn the_fallback_without_precise_waits_reports_events() {
    let poller = Poller::new().unwrap();
    poller.precise.store(false, Ordering::Relaxed);
    let waker = Waker::new().unwrap();
    poller.add(waker.as_fd(), 5, Interest::READ).unwrap();
    waker.wake();
    let mut events = Events::with_capacity(0);
    poller.wait(&mut events, None).unwrap();
    assert_eq!(events.iter().map(|event| event.token).collect::<Vec<_>>(), [5]);
}

#[test]
fn rounding_never_shortens() {
    assert_eq!(round_up_to_milliseconds(Duration::ZERO), 0);
    assert_eq!(round_up_to_milliseconds(Duration::from_nanos(1)), 1);
    assert_eq!(round_up_to_milliseconds(Duration::from_millis(5)), 5);
    assert_eq!(round_up_to_milliseconds(Duration::from_micros(5_001)), 6);
    assert_eq!(round_up_to_milliseconds(Duration::MAX), i32::MAX);
}

#[test]
fn an_endless_duration_is_not_an_error() {
    let poller = Poller::new().unwrap();
    let waker = Waker::new().unwrap();
    poller.add(waker.as_fd(), 5, Interest::READ).unwrap();
    waker.wake();
    let mut events = Events::with_capacity(1);
    poller.wait(&mut events, Some(Duration::MAX)).unwrap();
    assert_eq!(events.len(), 1);
}

#[test]
fn errors_are_hangups() {
    let event = decode(libc::EPOLLERR.cast_unsigned(), 3);
    assert_eq!(event, Event { token: 3, readable: true, writable: true, hangup: true });
}

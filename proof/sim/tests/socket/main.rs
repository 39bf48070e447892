//! The replay window of a real lane: its thread, its UDP socket, its TUN, the kernel between them. The peer in these tests seals packets under any
//! counter. Each packet reaches the application behind the TUN or is counted under one drop reason, and the tests check both.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of tests may stop at the first surprise, as tests do"
)]

mod hold;
mod port_search;
mod rig;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rig::{IN_FLIGHT, Peer, Rig};
use taut_lane::DropReason;
use taut_namespace::in_namespace;
use taut_node::{FromLane, ToLane};
use taut_testkit::Seeded;
use taut_tunnel::REJECT_AFTER_MESSAGES;

/// Counters that the window covers, including the highest one.
const REACH: u64 = 8_128;

/// A lane with one peer and its session.
fn rig() -> (Rig, Peer) {
    let peer = Peer::new(2, 1);
    let rig = Rig::new(&[&peer]);
    rig.tell(peer.session(0));
    (rig, peer)
}

fn once(delivered: &[u64]) -> BTreeSet<u64> {
    let set: BTreeSet<u64> = delivered.iter().copied().collect();
    assert_eq!(set.len(), delivered.len(), "something was delivered twice");
    set
}

#[test]
fn fault_c1_every_edge_of_the_window_through_the_real_socket() {
    in_namespace(|| {
        let (rig, peer) = rig();
        let (new, seen, limit) = (None, Some(DropReason::Replayed), Some(DropReason::NotAuthentic));
        let (far, farther, top) = (1_u64 << 32, 1_u64 << 60, REJECT_AFTER_MESSAGES - 1);
        let steps = [
            (0, new),
            (0, seen),
            (1, new),
            (1, seen),
            // One window ahead: 2 is the oldest counter inside.
            (REACH + 1, new),
            (REACH + 1, seen),
            (1, seen),
            (2, new),
            (2, seen),
            (3, new),
            // Two further: 3 is outside, 4 is inside.
            (REACH + 3, new),
            (3, seen),
            (4, new),
            // Steps of one word, and of one less and one more than the whole ring.
            (REACH + 64, new),
            (65, new),
            (64, seen),
            (3 * REACH, new),
            (2 * REACH + 1, new),
            (2 * REACH, seen),
            (3 * REACH + 8_191, new),
            (3 * REACH + 1, seen),
            (3 * REACH + 64, new),
            (3 * REACH + 8_191 + 8_192, new),
            (3 * REACH + 8_192, seen),
            (3 * REACH + 8_256, new),
            // Beyond 32 bits and back.
            (far - 1, new),
            (far, new),
            (far + 5, new),
            (far + 4, new),
            (5, seen),
            (far - 2, new),
            (far + 6 - REACH, new),
            (far + 5 - REACH, seen),
            (farther, new),
            (far + 7, seen),
            // The last counters that a key may use.
            (REJECT_AFTER_MESSAGES, limit),
            (u64::MAX, limit),
            (farther + 1, new),
            (top, new),
            (top, seen),
            (REJECT_AFTER_MESSAGES, limit),
            (top + 1 - REACH, new),
            (top + 1 - REACH, seen),
            (top - REACH, seen),
            (0, seen),
            (top - 1, new),
        ];
        for (number, (counter, verdict)) in steps.into_iter().enumerate() {
            let number = number as u64;
            let before = [DropReason::Replayed, DropReason::NotAuthentic].map(|reason| rig.dropped(reason));
            let delivered = rig.play(&rig.wire, &[peer.frame(counter, number)]);
            let after = [DropReason::Replayed, DropReason::NotAuthentic].map(|reason| rig.dropped(reason));
            let expected = match verdict {
                None => ([0, 0], vec![number]),
                Some(DropReason::Replayed) => ([1, 0], vec![]),
                Some(_) => ([0, 1], vec![]),
            };
            let seen = ([after[0] - before[0], after[1] - before[1]], delivered);
            assert_eq!(
                seen, expected,
                "step {number}: counter {counter}, replayed and not authentic, and what was delivered"
            );
        }
    });
}

#[test]
fn fault_c2_every_packet_twice_is_delivered_once() {
    in_namespace(|| {
        let (rig, peer) = rig();
        let frames: Vec<Vec<u8>> = (0..10_000).map(|number| peer.frame(number, number)).collect();
        let twice: Vec<Vec<u8>> = frames.iter().flat_map(|frame| [frame.clone(), frame.clone()]).collect();
        let delivered = rig.play(&rig.wire, &twice);
        assert!(delivered.iter().copied().eq(0..10_000), "each once, in order; {} were delivered", delivered.len());
        assert_eq!(rig.dropped(DropReason::Replayed), 10_000);
        assert_eq!(rig.play(&rig.wire, &frames).len(), 0);
        assert_eq!(rig.dropped(DropReason::Replayed), 20_000);
    });
}

/// Returns `count` counters, of which one in `every` comes `late` places too late.
fn delayed(count: u64, every: u64, late: u64, chance: &mut Seeded) -> Vec<u64> {
    let mut order: Vec<(u64, u64)> = (0..count)
        .map(|counter| (if chance.next_u64().is_multiple_of(every) { counter + late } else { counter }, counter))
        .collect();
    // A late counter comes right after the counter whose place it took.
    order.sort_by_key(|(place, counter)| (*place, *counter < *place));
    order.into_iter().map(|(_, counter)| counter).collect()
}

#[test]
fn fault_c3_eight_thousand_places_late_is_delivered_and_more_is_dropped() {
    in_namespace(|| {
        let (rig, peer) = rig();
        let mut chance = Seeded::new(3);
        let count = 24_000;
        let order = delayed(count, 5, 8_000, &mut chance);
        assert!(order.windows(2).filter(|pair| pair[0] > pair[1]).count() > 3_000, "it is out of order");
        let frames: Vec<_> = order.iter().map(|counter| peer.frame(*counter, *counter)).collect();
        assert_eq!(once(&rig.play(&rig.wire, &frames)).len(), 24_000);
        assert_eq!(rig.dropped(DropReason::Replayed), 0);

        // The same with counters that are 8,200 places late: exactly the late ones are missing that have others ahead of them.
        let base = 1_u64 << 40;
        let order = delayed(count, 5, 8_200, &mut chance);
        let mut highest = 0;
        let mut late = BTreeSet::new();
        for counter in &order {
            if highest >= counter + REACH {
                late.insert(base + counter);
            }
            highest = highest.max(*counter);
        }
        assert!(late.len() > 2_000, "{} are late", late.len());
        let frames: Vec<_> = order.iter().map(|counter| peer.frame(base + counter, base + counter)).collect();
        let delivered = once(&rig.play(&rig.wire, &frames));
        let all: BTreeSet<u64> = (base..base + count).collect();
        assert!(all.difference(&delivered).eq(&late), "{} delivered, {} late", delivered.len(), late.len());
        assert_eq!(rig.dropped(DropReason::Replayed), late.len() as u64);
        assert_eq!(rig.play(&rig.wire, &[peer.frame(base + count, 7)]), [7], "the tunnel is fine");
    });
}

/// The receiving half of fault C6: frames that a relay carried are replayed from the relay or from another address. The relay's own tests cover the
/// relay's half.
#[test]
fn fault_c6_frames_that_come_again_over_another_path_are_dropped_and_move_nothing() {
    in_namespace(|| {
        let (rig, peer) = rig();
        let frames: Vec<Vec<u8>> = (0..5_000).map(|number| peer.frame(number, number)).collect();
        assert_eq!(rig.play(&rig.wire, &frames).len(), 5_000);
        let (relay, other) = (Rig::place(2), Rig::place(3));
        assert_eq!(rig.play(&relay, &frames).len(), 0);
        let backwards: Vec<_> = frames.iter().rev().cloned().collect();
        assert_eq!(rig.play(&other, &backwards).len(), 0);
        assert_eq!(rig.dropped(DropReason::Replayed), 10_000);
        let home = rig.wire.local_addr().unwrap();
        while let Some(said) = rig.hear() {
            assert!(!matches!(&said, FromLane::Moved { way, .. } if *way != home.into()), "{said:?}");
        }
        rig.app.send_to(b"answer", (peer.inner, 9000)).unwrap();
        let (_, from) = rig.wire.recv_from(&mut [0; 2000]).unwrap();
        assert_eq!(from, rig.target);
        for place in [relay, other] {
            place.set_nonblocking(true).unwrap();
            assert!(place.recv(&mut [0; 2000]).is_err(), "the answer went to {place:?}, too");
        }
    });
}

/// Several threads send packets of one session, each packet twice, while the agent adds and removes another peer's sessions as fast as its queue accepts
/// them and that peer sends on them. The lane alone owns the window, so every verdict is exact. One session in 64 stays until the lane has received a
/// packet on it: with any scheduling some sessions are used and some are unknown.
#[test]
fn fault_c8_threads_that_send_and_commands_that_race_leave_every_verdict_exact() {
    in_namespace(|| {
        const EACH: u64 = 10_000;
        const THREADS: u64 = 3;
        const AHEAD: u64 = 500;
        const FLICKER: u64 = 1 << 40;
        const SESSIONS: u32 = 200;
        let (steady, first) = (Peer::new(2, 1), Peer::new(3, 2));
        let rig = Rig::new(&[&steady, &first]);
        rig.tell(steady.session(0));
        let (session, stop, running, flickers) =
            (AtomicU32::new(2), AtomicBool::new(false), AtomicU64::new(THREADS + 1), AtomicU64::new(0));
        let at: [AtomicU64; THREADS as usize] = Default::default();
        let delivered = std::thread::scope(|scope| {
            // The counters of the threads interleave: no thread is ahead by more than a fraction of the window.
            for thread in 0..THREADS {
                let (rig, steady, running, at) = (&rig, &steady, &running, &at);
                scope.spawn(move || {
                    let place = Rig::place(1);
                    for number in 0..EACH {
                        at[thread as usize].store(number, Ordering::SeqCst);
                        while at.iter().any(|at| at.load(Ordering::SeqCst) + AHEAD < number) {
                            std::thread::yield_now();
                        }
                        let frame = steady.frame(number * THREADS + thread, number * THREADS + thread);
                        rig.send_from(&place, &frame);
                        rig.send_from(&place, &frame);
                    }
                    at[thread as usize].store(u64::MAX - AHEAD, Ordering::SeqCst);
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
            scope.spawn(|| {
                let place = Rig::place(4);
                while running.load(Ordering::SeqCst) > 1 || session.load(Ordering::SeqCst) < SESSIONS {
                    let number = flickers.fetch_add(1, Ordering::SeqCst);
                    let peer = Peer::new(3, session.load(Ordering::SeqCst));
                    rig.send_from(&place, &peer.frame(number, FLICKER + number));
                }
                running.fetch_sub(1, Ordering::SeqCst);
            });
            scope.spawn(|| {
                for number in 3.. {
                    while rig.hear().is_some() {}
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    let peer = Peer::new(3, number);
                    rig.tell(ToLane::RemovePeer(peer.id));
                    rig.tell(ToLane::AddPeer { peer: peer.id, persistent_keepalive: None, roams: true });
                    session.store(number, Ordering::SeqCst);
                    rig.tell(peer.session(number.into()));
                    // Every frame before the last ones in flight has been judged.
                    let heard = flickers.load(Ordering::SeqCst) + 2 * IN_FLIGHT;
                    while number % 64 == 0 && flickers.load(Ordering::SeqCst) < heard && !stop.load(Ordering::SeqCst) {
                        while rig.hear().is_some() {}
                        std::thread::yield_now();
                    }
                    std::thread::yield_now();
                }
            });
            let delivered = rig.drain(|| running.load(Ordering::SeqCst) > 0);
            stop.store(true, Ordering::SeqCst);
            delivered
        });
        let delivered = once(&delivered);
        let (steady, flickered): (Vec<u64>, Vec<u64>) = delivered.iter().partition(|number| **number < FLICKER);
        assert!(steady.iter().copied().eq(0..EACH * THREADS), "{} of {}", steady.len(), EACH * THREADS);
        assert_eq!(rig.dropped(DropReason::Replayed), EACH * THREADS, "each copy, and nothing else");
        let (sent, sessions) = (flickers.load(Ordering::SeqCst), session.load(Ordering::SeqCst));
        assert_eq!(flickered.len() as u64 + rig.dropped(DropReason::UnknownIndex), sent);
        assert!(!flickered.is_empty() && sessions >= SESSIONS, "{} packets on {sessions} sessions", flickered.len());

        // Packets on the sessions of a removed peer are dropped; the other peer is not affected.
        rig.tell(ToLane::RemovePeer(first.id));
        // This packet proves that the removal is done: the lane executes its commands in order, and all of them before it reports an unknown
        // index.
        let renewed = Peer::new(2, 1 << 24);
        rig.tell(renewed.session(1 << 40));
        assert_eq!(rig.play(&rig.wire, &[renewed.frame(0, 7)]), [7]);
        let unknown = rig.dropped(DropReason::UnknownIndex);
        let frames: Vec<_> =
            (sessions - 50..=sessions).map(|number| Peer::new(3, number).frame(FLICKER, number.into())).collect();
        assert_eq!(rig.play(&rig.wire, &frames), [], "a removed peer is heard");
        assert_eq!(rig.dropped(DropReason::UnknownIndex) - unknown, frames.len() as u64);
    });
}

//! The replay window of a real lane: its thread, its UDP socket, its TUN, the kernel between them. A simulated peer seals packets under any counter. Each
//! packet ends at the application behind the TUN or in one drop counter, and the tests count both.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of tests may stop at the first surprise, as tests do"
)]

mod hold;
mod port_search;
mod rig;
mod too_long;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use rig::{IN_FLIGHT, Peer, Rig};
use taut_lane::DropReason;
use taut_namespace::in_namespace;
use taut_node::{FromLane, ToLane};
use taut_testkit::Seeded;
use taut_tunnel::REJECT_AFTER_MESSAGES;

/// Length of the replay window, 8,128 counters, with the highest one included.
const REACH: u64 = 8_128;

/// Returns a lane with one peer and its session.
fn rig() -> (Rig, Peer) {
    let peer = Peer::new(2, 1);
    let rig = Rig::new(&[&peer]);
    rig.tell(peer.session(0));
    (rig, peer)
}

fn once(delivered: &[u64]) -> BTreeSet<u64> {
    let set: BTreeSet<u64> = delivered.iter().copied().collect();
    assert_eq!(set.len(), delivered.len(), "a packet was delivered twice");
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
            // Ahead by the window's length: 2 is the oldest counter inside.
            (REACH + 1, new),
            (REACH + 1, seen),
            (1, seen),
            (2, new),
            (2, seen),
            (3, new),
            // Two more: 3 has left the window, and 4 has not.
            (REACH + 3, new),
            (3, seen),
            (4, new),
            // Word by word, and by one less and one more than the whole ring.
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
            // The last counters of a key.
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
fn fault_c2_a_packet_that_comes_twice_is_delivered_once() {
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

/// Returns `count` counters, of which one in `every` comes `late` places later than its turn.
fn delayed(count: u64, every: u64, late: u64, chance: &mut Seeded) -> Vec<u64> {
    let mut order: Vec<(u64, u64)> = (0..count)
        .map(|counter| (if chance.next_u64().is_multiple_of(every) { counter + late } else { counter }, counter))
        .collect();
    // A late counter comes right after the counter whose place it took.
    order.sort_by_key(|(place, counter)| (*place, *counter < *place));
    order.into_iter().map(|(_, counter)| counter).collect()
}

#[test]
fn fault_c3_packets_up_to_8_000_places_late_are_delivered_and_later_ones_dropped() {
    in_namespace(|| {
        let (rig, peer) = rig();
        let mut chance = Seeded::new(3);
        let count = 24_000;
        let order = delayed(count, 5, 8_000, &mut chance);
        assert!(order.windows(2).filter(|pair| pair[0] > pair[1]).count() > 3_000, "it is out of order");
        let frames: Vec<_> = order.iter().map(|counter| peer.frame(*counter, *counter)).collect();
        assert_eq!(once(&rig.play(&rig.wire, &frames)).len(), 24_000);
        assert_eq!(rig.dropped(DropReason::Replayed), 0);

        // The same, 8,200 places late: exactly the late packets are missing, if a later counter was ahead of them.
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
        assert_eq!(rig.play(&rig.wire, &[peer.frame(base + count, 7)]), [7], "the tunnel still works");
    });
}

/// The receiving half of fault C6: frames that a relay carried come again, from the relay or from elsewhere.
#[test]
fn fault_c6_frames_that_come_again_on_another_path_are_dropped_and_do_not_change_the_path() {
    in_namespace(|| {
        let (rig, peer) = rig();
        let frames: Vec<Vec<u8>> = (0..5_000).map(|number| peer.frame(number, number)).collect();
        assert_eq!(rig.play(&rig.wire, &frames).len(), 5_000);
        let (relay, other) = (Rig::endpoint(2), Rig::endpoint(3));
        assert_eq!(rig.play(&relay, &frames).len(), 0);
        let backwards: Vec<_> = frames.iter().rev().cloned().collect();
        assert_eq!(rig.play(&other, &backwards).len(), 0);
        assert_eq!(rig.dropped(DropReason::Replayed), 10_000);
        let home = rig.wire.local_addr().unwrap();
        while let Some(message) = rig.hear() {
            assert!(!matches!(&message, FromLane::Moved { way, .. } if *way != home.into()), "{message:?}");
        }
        rig.app.send_to(b"answer", (peer.inner, 9000)).unwrap();
        let (_, from) = rig.wire.recv_from(&mut [0; 2000]).unwrap();
        assert_eq!(from, rig.target);
        for socket in [relay, other] {
            socket.set_nonblocking(true).unwrap();
            assert!(socket.recv(&mut [0; 2000]).is_err(), "the answer went to {socket:?}, too");
        }
    });
}

/// Packets of one session come from several threads, each packet twice. Meanwhile the agent adds and removes another peer's sessions as fast as its queue
/// takes them, and that peer sends on these sessions. A window has one owner, the lane, so every verdict stays exact. One session in 64 stays until the lane
/// has surely received a packet on it: however the threads are scheduled, some packets are delivered and some have an unknown index.
#[test]
fn fault_c8_verdicts_stay_exact_while_threads_send_and_commands_race() {
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
                    let socket = Rig::endpoint(1);
                    for number in 0..EACH {
                        at[thread as usize].store(number, Ordering::SeqCst);
                        while at.iter().any(|at| at.load(Ordering::SeqCst) + AHEAD < number) {
                            std::thread::yield_now();
                        }
                        let frame = steady.frame(number * THREADS + thread, number * THREADS + thread);
                        rig.send_from(&socket, &frame);
                        rig.send_from(&socket, &frame);
                    }
                    at[thread as usize].store(u64::MAX - AHEAD, Ordering::SeqCst);
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
            scope.spawn(|| {
                let socket = Rig::endpoint(4);
                while running.load(Ordering::SeqCst) > 1 || session.load(Ordering::SeqCst) < SESSIONS {
                    let number = flickers.fetch_add(1, Ordering::SeqCst);
                    let peer = Peer::new(3, session.load(Ordering::SeqCst));
                    rig.send_from(&socket, &peer.frame(number, FLICKER + number));
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
                    rig.tell(ToLane::AddPeer { peer: peer.id, roams: true });
                    session.store(number, Ordering::SeqCst);
                    rig.tell(peer.session(number.into()));
                    // All frames have ended that were sent before the last ones on their way.
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

        // Packets on former sessions of a removed peer are dropped; packets of the other peer arrive as before.
        rig.tell(ToLane::RemovePeer(first.id));
        // Once this packet has arrived, the removal was carried out: the lane carries out commands in order, and all of them before it drops a packet with
        // an unknown index.
        let renewed = Peer::new(2, 1 << 24);
        rig.tell(renewed.session(1 << 40));
        assert_eq!(rig.play(&rig.wire, &[renewed.frame(0, 7)]), [7]);
        let unknown = rig.dropped(DropReason::UnknownIndex);
        let frames: Vec<_> =
            (sessions - 50..=sessions).map(|number| Peer::new(3, number).frame(FLICKER, number.into())).collect();
        assert_eq!(rig.play(&rig.wire, &frames), [], "a packet of a removed peer was delivered");
        assert_eq!(rig.dropped(DropReason::UnknownIndex) - unknown, frames.len() as u64);
    });
}

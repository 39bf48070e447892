//! Law 8, counted: after a warm-up a lane core allocates no memory, whatever packets pass it.
//!
//! The rest of the law is tested elsewhere: without an allocation there is no boxed message to pass on, and lab/tests/test_system_calls.py counts system
//! calls per gigabyte.

mod rig;

use rig::{Host, PEERS, at, pair, small, superpacket};
use taut_tally::{Tally, allocations};
use taut_wire::control::Suite;

#[global_allocator]
static TALLY: Tally = Tally;

/// Milliseconds between two rounds, 20, so that timers run in the counted rounds, keepalives and receipts among them.
const ROUND_MS: u64 = 20;
/// Rounds that are not counted.
const WARM_UP: u64 = 600;
/// Rounds in which allocations are counted.
const COUNTED: u64 = 2_000;

/// Runs all rounds, and returns the number of allocations in the counted ones.
fn count(here: &mut Host, there: &mut Host, mut round: impl FnMut(&mut Host, &mut Host, &mut [u8], u64)) -> u64 {
    let mut wire = vec![0; 1 << 16];
    let mut before = 0;
    for number in 0..WARM_UP + COUNTED {
        if number == WARM_UP {
            before = allocations();
        }
        round(here, there, &mut wire, number);
        let now = at(number * ROUND_MS);
        here.turn(now);
        there.turn(now);
        here.deliver(there, &mut wire, now);
        there.deliver(here, &mut wire, now);
    }
    assert!(before > 0, "the allocator counts");
    allocations() - before
}

/// Bytes of TCP payload in a superpacket, 46 segments.
const PAYLOAD: u16 = 46 * 1380;

#[test]
fn superpackets_pass_both_ways_without_an_allocation() {
    for suite in [Suite::ChaCha20Poly1305, Suite::Aes256Gcm] {
        let (mut here, mut there) = pair(suite);
        let (out, back) = (superpacket(1, PAYLOAD, 1380), superpacket(2, PAYLOAD, 1380));
        let counted = count(&mut here, &mut there, |here, there, wire, number| {
            let now = at(number * ROUND_MS);
            here.send(&out, now);
            there.send(&back, now);
            here.deliver(there, wire, now);
            there.deliver(here, wire, now);
        });
        assert_eq!(counted, 0, "{suite:?}");
        for end in [&here, &there] {
            assert_eq!((end.tun.packets, end.dropped()), ((WARM_UP + COUNTED) * 46, 0), "all arrived");
            assert!(end.tun.writes < end.tun.packets / 20, "merged: {} writes", end.tun.writes);
        }
    }
}

/// Through a relay, and on two paths at once.
#[test]
fn superpackets_through_a_relay_pass_both_ways_without_an_allocation() {
    for also in [false, true] {
        let (mut here, mut there) = pair(Suite::Aes256Gcm);
        here.use_relay(also);
        there.use_relay(also);
        // Few enough that the rate of copies is not reached.
        let (out, back) = (superpacket(1, 4 * 1380, 1380), superpacket(2, 4 * 1380, 1380));
        let counted = count(&mut here, &mut there, |here, there, wire, number| {
            let now = at(number * ROUND_MS);
            here.send(&out, now);
            there.send(&back, now);
            here.deliver(there, wire, now);
            there.deliver(here, wire, now);
        });
        assert_eq!(counted, 0, "{also}");
        let copies = if also { (WARM_UP + COUNTED) * 4 } else { 0 };
        for end in [&here, &there] {
            assert_eq!(end.tun.packets, (WARM_UP + COUNTED) * 4, "all arrived");
            assert!(end.dropped() >= copies && (also || end.dropped() == 0), "and their copies");
        }
    }
}

/// On a path that carries shorter packets: TCP is cut to shorter segments.
#[test]
fn superpackets_that_are_cut_shorter_pass_both_ways_without_an_allocation() {
    let (mut here, mut there) = pair(Suite::Aes256Gcm);
    here.use_limit(1_000);
    there.use_limit(1_000);
    let (out, back) = (superpacket(1, PAYLOAD, 1380), superpacket(2, PAYLOAD, 1380));
    let counted = count(&mut here, &mut there, |here, there, wire, number| {
        let now = at(number * ROUND_MS);
        here.send(&out, now);
        there.send(&back, now);
        here.deliver(there, wire, now);
        there.deliver(here, wire, now);
    });
    assert_eq!(counted, 0);
    let segments = u64::from(PAYLOAD.div_ceil(960));
    for end in [&here, &there] {
        assert_eq!((end.tun.packets, end.dropped()), ((WARM_UP + COUNTED) * segments, 0), "all arrived");
        assert!(end.tun.writes < end.tun.packets / 20, "merged: {} writes", end.tun.writes);
    }
}

#[test]
fn small_packets_to_many_peers_pass_both_ways_without_an_allocation() {
    let (mut here, mut there) = pair(Suite::ChaCha20Poly1305);
    let packets = |side| (0..PEERS).map(|peer| small(side, peer, 20 + peer)).collect::<Vec<_>>();
    let (out, back) = (packets(1), packets(2));
    let counted = count(&mut here, &mut there, |here, there, wire, number| {
        let now = at(number * ROUND_MS);
        for (out, back) in out.iter().zip(&back) {
            here.send(out, now);
            there.send(back, now);
        }
        here.deliver(there, wire, now);
        there.deliver(here, wire, now);
    });
    assert_eq!(counted, 0);
    for end in [&here, &there] {
        assert_eq!((end.tun.packets, end.dropped()), ((WARM_UP + COUNTED) * u64::from(PEERS), 0), "all arrived");
    }
}

/// Dropped packets cost no memory either: no route, no IP packet, garbage, an unknown index, a forgery, a replay.
#[test]
fn packets_are_dropped_without_an_allocation() {
    let (mut here, mut there) = pair(Suite::ChaCha20Poly1305);
    let good = small(1, 3, 100);
    let mut no_route = good.clone();
    no_route[10 + 16] = 9;
    let counted = count(&mut here, &mut there, |here, there, wire, number| {
        let now = at(number * ROUND_MS);
        here.send(&no_route, now);
        here.send(&good[..20], now);
        here.send(&good, now);
        let mut kept = [0; 256];
        {
            let mut transmits =
                [taut_udp::Transmit { destination: ([0; 4], 0).into(), contents: &[], segment_size: 0, ecn: 0 }];
            assert_eq!(here.out.transmits(taut_lane::Flush::All, &mut transmits), 1);
            kept[..transmits[0].contents.len()].copy_from_slice(transmits[0].contents);
        }
        let length = good.len() - 10 + 32;
        let length = length.next_multiple_of(16);
        here.deliver(there, wire, now);
        let mut replayed = kept;
        there.receive(&mut replayed[..length], length, now);
        let mut forged = kept;
        forged[8] ^= 0x80;
        there.receive(&mut forged[..length], length, now);
        let mut unknown = kept;
        unknown[7] ^= 0x80;
        there.receive(&mut unknown[..length], length, now);
        there.receive(&mut [0xa5; 148], 148, now);
        there.receive(&mut [], 1, now);
    });
    assert_eq!(counted, 0);
    assert_eq!(there.tun.packets, WARM_UP + COUNTED);
    assert_eq!((here.dropped(), there.dropped()), (2 * (WARM_UP + COUNTED), 5 * (WARM_UP + COUNTED)));
}

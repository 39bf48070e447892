//! Roaming: the address of a host changes.

use std::net::SocketAddr;

use taut_sim::{Link, Party, Side, map_for};

use crate::{for_seeds, minutes, ms, parties, secs, taut_world};

const DELAY: std::time::Duration = ms(20);

fn elsewhere(number: u8) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, number], 40_000))
}

#[test]
fn a_peer_that_moves_is_followed_with_its_next_packet() {
    for_seeds(8, |seed| {
        let mut world = taut_world(Link::clean(DELAY), seed);
        world.flow(Side::A, ms(100));
        world.flow(Side::B, ms(100));
        world.run(secs(30) + ms(13 * (seed % 8)));
        for number in 1..20 {
            world.move_to(Side::A, elsewhere(number));
            let moved = world.now();
            world.run(secs(20));
            assert_eq!(world.ledger(Side::A).missing(moved, world.ago(secs(1))), 0);
            let known = moved + ms(100) + DELAY;
            assert_eq!(world.ledger(Side::B).missing(known, world.ago(secs(1))), 0);
        }
        assert!(world.a().established() <= 5, "moving makes no handshakes");
        // Until the new path is proven and the old one judged: three packets with their receipts, the probes that judge, and some later ones.
        assert!(world.counts(Side::B).astray <= 19 * 16, "{} datagrams went astray", world.counts(Side::B).astray);
    });
}

#[test]
fn a_silent_peer_that_moves_is_found_when_it_speaks() {
    let mut world = taut_world(Link::clean(DELAY), 1);
    world.send(Side::A);
    world.run(secs(20));
    world.move_to(Side::A, elsewhere(1));
    world.send(Side::B);
    world.run(secs(1));
    assert_eq!(world.ledger(Side::B).arrived(), 0);
    world.send(Side::A);
    world.run(secs(1));
    world.send(Side::B);
    world.run(secs(1));
    assert_eq!((world.ledger(Side::A).arrived(), world.ledger(Side::B).arrived()), (2, 1));
}

#[test]
fn a_silent_peer_that_moves_and_greets_is_followed_at_once() {
    let mut world = taut_world(Link::clean(DELAY), 1);
    world.send(Side::A);
    world.run(secs(20));
    world.move_to(Side::A, elsewhere(1));
    world.with_a(|host, now| host.greet(now));
    // The handshake shows where to probe and moves nothing; the answered probe does (law 3).
    world.run(5 * DELAY);
    world.send(Side::B);
    world.run(secs(1));
    assert_eq!(world.ledger(Side::B).arrived(), 1);
}

#[test]
fn when_both_move_the_next_map_brings_them_together() {
    for_seeds(20, |seed| {
        let mut world = taut_world(Link::clean(DELAY), seed);
        world.flow(Side::A, ms(500));
        world.flow(Side::B, ms(500));
        world.run(secs(30));
        let [a, b] = parties();
        let (a, b) = (Party { endpoint: elsewhere(1), ..a }, Party { endpoint: elsewhere(2), ..b });
        world.move_to(Side::A, a.endpoint);
        world.move_to(Side::B, b.endpoint);
        world.run(minutes(2));
        world.with_a(|host, now| host.set_map(map_for(&a, &[&b]), now));
        world.with_b(|host, now| host.set_map(map_for(&b, &[&a]), now));
        let told = world.now();
        world.run(secs(20));
        for side in Side::BOTH {
            let silence = world.ledger(side).longest_silence(told, world.now());
            assert!(silence < secs(6), "{silence:?} of silence from {side:?}");
        }
    });
}

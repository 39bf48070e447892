//! Outages of the wire, and silence.

use taut_lane::DropReason;
use taut_sim::{Link, Probability, Side};

use crate::{for_seeds, minutes, ms, secs, taut_world, took};

const DELAY: std::time::Duration = ms(20);

fn dead() -> Link {
    Link::clean(DELAY).with_loss(Probability::ALWAYS)
}

#[test]
fn three_minutes_without_a_wire_are_over_within_seconds() {
    for_seeds(15, |seed| {
        let mut world = taut_world(Link::clean(DELAY), seed);
        world.flow(Side::A, ms(500));
        world.flow(Side::B, ms(500));
        world.run(secs(60 + seed % 15));
        world.set_links(dead());
        world.run(minutes(3) + ms(777 * (seed % 15)));
        world.set_links(Link::clean(DELAY));
        let back = world.now();
        world.run(secs(30));
        for side in Side::BOTH {
            // Retransmissions of a handshake are 5 s and at most a third of a second apart.
            let silence = world.ledger(side).longest_silence(back, world.now());
            assert!(silence < secs(6), "{silence:?} of silence from {side:?} after the wire was back");
        }
    });
}

#[test]
fn after_an_hour_of_silence_nothing_is_held_and_the_next_packet_starts_anew() {
    for_seeds(30, |seed| {
        let mut world = taut_world(Link::clean(DELAY), seed);
        world.flow(Side::A, secs(1));
        world.run(secs(30 + 5 * (seed % 30)));
        world.stop(Side::A);
        let before = world.counts(Side::A);
        world.run(minutes(60));
        assert_eq!((world.a().sessions(), world.b().sessions()), (0, 0));
        assert_eq!((world.a().node().indices_in_use(), world.b().node().indices_in_use()), (0, 0));
        assert_eq!(world.counts(Side::A).initiations, before.initiations, "silence makes no handshakes");
        let (start, first) = (world.now(), world.ledger(Side::B).sent());
        world.send(Side::B);
        world.run(secs(1));
        assert_eq!(took(&world, Side::B, first, start), 3 * DELAY);
    });
}

#[test]
fn nobody_is_asked_for_longer_than_ninety_seconds_and_then_a_packet_starts_anew() {
    for_seeds(30, |seed| {
        let mut world = taut_world(dead(), seed);
        for _ in 0..3 {
            world.send(Side::A);
            world.run(ms(10));
        }
        world.run(secs(89));
        let drops = |world: &crate::TautWorld| world.a().drops().count(DropReason::NoHandshake);
        assert_eq!(drops(&world), 0);
        world.run(secs(1));
        assert_eq!(drops(&world), 3);
        let tries = world.counts(Side::A).initiations;
        assert!((20..=23).contains(&tries), "{tries} tries");
        world.run(minutes(10));
        assert_eq!(world.counts(Side::A).initiations, tries, "nothing more is sent");
        assert_eq!((world.a().node().indices_in_use(), world.a().sessions()), (0, 0));
        assert!(world.a().node().peers().all(|peer| !peer.trying));

        world.set_links(Link::clean(DELAY));
        let start = world.now();
        world.send(Side::A);
        world.run(secs(1));
        assert_eq!(took(&world, Side::A, 3, start), 3 * DELAY);
        assert_eq!(world.ledger(Side::A).arrived(), 1, "what was given up does not come later");
    });
}

#[test]
fn a_wire_that_works_in_one_direction_only_makes_no_session() {
    let mut world = taut_world(Link::clean(DELAY), 1);
    world.set_link(Side::B, dead());
    world.flow(Side::A, secs(1));
    world.run(minutes(10));
    assert_eq!(world.ledger(Side::A).arrived(), 0);
    assert_eq!((world.a().established(), world.b().established()), (0, 0));
    world.set_link(Side::B, Link::clean(DELAY));
    world.run(secs(10));
    assert!(world.ledger(Side::A).arrived() > 0);
}

//! Restarts: one side loses all its state except its key.

use taut_sim::{Link, Side};

use crate::{TautWorld, for_seeds, ms, secs, taut_world, took};

const DELAY: std::time::Duration = ms(20);

/// After so long without an answer a side makes a new session (paper, section 6.5), and after the jitter of none it is there.
const NO_ANSWER: std::time::Duration = secs(15);

/// Two nodes that exchanged data for a while and are silent now.
fn acquainted(seed: u64) -> TautWorld {
    let mut world = taut_world(Link::clean(DELAY), seed);
    world.flow(Side::A, ms(700));
    world.flow(Side::B, ms(900));
    world.run(secs(40 + 3 * (seed % 60)));
    world.stop(Side::A);
    world.stop(Side::B);
    world.run(secs(1));
    world
}

#[test]
fn a_restarted_side_that_speaks_first_is_understood_at_once() {
    for_seeds(40, |seed| {
        let mut world = acquainted(seed);
        world.with_a(|host, now| host.restart(now));
        let (start, first) = (world.now(), world.ledger(Side::A).sent());
        world.send(Side::A);
        world.run(secs(2));
        assert_eq!(took(&world, Side::A, first, start), 3 * DELAY);
        let (start, first) = (world.now(), world.ledger(Side::B).sent());
        world.send(Side::B);
        world.run(secs(2));
        assert_eq!(took(&world, Side::B, first, start), DELAY, "the other side uses the new session, too");
    });
}

#[test]
fn a_restarted_side_that_is_spoken_to_is_found_within_fifteen_seconds() {
    for_seeds(40, |seed| {
        let mut world = acquainted(seed);
        world.with_a(|host, now| host.restart(now));
        // A packet that was on its way when A restarted would be an answer to what B sends.
        world.run(DELAY);
        let start = world.now();
        world.flow(Side::B, ms(100));
        world.run(secs(30));
        let silence = world.ledger(Side::B).longest_silence(start, world.now());
        assert!(silence <= NO_ANSWER + 3 * DELAY + ms(100), "{silence:?} of silence");
        assert_eq!(world.ledger(Side::B).missing(start + NO_ANSWER + ms(100), world.ago(secs(1))), 0);
    });
}

#[test]
fn a_restarted_side_that_greets_is_found_at_once() {
    for_seeds(20, |seed| {
        let mut world = acquainted(seed);
        world.with_a(|host, now| {
            host.restart(now);
            host.greet(now);
        });
        world.run(3 * DELAY);
        let (start, first) = (world.now(), world.ledger(Side::B).sent());
        world.send(Side::B);
        world.run(secs(1));
        assert_eq!(took(&world, Side::B, first, start), DELAY);
    });
}

#[test]
fn two_restarted_sides_find_each_other() {
    for_seeds(40, |seed| {
        let mut world = acquainted(seed);
        world.with_a(|host, now| host.restart(now));
        world.run(ms(10 * (seed % 40)));
        world.with_b(|host, now| host.restart(now));
        let (start, first) = (world.now(), world.ledger(Side::B).sent());
        world.send(Side::B);
        world.run(secs(2));
        assert_eq!(took(&world, Side::B, first, start), 3 * DELAY);
    });
}

#[test]
fn a_restart_in_the_middle_of_a_handshake_costs_seconds() {
    for_seeds(60, |seed| {
        let mut world = taut_world(Link::clean(ms(50)), seed);
        world.flow(Side::A, ms(200));
        world.flow(Side::B, ms(200));
        world.run(ms(7 * (seed % 60)));
        world.with_a(|host, now| host.restart(now));
        let restart = world.now();
        world.run(secs(30));
        for side in Side::BOTH {
            let silence = world.ledger(side).longest_silence(restart, world.now());
            assert!(silence < NO_ANSWER + secs(1), "{silence:?} of silence from {side:?}");
        }
    });
}

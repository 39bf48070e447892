//! The first packet after silence.

use taut_sim::{Link, Probability, Settings, Side};

use crate::{assert_complete, for_seeds, ms, secs, taut_world, taut_world_with, took};

#[test]
fn the_first_packet_arrives_after_one_and_a_half_round_trips() {
    for_seeds(50, |seed| {
        for delay in [ms(0), ms(1), ms(20), ms(100)] {
            let mut world = taut_world(Link::clean(delay), seed);
            let sent = world.now();
            world.send(Side::A);
            world.run(secs(5));
            assert_eq!(took(&world, Side::A, 0, sent), 3 * delay);
            assert_eq!((world.counts(Side::A).initiations, world.counts(Side::B).initiations), (1, 0));
            assert_eq!((world.counts(Side::A).responses, world.counts(Side::B).responses), (0, 1));
            assert_eq!((world.a().established(), world.b().established()), (1, 1));
        }
    });
}

#[test]
fn what_is_sent_meanwhile_waits_and_arrives_in_order() {
    let mut world = taut_world(Link::clean(ms(50)), 1);
    let start = world.now();
    world.flow(Side::A, ms(7));
    world.run(ms(400));
    world.stop(Side::A);
    world.run(secs(1));
    assert_complete(&world, start, world.now());
    let arrivals: Vec<_> =
        (0..world.ledger(Side::A).sent()).map(|number| world.ledger(Side::A).arrival(number)).collect();
    assert!(arrivals.is_sorted(), "{arrivals:?}");
}

#[test]
fn both_may_speak_as_soon_as_the_first_packet_is_there() {
    let mut world = taut_world(Link::clean(ms(20)), 1);
    world.send(Side::A);
    world.run(ms(60));
    let answered = world.now();
    world.send(Side::B);
    world.run(secs(1));
    assert_eq!(took(&world, Side::B, 0, answered), ms(20));
    assert_eq!(world.counts(Side::B).initiations, 0);
}

#[test]
fn a_round_trip_longer_than_the_first_retries_loses_nothing() {
    for_seeds(30, |seed| {
        for delay in [ms(130), ms(200), ms(300), ms(500), ms(800)] {
            let mut world = taut_world(Link::clean(delay), seed);
            let start = world.now();
            world.send(Side::A);
            world.run(secs(20));
            assert_eq!(took(&world, Side::A, 0, start), 3 * delay, "delay {delay:?}");
        }
    });
}

#[test]
fn a_keeper_that_is_busy_costs_its_delay_and_no_packet() {
    for_seeds(5, |seed| {
        let settings = Settings { agent_delay: ms(3), lane_delay: ms(5), ..Settings::default() };
        let mut world = taut_world_with(settings, Link::clean(ms(10)), seed);
        let start = world.now();
        world.flow(Side::A, ms(20));
        world.flow(Side::B, ms(20));
        world.run(secs(250));
        assert_complete(&world, start, world.ago(secs(1)));
    });
}

#[test]
fn a_lost_response_is_repeated_after_a_quarter_of_a_second() {
    for_seeds(20, |seed| {
        let mut world = taut_world(Link::clean(ms(20)), seed);
        world.set_link(Side::B, Link::clean(ms(20)).with_loss(Probability::ALWAYS));
        let start = world.now();
        world.send(Side::A);
        world.run(ms(100));
        world.set_link(Side::B, Link::clean(ms(20)));
        world.run(secs(5));
        assert!(took(&world, Side::A, 0, start) < ms(400));
        assert_eq!((world.a().established(), world.b().established()), (1, 1), "it is the same session");
    });
}

#[test]
fn a_wish_that_crosses_the_session_makes_no_second_one() {
    for_seeds(5, |seed| {
        let settings = Settings { agent_delay: ms(3), lane_delay: ms(5), ..Settings::default() };
        for early in 0..16 {
            // The response arrives about when the lane asks for a session the second time, a second after the first.
            let mut world = taut_world_with(settings, Link::clean(ms(492 - early)), seed);
            world.flow(Side::A, ms(20));
            world.run(secs(10));
            assert_eq!((world.a().established(), world.b().established()), (1, 1));
        }
    });
}

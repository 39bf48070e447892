//! Hours on a clean wire.

use taut_sim::{Link, Side};

use crate::{for_seeds, minutes, ms, secs, taut_world};

#[test]
fn two_hours_of_traffic_both_ways_lose_nothing_and_rekey_every_two_minutes() {
    for_seeds(2, |seed| {
        let mut world = taut_world(Link::clean(ms(20)), seed);
        world.send(Side::A);
        world.run(secs(1));
        let start = world.now();
        world.flow(Side::A, ms(500));
        world.flow(Side::B, ms(300));
        world.run(minutes(120));
        let quiet = world.now();
        for side in Side::BOTH {
            world.stop(side);
        }
        world.run(secs(1));
        crate::assert_complete(&world, start, quiet);
        // A session every 120 s plus the time until the next packet of its initiator.
        assert!((59..=60).contains(&world.a().established()), "{} sessions", world.a().established());
        assert_eq!(world.a().established(), world.b().established());
        assert_eq!(world.counts(Side::A).initiations, world.a().established());
        assert_eq!(world.counts(Side::B).initiations, 0);
        for (side, interval) in [(Side::A, ms(500)), (Side::B, ms(300))] {
            let silence = world.ledger(side).longest_silence(start + secs(1), quiet);
            assert!(silence <= interval, "{silence:?} without a packet");
        }
    });
}

#[test]
fn one_way_traffic_is_kept_alive_by_an_empty_packet_ten_seconds_after_the_first_unanswered_one() {
    let mut world = taut_world(Link::clean(ms(20)), 1);
    let start = world.now();
    world.flow(Side::A, secs(1));
    world.run(secs(119));
    assert_eq!(world.counts(Side::A).initiations, 1, "an empty packet is an answer");
    assert_eq!(world.counts(Side::B).keepalives, 10);
    assert_eq!(world.counts(Side::A).keepalives, 0);
    world.run(secs(3));
    assert_eq!(world.counts(Side::A).initiations, 2);
    world.run(minutes(58));
    assert_eq!(world.counts(Side::A).initiations, 30);
    assert_eq!(world.counts(Side::B).initiations, 0);
    crate::assert_complete(&world, start, world.ago(secs(1)));
}

#[test]
fn one_packet_is_answered_by_one_empty_packet_and_after_five_minutes_it_is_quiet() {
    let mut world = taut_world(Link::clean(ms(20)), 1);
    world.send(Side::A);
    world.run(secs(9));
    assert_eq!(world.counts(Side::B).keepalives, 0);
    world.run(secs(2));
    assert_eq!(world.counts(Side::B).keepalives, 1);
    // While the session lives, each side probes its path at most every ten seconds, and the other side answers (protocol.md 5.5).
    world.run(minutes(6));
    let (a, b) = (world.counts(Side::A), world.counts(Side::B));
    assert_eq!((a.initiations, a.keepalives), (1, 0));
    assert_eq!((b.responses, b.keepalives), (1, 1));
    let most = 2 * 5 * 60 / 10;
    assert!(a.data <= most && b.data <= most, "{} and {} datagrams", a.data, b.data);
    world.run(minutes(60));
    assert_eq!((world.counts(Side::A), world.counts(Side::B)), (a, b), "nothing is sent after the session has expired");
}

#[test]
fn who_started_and_only_receives_renews_with_its_keepalives() {
    let mut world = taut_world(Link::clean(ms(20)), 1);
    world.send(Side::A);
    world.run(secs(1));
    let start = world.now();
    world.flow(Side::B, secs(1));
    world.run(secs(118));
    assert_eq!(world.counts(Side::A).initiations, 1);
    world.run(secs(14));
    assert_eq!(world.counts(Side::A).initiations, 2, "the first keepalive after 120 s");
    world.run(minutes(30));
    assert_eq!(world.counts(Side::B).initiations, 0);
    crate::assert_complete(&world, start, world.ago(secs(1)));
}

//! Crossing handshakes: both sides start at the same time.

use taut_sim::{Link, Probability, Side};

use crate::{assert_complete, for_seeds, minutes, ms, secs, taut_world, took};

#[test]
fn both_first_packets_arrive_and_nothing_is_lost_for_an_hour() {
    for_seeds(3, |seed| {
        for delay in [ms(0), ms(5), ms(100), ms(300), ms(600)] {
            let mut world = taut_world(Link::clean(delay), seed);
            let start = world.now();
            world.flow(Side::A, secs(2));
            world.flow(Side::B, secs(2));
            world.run(secs(10));
            for side in Side::BOTH {
                assert!(took(&world, side, 0, start) <= 3 * delay, "first packet of {side:?} at delay {delay:?}");
            }
            world.run(minutes(60));
            assert_complete(&world, start, world.ago(secs(1)));
            // Two sessions that crossed, then one every 120 s: the two sides agreed on one of the first two.
            let sessions = world.a().established();
            assert!(sessions <= 2 + 30, "{sessions} sessions at delay {delay:?}");
        }
    });
}

#[test]
fn crossing_with_loss_and_jitter_ends_well() {
    for_seeds(30, |seed| {
        // On a round trip of more than 2 s an initiation is not repeated; a new one is made. With loss, one pair in some dozens then disagrees about
        // which sessions crossed, and each side uses its own until the next renewal (core/node/tests/crossing.rs).
        for (delay, loss) in [(ms(10), 30), (ms(400), 10), (ms(1200), 0), (ms(600), 10)] {
            let link = Link::clean(delay).with_jitter(delay / 2).with_loss(Probability::percent(loss));
            let mut world = taut_world(link, seed);
            world.flow(Side::A, ms(250));
            world.flow(Side::B, ms(250));
            world.run(secs(60));
            // Within 2 s an initiation is repeated and makes one session. On a longer round trip with loss the two sides may hold different sessions,
            // until a side makes a new one after 15 s without an answer.
            let bound = if delay < secs(1) { secs(4) } else { secs(15) + 4 * delay };
            let silences = Side::BOTH.map(|side| world.ledger(side).longest_silence(world.ago(secs(40)), world.now()));
            assert!(
                silences.iter().all(|silence| *silence < bound),
                "{silences:?} at delay {delay:?} and {loss} % loss"
            );
            let sessions = world.a().established() + world.b().established();
            assert!(sessions <= 24, "{sessions} sessions at delay {delay:?} and {loss} % loss");
        }
    });
}

#[test]
fn one_that_starts_while_the_other_ones_initiation_is_on_its_way_gets_through() {
    for_seeds(10, |seed| {
        for delay in [ms(40), ms(300)] {
            for later in [delay / 4, delay / 2, delay, delay * 3 / 2, delay * 2, delay * 5 / 2] {
                let mut world = taut_world(Link::clean(delay), seed);
                world.send(Side::A);
                world.run(later);
                let start = world.now();
                world.send(Side::B);
                world.run(secs(5));
                assert!(took(&world, Side::B, 0, start) <= 3 * delay, "{later:?} later at delay {delay:?}");
            }
        }
    });
}

#[test]
fn a_single_packet_does_not_wait_for_ever_when_the_peers_confirmation_is_lost() {
    for_seeds(20, |seed| {
        let mut world = taut_world(Link::clean(ms(20)), seed);
        world.send(Side::A);
        world.run(ms(30));
        // B has answered and has data to send, but the data of A in the new session is lost.
        world.send(Side::B);
        let start = world.now();
        world.set_link(Side::A, Link::clean(ms(20)).with_loss(Probability::ALWAYS));
        world.run(ms(100));
        world.set_link(Side::A, Link::clean(ms(20)));
        world.run(secs(10));
        assert!(took(&world, Side::B, 0, start) < secs(1));
    });
}

#[test]
fn fault_b9_a_thousand_starts_at_the_same_moment_under_loss_end_in_one_session() {
    for_seeds(1_000, |seed| {
        let delay = ms(5 + seed % 150);
        let link = Link::clean(delay).with_jitter(delay / 4);
        let mut world = taut_world(link.with_loss(Probability::percent(20)), seed);
        world.flow(Side::A, ms(250));
        world.flow(Side::B, ms(250));
        world.run(secs(40));
        // Loss is over. The handshakes it left are finished: each side may receive the answer to its initiation and answer the other one's.
        world.set_links(link);
        let before = (world.a().established(), world.b().established());
        world.run(secs(20));
        let settled = (world.a().established(), world.b().established());
        assert!(settled.0 - before.0 <= 2 && settled.1 - before.1 <= 2, "{before:?}, then {settled:?} sessions");
        let name = world.a().session_name();
        assert!(name.is_some());
        assert_eq!(name, world.b().session_name(), "each side goes on with a session of its own");
        let start = world.now();
        world.run(secs(30));
        assert_eq!((world.a().established(), world.b().established()), settled, "ping-pong");
        assert_eq!((world.a().session_name(), world.b().session_name()), (name, name), "ping-pong");
        assert_complete(&world, start, world.ago(secs(1)));
        // The same holds while packets are lost: each side starts one handshake and answers the other's, and loss repeats either once.
        assert!(settled.0 <= 4 && settled.1 <= 4, "{settled:?} sessions");
    });
}

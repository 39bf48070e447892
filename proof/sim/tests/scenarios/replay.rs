//! Somebody on the wire keeps everything and sends it again.

use std::net::SocketAddr;

use taut_sim::{Link, Recorded, Side};

use crate::{TautWorld, for_seeds, minutes, ms, secs, taut_world, took};

fn attacker() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 66], 666))
}

fn talk(seed: u64) -> (TautWorld, Vec<Recorded>) {
    let mut world = taut_world(Link::clean(ms(20)), seed);
    world.record();
    world.flow(Side::A, ms(400));
    world.flow(Side::B, ms(300));
    world.run(minutes(10));
    let history = world.take_history();
    (world, history)
}

fn replay(world: &mut TautWorld, history: &[Recorded]) {
    for (recorded, number) in history.iter().zip(1..) {
        world.inject(recorded.from.other(), attacker(), &recorded.datagram);
        if number % 100 == 0 {
            world.run(ms(10));
        }
    }
    world.run(secs(1));
}

#[test]
fn a_replay_of_everything_delivers_nothing_answers_nothing_and_moves_nothing() {
    for_seeds(5, |seed| {
        let (mut world, history) = talk(seed);
        let answers = |world: &TautWorld| Side::BOTH.map(|side| world.counts(side).responses);
        let (responses, sessions, start) = (answers(&world), world.a().established(), world.now());
        replay(&mut world, &history);
        world.run(secs(60));
        assert_eq!(Side::BOTH.map(|side| world.counts(side).astray), [0, 0], "nothing is sent to the attacker");
        assert!(world.a().established() <= sessions + 1);
        let renewals: u64 = answers(&world).iter().sum::<u64>() - responses.iter().sum::<u64>();
        assert!(renewals <= 1, "{renewals} responses");
        crate::assert_complete(&world, start, world.ago(secs(1)));
    });
}

#[test]
fn a_fresh_initiation_is_answered_four_times_at_most() {
    for_seeds(20, |seed| {
        let mut world = taut_world(Link::clean(ms(20)), seed);
        world.record();
        world.send(Side::A);
        world.run(ms(20));
        let history = world.take_history();
        for _ in 0..100 {
            replay(&mut world, &history);
        }
        assert!(world.counts(Side::B).responses <= 4, "{} responses", world.counts(Side::B).responses);
        let (start, first) = (world.now(), world.ledger(Side::B).sent());
        world.send(Side::B);
        world.run(secs(1));
        assert_eq!(took(&world, Side::B, first, start), ms(20), "the session lives, and its packets go to the peer");
    });
}

#[test]
fn a_restarted_node_is_not_held_back_by_old_initiations() {
    for_seeds(10, |seed| {
        let (mut world, history) = talk(seed);
        world.with_b(|host, now| host.restart(now));
        let initiations: Vec<Recorded> =
            history.into_iter().filter(|recorded| recorded.datagram.len() == 148).collect();
        let start = world.now();
        replay(&mut world, &initiations);
        world.run(secs(30));
        for side in Side::BOTH {
            let silence = world.ledger(side).longest_silence(start, world.now());
            assert!(silence < secs(3), "{silence:?} of silence from {side:?}");
        }
    });
}

//! Replays: an attacker on the wire records every datagram and sends it again.

use std::net::SocketAddr;

use taut_lane::DropReason;
use taut_sim::{Link, Recorded, Settings, Side, TautHost, map_for};

use crate::{TautWorld, for_seeds, minutes, ms, parties, secs, taut_world, took};

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

/// Replays the whole history to both sides, which are silent meanwhile. Each data message is refused under its drop reason; no packet is delivered (the
/// world's ledgers check that), no session is confirmed, and no side moves.
fn is_refused(world: &mut TautWorld, history: &[Recorded]) {
    // A side that does not know yet that the other restarted probes its path, and its probes are refused as well. Those sent from now on are counted: whatever
    // was sent before has arrived when the count of refused messages begins.
    let sent = |world: &TautWorld| (world.counts(Side::A).data, world.counts(Side::B).data);
    let (of_a, of_b) = sent(world);
    world.run(ms(20));
    let refused =
        |host: &TautHost| host.drops().count(DropReason::Replayed) + host.drops().count(DropReason::UnknownIndex);
    let state = |world: &TautWorld| {
        let arrived = Side::BOTH.map(|side| world.ledger(side).arrived());
        (arrived, world.a().established(), world.b().established())
    };
    let before = [refused(world.a()), refused(world.b())];
    let data = |from: Side| {
        history.iter().filter(|recorded| recorded.from == from && recorded.datagram.first() == Some(&4)).count() as u64
    };
    assert!(data(Side::A) > 100 && data(Side::B) > 100, "there is something to replay");
    let then = state(world);
    replay(world, history);
    let refused = (refused(world.a()) - before[0], refused(world.b()) - before[1]);
    let probes = (sent(world).0 - of_a, sent(world).1 - of_b);
    let (by_a, by_b) = (data(Side::B), data(Side::A));
    assert!((by_a..=by_a + probes.1).contains(&refused.0), "{} of {by_a} and {} were refused", refused.0, probes.1);
    assert!((by_b..=by_b + probes.0).contains(&refused.1), "{} of {by_b} and {} were refused", refused.1, probes.0);
    assert_eq!(state(world), then);
    // The tunnel works as before.
    let start = world.now();
    for side in Side::BOTH {
        world.flow(side, ms(500));
    }
    world.run(secs(30));
    for side in Side::BOTH {
        world.stop(side);
        assert_eq!(world.ledger(side).missing(start + secs(16), world.ago(secs(1))), 0, "from {side:?}");
    }
    world.run(secs(1));
}

/// Ten minutes of traffic with several sessions, then silence.
fn quiet(seed: u64) -> (TautWorld, Vec<Recorded>) {
    let (mut world, history) = talk(seed);
    for side in Side::BOTH {
        world.stop(side);
    }
    world.run(secs(1));
    (world, history)
}

#[test]
fn fault_c5_after_a_rekey_and_after_the_end_of_a_session_old_packets_are_refused() {
    for_seeds(3, |seed| {
        let (mut world, history) = quiet(seed);
        is_refused(&mut world, &history);
        world.run(minutes(10));
        is_refused(&mut world, &history);
    });
}

#[test]
fn fault_c5_after_a_restart_of_either_side_old_packets_are_refused() {
    for_seeds(3, |seed| {
        let (mut world, history) = quiet(seed);
        world.with_b(|host, now| host.restart(now));
        is_refused(&mut world, &history);
        world.with_a(|host, now| host.restart(now));
        is_refused(&mut world, &history);
    });
}

#[test]
fn fault_c5_after_a_change_of_keys_old_packets_are_refused() {
    for_seeds(3, |seed| {
        let (mut world, history) = quiet(seed);
        let [a, b] = parties();
        let renewed = a.with_key([77; 32]);
        world.with_a(|host, _| *host = TautHost::new(&renewed, map_for(&renewed, &[&b]), Settings::default(), 99));
        world.with_b(|host, now| host.set_map(map_for(&b, &[&renewed]), now));
        // Side B greets the new key at once.
        world.run(secs(1));
        is_refused(&mut world, &history);
        assert!(world.a().drops().count(DropReason::BadMac1) > 0, "handshakes were for the former key");
    });
}

//! The network changes while traffic flows.

use taut_lane::DropReason;
use taut_netmap::NetworkMap;
use taut_sim::{Link, Settings, Side, map_for};

use crate::{TautWorld, assert_complete, for_seeds, ms, parties, secs, taut_host, taut_world};

fn talking(seed: u64) -> TautWorld {
    let mut world = taut_world(Link::clean(ms(20)), seed);
    world.flow(Side::A, ms(100));
    world.flow(Side::B, ms(150));
    world.run(secs(30) + ms(11 * (seed % 20)));
    world
}

fn maps() -> (NetworkMap, NetworkMap) {
    let [a, b] = parties();
    (map_for(&a, &[&b]), map_for(&a, &[]))
}

#[test]
fn a_map_that_changes_nothing_disturbs_nothing() {
    for_seeds(10, |seed| {
        let mut world = talking(seed);
        let start = world.now();
        let initiations = Side::BOTH.map(|side| world.counts(side).initiations);
        for version in 2..30 {
            let (mut map, _) = maps();
            map.version = version;
            world.with_a(|host, now| host.set_map(map, now));
            world.run(secs(1));
        }
        assert_complete(&world, start, world.ago(secs(1)));
        assert_eq!(Side::BOTH.map(|side| world.counts(side).initiations), initiations, "no new handshake");
    });
}

#[test]
fn nothing_passes_once_a_peer_is_removed_and_all_does_when_it_is_back() {
    for_seeds(20, |seed| {
        let mut world = talking(seed);
        let (with, without) = maps();
        world.with_a(|host, now| host.set_map(without, now));
        let responses = world.counts(Side::A).responses;
        let (sent, arrived) = (world.ledger(Side::A).sent(), world.ledger(Side::B).arrived());
        world.run(secs(200));
        assert_eq!(world.ledger(Side::B).arrived(), arrived, "nothing comes in");
        assert_eq!((world.ledger(Side::A).sent() - sent) as u64, world.a().drops().count(DropReason::NoRoute));
        assert_eq!(world.counts(Side::A).responses, responses, "a stranger gets no answer");
        assert_eq!((world.a().sessions(), world.a().node().indices_in_use()), (0, 0));

        world.with_a(|host, now| host.set_map(with, now));
        let back = world.now();
        world.run(secs(20));
        assert_eq!(world.ledger(Side::A).missing(back + ms(1), world.ago(secs(1))), 0);
        assert_eq!(world.ledger(Side::B).missing(back + secs(6), world.ago(secs(1))), 0);
    });
}

#[test]
fn a_peer_with_a_new_key_is_another_peer() {
    for_seeds(20, |seed| {
        let mut world = talking(seed);
        let [a, b] = parties();
        let renewed = b.with_key([99; 32]);
        world.with_b(|host, _| *host = taut_host(&renewed, &a, Settings::default(), 1000 + seed));
        let under_way = ms(20);
        world.run(under_way);
        let arrived = Side::BOTH.map(|side| world.ledger(side).arrived());
        world.run(secs(60));
        assert_eq!(Side::BOTH.map(|side| world.ledger(side).arrived()), arrived, "the former key opens nothing");

        world.with_a(|host, now| host.set_map(map_for(&a, &[&renewed]), now));
        let told = world.now();
        world.run(secs(20));
        // Until the handshake has ended A goes on with the former session, which a peer that only rotates its key still has.
        assert_eq!(world.ledger(Side::A).missing(told + secs(1), world.ago(secs(1))), 0);
        assert_eq!(world.ledger(Side::B).missing(told + secs(6), world.ago(secs(1))), 0);
        assert_eq!(world.a().node().peers().count(), 1);
    });
}

#[test]
fn a_key_that_is_rotated_while_traffic_flows_costs_no_packet() {
    for_seeds(20, |seed| {
        let mut world = talking(seed);
        let start = world.now();
        let [a, b] = parties();
        let mut established = world.a().established();
        for round in 0..4_u8 {
            let renewed = b.with_key([90 + round; 32]);
            // The coordinator tells both nodes at nearly the same time, in either order.
            let (own, others) = (map_for(&renewed, &[&a]), map_for(&a, &[&renewed]));
            let late = ms(seed % 5 * 70);
            if (seed + u64::from(round)) % 2 == 0 {
                world.with_a(|host, now| host.set_map(others, now));
                world.run(late);
            } else {
                let key = renewed.key.clone();
                world.with_b(|host, now| host.rotate_key(key, now));
                world.run(late);
                world.with_a(|host, now| host.set_map(others, now));
            }
            let key = renewed.key.clone();
            world.with_b(|host, now| {
                host.rotate_key(key, now);
                host.set_map(own, now);
            });
            world.run(secs(60));
            let now = world.a().established();
            assert!(now > established, "the new key made a session");
            established = now;
            assert_eq!(world.a().node().peers().next().unwrap().key, renewed.public());
        }
        // Long enough for several sessions with the last key.
        world.run(secs(400));
        assert_complete(&world, start, world.ago(secs(1)));
        assert_eq!(world.a().node().peers().count(), 1);
    });
}

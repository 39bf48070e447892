//! Nodes with several lanes, whose threads are late in different ways: no packet may be reordered, lost, or sealed twice.

use std::cell::Cell;
use std::time::Duration;

use taut_base::Entropy;
use taut_sim::{LanesHost, Link, Probability, Recorded, Seeded, Settings, Side, World, map_for};
use taut_tunnel::Limits;
use taut_wire::control::Suites;
use taut_wire::wireguard::{Message, classify};

use crate::control::{AES, nonces_used_once};
use crate::{assert_complete, for_seeds, minutes, ms, parties, secs};

type LanesWorld = World<LanesHost, LanesHost>;

/// Flows of each side's applications.
const FLOWS: u16 = 12;

fn some_lanes(chance: &mut Seeded) -> usize {
    [1, 2, 2, 3, 4, 16][chance.below(6) as usize]
}

/// Delays of the threads of `count` lanes.
fn some_late(chance: &mut Seeded, lanes: usize) -> Vec<Duration> {
    (0..lanes).map(|_| if chance.below(3) == 0 { Duration::ZERO } else { chance.up_to(ms(20)) }).collect()
}

fn world(settings: Settings, late: [&[Duration]; 2], link: Link, seed: u64) -> LanesWorld {
    let [a, b] = parties();
    let host = |me, peer, late, seed| LanesHost::new(me, map_for(me, &[peer]), settings, late, seed);
    let hosts = (host(&a, &b, late[0], 2 * seed), host(&b, &a, late[1], 2 * seed + 1));
    let mut world = World::new((&a, hosts.0), (&b, hosts.1), link, seed);
    world.set_flows(FLOWS);
    world
}

/// Lanes in use and lanes of the session, as each side sees them.
fn lanes(world: &LanesWorld) -> [(u8, u8); 2] {
    [world.a(), world.b()].map(|host| host.node().peers().next().map_or((0, 0), |peer| peer.lanes))
}

#[track_caller]
fn assert_in_order(world: &LanesWorld) {
    assert_eq!(Side::BOTH.map(|side| world.ledger(side).overtaken()), [0, 0], "packets were overtaken");
}

#[test]
fn lanes_open_under_load_and_nothing_is_overtaken_or_lost() {
    let (on_first, on_further) = (Cell::new(0), Cell::new(0));
    let scenario = |seed: u64| {
        let mut chance = Seeded::new(!seed);
        let counts = [some_lanes(&mut chance), some_lanes(&mut chance)];
        // On a short path every flow is on its lane soon; on a long path a flow that never pauses stays on the first lane.
        let short = seed.is_multiple_of(3);
        let late = counts.map(|count| if short { vec![ms(1); count] } else { some_late(&mut chance, count) });
        let delay = [ms(0), ms(1), ms(9), ms(40)][chance.below(if short { 3 } else { 4 }) as usize];
        let settings =
            Settings { suites: if seed.is_multiple_of(2) { AES } else { Suites::STOCK }, ..Settings::default() };
        let mut world = world(settings, [&late[0], &late[1]], Link::clean(delay), seed);
        world.record();
        let start = world.now();
        world.flow(Side::A, ms(1) + chance.up_to(ms(3)));
        if chance.below(2) == 0 {
            world.run(chance.up_to(secs(1)));
        }
        world.flow(Side::B, ms(1) + chance.up_to(ms(3)));
        world.run(secs(10));
        assert_complete(&world, start, world.ago(secs(1)));
        assert_in_order(&world);
        let all = u8::try_from(counts[0].max(counts[1])).unwrap();
        assert_eq!(lanes(&world), [(all, all); 2]);
        if short {
            let (first, further) = shares(&world.take_history());
            on_first.set(on_first.get() + first);
            on_further.set(on_further.get() + further);
        }
    };
    for_seeds(60, scenario);
    // How many packets extra lanes carry depends on the numbers of lanes that the seeds draw. It is judged by seeds that are the same in every run.
    on_first.set(0);
    on_further.set(0);
    (0_u64..60).filter(|seed| seed.is_multiple_of(6)).for_each(scenario);
    let (on_first, on_further) = (on_first.get(), on_further.get());
    assert!(on_further > on_first, "{on_further} packets went through extra lanes, {on_first} through first ones");
}

/// A flow here pauses for twice the way, but all flows of a lane together never do.
#[test]
fn over_a_long_way_each_flow_goes_to_its_lane_in_a_gap_of_its_own() {
    for_seeds(5, |seed| {
        let late = vec![Duration::ZERO; 4];
        let mut world = world(Settings::default(), [&late, &late], Link::clean(ms(60)), seed);
        let start = world.now();
        world.flow(Side::A, ms(20));
        world.flow(Side::B, ms(20));
        world.run(secs(10));
        world.record();
        world.run(secs(10));
        let (first, further) = shares(&world.take_history());
        assert!(further > first, "{further} packets went by further lanes, {first} by first ones");
        assert_complete(&world, start, world.ago(secs(1)));
        assert_in_order(&world);
    });
}

/// Returns the numbers of packets on first lanes and on extra lanes.
fn shares(history: &[Recorded]) -> (usize, usize) {
    let lanes: Vec<u32> = history.iter().filter_map(|sent| lane_of_data(&sent.datagram)).collect();
    let first = lanes.iter().filter(|lane| **lane == 0).count();
    (first, lanes.len() - first)
}

/// Returns the lane of the session on which a packet went.
fn lane_of_data(datagram: &[u8]) -> Option<u32> {
    let Ok(Message::Data(data)) = classify(datagram) else { return None };
    // Packets of the world are longer than any control message.
    (datagram.len() > 80).then_some(data.receiver & 15)
}

#[test]
fn renewals_change_no_order() {
    for_seeds(10, |seed| {
        let mut chance = Seeded::new(seed);
        let late = [some_late(&mut chance, 4), some_late(&mut chance, 2)];
        let settings = Settings { limits: Limits::with_rekey_after(secs(2)), suites: AES, ..Settings::default() };
        let mut world = world(settings, [&late[0], &late[1]], Link::clean(ms(2)), seed);
        world.record();
        let start = world.now();
        world.flow(Side::A, ms(3));
        world.run(ms(500));
        world.flow(Side::B, ms(4));
        world.run(minutes(1));
        assert_complete(&world, start, world.ago(secs(1)));
        assert_in_order(&world);
        assert_eq!(lanes(&world), [(4, 4); 2]);
        assert!(world.a().node().peers().next().unwrap().established > 20);
        assert!(nonces_used_once(&world.take_history()) > 30_000);
    });
}

/// The lanes that a peer announced before its restart are no longer valid, although data may still reach them, because the ports are the same.
#[test]
fn a_peer_that_comes_back_with_other_lanes_has_nothing_overtaken() {
    for_seeds(60, |seed| {
        let mut chance = Seeded::new(seed);
        let counts = [2, 2 + chance.below(3) as usize, 1 + chance.below(4) as usize];
        let mut late = counts.map(|count| some_late(&mut chance, count));
        // On node B only packets on its first lane can overtake others.
        (late[0], late[2][0]) = (vec![Duration::ZERO; 2], Duration::ZERO);
        let mut world = world(Settings::default(), [&late[0], &late[1]], Link::clean(ms(1)), seed);
        world.flow(Side::A, Duration::from_micros(300));
        world.run(secs(2));
        world.with_b(|host, now| host.restart_with(&late[2], now));
        // A packet of node B brings the next session at once; node A learns later which lanes node B has now.
        world.flow(Side::B, ms(1));
        // Sometimes that takes so long that node A suspects the path, or stops using its extra lanes.
        world.set_link(Side::B, Link::clean(ms(1)).with_loss(Probability::percent(70)));
        world.run([ms(90), ms(500), ms(1_500)][chance.below(3) as usize]);
        world.set_links(Link::clean(ms(1)));
        world.run(secs(2));
        assert_in_order(&world);
    });
}

fn something(world: &mut LanesWorld, chance: &mut Seeded) {
    let side = Side::BOTH[chance.below(2) as usize];
    match chance.below(12) {
        0..3 => (0..chance.below(40)).for_each(|_| world.send(side)),
        3..6 => world.flow(side, ms(5) + chance.up_to(ms(400))),
        6 => world.stop(side),
        7 => world.set_links(Link::clean(chance.up_to(ms(60))).with_loss(Probability::percent(chance.below(60)))),
        8 => {
            let percent = Probability::percent(chance.below(50));
            world.set_link(side, Link::clean(ms(1)).with_jitter(chance.up_to(ms(300))).with_duplication(percent));
        }
        9 => world.sleep(chance.up_to(secs(200))),
        10 => world.with_a(|host, now| host.restart(now)),
        _ => world.with_b(|host, now| host.restart(now)),
    }
    let bound = [ms(10), ms(600), secs(8)][chance.below(3) as usize];
    world.run(chance.up_to(bound));
}

/// Threads that wake late, renewals, restarts, loss, both suites, any numbers of lanes: each key seals with each counter once, each lane of a session is
/// assigned once, and all lanes open again once the network works.
#[test]
fn whatever_happens_no_key_of_any_lane_seals_twice_and_all_lanes_open_again() {
    let sealed = Cell::new(0);
    let runs = for_seeds(40, |seed| {
        let mut chance = Seeded::new(seed ^ 0x1a9e5);
        let counts = [some_lanes(&mut chance), some_lanes(&mut chance)];
        let late = counts.map(|count| some_late(&mut chance, count));
        let settings = Settings {
            limits: Limits::with_rekey_after(secs(10)),
            agent_delay: if chance.below(2) == 0 { Duration::ZERO } else { chance.up_to(ms(200)) },
            suites: if chance.below(2) == 0 { AES } else { Suites::STOCK },
            ..Settings::default()
        };
        let mut world = world(settings, [&late[0], &late[1]], Link::clean(ms(5)), seed);
        world.record();
        for _ in 0..25 {
            something(&mut world, &mut chance);
        }
        world.set_links(Link::clean(ms(5)));
        world.flow(Side::A, ms(5));
        world.flow(Side::B, ms(7));
        world.run(minutes(2));
        let (start, overtaken) = (world.now(), Side::BOTH.map(|side| world.ledger(side).overtaken()));
        world.run(secs(10));
        assert_complete(&world, start, world.ago(secs(1)));
        assert_eq!(Side::BOTH.map(|side| world.ledger(side).overtaken()), overtaken);
        let all = u8::try_from(counts[0].max(counts[1])).unwrap();
        assert_eq!(lanes(&world), [(all, all); 2]);
        sealed.set(sealed.get() + nonces_used_once(&world.take_history()));
    });
    assert!(sealed.get() > 2_500 * runs, "only {} messages were sealed in {runs} runs", sealed.get());
}

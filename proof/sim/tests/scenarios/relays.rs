//! Relayed at once, direct soon, never stuck (protocol.md 5 and 6): two nodes, one or two relays, and links that fail and return.

use std::time::Duration;

use taut_base::Time;
use taut_sim::{Link, Probability, Settings, Side, SimRelay, StationId, TautHost, World, map_with_relays};
use taut_testkit::thorough;

use crate::control::nonces_used_once;
use crate::{TautWorld, for_seeds, minutes, ms, parties, secs};

/// Delay between a host and a relay.
const TO_RELAY: Link = Link::clean(ms(10));
/// Round-trip time between the hosts through a relay.
const RELAY_ROUND_TRIP: Duration = ms(40);
/// Delay between the hosts.
const DIRECT: Link = Link::clean(ms(5));

const fn dead() -> Link {
    DIRECT.with_loss(Probability::ALWAYS)
}

/// Two nodes with tickets, and relays that have bound them; no packet has been sent yet.
struct Scene {
    world: TautWorld,
    relays: Vec<(SimRelay, StationId)>,
}

fn scene(direct: Link, relays: u8, seed: u64) -> Scene {
    let [a, b] = parties();
    let named: Vec<SimRelay> = (1..=relays).map(SimRelay::new).collect();
    let settings = Settings { ticket: true, ..Settings::default() };
    let host = |me, peer, seed| TautHost::new(me, map_with_relays(me, &[peer], &named), settings, seed);
    let hosts = (host(&a, &b, 2 * seed), host(&b, &a, 2 * seed + 1));
    let mut world = World::new((&a, hosts.0), (&b, hosts.1), direct, seed);
    let put_up = |(number, relay): (u64, SimRelay)| {
        let station = Box::new(relay.start(100 * seed + number));
        let id = world.put_up(relay.address, station, TO_RELAY);
        (relay, id)
    };
    let relays = (0..).zip(named).map(put_up).collect();
    world.run(secs(2));
    Scene { world, relays }
}

impl Scene {
    /// Returns true if `side` sends data to the other side through a relay.
    fn is_relayed(&self, side: Side) -> bool {
        let host = if side == Side::A { self.world.a() } else { self.world.b() };
        let way = host.node().peers().next().and_then(|peer| peer.path).and_then(|path| path.way);
        way.expect("there is a path").is_relayed()
    }

    /// Makes both sides send at this interval.
    fn flows(&mut self, interval: Duration) {
        Side::BOTH.into_iter().for_each(|side| self.world.flow(side, interval));
    }

    /// Returns the longest time since `from` in which one side received no packet of the other.
    fn silence(&self, from: Time) -> Duration {
        let silent = |side| self.world.ledger(side).longest_silence(from, self.world.now());
        Side::BOTH.into_iter().map(silent).max().unwrap_or_default()
    }

    fn relay_dies(&mut self, place: usize) {
        self.world.replace(self.relays[place].1, None);
    }
}

#[test]
fn a_cold_peer_is_answered_by_the_relay_within_two_round_trips() {
    for_seeds(50, |seed| {
        let Scene { mut world, relays } = scene(dead(), 1 + (seed % 2) as u8, seed);
        let start = world.now();
        world.send(Side::A);
        while world.ledger(Side::A).arrived() == 0 {
            world.run(ms(1));
            assert!(world.now().since(start) < secs(1), "the first packet never came");
        }
        world.send(Side::B);
        world.run(ms(500));
        let answered = world.ledger(Side::B).arrival(0).expect("the answer came").since(start);
        assert!(answered <= 2 * RELAY_ROUND_TRIP + ms(10), "{answered:?}");
        assert!(world.counts_to(relays[0].1, Side::A).data > 0);
    });
}

#[test]
fn behind_the_relay_the_direct_way_is_found_and_taken() {
    for_seeds(50, |seed| {
        let mut scene = scene(DIRECT, 2, seed);
        scene.world.record();
        let start = scene.world.now();
        scene.flows(ms(10));
        scene.world.run(ms(300));
        assert!(!scene.is_relayed(Side::A) && !scene.is_relayed(Side::B), "direct within 300 ms");
        scene.world.run(secs(30));
        let by_relay =
            |scene: &Scene| scene.relays.iter().map(|relay| scene.world.counts_to(relay.1, Side::A).data).sum::<u64>();
        let before = by_relay(&scene);
        scene.world.run(minutes(2));
        // Probes that keep two relayed paths known, every 24 s from both ends, and no data.
        assert!(by_relay(&scene) - before <= 2 * 2 * 6 + 16, "{} datagrams by relays", by_relay(&scene) - before);
        let now = scene.world.ago(secs(1));
        for side in Side::BOTH {
            assert_eq!((scene.world.ledger(side).missing(start, now), scene.world.ledger(side).overtaken()), (0, 0));
        }
        assert!(nonces_used_once(&scene.world.take_history()) > 20_000);
    });
}

#[test]
fn fault_d9_a_direct_way_that_dies_under_traffic_is_left_for_the_relay_and_taken_again() {
    for_seeds(50, |seed| {
        let mut scene = scene(DIRECT, 1, seed);
        scene.world.record();
        scene.flows(ms(10));
        scene.world.run(secs(10) + ms(37 * (seed % 50)));
        let died = scene.world.now();
        scene.world.set_links(dead());
        scene.world.run(secs(10));
        assert!(scene.silence(died) <= ms(300), "{:?}", scene.silence(died));
        assert!(scene.is_relayed(Side::A) && scene.is_relayed(Side::B));
        let back = scene.world.now();
        let overtaken = Side::BOTH.map(|side| scene.world.ledger(side).overtaken());
        scene.world.set_links(DIRECT);
        scene.world.run(secs(5));
        assert!(!scene.is_relayed(Side::A) && !scene.is_relayed(Side::B), "direct again within 5 s");
        scene.world.run(secs(5));
        for side in Side::BOTH {
            assert_eq!(
                scene.world.ledger(side).missing(back, scene.world.ago(ms(100))),
                0,
                "nothing is lost on the way back"
            );
        }
        assert_eq!(Side::BOTH.map(|side| scene.world.ledger(side).overtaken()), overtaken, "nor reordered");
        nonces_used_once(&scene.world.take_history());
    });
}

#[test]
fn fault_d9_a_way_that_works_in_one_direction_only_is_left() {
    for_seeds(20, |seed| {
        let mut scene = scene(DIRECT, 1, seed);
        scene.flows(ms(10));
        scene.world.run(secs(10));
        scene.world.set_link(Side::A, dead());
        let died = scene.world.now();
        scene.world.run(secs(10));
        assert!(scene.silence(died) <= ms(1_500), "{:?}", scene.silence(died));
        assert!(scene.is_relayed(Side::A));
    });
}

#[test]
fn whoever_changes_its_address_is_heard_again_within_a_moment() {
    for_seeds(30, |seed| {
        let mut scene = scene(DIRECT, 1, seed);
        scene.flows(ms(10));
        scene.world.run(secs(10) + ms(13 * (seed % 30)));
        let elsewhere = std::net::SocketAddr::from(([203, 0, 113, 9], 40_000));
        scene.world.move_to(Side::A, elsewhere);
        let moved = scene.world.now();
        scene.world.with_a(|host, now| host.move_to(elsewhere, now));
        scene.world.run(secs(10));
        assert!(scene.silence(moved) <= ms(300) + 2 * DIRECT.delay, "{:?}", scene.silence(moved));
        assert!(!scene.is_relayed(Side::A) && !scene.is_relayed(Side::B));
    });
}

#[test]
fn fault_f8_a_relay_that_dies_is_replaced_by_the_warm_one() {
    for_seeds(30, |seed| {
        let mut scene = scene(dead(), 2, seed);
        scene.flows(ms(10));
        scene.world.run(secs(10) + ms(29 * (seed % 30)));
        assert!(scene.is_relayed(Side::A));
        let died = scene.world.now();
        let by = |scene: &Scene, place: usize| scene.world.counts_to(scene.relays[place].1, Side::A).data;
        let used = if by(&scene, 0) > by(&scene, 1) { 0 } else { 1 };
        scene.relay_dies(used);
        scene.world.run(secs(10));
        assert!(scene.silence(died) <= ms(500), "{:?}", scene.silence(died));
        // The other relay fails when the first is back.
        let again = scene.relays[used].0.start(seed);
        scene.world.replace(scene.relays[used].1, Some(Box::new(again)));
        scene.world.run(minutes(2));
        let died = scene.world.now();
        scene.relay_dies(1 - used);
        scene.world.run(secs(10));
        assert!(scene.silence(died) <= ms(500), "{:?}", scene.silence(died));
    });
}

#[test]
fn both_start_again_without_a_coordinator_and_meet_at_the_relay() {
    for_seeds(30, |seed| {
        let mut scene = scene(dead(), 1, seed);
        scene.flows(ms(50));
        scene.world.run(secs(10));
        scene.world.with_a(TautHost::restart);
        scene.world.run(ms(7 * (seed % 30)));
        scene.world.with_b(TautHost::restart);
        let started = scene.world.now();
        scene.world.with_a(TautHost::greet);
        scene.world.with_b(TautHost::greet);
        scene.world.run(secs(10));
        assert!(scene.silence(started) <= secs(1), "{:?}", scene.silence(started));
    });
}

/// An attacker that records frames and replays them from any address moves no client.
#[test]
fn fault_d2_replayed_datagrams_move_no_path() {
    for_seeds(10, |seed| {
        let mut scene = scene(DIRECT, 1, seed);
        scene.world.record();
        scene.flows(ms(20));
        scene.world.run(secs(20));
        let history = scene.world.take_history();
        let ways = |scene: &Scene| {
            let way = |host: &TautHost| host.node().peers().next().and_then(|peer| peer.path).and_then(|path| path.way);
            [way(scene.world.a()), way(scene.world.b())]
        };
        let before = ways(&scene);
        let attacker = std::net::SocketAddr::from(([203, 0, 113, 66], 666));
        let start = scene.world.now();
        for recorded in &history {
            scene.world.inject(recorded.from.other(), attacker, &recorded.datagram);
        }
        // A wire that copies every frame, so that a copy overtakes the original.
        scene.world.record();
        scene.world.run(secs(5));
        for recorded in scene.world.take_history() {
            scene.world.inject(recorded.from.other(), attacker, &recorded.datagram);
        }
        scene.world.run(secs(5));
        assert_eq!(ways(&scene), before);
        for side in Side::BOTH {
            assert_eq!(scene.world.ledger(side).missing(start, scene.world.ago(secs(1))), 0);
        }
    });
}

#[test]
fn idle_peers_are_let_go_and_found_again() {
    for_seeds(10, |seed| {
        let mut scene = scene(DIRECT, 1, seed);
        scene.world.send(Side::A);
        scene.world.run(minutes(6));
        assert_eq!([scene.world.a().sessions(), scene.world.b().sessions()], [0, 0]);
        let counts = Side::BOTH.map(|side| scene.world.counts(side));
        let to_relay = |scene: &Scene| scene.world.counts_to(scene.relays[0].1, Side::A).to_station;
        let before = to_relay(&scene);
        scene.world.run(minutes(60));
        assert_eq!(Side::BOTH.map(|side| scene.world.counts(side)), counts, "nothing between them");
        // Refreshes of the binding every five minutes, and ten questions about the NAT every ten minutes.
        let bound = 3 * 60 + 12 + 6 * 10;
        assert!(to_relay(&scene) - before <= bound, "{} frames to the relay", to_relay(&scene) - before);
        // No path is left: the next packet goes through the relay at once, even if the hosts have moved.
        scene.world.set_links(dead());
        let woken = scene.world.now();
        scene.world.send(Side::A);
        scene.world.run(secs(2));
        let arrived = scene.world.ledger(Side::A).arrival(1).expect("it came").since(woken);
        assert!(arrived <= 2 * RELAY_ROUND_TRIP, "{arrived:?}");
    });
}

#[test]
fn a_ticket_alone_or_a_relay_alone_is_of_no_use_and_does_no_harm() {
    let [a, b] = parties();
    for (ticket, relays) in [(false, vec![SimRelay::new(1)]), (true, Vec::new())] {
        let settings = Settings { ticket, ..Settings::default() };
        let host = |me, peer, seed| TautHost::new(me, map_with_relays(me, &[peer], &relays), settings, seed);
        let mut world = World::new((&a, host(&a, &b, 1)), (&b, host(&b, &a, 2)), DIRECT, 3);
        for relay in &relays {
            world.put_up(relay.address, Box::new(relay.start(4)), TO_RELAY);
        }
        let start = world.now();
        world.flow(Side::A, ms(20));
        world.run(minutes(5));
        assert_eq!(world.ledger(Side::A).missing(start, world.ago(secs(1))), 0);
    }
}

/// This world has no coordinator: the nodes know only their last map.
#[test]
fn fault_n1_for_hours_without_a_coordinator_sessions_renew_hosts_move_and_relays_change() {
    let mut scene = scene(DIRECT, 2, 7);
    scene.flows(secs(1));
    scene.world.run(minutes(1));
    let hours: u8 = if thorough() { 24 } else { 8 };
    for hour in 0..hours {
        let changed = scene.world.now();
        match hour % 4 {
            0 => {
                let elsewhere = std::net::SocketAddr::from(([203, 0, 113, hour], 40_000));
                scene.world.move_to(Side::A, elsewhere);
                scene.world.with_a(|host, now| host.move_to(elsewhere, now));
            }
            1 => scene.world.set_links(dead()),
            2 => scene.relay_dies(usize::from(hour / 4 % 2)),
            _ => {
                let (relay, post) = &scene.relays[usize::from(hour / 4 % 2)];
                let again = Box::new(relay.start(u64::from(hour)));
                scene.world.replace(*post, Some(again));
                scene.world.set_links(DIRECT);
            }
        }
        scene.world.run(minutes(60));
        // A packet a second, one of which is lost.
        assert!(scene.silence(changed) <= secs(3), "hour {hour}: {:?}", scene.silence(changed));
    }
    assert!(!scene.is_relayed(Side::A) && !scene.is_relayed(Side::B));
    // One packet in two minutes.
    assert!(scene.world.a().established() >= u64::from(hours) * 29, "{} sessions", scene.world.a().established());
}

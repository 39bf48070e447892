use super::*;
use crate::nat::internet::Hole;
use crate::nat::matrix::pairs;
use crate::nat::verdict::{Reach, possible};

/// Time limit for a pair, 40 s. A direct path takes a second or two; guessing may take longer.
const PATIENCE: Duration = Duration::from_secs(40);

/// Sends both ways until the pair is settled. Returns the scene and the kind of path at the end.
fn ends(a: Kind, b: Kind, place: Place, seed: u64) -> (Scene, Carries) {
    let mut scene = Scene::new(&Setup { place, ..Setup::apart(a, b) }, seed);
    scene.run(Duration::from_secs(3));
    scene.answer(Side::B);
    scene.flow(Side::A, Duration::from_millis(20));
    let direct = scene.run_until(PATIENCE, Scene::is_direct).is_some();
    let carries = if direct { Carries::Direct } else { scene.carries(Side::A) };
    (scene, carries)
}

/// Returns an error text if the pair ends on a wrong path, or packets are not answered that must be.
fn wrong(a: Kind, b: Kind, place: Place, seed: u64) -> Option<String> {
    let (mut scene, carries) = ends(a, b, place, seed);
    // Without UDP no relay is reachable here. Only the lab has relays over TCP.
    let mute = place != Place::SameLan && !(a.traits().udp && b.traits().udp);
    let reach = possible(a, b, place).reach;
    let belongs = match reach {
        Reach::Direct => carries == Carries::Direct,
        Reach::Guess => carries != Carries::Nothing,
        Reach::Relay => mute && carries != Carries::Direct || carries == Carries::Relay,
    };
    let (before, asked) = (scene.ledger(Side::B).arrived(), scene.ledger(Side::A).sent());
    scene.run(Duration::from_secs(1));
    let (answered, asked) = (scene.ledger(Side::B).arrived() - before, scene.ledger(Side::A).sent() - asked);
    let speaks = if mute { answered == 0 } else { answered * 10 >= asked * 9 };
    let name = || format!("{} and {} {}", a.name(), b.name(), place.name());
    (!belongs || !speaks)
        .then(|| format!("{}: must reach {reach:?}, has {carries:?}, {answered} of {asked} answered", name()))
}

#[test]
fn the_whole_matrix_whole_nodes_end_as_they_must() {
    let all: Vec<_> = pairs().collect();
    assert!(all.len() > 120, "{} pairs", all.len());
    let wrong: Vec<String> = (100..).zip(all).filter_map(|(seed, (a, b, place))| wrong(a, b, place, seed)).collect();
    assert!(wrong.is_empty(), "{} pairs are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn nothing_is_delivered_without_a_relay_where_no_direct_path_is() {
    let setup = Setup { relays: 0, ..Setup::apart(Kind::Symmetric, Kind::Symmetric) };
    let mut scene = Scene::new(&setup, 5);
    scene.flow(Side::A, Duration::from_millis(100));
    scene.run(Duration::from_secs(20));
    assert_eq!(scene.ledger(Side::A).arrived(), 0);
}

#[test]
fn the_same_seed_is_the_same_scene() {
    let told = |seed| {
        let (scene, carries) = ends(Kind::PortRestricted, Kind::Predictable, Place::Apart, seed);
        (carries, scene.datagrams(Side::A), scene.datagrams(Side::B), scene.now())
    };
    assert_eq!(told(9), told(9));
}

/// Returns two nodes that have talked directly for a while and continue: a packet every 50 ms, each answered.
fn talking(a: Kind, b: Kind, seed: u64) -> Scene {
    let mut scene = Scene::new(&Setup::apart(a, b), seed);
    scene.run(Duration::from_secs(3));
    scene.answer(Side::B);
    scene.flow(Side::A, Duration::from_millis(50));
    assert!(scene.run_until(PATIENCE, Scene::is_direct).is_some(), "{a:?} and {b:?}");
    scene.run(Duration::from_secs(5));
    scene
}

#[test]
fn fault_d3_a_router_that_forgets_every_two_seconds_cuts_nobody_off() {
    let mut scene = talking(Kind::PortRestricted, Kind::FullCone, 31);
    let start = scene.now();
    for _ in 0..30 {
        scene.run(Duration::from_secs(2));
        let nat = scene.nat(Side::A);
        scene.net.router(nat).forget();
    }
    let silence = scene.ledger(Side::A).longest_silence(start, scene.now());
    assert!(silence < Duration::from_secs(1), "{silence:?}");
}

#[test]
fn fault_d4_other_ports_every_ten_seconds_make_short_gaps_and_the_pair_is_never_stuck() {
    let mut scene = talking(Kind::PortRestricted, Kind::PortRestricted, 41);
    let start = scene.now();
    for _ in 0..30 {
        scene.run(Duration::from_secs(10));
        let nat = scene.nat(Side::A);
        scene.net.router(nat).rebind();
    }
    let silence = scene.ledger(Side::A).longest_silence(start, scene.now());
    assert!(silence < Duration::from_secs(2), "{silence:?}");
    assert!(scene.run_until(PATIENCE, Scene::is_direct).is_some());
}

#[test]
fn fault_d4_another_port_of_either_nat_is_direct_again_within_three_seconds() {
    for (kinds, seed) in
        [(Kind::FullCone, Kind::PortRestricted), (Kind::PortRestricted, Kind::PortRestricted)].into_iter().zip(60..)
    {
        for side in Side::BOTH {
            let mut scene = talking(kinds.0, kinds.1, seed);
            let nat = scene.nat(side);
            scene.net.router(nat).rebind();
            scene.run(Duration::from_secs(3));
            assert!(scene.is_direct(), "{kinds:?} {side:?}");
        }
    }
}

#[test]
fn fault_d4_a_nat_that_was_away_for_a_moment_is_followed_soon_whenever_that_was() {
    for (seed, just_started) in (70..78).zip([true, false].into_iter().cycle()) {
        let mut scene = talking(Kind::FullCone, Kind::PortRestricted, seed);
        if just_started {
            scene.restart(Side::A);
            assert!(scene.run_until(PATIENCE, Scene::is_direct).is_some(), "seed {seed}");
        }
        let nat = scene.nat(Side::A);
        for away in [0, 200, 3_000] {
            // Requests in the meantime are not answered.
            scene.net.set_hole(nat, Hole::Cut);
            scene.run(Duration::from_millis(away));
            scene.net.router(nat).rebind();
            scene.net.set_hole(nat, Hole::None);
            scene.run(Duration::from_secs(5));
            assert!(scene.is_direct(), "seed {seed}, away for {away} ms");
        }
    }
}

#[test]
fn fault_d5_nats_that_map_by_destination_on_both_sides_stay_on_the_relay_and_probing_ends() {
    let (mut scene, carries) = ends(Kind::Symmetric, Kind::Symmetric, Place::Apart, 51);
    assert_eq!(carries, Carries::Relay);
    scene.stop(Side::A);
    // An idle peer is released after five minutes (protocol.md 5.5).
    scene.run(Duration::from_secs(400));
    let before = scene.datagrams(Side::A);
    scene.run(Duration::from_secs(600));
    let idle = scene.datagrams(Side::A) - before;
    // Keepalives of the bindings at two relays remain: four datagrams a minute each.
    assert!(idle <= 2 * 4 * 10 + 20, "{idle}");
}

#[test]
fn fault_d9_a_path_that_carries_one_way_only_is_left_for_the_relay() {
    for (seed, hole) in [(91, Hole::In), (92, Hole::Out)] {
        let mut scene = talking(Kind::FullCone, Kind::PortRestricted, seed);
        let nat = scene.nat(Side::B);
        scene.net.set_hole(nat, hole);
        scene.run(Duration::from_secs(2));
        let from = scene.now();
        scene.run(Duration::from_secs(10));
        let to = scene.now();
        scene.run(Duration::from_secs(1));
        for side in Side::BOTH {
            assert_eq!(scene.ledger(side).missing(from, to), 0, "{hole:?}, from {side:?}");
        }
    }
}

#[test]
fn fault_f8_when_one_relay_was_started_again_unnoticed_and_the_other_one_dies_nobody_is_stuck() {
    for seed in 70..80 {
        let (mut scene, _) = ends(Kind::Symmetric, Kind::Symmetric, Place::Apart, seed);
        let used = scene.relay_of(Side::A).unwrap();
        scene.kill_relay(1 - used);
        scene.start_relay(1 - used);
        scene.run(Duration::from_secs(1));
        scene.kill_relay(used);
        // A host that only answers receives nothing, and detects the failed relay when its next ping is not answered.
        let start = scene.now();
        scene.run(Duration::from_secs(40));
        let silence = scene.ledger(Side::A).longest_silence(start, scene.now());
        assert!(silence < Duration::from_secs(20), "seed {seed}: {silence:?}");
    }
}

#[test]
fn fault_d12_equal_private_addresses_the_carriers_range_and_hairpins_still_connect() {
    let pairs = [
        (Kind::PortRestricted, Kind::PortRestricted, Place::Apart),
        (Kind::Carrier, Kind::Carrier, Place::SameCarrier),
        (Kind::Hairpin, Kind::Hairpin, Place::Isolated),
        (Kind::CarrierNoHairpin, Kind::PortRestricted, Place::Apart),
    ];
    for (a, b, place) in pairs {
        assert_eq!(ends(a, b, place, 121).1, Carries::Direct, "{a:?} and {b:?} {place:?}");
    }
}

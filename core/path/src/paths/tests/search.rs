//! Port search: ports are always met where one side counts, mostly where many sockets wait, and guesses never become a flood.

use super::*;
use crate::nat::{Nat, PortPrediction};
use crate::report::{LocalNetwork, Verdict};
use taut_wire::control::Search;

/// Runs two ends behind these NATs for some seconds. Returns the milliseconds from the first packet to direct paths of both.
fn find_or_add(world: &mut TestNetwork, seconds: u64) -> Option<u64> {
    world.flow = Some(Duration::from_millis(20));
    world.begin();
    let met = world.run_until(at(1_000 + 1_000 * seconds), TestNetwork::both_direct);
    met.then(|| millis(world.now.since(at(1_000))))
}

/// Returns the probes of an end to endpoints that it tried only once: guesses.
fn guesses(world: &TestNetwork, side: usize) -> usize {
    world.ends[side].probes.iter().filter(|(way, times)| !way.is_relayed() && times.len() == 1).count()
}

/// Returns pairs that met in the first round of counted ports, and the milliseconds that this took.
fn prediction(world: &mut TestNetwork, which: &str) -> u64 {
    let met = find_or_add(world, 6);
    let sent = [0, 1].map(|side| guesses(world, side));
    assert!(sent.iter().all(|sent| *sent <= 64 + 16), "{sent:?} guesses, {which}");
    met.unwrap_or_else(|| panic!("{which}"))
}

#[test]
fn a_port_that_is_counted_is_always_met_in_the_first_round() {
    let mut figures = Vec::new();
    for seed in many() {
        let mut rng = Seeded::new(seed);
        let known = [NatBehaviour::PortRestricted, NatBehaviour::Firewall][usize::try_from(rng.below_u64(2)).unwrap()];
        let kinds =
            if rng.below_u64(2) == 0 { [NatBehaviour::Counting, known] } else { [known, NatBehaviour::Counting] };
        assert_eq!(kinds[0].reach(kinds[1]), Outcome::Predicted);
        let mut world = TestNetwork::new(kinds, seed);
        (0..2).for_each(|side| world.ends[side].nat.drift(u16::try_from(rng.below_u64(40)).unwrap()));
        figures.push(prediction(&mut world, &format!("{kinds:?}, seed {seed}")));
    }
    let worst = p99(figures);
    assert!(worst <= 2_500, "{worst} ms for 99 of 100");
}

#[test]
fn a_port_that_was_counted_up_far_is_met_in_the_second_round() {
    for seed in few() {
        let mut world = TestNetwork::new([NatBehaviour::Counting, NatBehaviour::PortRestricted], seed);
        world.ends[0].nat.drift(60 + u16::try_from(seed % 220).unwrap() % 220);
        let met = find_or_add(&mut world, 12);
        assert!(met.is_some_and(|met| met > 8_000), "{met:?}, seed {seed}");
        assert!(guesses(&world, 1) <= 64 + 256 + 16, "{} guesses", guesses(&world, 1));
    }
}

#[test]
fn two_counting_nats_meet_although_their_ports_moved_on() {
    let mut figures = Vec::new();
    for seed in many() {
        let mut rng = Seeded::new(seed);
        let mut world = TestNetwork::new([NatBehaviour::Counting, NatBehaviour::Counting], seed);
        (0..2).for_each(|side| world.ends[side].nat.drift(u16::try_from(rng.below_u64(12)).unwrap()));
        figures.push(prediction(&mut world, &format!("seed {seed}")));
    }
    let worst = p99(figures);
    assert!(worst <= 2_500, "{worst} ms for 99 of 100");
}

#[test]
fn a_port_that_is_drawn_is_met_by_chance_as_often_as_computed() {
    let (mut runs, mut later, mut found, mut figures) = (0, 0_u64, 0, Vec::new());
    for seed in many() {
        let known = [NatBehaviour::PortRestricted, NatBehaviour::Firewall][usize::try_from(seed % 2).unwrap()];
        assert_eq!(NatBehaviour::Symmetric.reach(known), Outcome::Chance);
        let mut world = TestNetwork::new([NatBehaviour::Symmetric, known], seed);
        let met = find_or_add(&mut world, 75);
        assert!(guesses(&world, 1) <= 1_024 * world.ends[0].rounds.len() + 16, "{} guesses", guesses(&world, 1));
        runs += 1;
        found += u64::from(met.is_some());
        match met {
            Some(met) if world.ends[0].rounds.len() == 1 => figures.push(met),
            _ => later += 1,
        }
    }
    // The formula gives 983 of 1,000 in one round, and all but one in 200,000 in three. A deviation of six standard deviations is expected in fewer than one
    // of a million runs.
    let expected = runs * 17 / 1_000;
    assert!(later.abs_diff(expected).pow(2) <= 36 * expected, "{later} of {runs} after the first round");
    assert!(found >= runs - 1, "{found} of {runs} at all");
    figures.sort_unstable();
    let (median, worst) = (figures[figures.len() / 2], figures[figures.len() * 99 / 100]);
    assert!(median <= 3_000 && worst <= 4_500, "first round: {median} ms for half, {worst} ms for 99 of 100");
}

#[test]
fn without_sockets_a_drawn_port_is_not_guessed_and_after_three_rounds_no_more() {
    let mut world = TestNetwork::new([NatBehaviour::Symmetric, NatBehaviour::PortRestricted], 3);
    world.ends[0].budget.set_sockets(0);
    assert_eq!(find_or_add(&mut world, 120), None);
    assert_eq!((world.ends[0].rounds.len(), guesses(&world, 1)), (0, 0));
    // One socket, and a firewall that drops its packets: no port is ever met.
    let mut world = TestNetwork::new([NatBehaviour::Symmetric, NatBehaviour::PortRestricted], 4);
    (0..2).for_each(|side| world.direct[side].up = false);
    assert_eq!(find_or_add(&mut world, 1_200), None);
    let rounds: Vec<u64> = world.ends[0].rounds.iter().map(|round| millis(round.since(at(1_000))) / 1_000).collect();
    assert_eq!(rounds, [2, 10, 70], "and then none");
    assert!(guesses(&world, 1) <= 3 * 1_024 + 16);
    for (side, nat) in [Nat::Symmetric, Nat::Cone].into_iter().enumerate() {
        let verdict = world.ends[side].paths.report(&LocalNetwork::behind(nat), world.now).verdict;
        assert!(matches!(verdict, Verdict::OneHard { ours, .. } if ours == (side == 0)), "{verdict:?}");
        let said = verdict.to_string();
        assert!(said.contains("3 rounds") && said.contains("98 of 100"), "{said}");
    }
}

#[test]
fn two_drawn_ports_are_not_guessed_and_without_data_there_is_no_search() {
    for kinds in [[NatBehaviour::Symmetric, NatBehaviour::Symmetric], [NatBehaviour::Counting, NatBehaviour::Symmetric]]
    {
        let mut world = TestNetwork::new(kinds, 5);
        assert_eq!(find_or_add(&mut world, 200), None);
        assert!(world.ends.iter().all(|end| end.rounds.is_empty()), "{kinds:?}");
    }
    let mut world = TestNetwork::new([NatBehaviour::Symmetric, NatBehaviour::PortRestricted], 6);
    world.begin();
    world.run(Duration::from_secs(1));
    world.ends.iter_mut().for_each(|end| end.paths.last_data = None);
    world.run(Duration::from_secs(200));
    assert!(world.ends[0].rounds.is_empty());
}

/// Returns the paths of a relayed peer, and the local endpoints behind a NAT of this kind.
fn relayed(overlay: &str) -> (Paths, LocalEndpoints) {
    let mut paths = Paths::new(Arc::from([overlay.parse().unwrap()]), Families::default());
    paths.set_relays(&[relay_of(0)], at(0));
    paths.handle_session_begun(Some(relay_of(0)), at(0));
    (paths, LocalEndpoints::new(&mut Seeded::new(1)))
}

fn asked(from: &str) -> Search {
    Search { from: from.parse().unwrap(), step: 0, ports: u16::MAX, sockets: 256 }
}

#[test]
fn fault_d11_no_peer_causes_guesses_at_forbidden_addresses() {
    for place in [
        "127.0.0.1:5000",
        "10.0.0.1:5000",
        "192.168.1.1:5000",
        "169.254.169.254:80",
        "224.0.0.1:5000",
        "203.0.113.7:5000",
        "255.255.255.255:5000",
        "[2001:db8::1]:5000",
        "[::1]:5000",
        "100.64.0.1:5000",
        "0.0.0.0:5000",
    ] {
        let (mut paths, local_endpoints) = relayed("203.0.113.0/24");
        paths.handle_search(&asked(place), &local_endpoints, at(0));
        let (mut budget, mut rng) = (Budget::new(), Seeded::new(2));
        for now in 0..3_000 {
            while let Some(probe) = paths.next_probe(&mut budget, &mut rng, at(now)) {
                assert!(probe.way.is_relayed(), "{place}: {}", probe.way);
            }
        }
    }
}

#[test]
fn fault_d10_a_peer_that_asks_without_end_gets_no_more_than_the_budget() {
    let (mut paths, local_endpoints) = relayed("100.64.0.0/10");
    let (mut budget, mut rng, mut sent) = (Budget::new(), Seeded::new(3), 0);
    for now in (0..600_000).step_by(10) {
        paths.handle_search(&asked("198.51.100.7:5000"), &local_endpoints, at(now));
        while let Some(probe) = paths.next_probe(&mut budget, &mut rng, at(now)) {
            sent += usize::from(!probe.way.is_relayed());
        }
    }
    assert!((3_200..=3_200 + 1_200 + 1).contains(&sent), "{sent} in ten minutes");
}

#[test]
fn an_end_behind_a_drawing_nat_makes_no_guesses() {
    let (mut paths, mut local_endpoints) = relayed("100.64.0.0/10");
    let latest = "192.0.2.77:5000".parse().unwrap();
    local_endpoints.set_reflexive(&[latest], Nat::Symmetric, &[]);
    local_endpoints.set_prediction(Some(PortPrediction { latest, step: 0 }));
    paths.handle_search(&Search { step: 1, ..asked("198.51.100.7:5000") }, &local_endpoints, at(0));
    paths.handle_search(&asked("198.51.100.7:5000"), &local_endpoints, at(0));
    assert_eq!(paths.guesses.due(), None);
}

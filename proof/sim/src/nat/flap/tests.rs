use super::*;

/// `make flap` runs virtual hours.
#[test]
fn after_any_weather_every_pair_is_where_it_belongs() {
    for seed in 0..8 {
        let outcome = Flap::new(seed).run(Duration::from_secs(240));
        assert_eq!(outcome.problems, Vec::<String>::new(), "seed {seed}: {outcome:?}");
        assert!(outcome.faults > 5 && outcome.packets[1] > 2_000, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_weather() {
    let told = |seed| Flap::new(seed).run(Duration::from_secs(60));
    assert_eq!(told(3), told(3));
    assert_ne!(told(3), told(4));
}

/// The check must be able to fail: a NAT that stays broken is reported as a problem.
#[test]
fn a_pair_that_cannot_be_direct_though_it_must_is_told() {
    let mut flap = Flap::new(1);
    flap.kinds = (Kind::Open, Kind::Open);
    let nat = flap.scene.nat(Side::A);
    flap.scene.net.set_hole(nat, crate::nat::internet::Hole::Cut);
    flap.calm();
    assert!(
        flap.outcome.problems.iter().any(|problem| problem.contains("is not where it belongs")),
        "{:?}",
        flap.outcome
    );
}

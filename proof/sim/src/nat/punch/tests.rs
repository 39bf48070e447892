use super::*;
use crate::nat::kind::{Kind, Place};

fn reached(a: Kind, b: Kind, budget: PunchBudget, seed: u64) -> Reach {
    let mut net = Internet::new(seed);
    let servers = (net.server(), net.server());
    let hosts = net.pair(a, b, Place::Apart);
    punch(&mut net, hosts, servers, budget, seed)
}

#[test]
fn the_budget_decides_how_often_a_guess_succeeds() {
    let hits = |budget| {
        let hit = |seed: &u64| reached(Kind::Symmetric, Kind::PortRestricted, budget, *seed) == Reach::Guess;
        (0..100).filter(hit).count()
    };
    let (whole, tenth) = (hits(BUDGET), hits(PunchBudget { ports: 100, ..BUDGET }));
    // The formula gives 98 and 33 of 100.
    assert!(whole >= 93, "{whole}");
    assert!((18..50).contains(&tenth), "{tenth}");
}

#[test]
fn both_hard_meet_by_chance_so_seldom_that_it_is_no_way() {
    let met = (0..100).filter(|seed| reached(Kind::Symmetric, Kind::Symmetric, BUDGET, *seed) != Reach::Relay).count();
    assert!(met <= 5, "{met}");
}

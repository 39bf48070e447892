//! The speed of virtual time: a day of two nodes that talk over a lossy wire.
//!
//! `cargo run --release -p taut-sim --example hours [SEED]`

use std::time::{Duration, Instant};

use taut_sim::{Link, Party, Probability, Settings, Side, TautHost, World, map_for};

fn main() {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (a, b) = (Party::new(1), Party::new(2));
    let host = |me: &Party, peer: &Party, seed| TautHost::new(me, map_for(me, &[peer]), Settings::default(), seed);
    let link = Link::clean(Duration::from_millis(20))
        .with_jitter(Duration::from_millis(20))
        .with_loss(Probability::percent(5))
        .with_duplication(Probability::percent(5));
    let mut world = World::new((&a, host(&a, &b, seed)), (&b, host(&b, &a, !seed)), link, seed);
    for side in Side::BOTH {
        world.flow(side, Duration::from_millis(500));
    }
    let begin = Instant::now();
    for hour in 1..=24 {
        world.run(Duration::from_secs(3600));
        let ledger = world.ledger(Side::A);
        let (sessions, arrived, sent) = (world.a().established(), ledger.arrived(), ledger.sent());
        println!("hour {hour:2}: {sessions} sessions, {arrived} of {sent} packets from A to B arrived");
    }
    println!("24 hours of virtual time took {:.2} s", begin.elapsed().as_secs_f64());
}

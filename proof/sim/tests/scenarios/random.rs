//! Random events in any order.

use std::time::Duration;

use taut_base::Entropy;
use taut_sim::{Link, Probability, Seeded, Settings, Side};
use taut_wire::control::Suites;

use crate::control::{AES, nonces_used_once};
use crate::{TautWorld, for_seeds, minutes, ms, secs, taut_world, taut_world_with};

fn some_link(chance: &mut Seeded) -> Link {
    let percent = |chance: &mut Seeded, most| Probability::percent(chance.below(most));
    let delay = [ms(0), ms(1), ms(20), ms(300)][chance.below(4) as usize];
    let jitter = if chance.below(2) == 0 { Duration::ZERO } else { chance.up_to(ms(400)) };
    let loss = if chance.below(6) == 0 { Probability::ALWAYS } else { percent(chance, 60) };
    Link { jitter, loss, duplication: percent(chance, 50), ..Link::clean(delay) }
}

/// A random duration, mostly short, sometimes minutes.
fn some_time(chance: &mut Seeded) -> Duration {
    let bound = [ms(10), ms(600), secs(8), secs(100), minutes(10)][chance.below(5) as usize];
    chance.up_to(bound)
}

fn something(world: &mut TautWorld, chance: &mut Seeded) {
    let side = Side::BOTH[chance.below(2) as usize];
    match chance.below(12) {
        0..4 => (0..chance.below(5)).for_each(|_| world.send(side)),
        4 => world.flow(side, ms(400) + chance.up_to(secs(20))),
        5 => world.stop(side),
        6 => world.set_link(side, some_link(chance)),
        7 => world.set_links(some_link(chance)),
        8 => world.sleep(some_time(chance)),
        9 => world.with_a(|host, now| host.restart(now)),
        10 => world.with_b(|host, now| host.restart(now)),
        _ => Side::BOTH.iter().for_each(|side| world.send(*side)),
    }
    world.run(some_time(chance));
}

#[test]
fn whatever_happens_a_good_minute_later_packets_pass_both_ways() {
    for_seeds(25, |seed| {
        let mut chance = Seeded::new(!seed);
        let mut world = taut_world(Link::clean(ms(20)), seed);
        for _ in 0..30 {
            something(&mut world, &mut chance);
        }
        world.set_links(Link::clean(ms(20)));
        world.flow(Side::A, secs(1));
        world.flow(Side::B, secs(1));
        world.run(minutes(1));
        let start = world.now();
        world.run(secs(10));
        crate::assert_complete(&world, start, world.ago(secs(1)));
    });
}

#[test]
fn the_same_seed_gives_the_same_world() {
    let story = |seed: u64| {
        let mut chance = Seeded::new(seed);
        let mut world = taut_world(Link::clean(ms(20)), seed);
        world.record();
        for _ in 0..30 {
            something(&mut world, &mut chance);
        }
        let history = world.take_history();
        (world.now(), history.into_iter().map(|recorded| (recorded.from, recorded.datagram)).collect::<Vec<_>>())
    };
    assert!(story(7) == story(7), "datagram for datagram");
    assert!(story(7) != story(8));
}

/// Publication to a lane that wakes late, renewals, restarts of either end, handshakes that cross, both suites: each key seals with each counter once.
#[test]
fn whatever_happens_no_key_seals_twice_with_one_nonce() {
    let sealed = std::cell::Cell::new(0);
    let runs = for_seeds(25, |seed| {
        let mut chance = Seeded::new(seed ^ 0x5a5a);
        let late = |chance: &mut Seeded| if chance.below(2) == 0 { Duration::ZERO } else { chance.up_to(ms(700)) };
        let settings = Settings {
            agent_delay: late(&mut chance),
            lane_delay: late(&mut chance),
            suites: if chance.below(2) == 0 { AES } else { Suites::STOCK },
            ..Settings::default()
        };
        let mut world = taut_world_with(settings, Link::clean(ms(20)), seed);
        world.record();
        for _ in 0..30 {
            something(&mut world, &mut chance);
        }
        sealed.set(sealed.get() + nonces_used_once(&world.take_history()));
    });
    assert!(sealed.get() > 400 * runs, "only {} messages were sealed in {runs} runs", sealed.get());
}

//! Each figure, from the start of both daemons.

use std::time::Duration;

use taut_base::Entropy;

use super::{Figure, Measured};
use crate::nat::internet::Hole;
use crate::nat::kind::Kind;
use crate::nat::scene::{Carries, Scene, Setup};
use crate::side::Side;
use taut_testkit::Seeded;

/// How often applications send while something is measured.
const INTERVAL: Duration = Duration::from_millis(5);

/// The same while nothing is measured yet; and where minutes pass.
const SELDOM: Duration = Duration::from_millis(250);

/// What is not there after this time counts as never.
const NEVER: Duration = Duration::from_secs(60);

/// When paths were found and NATs asked, what is measured of a steady state begins.
const STEADY: Duration = Duration::from_secs(75);

/// Measures one figure in such a scene.
pub(super) fn measure(figure: Figure, setup: &Setup, chance: &mut Seeded) -> Measured {
    let mut scene = Scene::new(setup, chance.next_u64());
    // Both daemons are up, have asked the relays how they look from outside, and wait.
    scene.run(Duration::from_secs(3) + chance.up_to(Duration::from_secs(2)));
    scene.answer(Side::B);
    match figure {
        Figure::Cold => cold(&mut scene, setup),
        Figure::Direct => direct(&mut scene),
        Figure::Dies => dies(&mut scene, chance),
        Figure::Back => back(&mut scene, chance),
        Figure::Moves => moves(&mut scene, setup, chance),
        Figure::RelayDies => relay_dies(&mut scene, chance),
        Figure::Reboots => reboots(&mut scene, chance),
        Figure::Control => control(&mut scene),
    }
}

fn took(took: Option<Duration>) -> Measured {
    Measured { value: took.map(milliseconds), ..Measured::default() }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn cold(scene: &mut Scene, setup: &Setup) -> Measured {
    scene.send(Side::A);
    let answered = scene.run_until(NEVER, |scene| scene.ledger(Side::B).arrived() > 0);
    took(answered.map(|took| took.saturating_sub(2 * setup.relay_round_trip())))
}

fn direct(scene: &mut Scene) -> Measured {
    scene.flow(Side::A, INTERVAL);
    took(scene.run_until(NEVER, Scene::is_direct))
}

/// Talks directly, and has done so for some seconds.
fn settle(scene: &mut Scene, chance: &mut Seeded) -> bool {
    scene.flow(Side::A, SELDOM);
    let settled = scene.run_until(NEVER, Scene::is_direct).is_some();
    scene.run(Duration::from_secs(3) + chance.up_to(Duration::from_secs(10)));
    go_on(scene);
    settled
}

/// From now on applications send often, and have done so for a second.
fn go_on(scene: &mut Scene) {
    scene.flow(Side::A, INTERVAL);
    scene.run(Duration::from_secs(1));
}

/// From now on until something that is asked from now on is answered.
fn next_answer(scene: &mut Scene) -> Option<Duration> {
    let (start, asked) = (scene.now(), scene.ledger(Side::A).sent());
    let arrived = |scene: &Scene| scene.ledger(Side::A).arrived_since(asked);
    scene.run_until(NEVER, arrived)?;
    // That one is answered at this moment, by the last packet that the other side sent.
    let answer = scene.ledger(Side::B).sent() - 1;
    scene.run_until(NEVER, |scene| scene.ledger(Side::B).arrived_since(answer))?;
    Some(scene.now().since(start))
}

fn dies(scene: &mut Scene, chance: &mut Seeded) -> Measured {
    if !settle(scene, chance) {
        return Measured::default();
    }
    let nat = scene.nat(some_side(chance));
    scene.net.set_hole(nat, Hole::Both);
    took(next_answer(scene))
}

fn some_side(chance: &mut Seeded) -> Side {
    Side::BOTH[chance.below(2) as usize]
}

fn back(scene: &mut Scene, chance: &mut Seeded) -> Measured {
    scene.flow(Side::A, SELDOM);
    if scene.run_until(NEVER, Scene::is_direct).is_none() {
        return Measured::default();
    }
    let nat = scene.nat(some_side(chance));
    scene.net.set_hole(nat, Hole::Both);
    scene.run(Duration::from_secs(5) + chance.up_to(Duration::from_secs(295)));
    if Side::BOTH.into_iter().any(|side| scene.carries(side) != Carries::Relay) {
        return Measured::default();
    }
    go_on(scene);
    let overtaken = |scene: &Scene| Side::BOTH.into_iter().map(|side| scene.ledger(side).overtaken()).sum::<usize>();
    let (from, before) = (scene.now(), overtaken(scene));
    scene.net.set_hole(nat, Hole::None);
    let until = scene.run_until(NEVER, Scene::is_direct);
    scene.run(Duration::from_secs(1));
    scene.stop(Side::A);
    let to = scene.now();
    scene.run(Duration::from_secs(1));
    let lost = Side::BOTH.into_iter().map(|side| scene.ledger(side).missing(from, to)).sum();
    Measured { lost, overtaken: overtaken(scene) - before, ..took(until) }
}

fn moves(scene: &mut Scene, setup: &Setup, chance: &mut Seeded) -> Measured {
    if !settle(scene, chance) {
        return Measured::default();
    }
    let side = some_side(chance);
    let elsewhere = chance.below(2) == 0;
    let place = if elsewhere { scene.net.behind(Kind::PortRestricted) } else { scene.place(side) };
    scene.move_beside(side, place);
    took(next_answer(scene).map(|until| until.saturating_sub(setup.direct_round_trip())))
}

fn relay_dies(scene: &mut Scene, chance: &mut Seeded) -> Measured {
    scene.flow(Side::A, SELDOM);
    scene.run(Duration::from_secs(5) + chance.up_to(Duration::from_secs(20)));
    go_on(scene);
    let Some(relay) = scene.relay_of(Side::A) else { return Measured::default() };
    scene.kill_relay(relay);
    took(next_answer(scene))
}

fn reboots(scene: &mut Scene, chance: &mut Seeded) -> Measured {
    if !settle(scene, chance) {
        return Measured::default();
    }
    scene.stop(Side::A);
    scene.set_coordinator(false);
    scene.kill_relay(chance.below(2) as usize);
    // The power was gone, and with it what the routers knew.
    for side in Side::BOTH {
        let nat = scene.nat(side);
        scene.net.router(nat).rebind();
        scene.restart(side);
    }
    scene.flow(Side::A, INTERVAL);
    took(next_answer(scene))
}

fn control(scene: &mut Scene) -> Measured {
    scene.flow(Side::A, SELDOM);
    if scene.run_until(NEVER, Scene::is_direct).is_none() {
        return Measured::default();
    }
    scene.run(STEADY);
    let before = Side::BOTH.map(|side| scene.probes(side));
    let minutes: u32 = 5;
    scene.run(Duration::from_secs(60 * u64::from(minutes)));
    let after = Side::BOTH.map(|side| scene.probes(side));
    let sent = before.iter().zip(&after).flat_map(|(before, after)| {
        after.iter().map(|(way, sent)| sent - before.get(way).copied().unwrap_or_default())
    });
    let most = sent.max().map(|most| most as f64 / f64::from(6 * minutes));
    Measured { value: most, ..Measured::default() }
}

//! The measurement of each figure, from the start of both daemons.

use std::time::Duration;

use taut_base::Entropy;

use super::{Figure, FigureResult};
use crate::nat::internet::Hole;
use crate::nat::kind::Kind;
use crate::nat::scene::{Carries, Scene, Setup};
use crate::side::Side;
use taut_testkit::Seeded;

/// Interval between application packets during a measurement, 5 ms.
const INTERVAL: Duration = Duration::from_millis(5);

/// Interval between application packets before a measurement and in phases of minutes, 250 ms.
const SELDOM: Duration = Duration::from_millis(250);

/// Time after which an event counts as missing, 60 s.
const NEVER: Duration = Duration::from_secs(60);

/// Time from the start to the measurement of a steady state, 75 s: paths are found and NATs are tested by then.
const STEADY: Duration = Duration::from_secs(75);

/// Measures one figure in such a scene.
pub(super) fn measure(figure: Figure, setup: &Setup, chance: &mut Seeded) -> FigureResult {
    let mut scene = Scene::new(setup, chance.next_u64());
    // Both daemons are up, have learned their external endpoints from the relays, and wait.
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

fn took(took: Option<Duration>) -> FigureResult {
    FigureResult { value: took.map(milliseconds), ..FigureResult::default() }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn cold(scene: &mut Scene, setup: &Setup) -> FigureResult {
    scene.send(Side::A);
    let answered = scene.run_until(NEVER, |scene| scene.ledger(Side::B).arrived() > 0);
    took(answered.map(|took| took.saturating_sub(2 * setup.relay_round_trip())))
}

fn direct(scene: &mut Scene) -> FigureResult {
    scene.flow(Side::A, INTERVAL);
    took(scene.run_until(NEVER, Scene::is_direct))
}

/// Waits until data goes directly, and some seconds more. Returns true if it does.
fn settle(scene: &mut Scene, chance: &mut Seeded) -> bool {
    scene.flow(Side::A, SELDOM);
    let settled = scene.run_until(NEVER, Scene::is_direct).is_some();
    scene.run(Duration::from_secs(3) + chance.up_to(Duration::from_secs(10)));
    go_on(scene);
    settled
}

/// Makes applications send often, and lets a second pass.
fn go_on(scene: &mut Scene) {
    scene.flow(Side::A, INTERVAL);
    scene.run(Duration::from_secs(1));
}

/// Returns the time from now until a packet that is sent from now on is answered.
fn next_answer(scene: &mut Scene) -> Option<Duration> {
    let (start, asked) = (scene.now(), scene.ledger(Side::A).sent());
    let arrived = |scene: &Scene| scene.ledger(Side::A).arrived_since(asked);
    scene.run_until(NEVER, arrived)?;
    // The other side's last packet answers this request at this moment.
    let answer = scene.ledger(Side::B).sent() - 1;
    scene.run_until(NEVER, |scene| scene.ledger(Side::B).arrived_since(answer))?;
    Some(scene.now().since(start))
}

fn dies(scene: &mut Scene, chance: &mut Seeded) -> FigureResult {
    if !settle(scene, chance) {
        return FigureResult::default();
    }
    let nat = scene.nat(some_side(chance));
    scene.net.set_hole(nat, Hole::Both);
    took(next_answer(scene))
}

fn some_side(chance: &mut Seeded) -> Side {
    Side::BOTH[chance.below(2) as usize]
}

fn back(scene: &mut Scene, chance: &mut Seeded) -> FigureResult {
    scene.flow(Side::A, SELDOM);
    if scene.run_until(NEVER, Scene::is_direct).is_none() {
        return FigureResult::default();
    }
    let nat = scene.nat(some_side(chance));
    scene.net.set_hole(nat, Hole::Both);
    scene.run(Duration::from_secs(5) + chance.up_to(Duration::from_secs(295)));
    if Side::BOTH.into_iter().any(|side| scene.carries(side) != Carries::Relay) {
        return FigureResult::default();
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
    FigureResult { lost, overtaken: overtaken(scene) - before, ..took(until) }
}

fn moves(scene: &mut Scene, setup: &Setup, chance: &mut Seeded) -> FigureResult {
    if !settle(scene, chance) {
        return FigureResult::default();
    }
    let side = some_side(chance);
    let elsewhere = chance.below(2) == 0;
    let place = if elsewhere { scene.net.behind(Kind::PortRestricted) } else { scene.place(side) };
    scene.move_beside(side, place);
    took(next_answer(scene).map(|until| until.saturating_sub(setup.direct_round_trip())))
}

fn relay_dies(scene: &mut Scene, chance: &mut Seeded) -> FigureResult {
    scene.flow(Side::A, SELDOM);
    scene.run(Duration::from_secs(5) + chance.up_to(Duration::from_secs(20)));
    go_on(scene);
    let Some(relay) = scene.relay_of(Side::A) else { return FigureResult::default() };
    scene.kill_relay(relay);
    took(next_answer(scene))
}

fn reboots(scene: &mut Scene, chance: &mut Seeded) -> FigureResult {
    if !settle(scene, chance) {
        return FigureResult::default();
    }
    scene.stop(Side::A);
    scene.set_coordinator(false);
    scene.kill_relay(chance.below(2) as usize);
    // A power failure: the routers lost their state.
    for side in Side::BOTH {
        let nat = scene.nat(side);
        scene.net.router(nat).rebind();
        scene.restart(side);
    }
    scene.flow(Side::A, INTERVAL);
    took(next_answer(scene))
}

fn control(scene: &mut Scene) -> FigureResult {
    scene.flow(Side::A, SELDOM);
    if scene.run_until(NEVER, Scene::is_direct).is_none() {
        return FigureResult::default();
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
    FigureResult { value: most, ..FigureResult::default() }
}

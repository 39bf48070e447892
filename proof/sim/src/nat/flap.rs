//! Everything goes away and comes back at random, for virtual hours; and whenever the weather is calm, everything must be where it belongs.
//!
//! ```text
//! storm, minutes: every few seconds something breaks, and is mended after a while ─▶ calm: all is mended ─▶ within CALM: direct where that must be
//!        ▲                                                                                                 possible, and packets arrive; then for
//!        └──────────────────────────────────────────────────────────────────────────────────────────────── STEADY nothing is lost or overtaken
//! ```
//! A thing has one fault at a time: a router (cable out, a hole in one direction or both, tables forgotten, other ports, another address), a host (another
//! address, the daemon started anew), the wires (loss, jitter, a longer way), a relay, the coordinator. Of two relays both may be gone.
//!
//! `lab/runs/flap.py` is the same with real daemons, routers and TCP, for ten minutes.

mod fault;

use std::fmt::Write;
use std::time::Duration;

use taut_base::{Entropy, Time};

use crate::nat::kind::{Kind, Place};
use crate::nat::matrix::pairs;
use crate::nat::scene::{Carries, Scene, Setup};
use crate::nat::verdict::{Reach, possible};
use crate::side::Side;
use taut_testkit::Seeded;

use fault::{Fault, Thing};

/// How often each side's applications send.
const INTERVAL: Duration = Duration::from_millis(100);

/// Between two faults, and how long one lasts: `lab/runs/flap.py` has the same.
const PAUSE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(8)];
const LASTS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];
/// One in eight lasts up to this: long enough for NATs to forget and for sessions to end.
const LASTS_LONG: Duration = Duration::from_secs(300);

/// How long a storm goes on.
const STORM: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(600)];

/// How soon after a storm a pair must be where it belongs; `lab/runs/flap.py` has the same.
const CALM: Duration = Duration::from_secs(60);

/// How long nothing may be lost or overtaken then.
const STEADY: Duration = Duration::from_secs(10);

/// What is under way arrives within this time.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// Two nodes, and the weather.
pub struct Flap {
    scene: Scene,
    kinds: (Kind, Kind),
    chance: Seeded,
    broken: Vec<(Time, Thing, Fault)>,
    outcome: Outcome,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The kinds of NAT.
    pub kinds: [&'static str; 2],
    /// Storms that were lived through.
    pub storms: usize,
    /// Faults in them.
    pub faults: usize,
    /// Packets that both sides sent, and those that arrived. What is sent in a storm may be lost.
    pub packets: [usize; 2],
    /// Packets that came after a later one, storms included.
    pub overtaken: usize,
    /// How long after each storm the pair was where it belongs.
    pub settled: Vec<Duration>,
    /// What must not be: a sentence each.
    pub problems: Vec<String>,
}

impl Flap {
    /// Two hosts that can speak at all, in different networks; which, and all that happens, is drawn by `seed`.
    pub fn new(seed: u64) -> Self {
        let mut chance = Seeded::new(seed);
        let served = |kind: Kind| kind.traits().udp;
        let fitting: Vec<_> =
            pairs().filter(|(a, b, place)| *place == Place::Apart && served(*a) && served(*b)).collect();
        let (a, b, _) = fitting[chance.below(u32::try_from(fitting.len()).unwrap_or(u32::MAX)) as usize];
        let mut scene = Scene::new(&Setup::apart(a, b), chance.next_u64());
        for side in Side::BOTH {
            scene.flow(side, INTERVAL);
        }
        let outcome = Outcome { kinds: [a.name(), b.name()], ..Outcome::default() };
        Self { scene, kinds: (a, b), chance, broken: Vec::new(), outcome }
    }

    /// Storms and calms for at least so long.
    pub fn run(mut self, duration: Duration) -> Outcome {
        let end = self.scene.now() + duration;
        while self.scene.now() < end {
            let storm = self.between(STORM);
            self.storm(storm);
            self.calm();
        }
        for side in Side::BOTH {
            let ledger = self.scene.ledger(side);
            self.outcome.packets[0] += ledger.sent();
            self.outcome.packets[1] += ledger.arrived();
            self.outcome.overtaken += ledger.overtaken();
        }
        self.outcome
    }

    fn between(&mut self, [least, most]: [Duration; 2]) -> Duration {
        least + self.chance.up_to(most - least)
    }

    fn storm(&mut self, duration: Duration) {
        let end = self.scene.now() + duration;
        let mut next = self.scene.now();
        while self.scene.now() < end {
            if self.scene.now() >= next {
                self.break_something();
                next = self.scene.now() + self.between(PAUSE);
            }
            let mended = self.broken.iter().map(|(due, ..)| *due);
            let until = mended.chain([next, end]).min().unwrap_or(end);
            self.scene.run(until.since(self.scene.now()));
            self.mend(until);
        }
        self.outcome.storms += 1;
    }

    fn break_something(&mut self) {
        let thing = Thing::draw(&self.scene, &mut self.chance);
        if self.broken.iter().any(|(_, broken, _)| *broken == thing) {
            return;
        }
        let fault = thing.draw_fault(&self.scene, &mut self.chance);
        let lasts = if self.chance.below(8) == 0 { [LASTS[0], LASTS_LONG] } else { LASTS };
        let due = self.scene.now() + self.between(lasts);
        fault.start(thing, &mut self.scene, &mut self.chance);
        self.outcome.faults += 1;
        self.broken.push((due, thing, fault));
    }

    /// Mends what is due by then.
    fn mend(&mut self, by: Time) {
        let (due, later) = self.broken.drain(..).partition(|(due, ..)| *due <= by);
        self.broken = later;
        let due: Vec<_> = due;
        for (_, thing, fault) in due {
            fault.end(thing, &mut self.scene);
        }
    }

    /// All is mended: is everything where it belongs, soon?
    fn calm(&mut self) {
        self.mend(Time(u64::MAX));
        let reach = possible(self.kinds.0, self.kinds.1, Place::Apart).reach;
        let belongs = |scene: &Scene| match reach {
            Reach::Direct => scene.is_direct(),
            Reach::Guess | Reach::Relay => Side::BOTH.into_iter().all(|side| scene.carries(side) != Carries::Nothing),
        };
        // A way that is in use yet may have died a moment ago: what arrives tells.
        let flows = |scene: &Scene| Side::BOTH.into_iter().all(|side| scene.flows_from(side));
        match self.scene.run_until(CALM, |scene| belongs(scene) && flows(scene)) {
            Some(took) => self.outcome.settled.push(took),
            None => self.problem("is not where it belongs"),
        }
        // Data is still held back, or goes two ways, while a path was just left.
        self.scene.run(UNDER_WAY);
        let (from, before) = (self.scene.now(), self.overtaken());
        self.scene.run(STEADY);
        let to = self.scene.now();
        self.scene.run(UNDER_WAY);
        let lost = Side::BOTH.map(|side| self.scene.ledger(side).missing(from, to));
        if lost != [0, 0] {
            self.problem(&format!("loses {lost:?} packets in calm weather"));
        }
        if self.overtaken() != before {
            self.problem("reorders packets in calm weather");
        }
    }

    fn overtaken(&self) -> usize {
        Side::BOTH.into_iter().map(|side| self.scene.ledger(side).overtaken()).sum()
    }

    fn problem(&mut self, what: &str) {
        let ways = Side::BOTH.map(|side| self.scene.carries(side));
        let mut text = format!("{} and {} ", self.outcome.kinds[0], self.outcome.kinds[1]);
        let _ = write!(text, "after storm {}: {what} ({ways:?})", self.outcome.storms);
        self.outcome.problems.push(text);
    }
}

#[cfg(test)]
mod tests;

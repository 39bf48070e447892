//! A storm test in virtual time: everything fails and recovers at random for hours, and after each storm the pair must recover fully.
//!
//! ```text
//! storm, minutes: every few seconds one part fails, and is repaired after a while ─▶ calm: all repaired ──▶ within CALM: direct where that must be
//!        ▲                                                                                                 possible, and packets arrive; then for
//!        └──────────────────────────────────────────────────────────────────────────────────────────────── STEADY nothing is lost or overtaken
//! ```
//! Each part has one fault at a time: a router (link down, a hole in one or both directions, tables cleared, new ports, new address), a host (another
//! address, a restarted daemon), the wires (loss, jitter, more delay), a relay, the coordinator. Both relays may be down at the same time.
//!
//! `lab/runs/flap.py` does the same for ten minutes with real daemons, routers and TCP.

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

/// Interval between packets of each side's applications, 100 ms.
const INTERVAL: Duration = Duration::from_millis(100);

/// Range of the time between two faults, and of a fault's duration, 2 to 8 s: the same as in `lab/runs/flap.py`.
const PAUSE: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(8)];
const LASTS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(15)];
/// Longest duration of one in eight faults, 300 s: long enough for NAT mappings to expire and sessions to end.
const LASTS_LONG: Duration = Duration::from_secs(300);

/// Range of a storm's duration, 1 to 10 minutes.
const STORM: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(600)];

/// Time after a storm within which a pair must have recovered, 60 s: the same as in `lab/runs/flap.py`.
const CALM: Duration = Duration::from_secs(60);

/// Time after the recovery during which no packet may be lost or reordered, 10 s.
const STEADY: Duration = Duration::from_secs(10);

/// Time within which datagrams under way arrive, 1 s.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// Two nodes and the state of the storm.
pub struct Flap {
    scene: Scene,
    kinds: (Kind, Kind),
    chance: Seeded,
    broken: Vec<(Time, Thing, Fault)>,
    outcome: FlapOutcome,
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlapOutcome {
    /// The kinds of NAT.
    pub kinds: [&'static str; 2],
    /// Number of completed storms.
    pub storms: usize,
    /// Number of faults in all storms.
    pub faults: usize,
    /// Packets that both sides sent, and packets that arrived. Packets sent in a storm may be lost.
    pub packets: [usize; 2],
    /// Packets that arrived after a later packet of their flow, including those in storms.
    pub overtaken: usize,
    /// Recovery time of the pair after each storm.
    pub settled: Vec<Duration>,
    /// Violations of the test's conditions, one sentence each.
    pub problems: Vec<String>,
}

impl Flap {
    /// Creates two hosts in different networks that can reach each other. `seed` determines the hosts and all events.
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
        let outcome = FlapOutcome { kinds: [a.name(), b.name()], ..FlapOutcome::default() };
        Self { scene, kinds: (a, b), chance, broken: Vec::new(), outcome }
    }

    /// Runs storms and calms for at least `duration`.
    pub fn run(mut self, duration: Duration) -> FlapOutcome {
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

    /// Ends the faults that are due by this time.
    fn mend(&mut self, by: Time) {
        let (due, later) = self.broken.drain(..).partition(|(due, ..)| *due <= by);
        self.broken = later;
        let due: Vec<_> = due;
        for (_, thing, fault) in due {
            fault.end(thing, &mut self.scene);
        }
    }

    /// Ends all faults, and checks that the pair recovers in time.
    fn calm(&mut self) {
        self.mend(Time(u64::MAX));
        let reach = possible(self.kinds.0, self.kinds.1, Place::Apart).reach;
        let belongs = |scene: &Scene| match reach {
            Reach::Direct => scene.is_direct(),
            Reach::Guess | Reach::Relay => Side::BOTH.into_iter().all(|side| scene.carries(side) != Carries::Nothing),
        };
        // A path in use may have failed a moment ago, so arriving packets are checked too.
        let flows = |scene: &Scene| Side::BOTH.into_iter().all(|side| scene.flows_from(side));
        match self.scene.run_until(CALM, |scene| belongs(scene) && flows(scene)) {
            Some(took) => self.outcome.settled.push(took),
            None => self.problem("is not where it belongs"),
        }
        // Data may still be held back, or take two paths, just after a path was left.
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

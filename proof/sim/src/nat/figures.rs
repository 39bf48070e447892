//! What docs/paths.md counts, once per seed: how soon something is reached when everything around was drawn by chance.
//!
//! ```text
//! seed ─▶ Terrain: kinds of NAT, how far everybody is ─▶ Scene ─▶ Figure::measure ─▶ Measured
//! ```
//! Hosts are 1 to 31 ms from the middle of the internet, relays 1 to 16 ms and half as much more each; the NATs are any two kinds between which a direct
//! path must be possible (for a relay that dies: must not). Nothing is lost by chance, so that every lost packet is our doing.

mod measure;

use std::time::Duration;

use taut_base::Entropy;

use crate::link::Link;
use crate::nat::kind::{Kind, Place};
use crate::nat::matrix::pairs;
use crate::nat::scene::Setup;
use crate::nat::verdict::{Reach, possible};
use taut_testkit::Seeded;

/// What is measured. The names, limits and units are those of the table in docs/paths.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// From the first packet to a peer that was never spoken to, until it was answered, beyond two round trips over the relay.
    Cold,
    /// From that first packet until both sides send directly.
    Direct,
    /// From the moment at which the direct path is swallowed under traffic, until something that was asked after it is answered.
    Dies,
    /// From the moment at which a direct path becomes possible again, after five seconds to five minutes, until both sides send directly.
    Back,
    /// From another address of one host, in the same network or another, until something that was asked after it is answered, beyond a round trip.
    Moves,
    /// From the death of the relay that carries, until something that was asked after it is answered.
    RelayDies,
    /// From the restart of both daemons, behind NATs that forgot, with one relay alive and no coordinator, until something was answered.
    Reboots,
    /// Probes in ten seconds on the way that is probed most, while packets flow and nothing changes.
    Control,
}

/// One figure of one seed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// In the unit of the figure; [`None`]: it never came.
    pub value: Option<f64>,
    /// Packets that were lost though nothing had to be.
    pub lost: usize,
    /// Packets that came after a later one, in both directions.
    pub overtaken: usize,
}

impl Figure {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 8] =
        [Self::Cold, Self::Direct, Self::Dies, Self::Back, Self::Moves, Self::RelayDies, Self::Reboots, Self::Control];

    /// Its name, as `lab/runs/paths.py` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Direct => "direct",
            Self::Dies => "dies",
            Self::Back => "back",
            Self::Moves => "moves",
            Self::RelayDies => "relay-dies",
            Self::Reboots => "reboots",
            Self::Control => "control",
        }
    }

    /// The unit of its values.
    pub const fn unit(self) -> &'static str {
        if matches!(self, Self::Control) { "per 10 s" } else { "ms" }
    }

    /// What 99 of 100 runs must reach.
    pub const fn limit(self) -> f64 {
        match self {
            Self::Cold => 50.0,
            Self::Direct | Self::Dies => 1_000.0,
            Self::Back | Self::Reboots => 5_000.0,
            Self::Moves => 300.0,
            Self::RelayDies => 2_000.0,
            Self::Control => 1.0,
        }
    }

    /// Measures it once, in a world that is drawn by this seed.
    pub fn measure(self, seed: u64) -> Measured {
        let mut chance = Seeded::new(seed);
        let setup = self.setup(&mut chance);
        measure::measure(self, &setup, &mut chance)
    }

    fn setup(self, chance: &mut Seeded) -> Setup {
        let wanted = if self == Self::RelayDies { Reach::Relay } else { Reach::Direct };
        let fits = |(a, b, place): &(Kind, Kind, Place)| {
            let served = [a, b].into_iter().all(|kind| kind.traits().udp && !kind.traits().one_way);
            *place == Place::Apart && served && possible(*a, *b, *place).reach == wanted
        };
        let fitting: Vec<_> = pairs().filter(fits).collect();
        let (a, b, _) = fitting[chance.below(u32::try_from(fitting.len()).unwrap_or(u32::MAX)) as usize];
        let (a, b) = if chance.below(2) == 0 { (a, b) } else { (b, a) };
        let access = Link::clean(Duration::from_millis(1) + chance.up_to(Duration::from_millis(30)));
        let to_relay = Duration::from_millis(1) + chance.up_to(Duration::from_millis(15));
        Setup { access, to_relay, ..Setup::apart(a, b) }
    }
}

#[cfg(test)]
mod tests;

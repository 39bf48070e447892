//! The figures of docs/paths.md, measured once per seed: the time until an answer or a direct path, in a randomly drawn network.
//!
//! ```text
//! seed ─▶ Setup: kinds of NAT, delays ─▶ Scene ─▶ Figure::measure ─▶ Measured
//! ```
//! Hosts are 1 to 31 ms from the middle of the internet. The first relay is 1 to 16 ms from there, and the second one and a half times as far. The NATs are two
//! kinds between which a direct path must be possible; for [`Figure::RelayDies`], two between which it is impossible. The links lose nothing, so each lost
//! packet is lost by the nodes.

mod measure;

use std::time::Duration;

use taut_base::Entropy;

use crate::link::Link;
use crate::nat::kind::{Kind, Place};
use crate::nat::matrix::pairs;
use crate::nat::scene::Setup;
use crate::nat::verdict::{Reach, possible};
use taut_testkit::Seeded;

/// A measured quantity. Limits and units are those of the table in docs/paths.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Time from the first packet to a peer without a session until the answer, minus two round trips through the relay.
    Cold,
    /// Time from the first packet to such a peer until both sides send directly.
    Direct,
    /// Time from when the direct path drops all packets, under traffic, until a later request is answered.
    Dies,
    /// Time from when a direct path becomes possible again, after 5 s to 5 min without one, until both sides send directly.
    Back,
    /// Time from a change of one host's address, in the same network or to another one, until a later request is answered, minus a round trip.
    Moves,
    /// Time from the end of the relay in use until a later request is answered.
    RelayDies,
    /// Time from the restart of both daemons until a request is answered. The NATs have lost their mappings, one relay works, and the coordinator is down.
    Reboots,
    /// Probes per ten seconds on the path with the most probes, while packets flow and nothing changes.
    Control,
}

/// The result of one figure for one seed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FigureResult {
    /// The value in the figure's unit; [`None`] if the event did not happen within a minute.
    pub value: Option<f64>,
    /// Number of lost packets; a run can be without any.
    pub lost: usize,
    /// Packets that arrived after a later packet of their flow, in both directions.
    pub overtaken: usize,
}

impl Figure {
    /// All figures, in the order of the table.
    pub const ALL: [Self; 8] =
        [Self::Cold, Self::Direct, Self::Dies, Self::Back, Self::Moves, Self::RelayDies, Self::Reboots, Self::Control];

    /// Returns the name of the figure in `lab/runs/path_measurements.py`.
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

    /// Returns the unit of its values.
    pub const fn unit(self) -> &'static str {
        if matches!(self, Self::Control) { "per 10 s" } else { "ms" }
    }

    /// Returns the limit that 99 of 100 runs must keep.
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

    /// Measures the figure once, in the network that this seed draws.
    pub fn measure(self, seed: u64) -> FigureResult {
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

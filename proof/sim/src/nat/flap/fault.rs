//! The faults of a storm, and how they end.

use std::time::Duration;

use taut_base::Entropy;

use crate::link::Link;
use crate::nat::internet::Hole;
use crate::nat::scene::Scene;
use crate::side::Side;
use taut_testkit::{Probability, Seeded};

/// A part that can fail, with one fault at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Thing {
    Router(Side),
    Host(Side),
    Wires,
    Relay(usize),
    Coordinator,
}

/// A fault. A fault that ends on its own needs no repair.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Hole(Hole),
    /// Flows and permissions are cleared; ports are kept.
    Forgets,
    OtherPorts,
    OtherAddress,
    /// The host moves within its network.
    Moves,
    Restarts,
    /// The wires are worse; the field holds their earlier state.
    Wires(Link),
    Away,
}

impl Thing {
    pub(super) fn draw(scene: &Scene, chance: &mut Seeded) -> Self {
        let side = Side::BOTH[chance.below(2) as usize];
        let relay = chance.below(u32::try_from(scene.relays()).unwrap_or(0).max(1)) as usize;
        match chance.below(8) {
            0..=2 => Self::Router(side),
            3 => Self::Host(side),
            4 => Self::Wires,
            5 | 6 => Self::Relay(relay),
            _ => Self::Coordinator,
        }
    }

    pub(super) fn draw_fault(self, scene: &Scene, chance: &mut Seeded) -> Fault {
        match self {
            Self::Router(side) => match chance.below(7) {
                0 => Fault::Hole(Hole::Cut),
                1 => Fault::Hole(Hole::In),
                2 => Fault::Hole(Hole::Out),
                3 => Fault::Hole(Hole::Both),
                4 => Fault::OtherPorts,
                5 if scene.is_translated(side) => Fault::OtherAddress,
                _ => Fault::Forgets,
            },
            // Without translation a host's address belongs to its network, and each host has its own network.
            Self::Host(side) if scene.is_translated(side) && chance.below(2) == 0 => Fault::Moves,
            Self::Host(_) => Fault::Restarts,
            Self::Wires => Fault::Wires(scene.access()),
            Self::Relay(_) | Self::Coordinator => Fault::Away,
        }
    }
}

impl Fault {
    pub(super) fn start(self, thing: Thing, scene: &mut Scene, chance: &mut Seeded) {
        match (self, thing) {
            (Self::Hole(hole), Thing::Router(side)) => {
                let nat = scene.nat(side);
                scene.net.set_hole(nat, hole);
            }
            (Self::Forgets, Thing::Router(side)) => {
                let nat = scene.nat(side);
                scene.net.router(nat).forget();
            }
            (Self::OtherPorts, Thing::Router(side)) => {
                let nat = scene.nat(side);
                scene.net.router(nat).rebind();
            }
            (Self::OtherAddress, Thing::Router(side)) => {
                let nat = scene.nat(side);
                scene.net.change_address(nat);
            }
            (Self::Moves, Thing::Host(side)) => scene.move_beside(side, scene.place(side)),
            (Self::Restarts, Thing::Host(side)) => scene.restart(side),
            (Self::Wires(_), _) => scene.set_access(bad(chance)),
            (_, Thing::Relay(number)) => scene.kill_relay(number),
            (_, Thing::Coordinator) => scene.set_coordinator(false),
            (_, Thing::Router(_) | Thing::Host(_) | Thing::Wires) => {}
        }
    }

    pub(super) fn end(self, thing: Thing, scene: &mut Scene) {
        match (self, thing) {
            (Self::Hole(_), Thing::Router(side)) => {
                let nat = scene.nat(side);
                scene.net.set_hole(nat, Hole::None);
            }
            (Self::Wires(before), _) => scene.set_access(before),
            (Self::Away, Thing::Relay(number)) => scene.start_relay(number),
            (Self::Away, Thing::Coordinator) => scene.set_coordinator(true),
            _ => {}
        }
    }
}

/// Returns wires with random loss, jitter and delay.
fn bad(chance: &mut Seeded) -> Link {
    let delay = Duration::from_millis(1) + chance.up_to(Duration::from_millis(150));
    let (jitter, loss) = (chance.up_to(Duration::from_millis(40)), Probability::percent(chance.below(30)));
    Link::clean(delay).with_jitter(jitter).with_loss(loss)
}

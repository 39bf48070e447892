//! Why a peer is reached as it is: what `taut why` says. Plain data, and sentences for it.
//!
//! Facts ([`WayReport`], [`Here`]) and what they mean ([`Meaning`] of one way, [`Verdict`] of all) are kept apart: the facts are what was counted, the meaning
//! is the first of a fixed list of explanations that fits them, and what would fix it follows from that.
//!
//! A sentence says no more than the facts do: a datagram without an answer was dropped on its way, or had no receiver.

mod meaning;
#[cfg(test)]
mod tests;
mod verdict;

use core::net::SocketAddr;
use core::time::Duration;
use std::vec::Vec;

use taut_base::{DEFAULT_MTU, Prefix};

use crate::candidate_state::{DownCause, Origins};
use crate::nat::Nat;
use crate::way::Way;

pub use meaning::Meaning;
pub use verdict::Verdict;

/// What is known of this host beside the ways.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    /// The NAT in front of it.
    pub nat: Nat,
    /// Its networks: what its interfaces reach without a router.
    pub networks: &'a [Prefix],
    /// Its interfaces' addresses.
    pub own: &'a [SocketAddr],
    /// Where relays see it.
    pub seen: &'a [SocketAddr],
    /// Bytes of the longest inner packet: the TUN's MTU.
    pub longest: u16,
}

/// A peer's paths, explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The way data takes.
    pub way: Option<Way>,
    /// For how long it has been that.
    pub for_long: Option<Duration>,
    /// What it means.
    pub verdict: Verdict,
    /// The NAT in front of us.
    pub our_nat: Nat,
    /// The NAT in front of the peer, as it says.
    pub their_nat: Nat,
    /// Each way that is known: relays, then direct ones.
    pub ways: Vec<WayReport>,
}

/// What was counted on one way. Durations are how long ago something was, or for how long it has been so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayReport {
    /// Which.
    pub way: Way,
    /// Who named it.
    pub origins: Origins,
    /// Data takes it.
    pub in_use: bool,
    /// Known for.
    pub known_for: Duration,
    /// Leading to the peer for.
    pub proven_for: Option<Duration>,
    /// Leading there no more for, and why.
    pub down: Option<(Duration, DownCause)>,
    /// Being judged.
    pub suspected: bool,
    /// Probes sent by it.
    pub sent: u64,
    /// Answers that came by it.
    pub answered: u64,
    /// Answers to its probes that came by another way.
    pub answered_elsewhere: u64,
    /// Probes of the peer that came by it.
    pub asked: u64,
    /// When an authentic packet of the peer came by it.
    pub heard_ago: Option<Duration>,
    /// Probes that the budgets held back.
    pub refused: u64,
    /// How long a packet takes there and back.
    pub round_trip: Option<Duration>,
    /// Lost probes in per cent, of the latest 16.
    pub loss: Option<u32>,
    /// The longest inner packet in bytes that was answered, where longer ones were not.
    pub fits: Option<u16>,
    /// Where the peer saw our probes come from.
    pub seen_as: Option<SocketAddr>,
    /// Whether we have an address of its family.
    pub family: bool,
    /// Where its address is, seen from this host.
    pub place: Place,
    /// Nothing is probed, because nothing flows.
    pub asleep: bool,
}

/// Where an address is, seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This host has it itself.
    Here,
    /// In a network that this host is in.
    Near,
    /// Where relays see this host: the NAT in front of it has the address.
    OurNat,
    /// A private address that is in none of its networks.
    Private,
    /// Elsewhere.
    Far,
}

impl Here<'_> {
    /// A host of which only the NAT in front of it is known.
    pub const fn behind(nat: Nat) -> Self {
        Self { nat, networks: &[], own: &[], seen: &[], longest: DEFAULT_MTU }
    }

    /// Where an address is, seen from this host.
    pub(crate) fn place(&self, endpoint: SocketAddr) -> Place {
        let address = endpoint.ip().to_canonical();
        let has = |all: &[SocketAddr]| all.iter().any(|one| one.ip().to_canonical() == address);
        if has(self.own) {
            Place::Here
        } else if self.networks.iter().any(|network| network.contains(address)) {
            Place::Near
        } else if has(self.seen) {
            Place::OurNat
        } else if crate::choice::is_private(address) {
            Place::Private
        } else {
            Place::Far
        }
    }
}

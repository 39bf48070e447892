//! The explanation of a peer's path that `taut why` shows: plain data, and sentences for it.
//!
//! The facts ([`WayReport`], [`LocalNetwork`]) are what was counted. Their meaning ([`Meaning`] of one candidate, [`Verdict`] of all) is the first of
//! a fixed list of explanations that fits. The fix follows from the meaning.
//!
//! A sentence claims no more than the facts show: a datagram without an answer was dropped on its way, or had no receiver.

mod limit;
mod meaning;
#[cfg(test)]
mod tests;
mod verdict;

use core::net::SocketAddr;
use core::time::Duration;
use std::vec::Vec;

use taut_base::{MAX_MTU, Prefix};

use crate::candidate_state::Origins;
use crate::nat::Nat;
use crate::reasons::DownCause;
use crate::way::Way;

pub use limit::{LimitCause, WayLimit};
pub use meaning::Meaning;
pub use verdict::Verdict;

/// What is known of this host.
#[derive(Clone, Copy, Debug)]
pub struct LocalNetwork<'a> {
    /// The NAT in front of it.
    pub nat: Nat,
    /// The networks that its interfaces reach without a router.
    pub networks: &'a [Prefix],
    /// The addresses of its interfaces.
    pub own: &'a [SocketAddr],
    /// The endpoints at which relays see it.
    pub seen: &'a [SocketAddr],
    /// The longest packet limit that is looked for.
    pub longest: u16,
    /// The largest MTU of the interfaces that lead to peers, if it is known.
    pub interface_mtu: Option<u16>,
}

/// The paths to one peer, explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathReport {
    /// The path that data takes.
    pub way: Option<Way>,
    /// How long data has taken it.
    pub for_long: Option<Duration>,
    /// The explanation.
    pub verdict: Verdict,
    /// The NAT in front of this node.
    pub local_nat: Nat,
    /// The NAT in front of the peer, as the peer reports it.
    pub peer_nat: Nat,
    /// All candidates: relays, then direct ones.
    pub ways: Vec<WayReport>,
}

/// The counts of one candidate. Durations are ages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayReport {
    /// The candidate.
    pub way: Way,
    /// The sources that name it.
    pub origins: Origins,
    /// True if data takes it.
    pub in_use: bool,
    /// Time since it was added.
    pub known_for: Duration,
    /// Time since it was proven, if it is.
    pub proven_for: Option<Duration>,
    /// Time since it went down, and the reason, if it did.
    pub down: Option<(Duration, DownCause)>,
    /// True if it is suspected.
    pub suspected: bool,
    /// Probes sent on it.
    pub sent: u64,
    /// Answers that came by it.
    pub answered: u64,
    /// Answers to its probes that came by another path.
    pub answered_elsewhere: u64,
    /// Probes of the peer that came by it.
    pub peer_probes: u64,
    /// Time since an authentic packet of the peer came by it.
    pub heard_ago: Option<Duration>,
    /// Probes that the budgets held back.
    pub refused: u64,
    /// The round-trip time.
    pub round_trip: Option<Duration>,
    /// Lost probes in per cent, of the latest 16.
    pub loss: Option<u32>,
    /// Bytes of the longest inner packet that passes, once probes have found it.
    pub fits: Option<u16>,
    /// The packet limit and what limits it; `None` for a candidate that does not lead to the peer.
    pub limit: Option<WayLimit>,
    /// The endpoint that the peer saw probes come from.
    pub seen_as: Option<SocketAddr>,
    /// True if this host has an address of its family.
    pub family: bool,
    /// Where its address is, seen from this host.
    pub place: EndpointLocation,
    /// True if nothing is probed, because no data flows.
    pub asleep: bool,
}

/// Where an address is, seen from this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointLocation {
    /// This host has the address.
    OwnHost,
    /// In a network of this host.
    SameNetwork,
    /// The NAT in front of this host has the address: relays see it.
    OwnNat,
    /// A private address in none of this host's networks.
    Private,
    /// Any other address.
    Public,
}

impl LocalNetwork<'_> {
    /// Returns a host of which only the NAT in front of it is known.
    pub const fn behind(nat: Nat) -> Self {
        Self { nat, networks: &[], own: &[], seen: &[], longest: MAX_MTU, interface_mtu: None }
    }

    /// Returns where an address is, seen from this host.
    pub(crate) fn place(&self, endpoint: SocketAddr) -> EndpointLocation {
        let address = endpoint.ip().to_canonical();
        let has = |all: &[SocketAddr]| all.iter().any(|one| one.ip().to_canonical() == address);
        if has(self.own) {
            EndpointLocation::OwnHost
        } else if self.networks.iter().any(|network| network.contains(address)) {
            EndpointLocation::SameNetwork
        } else if has(self.seen) {
            EndpointLocation::OwnNat
        } else if crate::choice::is_private(address) {
            EndpointLocation::Private
        } else {
            EndpointLocation::Public
        }
    }
}

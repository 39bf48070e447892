//! Where this node may be reached, as far as it knows: what it tells its peers, and the coordinator.

use core::net::SocketAddr;
use std::vec::Vec;

use taut_base::{Entropy, Prefix};
use taut_wire::control::{Endpoints, MAX_ENDPOINTS};

use crate::candidates::{acceptable, canonical};
use crate::nat::Nat;
use crate::nat_report::Foretold;

/// This node's endpoints, from all that knows of some.
#[derive(Clone, Debug)]
pub struct LocalEndpoints {
    serial: u32,
    nat: Nat,
    /// Its interfaces' addresses, best first.
    host: Vec<SocketAddr>,
    /// What a gateway says that it forwards.
    mapped: Vec<SocketAddr>,
    /// What relays see.
    reflexive: Vec<SocketAddr>,
    /// Where another destination may see us, behind a NAT that gives each another port.
    foretold: Option<Foretold>,
    list: Vec<SocketAddr>,
}

impl LocalEndpoints {
    /// Nothing known yet. The serial begins somewhere, so that peers take this for another run of the node.
    pub fn new(entropy: &mut impl Entropy) -> Self {
        let serial = entropy.next_u32().max(1);
        let (host, mapped, reflexive, list) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { serial, nat: Nat::Unknown, host, mapped, reflexive, foretold: None, list }
    }

    /// The addresses of the interfaces with the first lane's port, best first. Says whether the list is another one now.
    pub fn set_host(&mut self, endpoints: &[SocketAddr], overlay: &[Prefix]) -> bool {
        self.host = clean(endpoints, overlay);
        self.renew()
    }

    /// What gateways map to the first lane's port.
    pub fn set_mapped(&mut self, endpoints: &[SocketAddr], overlay: &[Prefix]) -> bool {
        self.mapped = clean(endpoints, overlay);
        self.renew()
    }

    /// Where relays see the first lane's socket, and what kind of NAT follows from it.
    pub fn set_reflexive(&mut self, endpoints: &[SocketAddr], nat: Nat, overlay: &[Prefix]) -> bool {
        self.reflexive = clean(endpoints, overlay);
        let other = nat != self.nat;
        self.nat = nat;
        self.renew_if(other)
    }

    /// Where another destination may see us; it is not told with the list, but when somebody is to look for us there.
    pub fn set_foretold(&mut self, foretold: Option<Foretold>) {
        self.foretold = foretold;
    }

    /// Where another destination may see us, if our NAT gives each another port.
    pub const fn foretold(&self) -> Option<Foretold> {
        self.foretold
    }

    /// The list, best first: one of each kind, then the next of each, so that no kind crowds out another.
    pub fn list(&self) -> &[SocketAddr] {
        &self.list
    }

    /// The NAT in front of us, as far as is known.
    pub const fn nat(&self) -> Nat {
        self.nat
    }

    /// Which list this is; never 0.
    pub const fn serial(&self) -> u32 {
        self.serial
    }

    /// What a peer is told; `heard` is the latest serial of its own.
    pub(crate) fn message(&self, heard: u32) -> Endpoints {
        Endpoints::new(self.serial, heard, self.nat.number(), self.list.iter().copied())
    }

    fn renew(&mut self) -> bool {
        self.renew_if(false)
    }

    fn renew_if(&mut self, other: bool) -> bool {
        let kinds = [&self.host, &self.mapped, &self.reflexive];
        let longest = kinds.iter().map(|kind| kind.len()).max().unwrap_or(0);
        let mut list: Vec<SocketAddr> = Vec::with_capacity(MAX_ENDPOINTS);
        for endpoint in (0..longest).flat_map(|place| kinds.iter().filter_map(move |kind| kind.get(place))) {
            if list.len() < MAX_ENDPOINTS && !list.contains(endpoint) {
                list.push(*endpoint);
            }
        }
        let changed = other || list != self.list;
        if changed {
            self.serial = self.serial.wrapping_add(1).max(1);
        }
        self.list = list;
        changed
    }
}

fn clean(endpoints: &[SocketAddr], overlay: &[Prefix]) -> Vec<SocketAddr> {
    endpoints.iter().map(|endpoint| canonical(*endpoint)).filter(|endpoint| acceptable(*endpoint, overlay)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn no_kind_crowds_out_another_and_changes_have_new_serials() {
        let mut ours = LocalEndpoints::new(&mut |bytes: &mut [u8]| bytes.fill(7));
        let host: Vec<_> = (1..20).map(|number| SocketAddr::from(([10, 0, 0, number], 8288))).collect();
        let before = ours.serial();
        assert!(ours.set_host(&host, &[]));
        assert!(ours.set_reflexive(&[endpoint("192.0.2.1:4000")], Nat::Symmetric, &[]));
        assert!(ours.set_mapped(&[endpoint("192.0.2.1:8288"), endpoint("127.0.0.1:1")], &[]));
        assert_eq!(ours.list().len(), 8);
        assert_eq!(ours.list()[..3], [host[0], endpoint("192.0.2.1:8288"), endpoint("192.0.2.1:4000")]);
        assert_eq!(ours.serial(), before + 3);
        assert!(!ours.set_host(&host, &[]), "the same");
        assert_eq!(ours.serial(), before + 3);
        let message = ours.message(5);
        assert_eq!((message.heard, message.nat), (5, Nat::Symmetric.number()));
        assert!(message.list().eq(ours.list().iter().copied()));
        assert!(ours.set_reflexive(&[endpoint("192.0.2.1:4000")], Nat::Cone, &[]), "another NAT is news as well");
    }
}

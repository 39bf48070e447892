//! The endpoints of this node, as it reports them to its peers and the coordinator.

use core::net::SocketAddr;
use std::vec::Vec;

use taut_base::{Entropy, Prefix};
use taut_wire::control::{Endpoints, MAX_ENDPOINTS};

use crate::candidates::{acceptable, canonical};
use crate::nat::{Nat, PortPrediction};

/// This node's endpoints, from all sources.
#[derive(Clone, Debug)]
pub struct LocalEndpoints {
    serial: u32,
    nat: Nat,
    /// The addresses of the interfaces, best first.
    host: Vec<SocketAddr>,
    /// The endpoints that gateways forward to this node.
    mapped: Vec<SocketAddr>,
    /// The endpoints that relays see.
    reflexive: Vec<SocketAddr>,
    /// The endpoint that the next destination may see, behind a NAT that gives each destination another port.
    prediction: Option<PortPrediction>,
    list: Vec<SocketAddr>,
}

impl LocalEndpoints {
    /// Returns an empty list. The serial starts at random, so that peers notice a restart.
    pub fn new(entropy: &mut impl Entropy) -> Self {
        let serial = entropy.next_u32().max(1);
        let (host, mapped, reflexive, list) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { serial, nat: Nat::Unknown, host, mapped, reflexive, prediction: None, list }
    }

    /// Sets the addresses of the interfaces with the first lane's port, best first. Returns true if the list changed.
    pub fn set_host(&mut self, endpoints: &[SocketAddr], overlay: &[Prefix]) -> bool {
        self.host = clean(endpoints, overlay);
        self.renew()
    }

    /// Sets the endpoints that gateways map to the first lane's port.
    pub fn set_mapped(&mut self, endpoints: &[SocketAddr], overlay: &[Prefix]) -> bool {
        self.mapped = clean(endpoints, overlay);
        self.renew()
    }

    /// Sets the endpoints at which relays see the first lane's socket, and the kind of NAT that follows from them.
    pub fn set_reflexive(&mut self, endpoints: &[SocketAddr], nat: Nat, overlay: &[Prefix]) -> bool {
        self.reflexive = clean(endpoints, overlay);
        let other = nat != self.nat;
        self.nat = nat;
        self.renew_if(other)
    }

    /// Sets the endpoint that the next destination may see. It is not in the list; a port search uses it.
    pub fn set_prediction(&mut self, prediction: Option<PortPrediction>) {
        self.prediction = prediction;
    }

    /// Returns the endpoint that the next destination may see, behind a NAT that gives each destination another port.
    pub const fn prediction(&self) -> Option<PortPrediction> {
        self.prediction
    }

    /// Returns the list, best first: one endpoint of each source, then the next of each, so that no source crowds out another.
    pub fn list(&self) -> &[SocketAddr] {
        &self.list
    }

    /// Returns the kind of NAT in front of this node, as far as it is known.
    pub const fn nat(&self) -> Nat {
        self.nat
    }

    /// Returns the serial of the list; never 0.
    pub const fn serial(&self) -> u32 {
        self.serial
    }

    /// Returns the message to a peer; `heard` is the latest serial of the peer.
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
    fn no_source_crowds_out_another_and_changes_have_new_serials() {
        let mut local_endpoints = LocalEndpoints::new(&mut |bytes: &mut [u8]| bytes.fill(7));
        let host: Vec<_> = (1..20).map(|number| SocketAddr::from(([10, 0, 0, number], 8288))).collect();
        let before = local_endpoints.serial();
        assert!(local_endpoints.set_host(&host, &[]));
        assert!(local_endpoints.set_reflexive(&[endpoint("192.0.2.1:4000")], Nat::Symmetric, &[]));
        assert!(local_endpoints.set_mapped(&[endpoint("192.0.2.1:8288"), endpoint("127.0.0.1:1")], &[]));
        assert_eq!(local_endpoints.list().len(), 8);
        assert_eq!(local_endpoints.list()[..3], [host[0], endpoint("192.0.2.1:8288"), endpoint("192.0.2.1:4000")]);
        assert_eq!(local_endpoints.serial(), before + 3);
        assert!(!local_endpoints.set_host(&host, &[]), "the same");
        assert_eq!(local_endpoints.serial(), before + 3);
        let message = local_endpoints.message(5);
        assert_eq!((message.heard, message.nat), (5, Nat::Symmetric.number()));
        assert!(message.list().eq(local_endpoints.list().iter().copied()));
        assert!(
            local_endpoints.set_reflexive(&[endpoint("192.0.2.1:4000")], Nat::Cone, &[]),
            "another NAT is news as well"
        );
    }
}

//! The members of the network.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use taut_base::{NodeId, PrivateKey, PublicKey};
use taut_noise::public_key;

/// A member of the network.
#[derive(Clone)]
pub struct Party {
    /// The member's number, from which name and addresses derive.
    pub number: u8,
    /// The node key.
    pub key: PrivateKey,
    /// The endpoint on the wire.
    pub endpoint: SocketAddr,
}

impl Party {
    /// Creates member `number`, with a key and an endpoint of its own.
    pub fn new(number: u8) -> Self {
        Self {
            number,
            key: PrivateKey::from_bytes([number; 32]),
            endpoint: SocketAddr::from(([192, 0, 2, number], 8288)),
        }
    }

    /// Returns the same member with another node key.
    #[must_use]
    pub fn with_key(&self, bytes: [u8; 32]) -> Self {
        Self { key: PrivateKey::from_bytes(bytes), ..self.clone() }
    }

    /// Returns the public node key.
    pub fn public(&self) -> PublicKey {
        public_key(&self.key)
    }

    /// Returns the overlay address.
    pub fn overlay(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(100, 64, 0, self.number))
    }

    pub(crate) fn id(&self) -> NodeId {
        NodeId(u64::from(self.number))
    }

    pub(crate) fn name(&self) -> String {
        format!("node-{}", self.number)
    }
}

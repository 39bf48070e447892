//! The way that datagrams take to a peer.

use core::fmt;
use core::net::SocketAddr;

/// A direct or relayed way between one of this node's sockets and a peer, in both directions.
///
/// Relayed datagrams are told apart by the id, which the relay assigned to this peer: datagrams to the peer and from it carry the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// To the peer's endpoint.
    Direct(SocketAddr),
    /// Through a relay.
    Relayed {
        /// The relay's endpoint.
        relay: SocketAddr,
        /// The relay's id for the peer.
        id: u32,
    },
}

impl Way {
    /// Returns the destination of a datagram that takes this way.
    pub const fn first_hop(&self) -> SocketAddr {
        match *self {
            Self::Direct(endpoint) => endpoint,
            Self::Relayed { relay, .. } => relay,
        }
    }

    /// Returns the peer's endpoint, if the way is direct.
    pub const fn direct(&self) -> Option<SocketAddr> {
        match *self {
            Self::Direct(endpoint) => Some(endpoint),
            Self::Relayed { .. } => None,
        }
    }

    /// Returns true if a relay is between.
    pub const fn is_relayed(&self) -> bool {
        matches!(self, Self::Relayed { .. })
    }
}

impl From<SocketAddr> for Way {
    fn from(endpoint: SocketAddr) -> Self {
        Self::Direct(endpoint)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(endpoint) => write!(f, "{endpoint}"),
            Self::Relayed { relay, .. } => write!(f, "relay {relay}"),
        }
    }
}

//! The way datagrams take to a peer.

use core::fmt;
use core::net::SocketAddr;

/// How datagrams get to a peer from a socket of ours, and how one came from it.
///
/// What a relay carries is told apart by the id, which the relay gave us for this peer: the same id stands on what we send to the peer and on what
/// comes from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// To where the peer is.
    Direct(SocketAddr),
    /// By a relay.
    Relayed {
        /// Where the relay is.
        relay: SocketAddr,
        /// Whom it hands them to.
        id: u32,
    },
}

impl Way {
    /// Where a datagram is sent to, to go this way.
    pub const fn first_hop(&self) -> SocketAddr {
        match *self {
            Self::Direct(endpoint) => endpoint,
            Self::Relayed { relay, .. } => relay,
        }
    }

    /// The peer's endpoint, if no relay is between.
    pub const fn direct(&self) -> Option<SocketAddr> {
        match *self {
            Self::Direct(endpoint) => Some(endpoint),
            Self::Relayed { .. } => None,
        }
    }

    /// Whether a relay is between.
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

//! The way that datagrams take to a peer.

use core::fmt;
use core::net::SocketAddr;

use taut_base::LaneId;

/// The bits of a relay's id that name a lane (docs/spec/relay.md).
const LANE_BITS: u32 = 0xf;

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
        /// The relay's id for the peer. Its low 4 bits name the lane at whose address the peer receives, or sends; 0 is the first.
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

    /// Returns the relayed way to this lane of the peer; a direct way is not changed, because an endpoint belongs to one lane.
    #[must_use]
    pub fn to_lane(self, lane: LaneId) -> Self {
        match self {
            Self::Direct(_) => self,
            Self::Relayed { relay, id } => Self::Relayed { relay, id: id & !LANE_BITS | u32::from(lane.0) & LANE_BITS },
        }
    }

    /// Returns true if both ways lead to the same host in the same manner, perhaps to different lanes of it: to one address, or by one relay and number.
    pub fn is_beside(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Direct(one), Self::Direct(two)) => one.ip() == two.ip(),
            (one, two) => one.to_lane(LaneId::FIRST) == two.to_lane(LaneId::FIRST),
        }
    }

    /// Returns true if a WebSocket leads to the relay. The agent shows it as an address of this host's loopback.
    pub const fn is_bridged(&self) -> bool {
        matches!(self, Self::Relayed { relay, .. } if relay.ip().is_loopback())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_different_lanes_of_one_host_are_beside_each_other() {
        let relayed = |host: u8, id| Way::Relayed { relay: SocketAddr::from(([192, 0, 2, host], 3478)), id };
        let direct = |host: u8, port| Way::Direct(SocketAddr::from(([192, 0, 2, host], port)));
        assert_eq!(relayed(1, 0x120).to_lane(LaneId(15)), relayed(1, 0x12f));
        assert_eq!(relayed(1, 0x12f).to_lane(LaneId::FIRST), relayed(1, 0x120));
        assert_eq!(direct(1, 7).to_lane(LaneId(3)), direct(1, 7));
        assert!(relayed(1, 0x120).is_beside(&relayed(1, 0x123)) && direct(1, 7).is_beside(&direct(1, 8)));
        for other in [relayed(1, 0x130), relayed(2, 0x120), direct(1, 3478)] {
            assert!(!relayed(1, 0x120).is_beside(&other) && !direct(2, 7).is_beside(&other), "{other:?}");
        }
    }
}

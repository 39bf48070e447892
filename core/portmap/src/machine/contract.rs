//! The gateway, sockets and outputs of the machine.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::mapping::Mapping;
use crate::status::{Protocol, ProtocolStatus};

/// The router in front of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Its address on the local network: the only address that is contacted.
    pub address: Ipv4Addr,
    /// This host's address, which requests are sent from.
    pub own: Ipv4Addr,
}

/// A socket, bound to this host's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewaySocket {
    /// The socket for PCP and NAT-PMP.
    Pcp,
    /// The socket for searches of UPnP.
    Ssdp,
}

/// Something that the machine asks its caller to do, or reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortmapOutput {
    /// A datagram is sent.
    Send {
        /// The socket that it leaves through.
        socket: GatewaySocket,
        /// The gateway, or UPnP's multicast group.
        to: SocketAddrV4,
        /// The payload.
        bytes: Vec<u8>,
    },
    /// A TCP connection is opened and the request sent. The answer is given to [`super::PortMapper::handle_answer`] within seconds, also if there is
    /// none.
    Fetch {
        /// The request's id.
        id: u32,
        /// The endpoint, always at the gateway.
        place: SocketAddrV4,
        /// The bytes to send.
        request: Vec<u8>,
    },
    /// A state changed.
    Event(PortmapEvent),
}

/// A state change of the port mappings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortmapEvent {
    /// A port is mapped, or its mapping was renewed, perhaps with another outer endpoint. The endpoint is only a candidate.
    Mapped(Mapping),
    /// A port is not mapped any more.
    Lost {
        /// This host's port.
        port: u16,
        /// The reason.
        reason: LossReason,
    },
    /// A protocol answered with another status than before.
    Answered {
        /// The protocol.
        protocol: Protocol,
        /// The status, with the gateway's reason if it refuses.
        status: ProtocolStatus,
    },
}

/// The reason why a port is not mapped any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// The lease ended and was not renewed.
    Expired,
    /// Another gateway is in front of this host, or there is none.
    GatewayChanged,
    /// The caller does not need the port mapped any more; the gateway is told.
    GivenBack,
    /// The gateway changed the mapping to a useless one.
    Unusable,
}

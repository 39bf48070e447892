//! What is said to the machine, and what it says.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::mapping::Mapping;
use crate::status::{Protocol, ProtocolStatus};

/// The router in front of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Its address on our network: the only one that is talked to.
    pub address: Ipv4Addr,
    /// Ours, from which it is asked.
    pub own: Ipv4Addr,
}

/// Through which socket: both are bound to our own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The one for PCP and NAT-PMP.
    Pcp,
    /// The one for searches of UPnP.
    Ssdp,
}

/// Something that the machine asks its caller to do, or reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortmapOutput {
    /// A datagram is sent.
    Send {
        /// The socket that it leaves through.
        door: Door,
        /// The gateway, or UPnP's multicast group.
        to: SocketAddrV4,
        /// The payload.
        bytes: Vec<u8>,
    },
    /// A TCP connection is opened, the request sent, and the answer given to [`super::Machine::handle_answer`], within seconds whatever happens.
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
    /// A port is mapped, or was renewed, perhaps with another outer endpoint. The endpoint is a candidate, not more.
    Mapped(Mapping),
    /// A port is not mapped any more.
    Lost {
        /// This host's port.
        port: u16,
        /// The reason.
        reason: LossReason,
    },
    /// A protocol's status is another one than after the last try.
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
    /// Another gateway is in front of this host, or none.
    GatewayChanged,
    /// The caller does not want the port mapped any more; the gateway is told.
    GivenBack,
    /// The gateway changed the mapping to one that is of no use.
    Unusable,
}

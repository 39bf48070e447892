//! What is said to the machine, and what it says.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use taut_base::Time;

use crate::http::Bad;
use crate::report::Protocol;

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

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A datagram is to be sent.
    Send {
        /// By this socket.
        door: Door,
        /// To the gateway, or to UPnP's group.
        to: SocketAddrV4,
        /// These bytes.
        bytes: Vec<u8>,
    },
    /// A connection is to be opened, the request sent, and the answer told by [`super::Machine::handle_answer`], within seconds whatever happens.
    Fetch {
        /// Names the request.
        id: u32,
        /// At the gateway.
        place: SocketAddrV4,
        /// What to send.
        request: Vec<u8>,
    },
}

/// What came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A port is mapped, or still is: said again after each renewal, perhaps with another outer endpoint. A candidate, not more.
    Mapped(Mapping),
    /// It no longer is.
    Lost {
        /// Our port.
        port: u16,
    },
}

/// A port that the gateway says to have mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Our port.
    pub port: u16,
    /// Where the world reaches it, if the gateway tells the truth.
    pub outside: SocketAddr,
    /// By which protocol.
    pub protocol: Protocol,
    /// Until when, unless it is renewed.
    pub until: Time,
}

/// Why there is no answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection.
    NoConnection,
    /// It took too long.
    TooSlow,
    /// It is none.
    Bad(Bad),
}

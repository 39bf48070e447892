//! The thread that asks the router in front of this host for port mappings.
//!
//! [`Portmap::start`] starts it. It runs `taut_portmap::PortMapper`, which decides what is sent and which answers are believed, between sockets and a
//! clock. The agent tells it which ports to map ([`PortmapCommand`]), is woken for each change ([`PortmapEvent`]), and shows the state of all
//! protocols ([`Portmap::report`]).
//!
//! - **The gateway** is the router that receives packets to the Internet, as the kernel's routes and rules say. It is looked up at the start, and
//!   whenever the agent says that the network changed. A gateway inside the overlay is ignored.
//! - **Sockets**: two for UDP, bound to this host's address towards the gateway. The one for PCP and NAT-PMP is connected, so that the kernel drops
//!   datagrams of other hosts.
//! - **Pages** of UPnP are each fetched by a short-lived thread within five seconds, so that a gateway that sends byte by byte (fault D15) delays
//!   neither other mappings nor the shutdown.
//!
//! It promises: the agent waits for it only in [`Portmap::stop`], two seconds at most; the end gives back all mappings, as far as the gateway
//! answers. It never sends to any address but the gateway and UPnP's group on the local network.

mod contract;
mod fetch;
mod portmap;
mod sockets;
mod worker;

pub use contract::{PortmapCommand, PortmapOptions};
pub use portmap::Portmap;
pub use taut_portmap::{
    Defect, LossReason, Mapping, PortmapEvent, PortmapReport, Protocol, ProtocolReport, ProtocolStatus, Refusal,
};

//! The thread that asks the router in front of this host for ports.
//!
//! [`Portmap::start`] starts it; it runs `taut_portmap::Machine` (which says what is asked, in which order, and what a hostile gateway cannot do)
//! between sockets and a clock. The agent tells it what to map ([`Command`]), is woken when something came of it ([`PortmapEvent`]), and shows
//! what was said ([`Portmap::report`]).
//!
//! - **The gateway** is the router that packets to the Internet are given to, as the kernel's routes and rules say. It is looked for at the start,
//!   and whenever the agent says that the network changed. One that lies inside the overlay is nobody to ask.
//! - **Sockets**: two for UDP, bound to our address towards the gateway. The one for PCP and NAT-PMP is connected, so that the kernel drops
//!   what others send.
//! - **Pages** of UPnP are fetched by a short-lived thread each, in five seconds or not at all, so that a gateway that sends byte by byte (fault D15)
//!   delays neither other mappings nor the end.
//!
//! It promises: the agent never waits for it, but for [`Portmap::stop`], which takes two seconds at most; the end gives back what was mapped,
//! as far as the gateway listens. It refuses: to talk to anybody but the gateway and UPnP's group on the local network.

mod fetch;
mod portmap;
mod sockets;
mod worker;

pub use portmap::{Command, Options, Portmap};
pub use taut_portmap::{
    Defect, LossReason, Mapping, PortmapEvent, Protocol, ProtocolReport, ProtocolStatus, Refusal, Report,
};

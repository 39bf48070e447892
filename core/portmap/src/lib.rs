//! Asks the router in front of this host for a port that the world can reach: PCP (RFC 6887), NAT-PMP (RFC 6886), UPnP-IGD.
//!
//! - [`PortMapper`] is the state machine, without a socket or a clock. It is told what happened and returns [`PortmapOutput`]: datagrams and requests
//!   to send, and changes of mappings. [`PortmapReport`] keeps the answers of each protocol.
//! - [`pcp`], [`nat_pmp`], [`ssdp`], [`http`], [`xml`], [`description`], [`soap`] read and write bytes.
//!
//! **Order.** PCP and NAT-PMP share a port of the gateway and are tried at once. If neither maps a port, a UPnP gateway is searched for. The first
//! protocol that maps a port serves all ports. Each mapping is requested for two hours and renewed after one; a mapping that is not renewed in time
//! is [`PortmapEvent::Lost`]. When no mapping is left, all protocols are tried again. If no protocol works, the machine backs off, and its report has
//! the answer of each.
//!
//! **Trust.** A gateway is not trusted (fault D15). It may lie about everything; a lie gains one more candidate, on which no probe is answered.
//! - Messages are accepted only from its own address, and PCP only with our nonce.
//! - Its outer address is passed on only if packets may be sent there at all (`taut_path::acceptable`), and never with port 0.
//! - It cannot raise the rate of requests (a few datagrams per port, twice a minute at most, however short its leases are and however often it claims
//!   to have restarted), nor the time that a mapping is believed (two hours), nor the addresses that are contacted: pages and services are fetched from
//!   its own address only, and redirects are not followed.
//! - Every message, page, list and text has a bound; texts of the gateway are shown only if they are printable.
//!
//! It promises: the same inputs give the same outputs; no panic on any bytes; bounded memory. It does not support: IPv6 (which has no ports to map,
//! only filters to open), TCP ports, mappings for other hosts, redirects, https.

mod bytes;
pub mod description;
mod endpoint;
pub mod http;
mod machine;
mod mapping;
pub mod nat_pmp;
pub mod pcp;
mod report;
pub mod soap;
pub mod ssdp;
mod status;
mod url;
pub mod xml;

pub use machine::{Gateway, GatewaySocket, LossReason, PortMapper, PortmapEvent, PortmapOutput};
pub use mapping::Mapping;
pub use report::{PortmapReport, ProtocolReport};
pub use status::{Defect, FetchError, Protocol, ProtocolStatus, Refusal};
pub use url::Url;

use std::time::Duration;

/// Lifetime of a requested mapping, and the longest that one is believed, 2 hours. RFC 6887 section 15 recommends up to a day; a host that vanishes
/// leaves its mapping behind for this long.
pub const LEASE: Duration = Duration::from_secs(7_200);

/// Limit on the UDP ports of one node: one per lane.
pub const MAX_PORTS: usize = taut_base::MAX_LANES;

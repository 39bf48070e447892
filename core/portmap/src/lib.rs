//! Asking the router in front of this host for a port that the world can reach: PCP (RFC 6887), NAT-PMP (RFC 6886), UPnP-IGD.
//!
//! - [`Machine`] is the whole of it, without a socket or a clock: it is told what happened, says what to send and which
//!   ports are mapped ([`PortmapOutput`]), and keeps what each protocol answered ([`Report`]).
//! - [`pcp`], [`nat_pmp`], [`ssdp`], [`http`], [`xml`], [`description`], [`soap`] are the bytes.
//!
//! **The course.** PCP and NAT-PMP share a port of the gateway and are asked at once. Where neither maps a port, UPnP is looked for. The first that
//! maps one serves all ports. Each mapping is asked for two hours and renewed after one; what is not renewed in time is [`PortmapEvent::Lost`], and when
//! nothing is left the course begins again. Where no protocol works the machine rests, and says in its report what each of them answered.
//!
//! **Trust.** None (fault D15). A gateway may lie about everything; what it can gain is one more candidate that no probe is answered on.
//! - It is heard only from its own address, and PCP only with our nonce.
//! - What it calls its outside address is passed on only where packets may be sent to at all (`taut_path::acceptable`), and never to port 0.
//! - It decides neither how often it is asked (a few datagrams twice a minute at most for one port, however short its leases, however often it says to have been
//!   restarted), nor for how long a mapping is believed (two hours), nor whom we talk to: pages and services are fetched
//!   from its address alone, redirects are not followed.
//! - Every message, page, list and text has a bound; nothing it says is shown unless printable.
//!
//! It promises: the same inputs give the same outputs; no panic on any bytes; bounded memory. It refuses: IPv6 (there are no ports to map, only
//! filters to open), TCP ports, other hosts' mappings, redirects, https.

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

pub use machine::{Door, Gateway, LossReason, Machine, PortmapEvent, PortmapOutput};
pub use mapping::Mapping;
pub use report::{ProtocolReport, Report};
pub use status::{Defect, Failure, Protocol, ProtocolStatus, Refusal};
pub use url::Url;

use std::time::Duration;

/// How long a mapping is asked for, and believed at most, whatever the gateway says. RFC 6887 section 15 recommends up to a day; a host that
/// vanishes without a word leaves its mapping behind for this long.
pub const LEASE: Duration = Duration::from_secs(7_200);

/// UDP ports of one node at most: one per lane.
pub const MAX_PORTS: usize = taut_base::MAX_LANES;

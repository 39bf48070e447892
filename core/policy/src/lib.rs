//! The policy.

mod error;
pub mod filter;
mod protocol;

pub use error::{PolicyError, Position};
pub use filter::{Filter, Packet, Rule, Target};
pub use protocol::{DEFAULT_PROTOCOLS, ICMP, ICMPV6, SCTP, TCP, UDP, protocol_name, protocol_number};

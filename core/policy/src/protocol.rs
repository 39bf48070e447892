//! IP protocols, as the packet filter knows them.

pub(crate) use taut_filter::is_icmp_of;
pub use taut_filter::{
    DEFAULT_PROTOCOLS, ICMP, ICMPV6, SCTP, TCP, UDP, has_ports, protocol_name, protocol_number, protocol_towards,
};

//! The rules of the policy language for protocols: default protocols, ports, ICMP.

use std::net::IpAddr;

use taut_wire::ip::{ICMP, ICMPV6, TCP, UDP};

/// Protocol number of SCTP (IANA), which has ports at the same place as TCP and UDP.
pub const SCTP: u8 = 132;

/// The protocols of a rule that names none: TCP, UDP and both ICMP.
pub const DEFAULT_PROTOCOLS: [u8; 4] = [TCP, UDP, ICMP, ICMPV6];

/// Returns true if the protocol has ports that a rule can name.
pub fn has_ports(proto: u8) -> bool {
    matches!(proto, TCP | UDP | SCTP)
}

/// Returns true if the protocol is ICMP of this address's family.
pub fn is_icmp_of(proto: u8, address: IpAddr) -> bool {
    proto == if address.is_ipv4() { ICMP } else { ICMPV6 }
}

//! The rules of the policy language for protocols: default protocols, ports, ICMP.

use std::net::IpAddr;

pub use taut_wire::ip::{ICMP, ICMPV6, TCP, UDP};

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

/// Returns the protocol that a user means by `proto` for packets to `address`: either number of ICMP means the one of the address's family.
pub fn protocol_towards(proto: u8, address: IpAddr) -> u8 {
    match proto {
        ICMP | ICMPV6 if address.is_ipv4() => ICMP,
        ICMP | ICMPV6 => ICMPV6,
        other => other,
    }
}

/// Names of protocols in a policy, with their IANA numbers. The first name of a number is the one that is printed.
const NAMES: [(&str, u8); 15] = [
    ("icmp", ICMP),
    ("igmp", 2),
    ("ipv4", 4),
    ("ip-in-ip", 4),
    ("tcp", TCP),
    ("egp", 8),
    ("igp", 9),
    ("udp", UDP),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", ICMPV6),
    ("icmpv6", ICMPV6),
    ("sctp", SCTP),
    ("fc", 133),
];

/// Returns the number of a protocol: a known name in any case, or a number from 1 to 255 without leading zeros.
pub fn protocol_number(text: &str) -> Option<u8> {
    if let Some((_, number)) = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)) {
        return Some(*number);
    }
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    plain.then(|| text.parse().ok()).flatten()
}

/// Returns the name of a protocol, or its number as text.
pub fn protocol_name(number: u8) -> String {
    NAMES.iter().find(|(_, known)| *known == number).map_or_else(|| number.to_string(), |(name, _)| String::from(*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        for (text, number) in
            [("tcp", 6), ("TCP", 6), ("17", 17), ("ip-in-ip", 4), ("sctp", 132), ("1", 1), ("255", 255)]
        {
            assert_eq!(protocol_number(text), Some(number), "{text}");
        }
        for text in ["", "0", "06", "256", "+6", "-1", "*", "tcp ", "http", "99999999999999999999"] {
            assert_eq!(protocol_number(text), None, "{text}");
        }
        assert_eq!(protocol_name(6), "tcp");
        assert_eq!(protocol_name(58), "ipv6-icmp");
        assert_eq!(protocol_name(200), "200");
    }

    #[test]
    fn every_name_has_its_iana_number() {
        let numbers = [1, 2, 4, 4, 6, 8, 9, 17, 47, 50, 51, 58, 58, 132, 133];
        assert!(NAMES.iter().map(|(_, number)| *number).eq(numbers));
    }

    #[test]
    fn ports_and_icmp() {
        let with_ports: Vec<u8> = (0..=255).filter(|proto| has_ports(*proto)).collect();
        assert_eq!(with_ports, [6, 17, 132]);
        let (four, six) = ("100.64.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
        assert!(is_icmp_of(1, four) && is_icmp_of(58, six) && !is_icmp_of(58, four) && !is_icmp_of(1, six));
    }

    #[test]
    fn icmp_is_that_of_the_address() {
        let (four, six) = ("100.64.0.1".parse().unwrap(), "fd00::1".parse().unwrap());
        for proto in [ICMP, ICMPV6] {
            assert_eq!((protocol_towards(proto, four), protocol_towards(proto, six)), (ICMP, ICMPV6));
        }
        assert_eq!((protocol_towards(TCP, four), protocol_towards(47, six)), (TCP, 47));
    }
}

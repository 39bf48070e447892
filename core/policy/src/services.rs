//! Open ports by protocol, to add up and to compare.

use std::collections::BTreeMap;
use std::fmt;

use crate::filter::ALL_PORTS;
use crate::policy::Service;
use crate::protocol::{DEFAULT_PROTOCOLS, TCP, protocol_name};

/// Open port ranges by protocol, sorted and joined.
pub(crate) type Open = BTreeMap<u8, Vec<(u16, u16)>>;

/// Sorts port ranges and joins those that overlap or touch. Ranges that only together are all ports stay two ranges: all ports as one range also open the
/// protocols that have no ports.
pub(crate) fn join_ports(ports: &mut Vec<(u16, u16)>) {
    let all = ports.contains(&ALL_PORTS);
    ports.sort_unstable();
    ports.dedup_by(|next, before| {
        let joined = next.0 <= before.1.saturating_add(1);
        if joined {
            before.1 = before.1.max(next.1);
        }
        joined
    });
    if !all && *ports == [ALL_PORTS] {
        *ports = vec![(0, u16::MAX - 1), (u16::MAX, u16::MAX)];
    }
}

/// Opens a service.
pub(crate) fn add_service(open: &mut Open, service: &Service) {
    let one = service.proto.map(|proto| [proto]);
    for proto in one.as_ref().map_or(&DEFAULT_PROTOCOLS[..], |one| &one[..]) {
        let ports = open.entry(*proto).or_default();
        ports.extend(&service.ports);
        join_ports(ports);
    }
}

/// Returns the ports that are open in `one` and not in `other`.
pub(crate) fn minus(one: &Open, other: &Open) -> Open {
    let none = Vec::new();
    let left = |(proto, ports): (&u8, &Vec<(u16, u16)>)| (*proto, without(ports, other.get(proto).unwrap_or(&none)));
    one.iter().map(left).filter(|(_, ports)| !ports.is_empty()).collect()
}

fn without(ports: &[(u16, u16)], closed: &[(u16, u16)]) -> Vec<(u16, u16)> {
    let mut left = Vec::new();
    for (first, last) in ports {
        let mut from = Some(*first);
        for (low, high) in closed.iter().filter(|(low, high)| low <= last && high >= first) {
            if let Some(start) = from.filter(|start| start < low) {
                left.push((start, low - 1));
            }
            from = high.checked_add(1).filter(|next| next <= last);
        }
        left.extend(from.map(|start| (start, *last)));
    }
    left
}

/// Returns open ports as services. The default protocols become one service if the same ports are open for all of them.
pub(crate) fn services(open: &Open) -> Vec<Service> {
    let of_tcp = open.get(&TCP);
    let default = of_tcp.filter(|ports| DEFAULT_PROTOCOLS.iter().all(|proto| open.get(proto) == Some(ports)));
    let joined = default.map(|ports| Service { proto: None, ports: ports.clone() });
    let is_joined = |proto: &u8| joined.is_some() && DEFAULT_PROTOCOLS.contains(proto);
    let rest = open.iter().filter(|(proto, _)| !is_joined(proto));
    let rest: Vec<Service> = rest.map(|(proto, ports)| Service { proto: Some(*proto), ports: ports.clone() }).collect();
    joined.clone().into_iter().chain(rest).collect()
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(proto) = self.proto {
            write!(f, "{}:", protocol_name(proto))?;
        }
        for (place, range) in self.ports.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match range {
                &ALL_PORTS => write!(f, "{comma}*")?,
                (first, last) if first == last => write!(f, "{comma}{first}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A protocol and its ports.
    type Part<'a> = (Option<u8>, &'a [(u16, u16)]);

    fn open(text: &[Part<'_>]) -> Open {
        let mut open = Open::new();
        for (proto, ports) in text {
            add_service(&mut open, &Service { proto: *proto, ports: ports.to_vec() });
        }
        open
    }

    fn text(open: &Open) -> String {
        services(open).iter().map(Service::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn services_add_up() {
        assert_eq!(text(&open(&[(None, &[(80, 80)]), (None, &[(81, 90), (443, 443)])])), "80-90,443");
        assert_eq!(text(&open(&[(Some(6), &[(22, 22)]), (Some(47), &[(0, 65535)])])), "tcp:22 gre:*");
        assert_eq!(
            text(&open(&[(None, &[(80, 80)]), (Some(6), &[(22, 22)])])),
            "icmp:80 tcp:22,80 udp:80 ipv6-icmp:80"
        );
        assert_eq!(text(&Open::new()), "");
        assert_eq!(text(&open(&[(Some(6), &[(0, 9), (10, 65535)])])), "tcp:0-65534,65535");
    }

    #[test]
    fn services_are_subtracted() {
        let all = open(&[(None, &[(0, 65535)])]);
        let some = open(&[(None, &[(0, 10), (80, 80), (65000, 65535)])]);
        assert_eq!(text(&minus(&all, &some)), "11-79,81-64999");
        assert_eq!(text(&minus(&some, &all)), "");
        assert_eq!(text(&minus(&some, &open(&[(None, &[(5, 100)])]))), "0-4,65000-65535");
        assert_eq!(text(&minus(&all, &open(&[(Some(6), &[(22, 22)])]))), "icmp:* tcp:0-21,23-65535 udp:* ipv6-icmp:*");
        assert_eq!(text(&minus(&all, &Open::new())), "*");
    }
}

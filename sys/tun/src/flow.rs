//! The number of a packet's flow: the same in both directions, on every host, and in the steering program of the kernel.

/// Factor that spreads neighbouring addresses (2^32 over the golden ratio, made odd).
pub(crate) const SPREAD_ADDRESSES: u32 = 0x9e37_79b1;
/// Factor that spreads neighbouring ports; another odd number without a pattern, so that addresses and ports do not cancel out.
pub(crate) const SPREAD_ALL: u32 = 0x85eb_ca6b;

/// More fragments, and the offset: bits of bytes 6 and 7 of an IPv4 header.
pub(crate) const FRAGMENT: u32 = 0x3fff;
/// Protocol number of TCP, which has its ports in its first four bytes.
pub(crate) const TCP: u8 = 6;
/// Protocol number of UDP, which has its ports in its first four bytes.
pub(crate) const UDP: u8 = 17;

/// Returns the number of an IP packet's flow, from its addresses and, for TCP and UDP, its ports. Both directions have the same number.
///
/// Ports of fragments do not count, so all fragments of a datagram are in one flow. Ports behind IPv6 extension headers do not count either. Bytes that
/// are no complete IP packet are in flow 0.
#[must_use]
pub fn flow(packet: &[u8]) -> u16 {
    flow_of(packet).unwrap_or(0)
}

fn flow_of(packet: &[u8]) -> Option<u16> {
    let word = |at: usize| packet.get(at..)?.first_chunk::<4>().map(|bytes| u32::from_be_bytes(*bytes));
    let first = *packet.first()?;
    let (addresses, ports) = match first >> 4 {
        4 => {
            let whole = word(4)? & FRAGMENT == 0;
            let ports = whole && matches!(*packet.get(9)?, TCP | UDP);
            (word(12)? ^ word(16)?, ports.then_some(usize::from(first & 15) * 4))
        }
        6 => {
            let mut addresses = 0;
            for at in (8..40).step_by(4) {
                addresses ^= word(at)?;
            }
            (addresses, matches!(*packet.get(6)?, TCP | UDP).then_some(40))
        }
        _ => return None,
    };
    let mut hash = addresses.wrapping_mul(SPREAD_ADDRESSES);
    if let Some(at) = ports {
        let both = word(at)?;
        hash = hash.wrapping_add((both ^ both >> 16) & 0xffff);
    }
    Some((hash.wrapping_mul(SPREAD_ALL) >> 16) as u16)
}

#[cfg(test)]
mod tests {
    use super::flow;
    use std::collections::BTreeMap;

    fn ipv4(protocol: u8, addresses: [u8; 2], ports: [u16; 2], fragment: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 28, 0, 0];
        packet.extend(fragment.to_be_bytes());
        packet.extend([64, protocol, 0, 0, 100, 64, 0, addresses[0], 100, 64, 0, addresses[1]]);
        packet.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        packet.extend([0; 4]);
        packet
    }

    #[test]
    fn both_directions_are_one_flow_and_others_are_spread() {
        let mut spread: BTreeMap<u16, u32> = BTreeMap::new();
        for port in 40_000..41_000 {
            let there = flow(&ipv4(6, [1, 2], [port, 5201], 0));
            assert_eq!(there, flow(&ipv4(6, [2, 1], [5201, port], 0)));
            *spread.entry(there % 4).or_default() += 1;
        }
        assert!(spread.values().all(|count| (200..300).contains(count)), "{spread:?}");
        let hosts: std::collections::BTreeSet<_> = (2..=255).map(|host| flow(&ipv4(1, [1, host], [0, 0], 0))).collect();
        assert!(hosts.len() > 240);
    }

    #[test]
    fn fragments_of_a_datagram_go_together() {
        let (first, later) = (ipv4(17, [1, 2], [1000, 2000], 0x2000), ipv4(17, [1, 2], [7, 7], 0x00b9));
        assert_eq!(flow(&first), flow(&later));
        assert_eq!(flow(&first), flow(&ipv4(1, [1, 2], [3, 4], 0)), "as all without ports between two hosts");
        assert_eq!(flow(&ipv4(17, [1, 2], [1, 2], 0x4000)), flow(&ipv4(17, [1, 2], [1, 2], 0)), "DF is no fragment");
    }

    #[test]
    fn what_is_no_packet_is_in_flow_zero() {
        let whole = ipv4(6, [1, 2], [1, 2], 0);
        for cut in 0..24 {
            assert_eq!(flow(&whole[..cut]), 0, "{cut}");
        }
        assert_eq!(flow(&[0x55; 60]), 0);
    }
}

//! Answers that lead a public name to a private address: DNS rebinding (fault H6). With such an answer a web page can make a browser on this host send requests to services of the
//! overlay or of the LAN.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use taut_base::Prefix;

use crate::name::skip;
use crate::query::{HEADER, be16, kind};

/// Types of records with addresses in their parameters (RFC 9460 section 14.1): SVCB and HTTPS, and the parameters (section 7.3): hints of IPv4 and IPv6.
const SVCB: [u16; 2] = [64, 65];
const HINTS: [u16; 2] = [4, 6];
/// Length of the fields between the name and the data of a record.
const FIXED: usize = 10;
/// First 96 bits of IPv6 addresses with an IPv4 address behind them: those of NAT64 (RFC 6052 section 2.1).
const NAT64: u128 = 0x0064_ff9b << 96;

/// Returns true if an answer has an address in one of these prefixes, as a record or as a hint, or cannot be read to its end. IPv4 addresses that are mapped into IPv6
/// (`::ffff:0:0/96`) or translated (`64:ff9b::/96`) count, too.
pub fn leads_to(answer: &[u8], prefixes: &[Prefix]) -> bool {
    let is_inside = |address: IpAddr| {
        let embedded = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => embedded(v6),
        };
        [Some(address), embedded.map(IpAddr::V4)]
            .into_iter()
            .flatten()
            .any(|address| prefixes.iter().any(|prefix| prefix.contains(address)))
    };
    addresses(answer).is_none_or(|found| found.into_iter().any(is_inside))
}

fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let is_nat64 = bits >> 32 == NAT64 >> 32;
    address.to_ipv4_mapped().or_else(|| is_nat64.then_some(Ipv4Addr::from_bits(bits as u32)))
}

/// Returns the addresses in all records of a message; `None` if it cannot be read.
fn addresses(message: &[u8]) -> Option<Vec<IpAddr>> {
    let count = |at| be16(message, at).map(usize::from);
    let (mut at, mut found) = (HEADER, Vec::new());
    for _ in 0..count(4)? {
        at = skip(message, at)? + 4;
    }
    for _ in 0..count(6)? + count(8)? + count(10)? {
        let fixed = skip(message, at)?;
        let (kind, length) = (be16(message, fixed)?, usize::from(be16(message, fixed + 8)?));
        at = fixed + FIXED + length;
        let data = message.get(fixed + FIXED..at)?;
        match kind {
            kind::A => found.push(IpAddr::from(<[u8; 4]>::try_from(data).ok()?)),
            kind::AAAA => found.push(IpAddr::from(<[u8; 16]>::try_from(data).ok()?)),
            kind if SVCB.contains(&kind) => hints(data, &mut found)?,
            _ => {}
        }
    }
    Some(found)
}

/// Reads the hints of a record of type SVCB or HTTPS (RFC 9460 section 2.2): priority, name, parameters.
fn hints(data: &[u8], found: &mut Vec<IpAddr>) -> Option<()> {
    let mut at = skip(data, 2)?;
    while at < data.len() {
        let (key, length) = (be16(data, at)?, usize::from(be16(data, at + 2)?));
        let value = data.get(at + 4..at + 4 + length)?;
        at += 4 + length;
        if key == HINTS[0] {
            found.extend(value.as_chunks::<4>().0.iter().map(|octets| IpAddr::from(*octets)));
        } else if key == HINTS[1] {
            found.extend(value.as_chunks::<16>().0.iter().map(|octets| IpAddr::from(*octets)));
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testkit::question;

    /// An answer with one record of this type.
    fn answer(kind: u16, data: &[u8]) -> Vec<u8> {
        let mut message = question("www.example.com", 1);
        (message[2], message[7]) = (0x81, 1);
        message.extend([0xc0, 12]);
        message.extend(kind.to_be_bytes());
        message.extend([0, 1, 0, 0, 0, 60]);
        message.extend((data.len() as u16).to_be_bytes());
        message.extend_from_slice(data);
        message
    }

    #[test]
    fn fault_h6_addresses_of_the_overlay_are_found_wherever_they_are() {
        let prefixes = ["100.64.0.0/10", "fd12::/64"].map(|text| text.parse().unwrap());
        let v6 = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        let svcb = |key: u8, value: &[u8]| {
            [&[0, 1, 0, 0, 1, 0, 3, 2, b'h', b'2', 0, key, 0, value.len() as u8], value].concat()
        };
        for (kind, data) in [
            (1, [100, 64, 0, 2].to_vec()),
            (28, v6("fd12::2").to_vec()),
            (28, v6("::ffff:100.64.0.2").to_vec()),
            (28, v6("64:ff9b::100.64.0.2").to_vec()),
            (65, svcb(4, &[11, 0, 0, 1, 100, 64, 0, 2])),
            (64, svcb(6, &v6("fd12::2"))),
        ] {
            assert!(leads_to(&answer(kind, &data), &prefixes), "{kind} {data:?}");
        }
        for (kind, data) in [
            (1, [11, 0, 0, 1].to_vec()),
            (28, v6("2001:db8::1").to_vec()),
            (65, svcb(4, &[11, 0, 0, 1])),
            (16, b"\x0b100.64.0.2".to_vec()),
        ] {
            assert!(!leads_to(&answer(kind, &data), &prefixes), "{kind} {data:?}");
        }
        for cut in [&answer(1, &[11, 0, 0, 1])[..40], &answer(1, &[11, 0, 0])[..], &answer(65, &[0, 1])[..]] {
            assert!(leads_to(cut, &prefixes), "what cannot be read is not passed on");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(prop_oneof![0..5_u8, any::<u8>()], 0..200)) {
            let _ = leads_to(&bytes, &[]);
        }
    }
}

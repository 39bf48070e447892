//! Names of addresses: `7.0.64.100.in-addr.arpa` (RFC 1035 section 3.5) and `….ip6.arpa` (RFC 3596 section 2.5).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use taut_base::Prefix;

use crate::name::WireName;

/// A name in one of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReverseName {
    /// The addresses below the name, or the one that it names.
    pub(crate) prefix: Prefix,
    /// True if labels are in front that are no part of an address.
    pub(crate) has_more: bool,
}

/// The two trees.
#[derive(Clone, Copy)]
enum Tree {
    V4,
    V6,
}

impl Tree {
    /// Bits of an address that a label has.
    fn unit(self) -> u8 {
        match self {
            Self::V4 => 8,
            Self::V6 => 4,
        }
    }

    fn of(domain: &[u8]) -> Option<Self> {
        if domain.eq_ignore_ascii_case(b"in-addr") {
            Some(Self::V4)
        } else if domain.eq_ignore_ascii_case(b"ip6") {
            Some(Self::V6)
        } else {
            None
        }
    }

    /// Reads a label: an octet in decimal without leading zeros, or one hexadecimal digit.
    fn digit(self, label: &[u8]) -> Option<u8> {
        let text =
            std::str::from_utf8(label).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric()))?;
        match self {
            Self::V4 => text.parse().ok().filter(|_| text == "0" || !text.starts_with('0')),
            Self::V6 if text.len() == 1 => u8::from_str_radix(text, 16).ok(),
            Self::V6 => None,
        }
    }

    /// Returns the prefix that begins with these digits.
    fn prefix(self, digits: &[u8]) -> Option<Prefix> {
        let length = self.unit().checked_mul(u8::try_from(digits.len()).ok()?)?;
        let bits = digits.iter().fold(0_u128, |bits, digit| bits << self.unit() | u128::from(*digit));
        let shifted = |width: u32| bits.checked_shl(width - u32::from(length)).unwrap_or(0);
        let address = match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(shifted(32)).ok()?)),
            Self::V6 => IpAddr::V6(Ipv6Addr::from_bits(shifted(128))),
        };
        Prefix::new(address, length).ok()
    }

    fn digits(self) -> usize {
        match self {
            Self::V4 => 4,
            Self::V6 => 32,
        }
    }
}

impl ReverseName {
    /// Reads a name; `None` if it is in neither tree.
    pub(crate) fn parse(name: WireName<'_>) -> Option<Self> {
        let labels: Vec<&[u8]> = name.labels().map(|(_, label)| label).collect();
        let [front @ .., domain, top] = labels.as_slice() else { return None };
        let tree = Tree::of(domain).filter(|_| top.eq_ignore_ascii_case(b"arpa"))?;
        let digits: Vec<u8> = front.iter().rev().take(tree.digits()).map_while(|label| tree.digit(label)).collect();
        Some(Self { prefix: tree.prefix(&digits)?, has_more: digits.len() < front.len() })
    }
}

/// The reverse zones of a prefix: those that begin at its first whole label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReverseZones {
    own: Prefix,
    /// Bits of the prefix of each zone.
    cut: u8,
}

impl ReverseZones {
    /// Returns the zones of a prefix.
    pub(crate) fn new(own: Prefix) -> Self {
        let unit = if own.address().is_ipv4() { Tree::V4.unit() } else { Tree::V6.unit() };
        Self { own, cut: own.length().div_ceil(unit) * unit }
    }

    /// Returns true if the name belongs to one of these zones.
    pub(crate) fn contain(&self, name: &ReverseName) -> bool {
        name.prefix.length() >= self.cut && self.own.contains(name.prefix.address())
    }

    /// Returns true if the name, which is in one of these zones, is the zone's own.
    pub(crate) fn is_apex(&self, name: &ReverseName) -> bool {
        name.prefix.length() == self.cut && !name.has_more
    }

    /// Returns the offset in `name`, which belongs to one of these zones, at which the zone's name begins.
    pub(crate) fn apex_offset(&self, name: WireName<'_>) -> usize {
        let unit = if self.own.address().is_ipv4() { Tree::V4.unit() } else { Tree::V6.unit() };
        let labels = usize::from(self.cut / unit) + 2;
        let offsets: Vec<usize> = name.labels().map(|(offset, _)| offset).collect();
        offsets.len().checked_sub(labels).and_then(|place| offsets.get(place)).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::name::Name;

    fn read(text: &str) -> Option<(String, bool)> {
        let name = Name::from_text(text).unwrap();
        let reverse = ReverseName::parse(WireName::parse(name.bytes()).unwrap())?;
        Some((reverse.prefix.to_string(), reverse.has_more))
    }

    #[test]
    fn labels_are_read_from_the_right() {
        for (text, prefix, has_more) in [
            ("7.0.64.100.in-addr.arpa", "100.64.0.7/32", false),
            ("64.100.IN-ADDR.arpa", "100.64.0.0/16", false),
            ("in-addr.arpa", "0.0.0.0/0", false),
            ("x.64.100.in-addr.arpa", "100.64.0.0/16", true),
            ("1.7.0.64.100.in-addr.arpa", "100.64.0.7/32", true),
            ("07.0.64.100.in-addr.arpa", "100.64.0.0/24", true),
            ("256.0.64.100.in-addr.arpa", "100.64.0.0/24", true),
            ("+7.0.64.100.in-addr.arpa", "100.64.0.0/24", true),
            ("D.f.ip6.arpa", "fd00::/8", false),
            ("00.d.f.ip6.arpa", "fd00::/8", true),
            ("g.f.ip6.arpa", "f000::/4", true),
        ] {
            assert_eq!(read(text), Some((String::from(prefix), has_more)), "{text}");
        }
        for text in ["arpa", "example.arpa", "in-addr.example", "7.0.64.100"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn zones_begin_at_the_first_whole_label() {
        let zones = ReverseZones::new("100.64.0.0/10".parse().unwrap());
        for (text, inside, apex, offset) in [
            ("64.100.in-addr.arpa", true, true, 0),
            ("127.100.in-addr.arpa", true, true, 0),
            ("1.2.127.100.in-addr.arpa", true, false, 4),
            ("128.100.in-addr.arpa", false, false, 0),
            ("100.in-addr.arpa", false, false, 0),
            ("x.64.100.in-addr.arpa", true, false, 2),
            ("0.0.d.f.ip6.arpa", false, false, 0),
        ] {
            let name = Name::from_text(text).unwrap();
            let wire = WireName::parse(name.bytes()).unwrap();
            let reverse = ReverseName::parse(wire).unwrap();
            assert_eq!(zones.contain(&reverse), inside, "{text}");
            if inside {
                assert_eq!((zones.is_apex(&reverse), zones.apex_offset(wire)), (apex, offset), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_address_has_a_name(v4 in any::<u32>(), v6 in any::<u128>()) {
            let [a, b, c, d] = v4.to_be_bytes();
            prop_assert_eq!(read(&format!("{d}.{c}.{b}.{a}.in-addr.arpa")), Some((Prefix::host(IpAddr::V4(v4.into())).to_string(), false)));
            let digits: Vec<String> = format!("{v6:032x}").chars().rev().map(String::from).collect();
            prop_assert_eq!(read(&format!("{}.ip6.arpa", digits.join("."))), Some((Prefix::host(IpAddr::V6(v6.into())).to_string(), false)));
        }
    }
}

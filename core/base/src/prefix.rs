//! Address prefixes.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An IP prefix such as `100.64.0.0/10`. Bits beyond its length are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

impl Prefix {
    /// Returns the prefix of `length` bits that contains `address`. Host bits are cleared.
    ///
    /// # Errors
    /// If `length` exceeds 32 (IPv4) or 128 (IPv6).
    pub fn new(address: IpAddr, length: u8) -> Result<Self, BadPrefix> {
        if length > bits(address) {
            return Err(BadPrefix);
        }
        Ok(Self { address: mask(address, length), length })
    }

    /// Returns the prefix with `address` only.
    pub fn host(address: IpAddr) -> Self {
        Self { address, length: bits(address) }
    }

    /// Returns the prefix of all addresses of a family: `::/0` for IPv6, else `0.0.0.0/0`.
    pub const fn everything(ipv6: bool) -> Self {
        let address = if ipv6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
        Self { address, length: 0 }
    }

    /// Returns the first address.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the number of fixed leading bits.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Returns true if `address` is in the prefix. An IPv4 address is never in an IPv6 prefix, even if mapped.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && mask(address, self.length) == self.address
    }

    /// Returns true if an address is in both prefixes.
    pub fn overlaps(self, other: Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let kept = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & kept))
        }
        IpAddr::V6(v6) => {
            let kept = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & kept))
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix {
    type Err = BadPrefix;

    fn from_str(text: &str) -> Result<Self, BadPrefix> {
        let (address, length) = text.split_once('/').ok_or(BadPrefix)?;
        let address: IpAddr = address.parse().map_err(|_| BadPrefix)?;
        Self::new(address, length.parse().map_err(|_| BadPrefix)?)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A text, or an address and a length, that is not a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPrefix;

impl fmt::Display for BadPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a prefix: write an address and a length, such as 100.64.0.0/10 or fd00::/48")
    }
}

impl Error for BadPrefix {}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn contains_addresses_that_share_its_bits() {
        assert!(prefix("10.0.0.0/8").contains("10.255.0.1".parse().unwrap()));
        assert!(!prefix("10.0.0.0/8").contains("11.0.0.1".parse().unwrap()));
        assert!(prefix("0.0.0.0/0").contains("1.2.3.4".parse().unwrap()));
        assert!(!prefix("::/0").contains("1.2.3.4".parse().unwrap()));
        assert!(prefix("fd00::/48").contains("fd00::1".parse().unwrap()));
        assert!(prefix("1.2.3.4/32").contains("1.2.3.4".parse().unwrap()));
    }

    #[test]
    fn clears_host_bits_and_refuses_nonsense() {
        assert_eq!(prefix("100.100.1.2/10").to_string(), "100.64.0.0/10");
        for text in ["10.0.0.0", "10.0.0.0/33", "::/129", "x/8", "10.0.0.0/-1"] {
            assert_eq!(text.parse::<Prefix>(), Err(BadPrefix), "{text}");
        }
    }

    #[test]
    fn overlap_is_mutual() {
        assert!(prefix("10.0.0.0/8").overlaps(prefix("10.1.0.0/16")));
        assert!(prefix("10.1.0.0/16").overlaps(prefix("10.0.0.0/8")));
        assert!(!prefix("10.0.0.0/8").overlaps(prefix("11.0.0.0/8")));
    }
}

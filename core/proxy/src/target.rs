//! Where a program wants to go.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Longest name, 253 bytes (RFC 1035, section 3.1, as text).
const MAX_NAME: usize = 253;

/// A name or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// An address.
    Address(IpAddr),
    /// A name in lower case, without the dot at the end.
    Name(String),
}

/// A destination of TCP.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// The node, or its address.
    pub host: Host,
    /// The port, never 0.
    pub port: u16,
}

/// The text is no destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadTarget;

impl fmt::Display for BadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write a name or an address and a port, such as nas:22, 100.64.0.2:22 or [fd00::2]:22")
    }
}

impl Host {
    /// Returns the host of a text: an address, with or without the brackets of IPv6, or a name of letters, digits, `-`, `_` and `.`.
    pub fn read(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
            return Some(Self::Address(plain(IpAddr::V6(address))));
        }
        if let Ok(address) = text.parse() {
            return Some(Self::Address(plain(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        // `192.0.2.1.` is no name of a host: without its dot it would be an address.
        if name.parse::<IpAddr>().is_ok() {
            return None;
        }
        let is_label = |label: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            (1..=63).contains(&label.len()) && label.bytes().all(allowed)
        };
        let valid = name.len() <= MAX_NAME && name.split('.').all(is_label);
        valid.then(|| Self::Name(name.to_ascii_lowercase()))
    }
}

/// Returns an IPv4 address that is written as an IPv6 address (`::ffff:192.0.2.1`) as an IPv4 address.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

impl FromStr for Target {
    type Err = BadTarget;

    fn from_str(text: &str) -> Result<Self, BadTarget> {
        let (host, port) = text.rsplit_once(':').ok_or(BadTarget)?;
        // Without brackets the last group of an IPv6 address would count as a port.
        if host.contains(':') && !host.starts_with('[') {
            return Err(BadTarget);
        }
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| digits && *port != 0).ok_or(BadTarget)?;
        Ok(Self { host: Host::read(host).ok_or(BadTarget)?, port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Address(address) => write!(f, "{address}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn targets_are_read() {
        for (text, written) in [
            ("nas:22", "nas:22"),
            ("NAS.Home.taut.internal.:80", "nas.home.taut.internal:80"),
            ("100.64.0.2:443", "100.64.0.2:443"),
            ("[fd00::2]:65535", "[fd00::2]:65535"),
            ("[::ffff:192.0.2.1]:1", "192.0.2.1:1"),
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), written);
        }
        for text in [
            "",
            "nas",
            "nas:",
            "nas:0",
            "nas:65536",
            "nas:+22",
            ":22",
            "fd00::2:22",
            "a b:1",
            "a..b:1",
            "[nas]:1",
            "[fd00::2:1",
            "ä:1",
        ] {
            assert_eq!(text.parse::<Target>(), Err(BadTarget), "{text}");
        }
        let long = vec!["a".repeat(63); 4].join(".");
        assert_eq!(format!("{long}:1").parse::<Target>(), Err(BadTarget), "255 bytes");
        assert!(format!("{}:1", &long[2..]).parse::<Target>().is_ok(), "253 bytes");
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_and_read_again(text in "(\\[?[a-z0-9.:_-]{0,20}\\]?):[0-9]{0,6}|.{0,40}") {
            if let Ok(target) = text.parse::<Target>() {
                prop_assert_eq!(target.to_string().parse::<Target>().unwrap(), target);
            }
        }
    }
}

//! Port forwards as users write them.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Target;

/// Limit on forwards and on published ports, 64 each: every one of them has a listener, and a published port has prepared connections too.
pub const MAX_FORWARDS: usize = 64;

/// A port forward out: a local port that leads to a port of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// Where programs of this host connect to.
    pub listen: SocketAddr,
    /// Where their connections lead.
    pub target: Target,
}

/// A port forward in: a port of this node's overlay addresses that leads to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The port that peers connect to, never 0.
    pub port: u16,
    /// Where their connections lead.
    pub target: SocketAddr,
}

impl FromStr for Forward {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str =
            "write LOCAL=PEER:PORT, such as 127.0.0.1:2222=nas:22, or 2222=nas:22 for a port of 127.0.0.1";
        let (listen, target) = text.split_once('=').ok_or(WRONG)?;
        Ok(Self { listen: address(listen).ok_or(WRONG)?, target: target.parse().map_err(|_| WRONG)? })
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.listen, self.target)
    }
}

impl FromStr for Publish {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "write PORT=LOCAL, such as 80=127.0.0.1:8080, or 80=8080 for a port of 127.0.0.1";
        let (port, target) = text.split_once('=').ok_or(WRONG)?;
        let port = number(port).ok_or(WRONG)?;
        let target = address(target).filter(|target| !target.ip().is_unspecified()).ok_or(WRONG)?;
        Ok(Self { port, target })
    }
}

impl fmt::Display for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.port, self.target)
    }
}

/// Reads an address with a port. A bare port means a port of 127.0.0.1.
fn address(text: &str) -> Option<SocketAddr> {
    let here = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    number(text).map(here).or_else(|| text.parse().ok()).filter(|address| address.port() != 0)
}

fn number(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port != 0)
}

/// Has a type appear in JSON as its text.
macro_rules! as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    };
}

as_text!(Forward);
as_text!(Publish);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_read_and_written() {
        for (text, written) in [
            ("2222=nas:22", "127.0.0.1:2222=nas:22"),
            ("[::1]:2222=[fd00::2]:22", "[::1]:2222=[fd00::2]:22"),
            ("0.0.0.0:80=100.64.0.2:80", "0.0.0.0:80=100.64.0.2:80"),
        ] {
            let forward: Forward = text.parse().unwrap();
            assert_eq!(forward.to_string(), written);
            assert_eq!(written.parse(), Ok(forward));
        }
        for text in ["", "2222", "2222=nas", "0=nas:22", "nas:22=2222", "+1=nas:22", "host:1=nas:22"] {
            assert!(text.parse::<Forward>().is_err(), "{text}");
        }
    }

    #[test]
    fn published_ports_are_read_and_written() {
        for (text, written) in [("80=8080", "80=127.0.0.1:8080"), ("22=[::1]:22", "22=[::1]:22")] {
            let publish: Publish = text.parse().unwrap();
            assert_eq!(publish.to_string(), written);
            assert_eq!(written.parse(), Ok(publish));
        }
        for text in ["", "80", "0=80", "80=0", "80=0.0.0.0:80", "80=nas:80", "65536=1"] {
            assert!(text.parse::<Publish>().is_err(), "{text}");
        }
    }
}

//! What became of the asking: as data, and in words.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use crate::endpoint::is_nested;
use crate::machine::Mapping;

/// A way to ask for a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Port Control Protocol.
    Pcp,
    /// NAT Port Mapping Protocol.
    NatPmp,
    /// UPnP Internet Gateway Device.
    Upnp,
}

impl Protocol {
    /// All, in the order in which they are preferred.
    pub const ALL: [Self; 3] = [Self::Pcp, Self::NatPmp, Self::Upnp];

    /// Its name, for people and for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pcp => "pcp",
            Self::NatPmp => "nat-pmp",
            Self::Upnp => "upnp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What came back in one protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// It was not asked: another protocol served first, or there is nobody to ask.
    #[default]
    NotAsked,
    /// It was asked a moment ago.
    Asked,
    /// Nothing came back.
    Silent,
    /// The gateway says that nobody listens there.
    Closed,
    /// No, and why.
    Refused(String),
    /// An answer that is of no use, and why.
    Unusable(String),
    /// It maps our ports.
    Serves,
}

impl Said {
    /// In one word, for JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotAsked => "not-asked",
            Self::Asked => "asked",
            Self::Silent => "silent",
            Self::Closed => "closed",
            Self::Refused(_) => "refused",
            Self::Unusable(_) => "unusable",
            Self::Serves => "serves",
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("not asked"),
            Self::Asked => f.write_str("asked, no answer yet"),
            Self::Silent => f.write_str("no answer"),
            Self::Closed => f.write_str("nobody listens there"),
            Self::Refused(why) => write!(f, "refused: {why}"),
            Self::Unusable(why) => write!(f, "of no use: {why}"),
            Self::Serves => f.write_str("maps our ports"),
        }
    }
}

/// One protocol's part of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voice {
    /// Which one.
    pub protocol: Protocol,
    /// Who answered.
    pub from: Option<SocketAddr>,
    /// What the gateway calls itself; printable ASCII, short, empty where it does not say.
    pub name: String,
    /// What came back.
    pub said: Said,
}

impl Voice {
    fn new(protocol: Protocol) -> Self {
        Self { protocol, from: None, name: String::new(), said: Said::NotAsked }
    }
}

impl fmt::Display for Voice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.protocol, self.said)?;
        match self.from {
            Some(from) if self.name.is_empty() => write!(f, " ({from})"),
            Some(from) => write!(f, " ({from}, {})", self.name),
            None => Ok(()),
        }
    }
}

/// All of it. Its `Display` is lines for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Who is asked; `None` without a gateway.
    pub gateway: Option<Ipv4Addr>,
    /// What each protocol said, in the order of [`Protocol::ALL`].
    pub voices: [Voice; 3],
    /// What is mapped.
    pub mappings: Vec<Mapping>,
    /// Messages that came from others than the gateway, and were dropped.
    pub strangers: u64,
}

impl Default for Report {
    fn default() -> Self {
        Self { gateway: None, voices: Protocol::ALL.map(Voice::new), mappings: Vec::new(), strangers: 0 }
    }
}

impl Report {
    /// The part of `protocol`.
    pub fn voice(&self, protocol: Protocol) -> &Voice {
        &self.voices[protocol as usize]
    }

    pub(crate) fn voice_mut(&mut self, protocol: Protocol) -> &mut Voice {
        &mut self.voices[protocol as usize]
    }

    /// Whether a mapping ends at an address that the Internet does not route: another NAT stands before the gateway, and the mapping is of
    /// use only to peers behind that one, too.
    pub fn is_nested(&self) -> bool {
        self.mappings.iter().any(|mapping| is_nested(mapping.outside))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(gateway) = self.gateway else { return f.write_str("no gateway to ask") };
        write!(f, "gateway {gateway}")?;
        for voice in &self.voices {
            write!(f, "\n{voice}")?;
        }
        for mapping in &self.mappings {
            write!(f, "\nport {} is {} outside, by {}", mapping.port, mapping.outside, mapping.protocol)?;
        }
        if self.is_nested() {
            f.write_str("\nanother NAT stands before the gateway: its outer address is not one of the Internet")?;
        }
        Ok(())
    }
}

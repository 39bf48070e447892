//! What became of the asking: as data, and in words.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use crate::endpoint::is_nested;
use crate::mapping::Mapping;
use crate::status::{Protocol, ProtocolStatus};

/// One protocol's part of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolReport {
    /// Which one.
    pub protocol: Protocol,
    /// Who answered.
    pub from: Option<SocketAddr>,
    /// What the gateway calls itself; printable ASCII, short, empty where it does not say.
    pub name: String,
    /// What came back.
    pub status: ProtocolStatus,
}

impl ProtocolReport {
    fn new(protocol: Protocol) -> Self {
        Self { protocol, from: None, name: String::new(), status: ProtocolStatus::NotAsked }
    }
}

impl fmt::Display for ProtocolReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.protocol, self.status)?;
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
    pub protocols: [ProtocolReport; 3],
    /// What is mapped.
    pub mappings: Vec<Mapping>,
    /// Messages that came from others than the gateway, and were dropped.
    pub strangers: u64,
}

impl Default for Report {
    fn default() -> Self {
        Self { gateway: None, protocols: Protocol::ALL.map(ProtocolReport::new), mappings: Vec::new(), strangers: 0 }
    }
}

impl Report {
    /// The part of `protocol`.
    pub fn protocol(&self, protocol: Protocol) -> &ProtocolReport {
        &self.protocols[protocol as usize]
    }

    pub(crate) fn protocol_mut(&mut self, protocol: Protocol) -> &mut ProtocolReport {
        &mut self.protocols[protocol as usize]
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
        for protocol in &self.protocols {
            write!(f, "\n{protocol}")?;
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

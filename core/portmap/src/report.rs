//! The result of all requests so far: as data, and in words.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use crate::endpoint::is_nested;
use crate::mapping::Mapping;
use crate::status::{Protocol, ProtocolStatus};

/// The part of the report about one protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolReport {
    /// The protocol.
    pub protocol: Protocol,
    /// The endpoint that answered.
    pub from: Option<SocketAddr>,
    /// The name that the gateway gives itself: short printable ASCII, or empty.
    pub name: String,
    /// The status.
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

/// The result of all requests so far. Its `Display` is lines for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortmapReport {
    /// The gateway; `None` if there is none.
    pub gateway: Option<Ipv4Addr>,
    /// One part per protocol, in the order of [`Protocol::ALL`].
    pub protocols: [ProtocolReport; 3],
    /// The present mappings.
    pub mappings: Vec<Mapping>,
    /// Messages from other hosts than the gateway, which were dropped.
    pub foreign_messages: u64,
}

impl Default for PortmapReport {
    fn default() -> Self {
        Self {
            gateway: None,
            protocols: Protocol::ALL.map(ProtocolReport::new),
            mappings: Vec::new(),
            foreign_messages: 0,
        }
    }
}

impl PortmapReport {
    /// Returns the part about `protocol`.
    pub fn protocol(&self, protocol: Protocol) -> &ProtocolReport {
        &self.protocols[protocol as usize]
    }

    pub(crate) fn protocol_mut(&mut self, protocol: Protocol) -> &mut ProtocolReport {
        &mut self.protocols[protocol as usize]
    }

    /// Returns true if the Internet does not route the outer address of a mapping: another NAT is in front of the gateway, and only peers behind the
    /// same NAT can use the mapping.
    pub fn is_nested(&self) -> bool {
        self.mappings.iter().any(|mapping| is_nested(mapping.outside))
    }
}

impl fmt::Display for PortmapReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(gateway) = self.gateway else { return f.write_str("no gateway to ask") };
        write!(f, "gateway {gateway}")?;
        for protocol in &self.protocols {
            write!(f, "\n{protocol}")?;
        }
        for mapping in &self.mappings {
            write!(f, "\nport {} is {} outside, mapped by {}", mapping.port, mapping.outside, mapping.protocol)?;
        }
        if self.is_nested() {
            f.write_str("\nanother NAT is in front of the gateway: the Internet does not route its outer address")?;
        }
        Ok(())
    }
}

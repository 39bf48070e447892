//! What is between a node and the internet: in words that people know, and in those of RFC 4787.
//!
//! | kind | mapping (RFC 4787, section 4) | filtering (section 5) |
//! |---|---|---|
//! | none | not translated | endpoint-independent, or unknown |
//! | firewall | not translated | address-dependent, or address and port-dependent |
//! | full cone | endpoint-independent | endpoint-independent |
//! | address-restricted cone | endpoint-independent | address-dependent |
//! | port-restricted cone | endpoint-independent | address and port-dependent |
//! | cone | endpoint-independent | unknown |
//! | symmetric | address-dependent, or address and port-dependent | any |
//! | blocked | no UDP datagram was answered | |

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// What relays told of the NAT in front of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatStatus {
    /// In words that people know.
    pub kind: NatKind,
    /// Which outside port a socket gets.
    pub mapping: Mapping,
    /// Whose datagrams come in.
    pub filtering: Filtering,
    /// Whether a host behind the NAT reaches another one there by its outside address; `null` where it was not tried, or there is no NAT.
    pub hairpin: Option<bool>,
    /// Where relays see this node's socket.
    pub seen_as: Vec<SocketAddr>,
    /// Why nothing is known, if that is so.
    #[serde(default)]
    pub problem: Option<String>,
}

impl NatStatus {
    /// Names the kind by what is known.
    pub fn new(mapping: Mapping, filtering: Filtering, hairpin: Option<bool>, seen_as: Vec<SocketAddr>) -> Self {
        Self { kind: NatKind::of(mapping, filtering), mapping, filtering, hairpin, seen_as, problem: None }
    }

    /// No datagram was answered, and nothing else was: it may be the relays or this host's network.
    pub fn unanswered() -> Self {
        Self { problem: Some(String::from("no relay answers")), ..Self::default() }
    }

    /// No datagram was answered, though there was somebody to answer.
    pub fn blocked() -> Self {
        Self { kind: NatKind::Blocked, ..Self::default() }
    }
}

/// What is between, in words that people know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NatKind {
    /// Nobody told.
    #[default]
    Unknown,
    /// Datagrams neither come back nor seem to leave.
    Blocked,
    /// The node has its outside address itself, and no filter was seen.
    None,
    /// The node has its outside address itself, but only who was spoken to gets in.
    Firewall,
    /// One outside port for all, open to all.
    FullCone,
    /// One outside port for all, open to hosts that were spoken to.
    AddressRestrictedCone,
    /// One outside port for all, open to endpoints that were spoken to.
    PortRestrictedCone,
    /// One outside port for all; to whom it is open is not known.
    Cone,
    /// Another outside port for each that is spoken to.
    Symmetric,
}

impl NatKind {
    /// The name for these behaviours.
    pub const fn of(mapping: Mapping, filtering: Filtering) -> Self {
        match (mapping, filtering) {
            (Mapping::Unknown, _) => Self::Unknown,
            (Mapping::NotTranslated, Filtering::AddressAndPortDependent | Filtering::AddressDependent) => {
                Self::Firewall
            }
            (Mapping::NotTranslated, _) => Self::None,
            (Mapping::AddressDependent | Mapping::AddressAndPortDependent, _) => Self::Symmetric,
            (_, Filtering::EndpointIndependent) => Self::FullCone,
            (_, Filtering::AddressDependent) => Self::AddressRestrictedCone,
            (_, Filtering::AddressAndPortDependent) => Self::PortRestrictedCone,
            (_, Filtering::Unknown | Filtering::NotByPort) => Self::Cone,
        }
    }
}

impl fmt::Display for NatKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::Blocked => "no answer by UDP",
            Self::None => "no NAT",
            Self::Firewall => "no NAT, but a firewall",
            Self::FullCone => "full cone NAT",
            Self::AddressRestrictedCone => "address-restricted cone NAT",
            Self::PortRestrictedCone => "port-restricted cone NAT",
            Self::Cone => "cone NAT",
            Self::Symmetric => "symmetric NAT",
        })
    }
}

/// Which outside port a socket gets (RFC 4787, section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// Too few answers to say.
    #[default]
    Unknown,
    /// Its own: address and port arrive as they are.
    NotTranslated,
    /// Endpoint-independent or address-dependent: the same one for two ports of one address, and no other address answered.
    NotByPort,
    /// The same one for everybody.
    EndpointIndependent,
    /// Another one for each address.
    AddressDependent,
    /// Another one for each address and port; or for each address, where no second port of one answered.
    AddressAndPortDependent,
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::NotTranslated => "not translated",
            Self::NotByPort => "endpoint-independent or address-dependent",
            Self::EndpointIndependent => "endpoint-independent",
            Self::AddressDependent => "address-dependent",
            Self::AddressAndPortDependent => "address and port-dependent",
        })
    }
}

/// Whose datagrams come in (RFC 4787, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filtering {
    /// Nobody told.
    #[default]
    Unknown,
    /// Endpoint-independent or address-dependent: who is spoken to may answer from another port.
    NotByPort,
    /// Everybody's.
    EndpointIndependent,
    /// Those of hosts that were spoken to.
    AddressDependent,
    /// Those of endpoints that were spoken to.
    AddressAndPortDependent,
}

impl fmt::Display for Filtering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "unknown",
            Self::NotByPort => "endpoint-independent or address-dependent",
            Self::EndpointIndependent => "endpoint-independent",
            Self::AddressDependent => "address-dependent",
            Self::AddressAndPortDependent => "address and port-dependent",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_from_behaviours() {
        use Filtering as F;
        use Mapping as M;
        for (mapping, filtering, kind) in [
            (M::Unknown, F::AddressDependent, NatKind::Unknown),
            (M::NotTranslated, F::Unknown, NatKind::None),
            (M::NotTranslated, F::NotByPort, NatKind::None),
            (M::NotTranslated, F::AddressAndPortDependent, NatKind::Firewall),
            (M::EndpointIndependent, F::EndpointIndependent, NatKind::FullCone),
            (M::EndpointIndependent, F::AddressDependent, NatKind::AddressRestrictedCone),
            (M::EndpointIndependent, F::AddressAndPortDependent, NatKind::PortRestrictedCone),
            (M::EndpointIndependent, F::NotByPort, NatKind::Cone),
            (M::NotByPort, F::AddressAndPortDependent, NatKind::PortRestrictedCone),
            (M::AddressDependent, F::NotByPort, NatKind::Symmetric),
            (M::AddressAndPortDependent, F::Unknown, NatKind::Symmetric),
        ] {
            assert_eq!(NatStatus::new(mapping, filtering, None, Vec::new()).kind, kind, "{mapping}, {filtering}");
        }
        assert_eq!(NatStatus::blocked().kind.to_string(), "no answer by UDP");
    }
}

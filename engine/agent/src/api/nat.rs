//! The NAT between a node and the Internet, by its common name and in the terms of RFC 4787.
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

use serde::Serialize;

/// The NAT in front of this node, as relays see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct NatStatus {
    /// The common name.
    pub kind: NatKind,
    /// The mapping behaviour: the outside port of a socket.
    pub mapping: MappingBehaviour,
    /// The filtering behaviour: the senders whose datagrams come in.
    pub filtering: Filtering,
    /// Whether a host behind the NAT reaches another one there by its outside address; `null` if it was not tried or there is no NAT.
    pub hairpin: Option<bool>,
    /// The endpoints at which relays see this node's socket.
    pub seen_as: Vec<SocketAddr>,
    /// The reason why nothing is known.
    #[serde(default)]
    pub problem: Option<String>,
}

impl NatStatus {
    /// Creates the status, and derives the common name.
    pub fn new(
        mapping: MappingBehaviour,
        filtering: Filtering,
        hairpin: Option<bool>,
        seen_as: Vec<SocketAddr>,
    ) -> Self {
        Self { kind: NatKind::of(mapping, filtering), mapping, filtering, hairpin, seen_as, problem: None }
    }

    /// Creates the status of a node that gets no answer at all: the cause may be the relays or this host's network.
    pub fn unanswered() -> Self {
        Self { problem: Some(String::from("no relay answers")), ..Self::default() }
    }

    /// Creates the status of a node whose datagrams are not answered, though relays are reachable in other ways.
    pub fn blocked() -> Self {
        Self { kind: NatKind::Blocked, ..Self::default() }
    }
}

/// Kinds of NAT by their common names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NatKind {
    /// Not known.
    #[default]
    Unknown,
    /// UDP is blocked.
    Blocked,
    /// The node has its outside address itself, and no filter was seen.
    None,
    /// The node has its outside address itself, but only hosts that it sent to can send to it.
    Firewall,
    /// One outside port for all destinations, open to all senders.
    FullCone,
    /// One outside port for all destinations, open to hosts that the socket sent to.
    AddressRestrictedCone,
    /// One outside port for all destinations, open to endpoints that the socket sent to.
    PortRestrictedCone,
    /// One outside port for all destinations; its filter is not known.
    Cone,
    /// Another outside port for each destination.
    Symmetric,
}

impl NatKind {
    /// Returns the kind with these behaviours.
    pub const fn of(mapping: MappingBehaviour, filtering: Filtering) -> Self {
        match (mapping, filtering) {
            (MappingBehaviour::Unknown, _) => Self::Unknown,
            (MappingBehaviour::NotTranslated, Filtering::AddressAndPortDependent | Filtering::AddressDependent) => {
                Self::Firewall
            }
            (MappingBehaviour::NotTranslated, _) => Self::None,
            (MappingBehaviour::AddressDependent | MappingBehaviour::AddressAndPortDependent, _) => Self::Symmetric,
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

/// Mapping behaviours (RFC 4787, section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MappingBehaviour {
    /// Not known: too few answers.
    #[default]
    Unknown,
    /// Address and port are not translated.
    NotTranslated,
    /// Endpoint-independent or address-dependent: the same outside port for two ports of one address; no other address answered.
    NotByPort,
    /// The same outside port for all destinations.
    EndpointIndependent,
    /// Another outside port for each address.
    AddressDependent,
    /// Another outside port for each address and port; or for each address, if no second port of an address answered.
    AddressAndPortDependent,
}

impl fmt::Display for MappingBehaviour {
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

/// Filtering behaviours (RFC 4787, section 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filtering {
    /// Not known.
    #[default]
    Unknown,
    /// Endpoint-independent or address-dependent: a host that the socket sent to may answer from another port.
    NotByPort,
    /// All senders.
    EndpointIndependent,
    /// Hosts that the socket sent to.
    AddressDependent,
    /// Endpoints that the socket sent to.
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
        use MappingBehaviour as M;
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

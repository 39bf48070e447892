//! Answers to nodes that ask whether the policy allows one of their connections.

use std::net::IpAddr;

use taut_base::NodeId;
use taut_netmap::{Connection, Decision, MAX_PEER_TEXT, MAX_PLACES, PolicyPlace, Verdict};
use taut_policy::{Origin, Packet, protocol_towards};

use super::{State, StateError};
use crate::store::{NetworkId, NodeRow};

/// Why the policy allows or denies a connection.
pub(super) enum Reason {
    /// This rule allows it.
    Rule(Origin),
    /// No rule allows it. These rules allow something else between the two nodes.
    NoRule(Vec<Origin>),
}

impl State {
    /// Decides about a connection of a member, by the policy in force. A connection by name is decided for IPv4. An address that no member has is one
    /// behind a subnet router or an exit node that this member is told of.
    pub(crate) async fn decide(
        &self,
        network: NetworkId,
        node: NodeId,
        connection: Connection,
    ) -> Result<Decision, StateError> {
        let view = self.latest_view(network).await?;
        let (own, enforced) = (view.row(node).ok_or(StateError::NotAMember)?, view.enforced());
        let address: Option<IpAddr> = connection.peer.parse().ok();
        let is_meant = |row: &&NodeRow| {
            let is_own = |address| address == IpAddr::V4(row.ipv4) || address == IpAddr::V6(row.ipv6);
            address.map_or_else(|| row.name.eq_ignore_ascii_case(&connection.peer), is_own)
        };
        // The policy is asked about one row, because a node may ask twenty times a second.
        let found = view.rows().find(is_meant).filter(|_| connection.peer.len() <= MAX_PEER_TEXT);
        let peer = found.filter(|row| row.id != node && enforced.shows(node, row.id));
        let decision = |verdict, rules: Vec<Origin>| Decision {
            verdict,
            policy: u64::try_from(enforced.number()).unwrap_or(0),
            rules: rules.into_iter().take(MAX_PLACES).map(place).collect(),
            connection: connection.clone(),
        };
        let behind = address.filter(|address| found.is_none() && enforced.leads(node, *address));
        let dst = match (peer, address) {
            (Some(peer), Some(IpAddr::V6(_))) => IpAddr::V6(peer.ipv6),
            (Some(peer), _) => IpAddr::V4(peer.ipv4),
            (None, _) => match behind {
                Some(address) => address,
                None => return Ok(decision(Verdict::NoSuchPeer, Vec::new())),
            },
        };
        let src = if dst.is_ipv6() { IpAddr::V6(own.ipv6) } else { IpAddr::V4(own.ipv4) };
        let proto = protocol_towards(connection.protocol, dst);
        Ok(match enforced.reason(&Packet { src, dst, proto, port: connection.port }) {
            Reason::Rule(rule) => decision(Verdict::Allowed, vec![rule]),
            Reason::NoRule(near) => decision(Verdict::Denied, near),
        })
    }
}

fn place(origin: Origin) -> PolicyPlace {
    PolicyPlace { section: String::from(origin.section), number: origin.number as u64, line: origin.line }
}

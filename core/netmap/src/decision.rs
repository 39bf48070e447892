//! The question whether the policy lets a node open a connection, and the coordinator's answer.
//!
//! A node knows only its own filter: neither the rules of others nor where a rule stands in the policy. The coordinator knows both. It names the rule by its
//! place, without its text, because the text has the names of groups and people.

use serde::{Deserialize, Serialize};

/// Longest text that names a peer, 255 bytes: the longest name of DNS.
pub const MAX_PEER_TEXT: usize = 255;

/// Limit on the rules that an answer names, 16: nobody reads more.
pub const MAX_PLACES: usize = 16;

/// A connection from the node that asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, taut_json::Deserialize)]
pub struct Connection {
    /// The other node: its name, or one of its overlay addresses; or an address behind a subnet router or an exit node. At most [`MAX_PEER_TEXT`] bytes.
    pub peer: String,
    /// IP protocol number.
    pub protocol: u8,
    /// Destination port; ignored for a protocol without ports.
    pub port: u16,
}

/// The coordinator's answer to [`ToCoordinator::Explain`](crate::ToCoordinator::Explain).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The connection, as it was asked for.
    #[serde(flatten)]
    pub connection: Connection,
    /// The verdict.
    pub verdict: Verdict,
    /// Number of the policy's version that decides.
    pub policy: u64,
    /// If allowed: the first rule that allows it. If denied: up to [`MAX_PLACES`] rules that allow something else from this node to that one.
    #[serde(default)]
    pub rules: Vec<PolicyPlace>,
}

/// Verdict on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A rule allows it.
    Allowed,
    /// No rule allows it.
    Denied,
    /// The node sees no such peer, and no router that leads to the address: either none exists, or the policy lets neither of the two reach the other. An
    /// answer that told these apart would tell the names of hidden nodes.
    NoSuchPeer,
    /// A verdict that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Place of a rule in a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct PolicyPlace {
    /// `acls` or `grants`.
    pub section: String,
    /// Number of the rule in its section, from 1.
    pub number: u64,
    /// Line at which it begins, from 1.
    pub line: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ToCoordinator, ToNode};

    #[test]
    fn question_and_answer_in_json() {
        let connection = Connection { peer: String::from("db"), protocol: 6, port: 22 };
        let text = serde_json::to_string(&ToCoordinator::Explain(connection.clone())).unwrap();
        assert_eq!(text, r#"{"type":"explain","peer":"db","protocol":6,"port":22}"#);
        let place = PolicyPlace { section: String::from("acls"), number: 2, line: 7 };
        let decision = Decision { connection, verdict: Verdict::Denied, policy: 3, rules: vec![place] };
        let text = serde_json::to_string(&ToNode::Decision(decision.clone())).unwrap();
        assert_eq!(serde_json::from_str::<ToNode>(&text).unwrap(), ToNode::Decision(decision));
    }

    #[test]
    fn verdicts_of_newer_coordinators_are_unknown() {
        let text = r#"{"peer":"db","protocol":6,"port":22,"verdict":"perhaps","policy":3,"later":true}"#;
        let decision: Decision = serde_json::from_str(text).unwrap();
        assert_eq!((decision.verdict, decision.rules), (Verdict::Unknown, Vec::new()));
    }
}

//! Whether the policy allows a connection, in the local API.

use serde::{Deserialize, Serialize};
use taut_netmap::{Connection, PolicyPlace, Verdict};

/// What is known of a connection to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// [`super::SCHEMA`].
    pub schema: u32,
    /// The connection: the peer's name or address, the protocol and the port.
    #[serde(flatten)]
    pub connection: Connection,
    /// The coordinator's verdict; `null` until it has answered.
    pub verdict: Option<Verdict>,
    /// Number of the policy's version that decides.
    pub policy_version: Option<u64>,
    /// If allowed: the first rule that allows it. If denied: the rules that allow something else from this node to that one.
    pub rules: Vec<PolicyPlace>,
}

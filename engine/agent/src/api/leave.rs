//! Progress and outcome of `taut leave`.

use serde::Serialize;

use super::Failure;

/// The last `taut leave`, until the node joins a network again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct LeaveStatus {
    /// The progress.
    pub state: LeaveState,
    /// Name of the network, if it was known.
    pub network: Option<String>,
    /// The node's name in it, if it was known.
    pub name: Option<String>,
    /// Whether the coordinator still lists the node; `null` until that is known.
    pub listed: Option<bool>,
    /// The part that failed, and what to do about it.
    pub problem: Option<Failure>,
}

/// Progress of leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaveState {
    /// The decision is stored, and the coordinator is being told.
    Leaving,
    /// The membership has ended.
    Left,
    /// Leaving failed: the node is still a member.
    Failed,
}

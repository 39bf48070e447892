//! Progress and outcome of `taut leave`.

use serde::{Deserialize, Serialize};

use super::Failure;

/// The last `taut leave`, until the node joins a network again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveStatus {
    /// Its progress.
    pub state: LeaveState,
    /// Name of the network, if it was known.
    pub network: Option<String>,
    /// The node's name in it, if it was known.
    pub name: Option<String>,
    /// Whether the coordinator still lists the node; `null` until that is known.
    pub listed: Option<bool>,
    /// The part that was not done, and what to do about it.
    pub problem: Option<Failure>,
}

/// Progress of leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaveState {
    /// It was decided; the coordinator is being told.
    Leaving,
    /// The membership is gone.
    Left,
    /// The node is a member as before.
    Failed,
}

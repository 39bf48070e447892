//! The event log, for those who may read it.

use serde::{Deserialize, Serialize};

/// A part of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPart {
    /// Version of this object and of the events' lines.
    pub schema: u32,
    /// Process id of the daemon: another one counts its lines from 0.
    pub pid: u32,
    /// Which events are recorded, as `--log-level` takes it.
    pub levels: String,
    /// Lines, the oldest first, each a JSON object (docs/log.md). Empty when there is nothing newer.
    pub lines: Vec<String>,
    /// The number to ask from next.
    pub next: u64,
    /// Lines that were dropped from memory before they were asked for.
    pub missed: u64,
}

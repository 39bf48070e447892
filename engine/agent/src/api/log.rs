//! The event log, for those who may read it.

use serde::Serialize;

/// A part of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct LogPart {
    /// Version of this object and of the events' lines.
    pub schema: u32,
    /// Process id of the daemon.
    pub pid: u32,
    /// A number that tells this run of the daemon from others with the same process id. Each run counts its lines from 0.
    #[serde(default)]
    pub run: u64,
    /// The daemon's state directory, which contains older events.
    #[serde(default)]
    pub state_dir: String,
    /// Which events are recorded, as `--log-level` takes it.
    pub levels: String,
    /// Lines, the oldest first, each a JSON object (docs/log.md). Empty when there is nothing newer.
    pub lines: Vec<String>,
    /// The number to ask from next.
    pub next: u64,
    /// Lines that were dropped from memory before they were asked for.
    pub missed: u64,
}

//! The time of a log line.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time now in ISO 8601, UTC, with milliseconds. A clock before 1970 counts as 1970.
pub(super) fn now() -> String {
    taut_base::format_time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

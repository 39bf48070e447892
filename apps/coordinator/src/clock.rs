//! The wall clock, in the one form that is stored and shown.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; a clock before that counts as 1970.
pub(crate) fn unix_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

//! The wall clock of a simulated world.

use std::time::Duration;

/// Reading of the wall clock when virtual time begins, since the Unix epoch: a day of 2026, so that tickets and stamps have realistic times.
pub(crate) const WALL_AT_START: Duration = Duration::from_secs(1_780_000_000);

//! The clocks of the host.

use taut_base::Time;
use taut_event::{boot_time, wall_clock};
use taut_node::Clocks;

/// Returns both clocks, read together.
pub(crate) fn clocks() -> Clocks {
    Clocks { now: Time::from_duration(boot_time()), wall: wall_clock() }
}

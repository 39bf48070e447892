//! The kill switch for commands: they work with and without a daemon, because its rules belong to neither (docs/internals/exit.md).

use std::time::Duration;

use taut_netlink::Netlink;

use crate::host::{self, Slot};

/// Longest pause, one hour: it is for signing in, and a forgotten one leaves the host open.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// The kill switch of a network, while its rules are in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InForce {
    /// Number of packets that it dropped since its rules last changed.
    pub dropped: u64,
    /// The rest of a pause.
    pub paused: Option<Duration>,
}

/// Returns the state of the kill switch of the network with this device; `None` if it is not in force.
///
/// # Errors
/// What the kernel says, as to a user who may not read its rules.
pub fn look(device: &str) -> Result<Option<InForce>, String> {
    let seen = host::look(device).map_err(|error| error.to_string())?;
    Ok(seen.map(|seen| InForce { dropped: seen.dropped, paused: seen.paused }))
}

/// Puts the kill switch of a network in force, unless it is: nothing but the overlay and the daemon's own packets leaves.
///
/// # Errors
/// What the kernel says.
pub fn load(device: &str) -> Result<(), String> {
    host::load(device).map_err(|error| error.to_string())
}

/// Removes the kill switch of a network, and the routing to an exit node that a crash of its daemon left. Returns false if the switch was not in force.
///
/// # Errors
/// What the kernel says.
pub fn remove(device: &str) -> Result<bool, String> {
    if let Ok(mut netlink) = Netlink::open() {
        host::remove_routing(&mut netlink, Slot::of(device));
    }
    host::remove(device).map_err(|error| error.to_string())
}

/// Opens the kill switch of a network for this time, after which the kernel itself closes it; `None` closes it now.
///
/// # Errors
/// What the kernel says, as if the kill switch is not in force.
pub fn pause(device: &str, time: Option<Duration>) -> Result<(), String> {
    host::pause(device, time).map_err(|error| error.to_string())
}

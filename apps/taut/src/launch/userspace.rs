//! A daemon without a TUN device: chosen by the user, or because the last one had none.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use taut_agent::settings::Origin;

use super::check_device;
use crate::fault::Fault;
use crate::flags::DaemonFlags;
use crate::output;

/// Empty file in the state directory while the last daemon that `taut up` started had a userspace network.
pub(super) const RAN_USERSPACE: &str = "userspace";
/// The settings that need a TUN device, each with the value that a daemon without a device gets.
const WITHOUT_DEVICE: [(&str, &str); 4] =
    [("exit-node", "none"), ("kill-switch", "false"), ("advertise-exit-node", "false"), ("advertise-routes", "none")];

/// Gives a new daemon a userspace network if the last one of this node had one, no setting says otherwise or needs a device, and this host has no TUN device for it. Flags hold for one daemon, and
/// a user without rights would have to repeat that one for each command that starts another.
pub(crate) fn recall_userspace(flags: &mut DaemonFlags) -> Result<(), Fault> {
    if !flags.state.join(RAN_USERSPACE).exists() || has_device(flags)? {
        return Ok(());
    }
    // A setting that needs a device was given since: the user learns what the device needs, and not of a network that nobody chose.
    if let Some(recalled) = with_userspace(flags)? {
        *flags = recalled;
        output::complain(
            "taut: this host has no TUN device for this user, and the last daemon of this node had a userspace network: this one has it, too",
        );
    }
    Ok(())
}

/// Returns the flags with a userspace network, or `None` if a setting does not go with one.
pub(super) fn with_userspace(flags: &DaemonFlags) -> Result<Option<DaemonFlags>, Fault> {
    let mut flags = flags.clone();
    flags.choose_userspace()?;
    let conflict = taut_agent::conflict(&flags.clone().resolve()?.config);
    Ok(conflict.is_none().then_some(flags))
}

/// Gives a new daemon a userspace network if this host has no TUN device for it, and takes away for this daemon what needs one: a daemon that only leaves the network needs none of it.
pub(crate) fn do_without_device(flags: &mut DaemonFlags) -> Result<(), Fault> {
    if has_device(flags)? { Ok(()) } else { take_device_away(flags) }
}

pub(super) fn take_device_away(flags: &mut DaemonFlags) -> Result<(), Fault> {
    WITHOUT_DEVICE.iter().try_for_each(|(name, value)| flags.give(name, value))?;
    flags.choose_userspace()
}

/// Returns true if a setting chooses the device, or this host has a TUN device.
fn has_device(flags: &DaemonFlags) -> Result<bool, Fault> {
    let origin = flags.clone().resolve()?.config.given.origin("tun");
    Ok(!matches!(origin, None | Some(Origin::Network)) || check_device().is_ok())
}

/// Forgets how the last daemon ran. For a node that has left its network.
pub(crate) fn forget(state: &Path) {
    let _ = fs::remove_file(state.join(RAN_USERSPACE));
}

/// Notes in the state directory whether this daemon has a userspace network. Without the note the next command asks for the flag. For a daemon that stays: how one ran that only left the network
/// says nothing about the next.
pub(crate) fn note_userspace(flags: &DaemonFlags) {
    let is_userspace = flags.clone().resolve().is_ok_and(|resolved| resolved.config.is_userspace());
    if is_userspace {
        // An existing file, or a link of another user, is left as it is.
        let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(flags.state.join(RAN_USERSPACE));
    } else {
        forget(&flags.state);
    }
}

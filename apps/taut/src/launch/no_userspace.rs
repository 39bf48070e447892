//! The module that replaces `userspace` in a program built without that feature: every daemon has a TUN device.

use std::path::Path;

use crate::fault::Fault;
use crate::flags::DaemonFlags;

/// Changes nothing: no daemon of this program ran without a device.
pub(crate) fn recall_userspace(_: &mut DaemonFlags) -> Result<(), Fault> {
    Ok(())
}

/// Fails on a host without a TUN device: a daemon that only leaves the network needs one, too.
pub(crate) fn do_without_device(_: &mut DaemonFlags) -> Result<(), Fault> {
    super::check_device()
}

pub(crate) fn forget(_: &Path) {}

pub(crate) fn note_userspace(_: &DaemonFlags) {}

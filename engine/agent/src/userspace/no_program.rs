//! The module that replaces `program` in a program built without the feature `userspace`: a node has a TUN device, as a router does. The setting `tun` refuses `userspace`
//! (`settings`), so no network is ever without a device.

use std::os::fd::{AsFd, BorrowedFd};

use taut_node::ServicePorts;
use taut_tun::Tun;

use super::UserspaceNetwork;
use crate::api::Failure;
use crate::config::DaemonConfig;

/// A program that never runs.
pub(crate) enum Userspace {}

impl Userspace {
    /// Fails: this program has no userspace network.
    pub(crate) fn start(_: &DaemonConfig) -> Result<(Tun, Self), Failure> {
        Err(Failure::new("this taut was built without userspace networks, as for small routers", ""))
    }

    pub(crate) fn tell(&mut self, _: UserspaceNetwork) {
        match *self {}
    }

    pub(crate) fn read(&mut self) -> bool {
        match *self {}
    }

    pub(crate) fn service_ports(&self) -> ServicePorts {
        match *self {}
    }

    pub(crate) fn warnings(&self) -> Vec<Failure> {
        match *self {}
    }
}

impl AsFd for Userspace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }
}

/// Returns `None`: without userspace networks, no settings contradict each other.
pub fn conflict(_: &DaemonConfig) -> Option<Failure> {
    None
}

//! The module that replaces `mapped` in a program built without the feature `portmap`: no port is ever mapped, and the status says why.

use std::net::SocketAddr;

use taut_base::{Prefix, Time};
use taut_event::Waker;

use crate::api::PortMapStatus;
use crate::log::{Kind, Value};

/// Port mappings that are never made.
#[derive(Default)]
pub(super) struct Mapped {
    /// Whether the network is up.
    up: bool,
}

impl Mapped {
    pub(super) fn start(&mut self, _: Vec<u16>, _: &[Prefix], _: &Waker) {
        self.up = true;
    }

    pub(super) fn pause(&mut self) {
        self.up = false;
    }

    pub(super) fn end(&mut self) {}

    pub(super) fn check(&self) {}

    /// Returns false: no mapping ever changes.
    pub(super) fn turn(&mut self) -> bool {
        false
    }

    pub(super) fn take_events(&mut self, _: Time) -> Vec<(&'static Kind, Vec<Value>)> {
        Vec::new()
    }

    pub(super) fn of(&self, _: u16) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Tells users why nothing is mapped; `None` while port mapping is switched off.
    pub(super) fn status(&self) -> Option<PortMapStatus> {
        let problem = Some(String::from("this taut was built without port mappings, as for small routers"));
        self.up.then(|| PortMapStatus { problem, ..PortMapStatus::default() })
    }
}

//! The back-ends of hosts other than routers: systemd-resolved, and resolvconf or openresolv.

use super::forward::Forwarder;
use super::hook::Hook;
use super::resolvconf::{self, Resolvconf};
use super::resolved::Resolved;
use crate::api::ResolverBackEnd;

/// Returns such a back-end.
pub(super) fn hook(back_end: ResolverBackEnd, forwarder: &Forwarder) -> Box<dyn Hook> {
    match back_end {
        ResolverBackEnd::Resolvconf => Box::new(Resolvconf::new(forwarder.clone())),
        _ => Box::<Resolved>::default(),
    }
}

/// Removes what a helper left that does not run any more. Settings of systemd-resolved end with the link.
pub(super) fn recover() {
    resolvconf::recover();
}

//! The module that replaces `desktop` in a program built without the feature `desktop-dns`: on a host with such a resolver nothing is changed, and the status says why.

use super::Wanted;
use super::forward::Forwarder;
use super::hook::Hook;
use crate::api::{Failure, ResolverBackEnd};

/// A back-end that this program lacks.
struct Missing(ResolverBackEnd);

impl Hook for Missing {
    fn back_end(&self) -> ResolverBackEnd {
        self.0
    }

    fn apply(&mut self, _: &Wanted) -> Result<(), Failure> {
        Err(Failure::new(
            format!("this taut was built without what sets up {}, as for small routers", self.0.name()),
            "print lines for /etc/hosts with `taut hosts`, or install the full package",
        ))
    }

    fn is_in_place(&mut self, _: &Wanted) -> bool {
        false
    }

    fn undo(&mut self) {}
}

/// Returns the back-end that reports what is missing.
pub(super) fn hook(back_end: ResolverBackEnd, _: &Forwarder) -> Box<dyn Hook> {
    Box::new(Missing(back_end))
}

/// Does nothing: this program never set up such a resolver.
pub(super) fn recover() {}

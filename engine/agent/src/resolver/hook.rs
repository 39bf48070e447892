//! What every back-end can do.

use super::Wanted;
use crate::api::{Failure, ResolverBackEnd};

/// A back-end: one way to have the host ask the stub.
pub(super) trait Hook {
    /// Returns its name.
    fn back_end(&self) -> ResolverBackEnd;
    /// Makes the settings, or changes them.
    fn apply(&mut self, wanted: &Wanted) -> Result<(), Failure>;
    /// Returns false if another program undid them.
    fn is_in_place(&mut self, wanted: &Wanted) -> bool;
    /// Puts the host back.
    fn undo(&mut self);
}

//! Panics on purpose: a test gives a node one of two names.

use std::sync::atomic::{AtomicU32, Ordering};

/// Panics so far.
pub(crate) static PANICS: AtomicU32 = AtomicU32::new(0);

/// Panics at a node that has the name.
pub(super) fn panic_at(name: &str, poison: &str) {
    if name == poison {
        PANICS.fetch_add(1, Ordering::Relaxed);
        panic!("the name {poison} panics on purpose");
    }
}

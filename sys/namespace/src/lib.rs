//! Network namespaces for tests, and interfaces in them. A dev-dependency only: no program contains it (`tools/arrows.py`).
//!
//! [`in_namespace`] runs a test in a network namespace of its own: the host does not see what the test does there, and the kernel removes it when the test's
//! thread and descriptors are gone. Threads that the test starts are in the same namespace.
//!
//! It promises: a test that cannot have a namespace (no root, or a container that forbids them) is skipped and prints why. It refuses: anything outside of
//! the calling thread's namespace.
#![expect(unsafe_code, reason = "namespaces and interfaces are configured through libc")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod interface;

use std::panic::resume_unwind;
use std::thread;

pub use interface::{add_neighbour, configure, exists, gone, open_tap, set_address, set_flags, set_up};

/// Runs `test` in a thread in a new network namespace, whose loopback interface is down. Skips the test and prints why if the caller is not root or may not
/// make namespaces.
///
/// # Panics
/// If `test` does.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    if !is_root() {
        println!("skipped: needs root, to make a network namespace");
        return;
    }
    let outcome = thread::spawn(move || {
        if enter_new() {
            test();
        } else {
            println!("skipped: this root may not make network namespaces");
        }
    });
    if let Err(panic) = outcome.join() {
        resume_unwind(panic);
    }
}

/// Moves the calling thread into a new network namespace. Returns false if the kernel refuses.
#[must_use]
pub fn enter_new() -> bool {
    // SAFETY: no pointers; only the calling thread changes its namespace.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

fn is_root() -> bool {
    // SAFETY: no pointers, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

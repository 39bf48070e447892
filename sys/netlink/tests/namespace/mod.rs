//! A network namespace per test: nothing done there is seen by the host, and everything is gone when the test's thread
//! and descriptors are.

use std::panic::resume_unwind;
use std::thread;

/// Runs `test` in a thread that has a network namespace of its own. Skips, and says so, where that is not possible.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    // SAFETY: no pointers, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: needs root");
        return;
    }
    let outcome = thread::spawn(move || {
        // SAFETY: no pointers; only the calling thread changes its namespace.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
            test();
        } else {
            println!("skipped: this root may not make network namespaces");
        }
    });
    if let Err(panic) = outcome.join() {
        resume_unwind(panic);
    }
}

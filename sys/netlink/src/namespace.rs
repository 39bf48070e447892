//! Sockets of another network namespace.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;

/// Runs a function in the network namespace `namespace`, in a new thread, because a thread that moved there may not be
/// permitted to return. A socket stays in the namespace in which it was opened.
pub(crate) fn within<T: Send>(namespace: BorrowedFd<'_>, open: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let there = thread::Builder::new().spawn_scoped(scope, || {
            // SAFETY: no pointers; only this thread changes its namespace.
            if unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } < 0 {
                return Err(io::Error::last_os_error());
            }
            open()
        })?;
        there.join().unwrap_or_else(|_| Err(io::Error::other("the thread in the other namespace ended")))
    })
}

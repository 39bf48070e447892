//! Sockets of another network namespace.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;

/// Does something in the network namespace `namespace`. In a thread of its own, since a thread that went there might not
/// be let back; a socket belongs to where it was opened for ever.
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

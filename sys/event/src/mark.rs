//! The mark of a socket's packets.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Has everything that `socket` sends from now on carry this mark (`SO_MARK`, man 7 socket), by which rules choose its route. Set it before a socket connects, which chooses the route.
///
/// # Errors
/// `PermissionDenied` without `CAP_NET_ADMIN` (or, since Linux 5.17, `CAP_NET_RAW`).
pub fn set_mark(socket: &impl AsFd, mark: u32) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of_val(&mark)).unwrap_or_default();
    // SAFETY: the kernel reads `length` bytes of `mark`, which lives across the call.
    let result = unsafe {
        let value = (&raw const mark).cast();
        libc::setsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, libc::SO_MARK, value, length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};

    use super::set_mark;
    use crate::is_root;

    #[test]
    fn a_mark_needs_a_right_and_nothing_else() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let marked = set_mark(&socket, 0x7400_0000);
        assert!(marked.is_ok() || !is_root(), "{marked:?}");
        socket.send_to(b"a", socket.local_addr().unwrap()).unwrap();
    }
}

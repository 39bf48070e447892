//! A netlink socket that accepts messages only from the kernel.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The kernel fills datagrams of a dump up to what the reader offers, at most 32 KiB (net/netlink/af_netlink.c,
/// `netlink_dump`).
pub(crate) const BUFFER_LEN: usize = 32_768;

/// Longest wait for an answer. The kernel answers at once; the limit is for a lost answer.
const ANSWER_TIMEOUT: libc::timeval = libc::timeval { tv_sec: 5, tv_usec: 0 };

/// An open netlink socket.
pub(crate) struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Opens a socket of the netlink `protocol` that is a member of the multicast `groups` (bits; 0 for none). It blocks, but never longer than
    /// [`ANSWER_TIMEOUT`], unless `nonblocking`.
    pub(crate) fn open(protocol: libc::c_int, groups: u32, nonblocking: bool) -> io::Result<Self> {
        let mode = if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC | mode, protocol) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nothing else owns.
        let socket = Self { fd: unsafe { OwnedFd::from_raw_fd(fd) } };
        let mut name = kernel();
        name.nl_groups = groups;
        // SAFETY: `name` has as many bytes as are said, and lives across the call.
        let bound = unsafe { libc::bind(fd, (&raw const name).cast(), length_of(&name)) };
        if bound < 0 { Err(io::Error::last_os_error()) } else { Ok(socket) }
    }

    /// Sets an option; the value is anything that C would pass by pointer.
    pub(crate) fn set_int(&self, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: `value` has as many bytes as are said, and lives across the call.
        let result =
            unsafe { libc::setsockopt(self.fd.as_raw_fd(), level, name, (&raw const value).cast(), length_of(&value)) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sets the timeout of [`receive`](Self::receive).
    pub(crate) fn bound_waiting(&self) -> io::Result<()> {
        let value = ANSWER_TIMEOUT;
        // SAFETY: `value` has as many bytes as are said, and lives across the call.
        let result = unsafe {
            let value_at = (&raw const value).cast();
            libc::setsockopt(self.fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVTIMEO, value_at, length_of(&value))
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Sends one request to the kernel.
    pub(crate) fn send(&self, request: &[u8]) -> io::Result<()> {
        let name = kernel();
        // SAFETY: `request` and `name` have as many bytes as are said, and live across the call.
        let sent = unsafe {
            let (to, length) = ((&raw const name).cast(), length_of(&name));
            libc::sendto(self.fd.as_raw_fd(), request.as_ptr().cast(), request.len(), 0, to, length)
        };
        match usize::try_from(sent) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(sent) if sent < request.len() => Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => Ok(()),
        }
    }

    /// Receives one datagram of the kernel into `buffer` and says its length. Datagrams of other processes, which
    /// anyone can send here, are passed over. Fails with `InvalidData` on one that does not fit, `ENOBUFS` when the
    /// kernel had to drop some.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut name = kernel();
            let mut name_length = length_of(&name);
            // SAFETY: `buffer` and `name` have room for as many bytes as are said, and all live across the call.
            let received = unsafe {
                let (from, room) = ((&raw mut name).cast(), &raw mut name_length);
                libc::recvfrom(
                    self.fd.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    // With it the length returned is the real one, also of what does not fit.
                    libc::MSG_TRUNC,
                    from,
                    room,
                )
            };
            let Ok(received) = usize::try_from(received) else {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            };
            if name.nl_pid != 0 {
                continue;
            }
            if received > buffer.len() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            return Ok(received);
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The kernel's address: port 0, no groups.
fn kernel() -> libc::sockaddr_nl {
    // SAFETY: all bytes zero is a valid value of these plain numbers.
    let mut name: libc::sockaddr_nl = unsafe { mem::zeroed() };
    name.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    name
}

fn length_of<T>(_: &T) -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

//! The process at the other end of a unix socket, as the kernel reports it.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The process at the other end of a connection, at the time of connecting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCredentials {
    /// Process id in this process's pid namespace; 0 if it is not visible there.
    pub pid: i32,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
}

/// Returns the process at the other end of `stream` (`SO_PEERCRED`, man 7 unix).
pub fn peer_credentials(stream: &UnixStream) -> io::Result<PeerCredentials> {
    let mut answer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = libc::socklen_t::try_from(size_of_val(&answer)).unwrap_or_default();
    // SAFETY: `answer` has room for `length` bytes, and both live across the call.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut answer).cast(),
            &raw mut length,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PeerCredentials { pid: answer.pid, uid: answer.uid, gid: answer.gid })
}

#[cfg(test)]
mod tests {
    use super::peer_credentials;
    use crate::effective_uid;
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_other_end_of_our_own_pair_is_us() {
        let (left, _right) = UnixStream::pair().unwrap();
        let peer = peer_credentials(&left).unwrap();
        assert_eq!(peer.pid.cast_unsigned(), std::process::id());
        assert_eq!(peer.uid, effective_uid());
    }
}

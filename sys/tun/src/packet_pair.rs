//! Two connected sockets that carry one packet per message, in place of a TUN device.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Send buffer of each end, 4 MiB: the kernel grants at most `net.core.wmem_max`, which is 208 KiB by default and then holds about 6 superpackets or 150 packets of 1,420 bytes.
const BUFFER: libc::c_int = 4 * 1024 * 1024;

/// Returns two connected ends (`SOCK_SEQPACKET`, man 7 unix): each message arrives whole or not at all, in order, and a write to a full socket fails with `WouldBlock` once the
/// descriptor is non-blocking. Both ends are closed in children.
///
/// # Errors
/// If the process or the host has no descriptors left, or a sandbox refuses unix sockets.
pub fn packet_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends: [libc::c_int; 2] = [-1; 2];
    // SAFETY: `ends` has room for the two descriptors, and lives across the call.
    let result =
        unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, ends.as_mut_ptr()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so both are new descriptors that nothing else owns.
    let [one, other] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    let buffer = BUFFER;
    for end in [&one, &other] {
        let size = size_of_val(&buffer) as libc::socklen_t;
        // A smaller buffer loses more of a burst, and works.
        // SAFETY: the value is an int that lives across the call, and `size` is its length.
        let _ = unsafe {
            libc::setsockopt(end.as_raw_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, (&raw const buffer).cast(), size)
        };
    }
    Ok((one, other))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::*;
    use crate::{Offload, Tun};

    #[test]
    fn packets_keep_their_borders_and_the_end_of_the_other_program_is_an_error() {
        let (one, other) = packet_pair().unwrap();
        let (one, other) = [(one, "a"), (other, "b")]
            .map(|(end, name)| Tun::from_packet_socket(end, name, Offload::NONE).unwrap())
            .into();
        let mut buffer = [0; 100];
        assert_eq!(one.read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        other.write(b"first").unwrap();
        other.write_vectored(&[io::IoSlice::new(b""), io::IoSlice::new(b"sec"), io::IoSlice::new(b"ond")]).unwrap();
        assert_eq!(one.read(&mut buffer).unwrap(), 5);
        assert_eq!(one.read(&mut buffer).unwrap(), 6);
        assert_eq!(&buffer[..6], b"second");
        while other.write(&[0; 1_420]).is_ok() {}
        assert_eq!(other.write(&[0; 1_420]).unwrap_err().kind(), ErrorKind::WouldBlock, "a full socket loses nothing");
        drop(other);
        let end = loop {
            if let Err(error) = one.read(&mut [0; 1_420]) {
                break error;
            }
        };
        assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
        assert!(one.write(b"late").is_err());
    }
}

//! Descriptors that one process passes to another over a unix socket (`SCM_RIGHTS`, man 7 unix).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::{mem, ptr};

/// Room for the header of a control message and one descriptor, aligned as the header wants it.
type Control = [u64; 4];

/// Sends a byte, with a descriptor if there is one. The sender keeps its own handle.
///
/// # Errors
/// That of sendmsg(2), such as `BrokenPipe`.
pub fn send_descriptor(stream: &UnixStream, byte: u8, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut data = libc::iovec { iov_base: (&raw const byte).cast_mut().cast(), iov_len: 1 };
    let mut control: Control = [0; 4];
    let mut message = message(&mut data);
    if let Some(descriptor) = descriptor {
        let size = size_of::<libc::c_int>() as libc::c_uint;
        message.msg_control = control.as_mut_ptr().cast();
        // SAFETY: computes a length only; it is at most that of `control`, which a test checks.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(size) } as _;
        // SAFETY: `control` has room for the header and one descriptor, so the pointers are inside of it.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size) as _;
            ptr::write_unaligned(libc::CMSG_DATA(header).cast(), descriptor.as_raw_fd());
        }
    }
    loop {
        // SAFETY: `message` and what it points to live across the call, which only reads them.
        if unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) } == 1 {
            return Ok(());
        }
        interrupted()?;
    }
}

/// Receives a byte, and the descriptor that came with it, which is closed in children.
///
/// # Errors
/// `UnexpectedEof` if the other end is closed, else that of recvmsg(2).
pub fn receive_descriptor(stream: &UnixStream) -> io::Result<(u8, Option<OwnedFd>)> {
    let mut byte = 0_u8;
    let mut data = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control: Control = [0; 4];
    let mut message = message(&mut data);
    message.msg_control = control.as_mut_ptr().cast();
    // Room for one descriptor, without the padding behind it, in which a second one would fit.
    // SAFETY: computes a length only.
    message.msg_controllen = unsafe { libc::CMSG_LEN(size_of::<libc::c_int>() as libc::c_uint) } as _;
    loop {
        // SAFETY: `message` and what it points to live across the call, and the lengths are their own.
        match unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) } {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            1 => break,
            _ => interrupted()?,
        }
    }
    // SAFETY: the kernel wrote the control messages and their length.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    // SAFETY: either null or inside of `control`.
    let Some(found) = (unsafe { header.as_ref() }) else { return Ok((byte, None)) };
    if (found.cmsg_level, found.cmsg_type) != (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
        return Ok((byte, None));
    }
    // SAFETY: a message of this type has at least one descriptor, which is new and which nothing else owns. There is room for no second one: the kernel closes
    // what does not fit.
    let descriptor = unsafe { OwnedFd::from_raw_fd(ptr::read_unaligned(libc::CMSG_DATA(header).cast())) };
    Ok((byte, Some(descriptor)))
}

fn message(data: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all fields are integers and pointers, for which zero is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = data;
    message.msg_iovlen = 1;
    message
}

/// Returns the error of the last call, unless a signal interrupted it.
fn interrupted() -> io::Result<()> {
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::net::UnixStream;

    use super::{Control, receive_descriptor, send_descriptor};

    #[test]
    fn a_descriptor_arrives_as_a_handle_of_the_same_socket() {
        // SAFETY: computes a length only.
        let space = unsafe { libc::CMSG_SPACE(size_of::<libc::c_int>() as libc::c_uint) };
        assert!(space as usize <= size_of::<Control>());
        let (near, far) = UnixStream::pair().unwrap();
        let (mut one, other) = UnixStream::pair().unwrap();
        send_descriptor(&near, 7, Some(other.as_fd())).unwrap();
        send_descriptor(&near, 8, None).unwrap();
        let (byte, passed) = receive_descriptor(&far).unwrap();
        let passed = passed.unwrap();
        assert!(byte == 7 && passed.as_raw_fd() != other.as_raw_fd());
        drop(other);
        one.write_all(b"x").unwrap();
        let mut read = [0];
        UnixStream::from(passed).read_exact(&mut read).unwrap();
        assert_eq!(&read, b"x");
        assert!(matches!(receive_descriptor(&far), Ok((8, None))));
        drop(near);
        assert_eq!(receive_descriptor(&far).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }
}

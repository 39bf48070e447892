//! Connects to a unix socket with a timeout. The standard library waits without limit while the listener's queue is full.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::owned;

/// Connects to the stream socket at `path`, and waits for `timeout` at most. The timeout, which must not be zero, stays as the stream's write timeout.
///
/// # Errors
/// `WouldBlock` if the listener's queue stayed full; `InvalidInput` if the path is longer than the 107 bytes of a socket address (man 7 unix); otherwise
/// the error of connect(2).
pub fn connect(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    // SAFETY: all fields are integers, for which zero is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    // The byte after the path ends it.
    if bytes.len() >= address.sun_path.len() || bytes.is_empty() || bytes.contains(&0) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path of a socket has 1 to 107 bytes, none of them 0",
        ));
    }
    for (place, byte) in address.sun_path.iter_mut().zip(bytes) {
        *place = byte.cast_signed() as libc::c_char;
    }
    // SAFETY: no pointers, and the direct result of a call that makes a descriptor.
    let socket = unsafe { owned(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))? };
    let stream = UnixStream::from(socket);
    // SO_SNDTIMEO, which bounds connect(2), too.
    stream.set_write_timeout(Some(timeout))?;
    let length = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or_default();
    loop {
        // SAFETY: `address` has `length` bytes and lives across the call.
        if unsafe { libc::connect(stream.as_raw_fd(), (&raw const address).cast(), length) } == 0 {
            return Ok(stream);
        }
        let error = io::Error::last_os_error();
        // An interrupted connect on a unix socket does not continue in the background, so it is repeated.
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::connect;
    use std::io::{ErrorKind, Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("taut-event-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_listener_is_reached_and_its_absence_is_told() {
        let path = path("connect");
        let listener = UnixListener::bind(&path).unwrap();
        connect(&path, PATIENCE).unwrap().write_all(b"x").unwrap();
        let mut read = [0];
        listener.accept().unwrap().0.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"x");
        drop(listener);
        assert_eq!(connect(&path, PATIENCE).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(connect(&path, PATIENCE).unwrap_err().kind(), ErrorKind::NotFound);
        for odd in ["", &"x".repeat(108)] {
            assert_eq!(connect(Path::new(odd), PATIENCE).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }

    #[test]
    fn fault_p7_a_full_queue_is_waited_for_a_bounded_time() {
        let path = path("queue");
        // The standard library gives a listener the longest queue that the kernel allows; the test needs the shortest.
        let listener = UnixListener::bind(&path).unwrap();
        // SAFETY: no pointers; listen(2) on a socket that listens sets the length of its queue.
        assert_eq!(unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&listener), 0) }, 0);
        let first = UnixStream::connect(&path).unwrap();
        assert_eq!(connect(&path, Duration::from_millis(1)).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(listener.accept().unwrap());
        connect(&path, PATIENCE).unwrap();
        drop(first);
        std::fs::remove_file(&path).unwrap();
    }
}

//! What the standard library does not offer: to connect over TCP with short segments, whose limit is set before, because only then the other end hears of it; to connect through one
//! network device; and the length of a listener's queue.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::owned;

/// Connects to `address`, and waits for `timeout` at most, which must not be zero. The timeout stays as the stream's write timeout. Neither end sends
/// segments whose header and contents have more than `segment` bytes together, IP header and the basic 20 bytes of TCP's header not counted
/// (`TCP_MAXSEG`, man 7 tcp): they pass a path that loses longer packets without an error.
/// Its packets carry `mark`, if it is not 0 and this process may mark them ([`crate::set_mark`]).
///
/// # Errors
/// `TimedOut` if there was no answer; otherwise the error of socket(2), setsockopt(2) or connect(2).
pub fn connect_tcp(address: SocketAddr, segment: u16, timeout: Duration, mark: u32) -> io::Result<TcpStream> {
    let stream = new_stream(address)?;
    if mark != 0 {
        // Without the right to it the connection works, as long as no route leads it into the overlay.
        let _ = crate::set_mark(&stream, mark);
    }
    let segment = libc::c_int::from(segment);
    let length = socklen(size_of_val(&segment));
    // SAFETY: the kernel reads `length` bytes of `segment`, which lives across the call.
    let set = unsafe {
        libc::setsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, (&raw const segment).cast(), length)
    };
    if set != 0 {
        return Err(io::Error::last_os_error());
    }
    finish(stream, address, timeout)
}

/// Connects to `address` through the network device called `device` and through no other, whatever the routes say, and waits for `timeout` at most, which must not be zero. The timeout stays as
/// the stream's write timeout.
///
/// # Errors
/// `TimedOut` if there was no answer; otherwise the error of socket(2), setsockopt(2) or connect(2).
pub fn connect_tcp_through(device: &str, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let stream = new_stream(address)?;
    bind_to_device(stream.as_fd(), device)?;
    finish(stream, address, timeout)
}

/// Has a socket send and receive through one network device alone (`SO_BINDTODEVICE`, man 7 socket). Before Linux 5.7 this needs `CAP_NET_RAW`.
///
/// # Errors
/// `NotFound` or `ENODEV` if there is no such device; the error of setsockopt(2).
pub fn bind_to_device(socket: BorrowedFd<'_>, device: &str) -> io::Result<()> {
    let (level, option) = (libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
    // SAFETY: the kernel reads as many bytes of the name as it has, and copies them.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, device.as_ptr().cast(), socklen(device.len())) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn new_stream(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no pointers, and the direct result of a call that makes a descriptor.
    Ok(TcpStream::from(unsafe { owned(libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))? }))
}

fn finish(stream: TcpStream, address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    // SO_SNDTIMEO, which bounds connect(2), too.
    stream.set_write_timeout(Some(timeout))?;
    loop {
        if connect(&stream, address) == 0 {
            return Ok(stream);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // The connection is still being made, and the next call waits for it.
            Some(libc::EINTR) => {}
            Some(libc::EINPROGRESS) => return Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out")),
            _ => return Err(error),
        }
    }
}

/// Has the kernel keep up to `connections` of this listener until they are accepted; it lowers the number to net.core.somaxconn, 4,096 by default. The standard library asks for 128:
/// when more clients come back at the same moment, the others try again after 1, 3 and 7 s.
///
/// # Errors
/// The error of listen(2).
pub fn set_backlog(listener: &TcpListener, connections: u16) -> io::Result<()> {
    // SAFETY: no pointers; listen(2) on a socket that listens sets the length of its queue.
    match unsafe { libc::listen(listener.as_raw_fd(), connections.into()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn connect(stream: &TcpStream, address: SocketAddr) -> libc::c_int {
    match address {
        SocketAddr::V4(address) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: the kernel reads the address, whose length is given and which lives across the call.
            unsafe { libc::connect(stream.as_raw_fd(), (&raw const raw).cast(), socklen(size_of_val(&raw))) }
        }
        SocketAddr::V6(address) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: the kernel reads the address, whose length is given and which lives across the call.
            unsafe { libc::connect(stream.as_raw_fd(), (&raw const raw).cast(), socklen(size_of_val(&raw))) }
        }
    }
}

fn socklen(length: usize) -> libc::socklen_t {
    libc::socklen_t::try_from(length).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    const PATIENCE: Duration = Duration::from_secs(30);

    /// Returns the longest segment that this end of a connection sends.
    fn segment(stream: &TcpStream) -> libc::c_int {
        let mut value: libc::c_int = 0;
        let mut length = socklen(size_of_val(&value));
        let place = (&raw mut value).cast();
        // SAFETY: `value` has `length` bytes, and both live across the call.
        let read = unsafe {
            libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG, place, &raw mut length)
        };
        assert_eq!(read, 0);
        value
    }

    #[test]
    fn fault_i1_both_ends_of_a_connection_send_short_segments() {
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(local).unwrap();
            let mut near = connect_tcp(listener.local_addr().unwrap(), 1_000, PATIENCE, 0).unwrap();
            let (mut far, _) = listener.accept().unwrap();
            near.write_all(b"there").unwrap();
            far.read_exact(&mut [0; 5]).unwrap();
            far.write_all(b"back").unwrap();
            near.read_exact(&mut [0; 4]).unwrap();
            assert!([&near, &far].into_iter().all(|end| (1..=1_000).contains(&segment(end))), "{local}");
            assert_eq!(near.write_timeout().unwrap(), Some(PATIENCE));
        }
    }

    #[test]
    fn a_device_is_the_only_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        connect_tcp_through("lo", address, PATIENCE).unwrap().write_all(b"x").unwrap();
        listener.accept().unwrap().0.read_exact(&mut [0]).unwrap();
        assert!(connect_tcp_through("no-such-device", address, PATIENCE).is_err());
    }

    #[test]
    fn a_refusal_and_silence_are_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert_eq!(connect_tcp(address, 1_000, PATIENCE, 0).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        // A listener whose queue is full answers no further connection.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_backlog(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let first = connect_tcp(address, 1_000, PATIENCE, 0).unwrap();
        let silent = connect_tcp(address, 1_000, Duration::from_millis(50), 0).unwrap_err();
        assert_eq!(silent.kind(), io::ErrorKind::TimedOut);
        set_backlog(&listener, 1).unwrap();
        let second = connect_tcp(address, 1_000, PATIENCE, 0).unwrap();
        drop((first, second));
    }
}

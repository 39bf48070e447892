//! Opens the socket, sets its options, and reports what the kernel granted.

use crate::choice::{self, SocketChoice};
use crate::{BindError, option};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::address::Name;

/// The socket to open.
#[derive(Clone, Copy, Debug)]
pub struct UdpConfig {
    /// The local port, on all addresses; 0 for any free one.
    pub port: u16,
    /// True for a socket without IPv6 even if the host has it.
    pub ipv4_only: bool,
    /// Bytes to ask for as send buffer.
    pub send_buffer: usize,
    /// Bytes to ask for as receive buffer.
    pub receive_buffer: usize,
    /// Use GSO if the kernel has it; `false` switches it off.
    pub gso: bool,
    /// Use GRO if the kernel has it; `false` switches it off.
    pub gro: bool,
}

/// Buffer sizes in bytes as the kernel reports them: twice what it was asked for, because its own bookkeeping counts
/// (man 7 socket).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Send buffer.
    pub send: usize,
    /// Receive buffer.
    pub receive: usize,
}

/// The features of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// IPv6 in addition to IPv4.
    pub ipv6: bool,
    /// Runs are sent as one. May end while running: see [`UdpSocket::send`].
    pub gso: bool,
    /// Runs arrive as one.
    pub gro: bool,
}

/// A nonblocking UDP socket on all addresses of the host.
#[derive(Debug)]
pub struct UdpSocket {
    fd: OwnedFd,
    port: u16,
    ipv6: bool,
    gso: AtomicBool,
    gro: bool,
}

impl UdpSocket {
    /// Opens a socket. Features that the kernel lacks (IPv6, GSO, GRO, large buffers) are left out: see
    /// [`features`](Self::features) and [`buffers`](Self::buffers).
    pub fn bind(config: &UdpConfig) -> Result<Self, BindError> {
        Self::set_up(config, open(config, false)?)
    }

    /// As [`bind`](Self::bind), on a port that `count` sockets share (`SO_REUSEPORT`, Linux 3.9): the kernel delivers all datagrams of one sender
    /// to the same socket, so threads with one socket each keep their order. Fails if another program uses the port.
    pub fn bind_shared(config: &UdpConfig, count: usize) -> Result<Vec<Self>, BindError> {
        // Another program that shares the port would receive a part of the datagrams, which looks like loss.
        let alone = Self::bind(config)?;
        let config = UdpConfig { port: alone.port, ..*config };
        drop(alone);
        (0..count).map(|_| Self::set_up(&config, open(&config, true)?)).collect()
    }

    /// As [`bind_shared`](Self::bind_shared), but each datagram itself chooses its socket; one of no such kind goes to the first. A single socket does not share its
    /// port.
    pub fn bind_chosen(config: &UdpConfig, count: u8, choices: &[SocketChoice]) -> Result<Vec<Self>, BindError> {
        if count < 2 {
            return Ok(vec![Self::bind(config)?]);
        }
        let sockets = Self::bind_shared(config, count.into())?;
        if let Some(socket) = sockets.first() {
            let refused = |source| BindError::from_kernel("let datagrams choose their UDP socket", config.port, source);
            choice::attach(socket.as_fd(), choices, count).map_err(refused)?;
        }
        Ok(sockets)
    }

    fn set_up(config: &UdpConfig, (fd, ipv6): (OwnedFd, bool)) -> Result<Self, BindError> {
        let socket = fd.as_fd();
        let refused = |step| move |source| BindError::from_kernel(step, config.port, source);
        set_fragmentation(socket, ipv6, false).map_err(refused("forbid fragmentation on the UDP socket"))?;
        force_buffer(socket, libc::SO_SNDBUFFORCE, libc::SO_SNDBUF, config.send_buffer);
        force_buffer(socket, libc::SO_RCVBUFFORCE, libc::SO_RCVBUF, config.receive_buffer);
        let gro = config.gro && option::set(socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        // Size 0 is the default and changes nothing, but a kernel without GSO does not know the option.
        let gso = config.gso && option::set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        // Old kernels and sandboxes refuse. The routes then choose the source address of answers.
        let _ = if ipv6 {
            option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)
        } else {
            option::set(socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)
        };
        // Without congestion marks flows see loss instead. IPv4 on an IPv6 socket has its own option.
        let _ = option::set(socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
        if ipv6 {
            let _ = option::set(socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
        }
        let port = local_port(socket).map_err(refused("read the port of the UDP socket"))?;
        Ok(Self { fd, port, ipv6, gso: AtomicBool::new(gso), gro })
    }

    /// Opens another socket with the same features on any free port.
    pub fn another(&self) -> Result<Self, BindError> {
        let Buffers { send, receive } = self.buffers();
        let config = UdpConfig {
            port: 0,
            ipv4_only: !self.ipv6,
            // The kernel reports twice the requested size.
            send_buffer: send / 2,
            receive_buffer: receive / 2,
            gso: self.gso_enabled(),
            gro: self.gro,
        };
        let other = Self::bind(&config)?;
        let refused = |source| BindError::from_kernel("mark the UDP socket", 0, source);
        let mark = option::get(self.as_fd(), libc::SOL_SOCKET, libc::SO_MARK).unwrap_or(0);
        if mark != 0 {
            other.set_mark(mark.cast_unsigned()).map_err(refused)?;
        }
        Ok(other)
    }

    /// Returns another handle of this socket, with the same options. Only one of the two should receive.
    pub fn try_clone(&self) -> io::Result<Self> {
        let (fd, gso) = (self.fd.try_clone()?, AtomicBool::new(self.gso_enabled()));
        Ok(Self { fd, port: self.port, ipv6: self.ipv6, gso, gro: self.gro })
    }

    /// Returns the local port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the buffer sizes in force; zero if the kernel does not report them.
    pub fn buffers(&self) -> Buffers {
        let size = |name| option::get(self.as_fd(), libc::SOL_SOCKET, name).ok().and_then(|size| size.try_into().ok());
        Buffers { send: size(libc::SO_SNDBUF).unwrap_or(0), receive: size(libc::SO_RCVBUF).unwrap_or(0) }
    }

    /// Returns the current features of the socket.
    pub fn features(&self) -> Features {
        Features { ipv6: self.ipv6, gso: self.gso_enabled(), gro: self.gro }
    }

    /// Returns the number of datagrams that the kernel dropped at this socket since it was opened, mostly because the receive
    /// buffer was full. Wraps around at 32 bits; `None` if the kernel does not report it (before Linux 4.12).
    pub fn dropped(&self) -> Option<u32> {
        option::dropped(self.as_fd()).ok()
    }

    /// Marks everything sent from here on, for policy routing (`SO_MARK`); needs `CAP_NET_ADMIN`.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        option::set(self.as_fd(), libc::SOL_SOCKET, libc::SO_MARK, mark.cast_signed())
    }

    /// Sets whether hosts and routers may fragment the datagrams sent from now on. A new socket does not allow it.
    ///
    /// Not allowed means `IP_PMTUDISC_PROBE` and not `_DO`: both set Don't Fragment, but `_DO` also obeys the host's
    /// path-MTU cache, which anyone can shrink by a forged ICMP message, and which would then refuse the very probes
    /// that measure the path. A path's MTU is measured inside a session, so only the interface's own MTU binds here
    /// (`EMSGSIZE`). Native peers cannot be measured: their traffic may need a socket that allows it
    /// (`IP_PMTUDISC_DONT`).
    pub fn allow_fragmentation(&self, allowed: bool) -> io::Result<()> {
        set_fragmentation(self.as_fd(), self.ipv6, allowed)
    }

    pub(crate) fn gso_enabled(&self) -> bool {
        self.gso.load(Ordering::Relaxed)
    }

    pub(crate) fn disable_gso(&self) {
        self.gso.store(false, Ordering::Relaxed);
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Opens and binds a dual-stack socket, or an IPv4 socket if requested or if the host has no IPv6. Returns true with a dual-stack socket.
fn open(config: &UdpConfig, shared: bool) -> Result<(OwnedFd, bool), BindError> {
    if !config.ipv4_only {
        match open_family(libc::AF_INET6, (Ipv6Addr::UNSPECIFIED, config.port).into(), shared) {
            Ok(fd) => return Ok((fd, true)),
            // Not compiled in or switched off at boot, or no address to bind to.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)) => {}
            Err(source) => return Err(BindError::from_kernel("open a UDP socket", config.port, source)),
        }
    }
    open_family(libc::AF_INET, (Ipv4Addr::UNSPECIFIED, config.port).into(), shared)
        .map(|fd| (fd, false))
        .map_err(|source| BindError::from_kernel("open a UDP socket", config.port, source))
}

fn open_family(family: libc::c_int, address: SocketAddr, shared: bool) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(family, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    if family == libc::AF_INET6 {
        option::set(fd.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
    }
    if shared {
        option::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    let (name, length) = Name::encode(address);
    // SAFETY: `name` has at least `length` bytes and lives across the call.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(fd) }
}

fn local_port(fd: BorrowedFd<'_>) -> io::Result<u16> {
    let (mut name, mut length) = (Name::empty(), Name::ROOM);
    // SAFETY: `name` has room for `length` bytes, and both live across the call.
    if unsafe { libc::getsockname(fd.as_raw_fd(), (&raw mut name).cast(), &raw mut length) } < 0 {
        return Err(io::Error::last_os_error());
    }
    name.decode().map(|address| address.port()).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Requests a buffer beyond the system's limit (needs `CAP_NET_ADMIN`), else one within the limit. If the kernel refuses, the
/// default stays, and [`UdpSocket::buffers`] shows it.
fn force_buffer(fd: BorrowedFd<'_>, force: libc::c_int, plain: libc::c_int, bytes: usize) {
    // The kernel doubles the number, so half of an int is the most it takes.
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX).min(libc::c_int::MAX / 2);
    if option::set(fd, libc::SOL_SOCKET, force, bytes).is_err() {
        let _ = option::set(fd, libc::SOL_SOCKET, plain, bytes);
    }
}

fn set_fragmentation(fd: BorrowedFd<'_>, ipv6: bool, allowed: bool) -> io::Result<()> {
    let (v4, v6) = if allowed {
        (libc::IP_PMTUDISC_DONT, libc::IPV6_PMTUDISC_DONT)
    } else {
        (libc::IP_PMTUDISC_PROBE, libc::IPV6_PMTUDISC_PROBE)
    };
    if ipv6 {
        option::set(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, v6)?;
    }
    // An IPv6 socket has this one too, for its IPv4 traffic.
    option::set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, v4)
}

//! Opens the socket, and sends frames.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::{MAX_FRAMES, option};

/// Option that excludes frames which this host sends through the interface (include/uapi/linux/if_packet.h, Linux 4.20), which libc lacks.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// The socket to open.
#[derive(Clone, Copy, Debug)]
pub struct PacketConfig<'a> {
    /// Name of the interface.
    pub interface: &'a str,
    /// True for a virtio header in front of every frame.
    pub superpackets: bool,
    /// Bytes to ask for as receive buffer; 0 for a socket that only sends.
    pub receive_buffer: usize,
}

/// The reason why a packet socket could not be opened.
#[derive(Debug)]
pub struct PacketSocketError {
    step: &'static str,
    interface: String,
    source: io::Error,
}

impl fmt::Display for PacketSocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, interface, source } = self;
        write!(f, "could not {step} for {interface}: {source}")?;
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => f.write_str("; run it as root, or give it CAP_NET_RAW"),
            Some(libc::ENODEV) => f.write_str("; there is no such interface in this network namespace, see: ip link"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for PacketSocketError {}

/// A nonblocking packet socket on one interface, which is in promiscuous mode while the socket is open.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    mtu: usize,
    superpackets: bool,
}

impl PacketSocket {
    /// Opens the socket, which collects frames from then on.
    ///
    /// # Errors
    /// Fails if the interface does not exist, or if the process is not permitted to see its frames.
    pub fn open(config: &PacketConfig<'_>) -> Result<Self, PacketSocketError> {
        let failed = |step| move |source| PacketSocketError { step, interface: config.interface.into(), source };
        let index = index_of(config.interface).map_err(failed("find the interface"))?;
        let fd = socket().map_err(failed("open a packet socket"))?;
        let to = fd.as_fd();
        let prepare = || {
            option::set(to, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)?;
            option::set(to, libc::SOL_PACKET, libc::PACKET_AUXDATA, &1_i32)?;
            option::set(to, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
            option::set(to, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &i32::from(config.superpackets))?;
            option::set(to, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
            // SAFETY: all bytes zero is a valid `packet_mreq`.
            let mut all: libc::packet_mreq = unsafe { mem::zeroed() };
            all.mr_ifindex = index;
            all.mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
            option::set(to, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &all)
        };
        prepare().map_err(failed("set up the packet socket"))?;
        let room = i32::try_from(config.receive_buffer).unwrap_or(i32::MAX);
        // The buffer exceeds the system's limit if permitted. Frames that do not fit are counted.
        if option::set(to, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &room).is_err() {
            let _ = option::set(to, libc::SOL_SOCKET, libc::SO_RCVBUF, &room);
        }
        let mtu = option::mtu(to, config.interface).map_err(failed("read the MTU"))?;
        bind(to, index, config.receive_buffer > 0).map_err(failed("listen"))?;
        Ok(Self { fd, mtu, superpackets: config.superpackets })
    }

    /// Returns the MTU of the interface when the socket was opened, in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Returns true if every frame has a virtio header in front.
    pub fn superpackets(&self) -> bool {
        self.superpackets
    }

    /// Returns the number of frames that found no room since the last call.
    pub fn missed(&self) -> io::Result<u32> {
        option::missed(self.as_fd())
    }

    /// Sends frames, as many of the first [`MAX_FRAMES`] as the kernel takes. Returns their number, at least one. Never blocks.
    ///
    /// # Errors
    /// The kernel's error about the first frame: too long, the interface is down, no room.
    pub fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        // SAFETY: all bytes zero is a valid `mmsghdr` and `iovec`.
        let (mut vectors, mut headers): ([libc::iovec; MAX_FRAMES], [libc::mmsghdr; MAX_FRAMES]) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        for ((frame, vector), header) in frames.iter().zip(&mut vectors).zip(&mut headers) {
            // The kernel only reads by this pointer.
            *vector = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
        }
        let count = frames.len().min(MAX_FRAMES) as libc::c_uint;
        loop {
            // SAFETY: `count` headers point to vectors, and these to frames, that all live across the call.
            let sent =
                unsafe { libc::sendmmsg(self.fd.as_raw_fd(), headers.as_mut_ptr(), count, libc::MSG_DONTWAIT as _) };
            if let Ok(sent) = usize::try_from(sent) {
                return Ok(sent);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn index_of(interface: &str) -> io::Result<libc::c_int> {
    let name = CString::new(interface)?;
    // SAFETY: a string that ends with a zero and lives across the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 { Err(io::Error::last_os_error()) } else { index.try_into().map_err(io::Error::other) }
}

/// Opens a socket of protocol 0, which receives nothing before it is bound with all options in force.
fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bind(fd: BorrowedFd<'_>, index: libc::c_int, receives: bool) -> io::Result<()> {
    // SAFETY: all bytes zero is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    // Protocol 0 receives nothing.
    address.sll_protocol = if receives { (libc::ETH_P_ALL as u16).to_be() } else { 0 };
    address.sll_ifindex = index;
    let length = size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` has `length` bytes and lives across the call.
    let result = unsafe { libc::bind(fd.as_raw_fd(), ptr::from_ref(&address).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

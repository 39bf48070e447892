//! A network namespace per test, and an Ethernet device in it whose far side is the test. Nothing done there is seen by
//! the host, and everything is gone when the test's thread and descriptors are.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::resume_unwind;
use std::thread;

use taut_packet::VIRTIO_HEADER;

/// Name of the device.
pub(crate) const WIRE: &str = "wire";
/// Its MTU from the start, and the header of a frame.
pub(crate) const MTU: usize = 1_500;
pub(crate) const ETHERNET: usize = 14;
/// Above any frame of these tests.
const LONGEST: usize = VIRTIO_HEADER + 65_536;

/// Runs `test` in a thread that has a network namespace of its own. Skips, and says so, where that is not possible.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    // SAFETY: no pointers, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: needs root");
        return;
    }
    let outcome = thread::spawn(move || {
        // SAFETY: no pointers; only the calling thread changes its namespace.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
            test();
        } else {
            println!("skipped: this root may not make network namespaces");
        }
    });
    if let Err(panic) = outcome.join() {
        resume_unwind(panic);
    }
}

/// An Ethernet device that takes and hands over superpackets and unfinished checksums. The test is what it is plugged into.
pub(crate) struct Wire {
    tap: File,
}

impl Wire {
    /// Our own address.
    const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

    /// It is up, and has an address.
    pub(crate) fn new() -> Self {
        let tap =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun").unwrap();
        let mut request = request();
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: `request` is what TUNSETIFF reads and writes, and lives across the call.
        let result = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        let offloads = libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4);
        // SAFETY: no pointers; the argument is a number.
        let result = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        let mut request = self::request();
        request.ifr_ifru.ifru_addr = socket_address(Self::NEAR);
        interface_ioctl(libc::SIOCSIFADDR as _, &mut request);
        set_flags(libc::IFF_UP | libc::IFF_RUNNING);
        Self { tap }
    }

    /// Switches it off.
    pub(crate) fn down(&self) {
        set_flags(0);
    }

    /// A frame comes in from outside, with this virtio header.
    pub(crate) fn arrives(&self, header: [u8; VIRTIO_HEADER], frame: &[u8]) {
        let bytes = [header.as_slice(), frame].concat();
        assert_eq!((&self.tap).write(&bytes).unwrap(), bytes.len());
    }

    /// What went out since this was asked last, each with its virtio header: but what IPv6 says by itself.
    pub(crate) fn left(&self) -> Vec<Vec<u8>> {
        let (mut found, mut buffer) = (Vec::new(), vec![0; LONGEST]);
        while let Ok(length) = (&self.tap).read(&mut buffer) {
            if buffer[VIRTIO_HEADER + 12..VIRTIO_HEADER + ETHERNET] != [0x86, 0xdd] {
                found.push(buffer[..length].to_vec());
            }
        }
        found
    }

    /// This host sends a datagram by it, to everybody there.
    pub(crate) fn host_speaks(&self) {
        let socket = UdpSocket::bind((Self::NEAR, 0)).unwrap();
        socket.set_broadcast(true).unwrap();
        socket.send_to(b"hello", (Ipv4Addr::BROADCAST, 9)).unwrap();
    }
}

fn set_flags(flags: libc::c_int) {
    let mut request = request();
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    interface_ioctl(libc::SIOCSIFFLAGS as _, &mut request);
}

fn request() -> libc::ifreq {
    // SAFETY: all bytes zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(WIRE.bytes()) {
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
    request
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    // SAFETY: all bytes zero is a valid `sockaddr`.
    let mut name: libc::sockaddr = unsafe { mem::zeroed() };
    name.sa_family = libc::AF_INET as libc::sa_family_t;
    for (slot, byte) in name.sa_data[2..].iter_mut().zip(address.octets()) {
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
    name
}

fn interface_ioctl(operation: libc::Ioctl, request: &mut libc::ifreq) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // SAFETY: `request` is what these calls read, and lives across the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), operation, std::ptr::from_mut(request)) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

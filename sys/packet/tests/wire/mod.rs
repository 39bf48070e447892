//! An Ethernet device whose far side is the test.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use taut_namespace::{open_tap, set_address, set_flags, set_up};
use taut_packet::VIRTIO_HEADER;

/// Name of the device.
pub(crate) const WIRE: &str = "wire";
/// Default MTU of the device, in bytes.
pub(crate) const MTU: usize = 1_500;
/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
/// Bytes of the read buffer: more than any frame of these tests has.
const LONGEST: usize = VIRTIO_HEADER + 65_536;

/// An Ethernet device that accepts and delivers superpackets and partial checksums. The test plays the far side of its cable.
pub(crate) struct Wire {
    tap: File,
}

impl Wire {
    /// The host's address on the device.
    const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);

    /// Creates the device, gives it an address and brings it up.
    pub(crate) fn new() -> Self {
        let tap = open_tap(WIRE, libc::IFF_VNET_HDR);
        let offloads = libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4);
        // SAFETY: the call takes no pointers; its argument is a number.
        let result = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETOFFLOAD, offloads) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        set_address(WIRE, Self::NEAR);
        set_up(WIRE);
        Self { tap }
    }

    /// Brings the device down.
    pub(crate) fn down(&self) {
        set_flags(WIRE, 0);
    }

    /// Delivers a frame to the host, with this virtio header.
    pub(crate) fn arrives(&self, header: [u8; VIRTIO_HEADER], frame: &[u8]) {
        let bytes = [header.as_slice(), frame].concat();
        assert_eq!((&self.tap).write(&bytes).unwrap(), bytes.len());
    }

    /// Returns the frames sent since the last call, each with its virtio header, without the kernel's own IPv6 packets.
    pub(crate) fn left(&self) -> Vec<Vec<u8>> {
        let (mut found, mut buffer) = (Vec::new(), vec![0; LONGEST]);
        while let Ok(length) = (&self.tap).read(&mut buffer) {
            if buffer[VIRTIO_HEADER + 12..VIRTIO_HEADER + ETHERNET] != [0x86, 0xdd] {
                found.push(buffer[..length].to_vec());
            }
        }
        found
    }

    /// Sends a broadcast datagram from this host through the device.
    pub(crate) fn send_broadcast(&self) {
        let socket = UdpSocket::bind((Self::NEAR, 0)).unwrap();
        socket.set_broadcast(true).unwrap();
        socket.send_to(b"hello", (Ipv4Addr::BROADCAST, 9)).unwrap();
    }
}

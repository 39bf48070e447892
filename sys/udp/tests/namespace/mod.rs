//! A network namespace per test, and an Ethernet device in it whose far side is the test. Nothing done there is seen by
//! the host, and everything is gone when the test's thread and descriptors are.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::resume_unwind;
use std::thread;

/// Runs `test` in a thread that has a network namespace of its own, with its loopback interface up. Skips, and says so,
/// where that is not possible.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    // SAFETY: no pointers, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: needs root");
        return;
    }
    let outcome = thread::spawn(move || {
        // SAFETY: no pointers; only the calling thread changes its namespace.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
            set_up("lo");
            test();
        } else {
            println!("skipped: this root may not make network namespaces");
        }
    });
    if let Err(panic) = outcome.join() {
        resume_unwind(panic);
    }
}

/// An Ethernet device with a host on it that never answers, so that what is sent there waits in the kernel and fills
/// the send buffer.
pub(crate) struct SilentNetwork {
    tap: File,
}

impl SilentNetwork {
    /// Our own address.
    const NEAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
    /// The address of the silent host.
    pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
    const NAME: &str = "silent";

    pub(crate) fn new() -> Self {
        let tap =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun").unwrap();
        let mut request = request_for(Self::NAME);
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: `request` is what TUNSETIFF reads and writes, and lives across the call.
        let result = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        let mut request = request_for(Self::NAME);
        request.ifr_ifru.ifru_addr = socket_address(Self::NEAR);
        interface_ioctl(libc::SIOCSIFADDR as _, &mut request);
        set_up(Self::NAME);
        Self { tap }
    }

    /// Tells the kernel the silent host's hardware address, so that all that waits is sent.
    pub(crate) fn resolve(&self) {
        // SAFETY: all bytes zero is a valid `arpreq`.
        let mut request: libc::arpreq = unsafe { mem::zeroed() };
        request.arp_pa = socket_address(Self::FAR);
        request.arp_ha.sa_data[0] = 2;
        request.arp_flags = libc::ATF_COM | libc::ATF_PERM;
        for (slot, byte) in request.arp_dev.iter_mut().zip(Self::NAME.bytes()) {
            *slot = libc::c_char::from_ne_bytes([byte]);
        }
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // SAFETY: `request` is what this call reads, and lives across the call.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSARP as _, &raw mut request) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    /// The contents of the UDP datagrams that came out, as far as there are any, and whether each has Don't Fragment.
    pub(crate) fn datagrams(&self) -> Vec<(Vec<u8>, bool)> {
        let mut found = Vec::new();
        let mut frame = [0; 2_048];
        while let Ok(length) = (&self.tap).read(&mut frame) {
            let packet = &frame[14..length];
            // Ethernet type IPv4, protocol UDP, and no later fragment.
            if frame[12..14] == [8, 0] && packet[9] == 17 && packet[6] & 0x1f == 0 && packet[7] == 0 {
                found.push((packet[28..].to_vec(), packet[6] & 0x40 != 0));
            }
        }
        found
    }
}

fn set_up(name: &str) {
    let mut request = request_for(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    interface_ioctl(libc::SIOCSIFFLAGS as _, &mut request);
}

fn request_for(name: &str) -> libc::ifreq {
    // SAFETY: all bytes zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
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

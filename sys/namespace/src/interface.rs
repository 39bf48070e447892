//! Interfaces of the calling thread's namespace.

use std::ffi::{CString, c_int, c_short};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::{Duration, Instant};

/// Longest time that an interface may take to disappear, 10 s: another test that starts a program has a copy of every descriptor until the program is
/// loaded, so a device outlives its last own descriptor for a moment.
const DISAPPEARING: Duration = Duration::from_secs(10);

/// Opens a TAP device: an Ethernet interface called `name` whose other end is the file, non-blocking. `flags` are added to `IFF_TAP | IFF_NO_PI`.
///
/// # Panics
/// If the kernel refuses.
#[must_use]
pub fn open_tap(name: &str, flags: c_int) -> File {
    let tap = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun").unwrap();
    let mut request = request_for(name);
    request.ifr_ifru.ifru_flags = short(libc::IFF_TAP | libc::IFF_NO_PI | flags);
    // SAFETY: `request` is what TUNSETIFF reads and writes, and lives across the call.
    let result = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    tap
}

/// Gives the interface an address in a /24 and switches it on.
///
/// # Panics
/// If the kernel refuses.
pub fn configure(name: &str, address: Ipv4Addr) {
    set_address(name, address);
    let mut request = request_for(name);
    request.ifr_ifru.ifru_addr = socket_address(Ipv4Addr::new(255, 255, 255, 0));
    interface_ioctl(libc::SIOCSIFNETMASK as _, &mut request);
    set_up(name);
}

/// Gives the interface an address.
///
/// # Panics
/// If the kernel refuses.
pub fn set_address(name: &str, address: Ipv4Addr) {
    let mut request = request_for(name);
    request.ifr_ifru.ifru_addr = socket_address(address);
    interface_ioctl(libc::SIOCSIFADDR as _, &mut request);
}

/// Switches the interface on.
///
/// # Panics
/// If the kernel refuses.
pub fn set_up(name: &str) {
    set_flags(name, libc::IFF_UP | libc::IFF_RUNNING);
}

/// Sets the interface's flags (`IFF_*`); 0 switches it off.
///
/// # Panics
/// If the kernel refuses.
pub fn set_flags(name: &str, flags: c_int) {
    let mut request = request_for(name);
    request.ifr_ifru.ifru_flags = short(flags);
    interface_ioctl(libc::SIOCSIFFLAGS as _, &mut request);
}

/// Adds an entry to the interface's ARP table: `address` has the hardware address 02:00:00:00:00:00.
///
/// # Panics
/// If the kernel refuses.
pub fn add_neighbour(name: &str, address: Ipv4Addr) {
    // SAFETY: all bytes zero is a valid `arpreq`.
    let mut request: libc::arpreq = unsafe { mem::zeroed() };
    request.arp_pa = socket_address(address);
    request.arp_ha.sa_data[0] = 2;
    request.arp_flags = libc::ATF_COM | libc::ATF_PERM;
    write_name(&mut request.arp_dev, name);
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // SAFETY: `request` is what this call reads, and lives across the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSARP as _, &raw mut request) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}

/// Returns true if there is an interface of this name.
///
/// # Panics
/// If the name has a zero byte.
#[must_use]
pub fn exists(name: &str) -> bool {
    let name = CString::new(name).unwrap();
    // SAFETY: a text that ends in zero and lives across the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) != 0 }
}

/// Waits until there is no interface of this name, for at most 10 s. Returns true if it is gone.
///
/// # Panics
/// If the name has a zero byte.
#[must_use]
pub fn gone(name: &str) -> bool {
    let deadline = Instant::now() + DISAPPEARING;
    while exists(name) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    !exists(name)
}

fn request_for(name: &str) -> libc::ifreq {
    // SAFETY: all bytes zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    write_name(&mut request.ifr_name, name);
    request
}

fn write_name(field: &mut [libc::c_char], name: &str) {
    assert!(name.len() < field.len(), "{name} is too long for an interface");
    for (slot, byte) in field.iter_mut().zip(name.bytes()) {
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
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

/// The flags of an interface are 16 bits in `ifreq`.
fn short(flags: c_int) -> c_short {
    flags as c_short
}

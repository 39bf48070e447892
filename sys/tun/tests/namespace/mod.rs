//! A network namespace per test, and interfaces in it. Nothing done there is seen by the host, and everything is gone
//! when the test's thread and descriptors are.

use std::io;
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

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

/// Gives an interface an address in a /24 and switches it on.
pub(crate) fn configure(name: &str, address: Ipv4Addr) {
    let mut request = request_for(name);
    request.ifr_ifru.ifru_addr = socket_address(address);
    interface_ioctl(libc::SIOCSIFADDR as _, &mut request);
    let mut request = request_for(name);
    request.ifr_ifru.ifru_addr = socket_address(Ipv4Addr::new(255, 255, 255, 0));
    interface_ioctl(libc::SIOCSIFNETMASK as _, &mut request);
    let mut request = request_for(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    interface_ioctl(libc::SIOCSIFFLAGS as _, &mut request);
}

/// Whether there is an interface of this name.
#[allow(dead_code, reason = "each test program needs a part of this")]
pub(crate) fn exists(name: &str) -> bool {
    let name = std::ffi::CString::new(name).unwrap();
    // SAFETY: a text that ends in zero and lives across the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) != 0 }
}

/// Whether there is none of this name, soon: another test that starts a program has a copy of every descriptor, the device's
/// too, until the program is loaded.
#[allow(dead_code, reason = "each test program needs a part of this")]
pub(crate) fn gone(name: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while exists(name) && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    !exists(name)
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

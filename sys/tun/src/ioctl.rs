//! The ioctls of include/uapi/linux/if_tun.h that are used here, each as a safe function.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Longest interface name in bytes: the kernel's field (`IFNAMSIZ`) less the terminating zero.
pub(crate) const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// `_IOR('T', 224, int)`, which libc does not have.
const TUNSETSTEERINGEBPF: libc::Ioctl = libc::_IOR::<libc::c_int>(b'T' as u32, 224);

/// Creates a device, or attaches a queue to one (`TUNSETIFF`); returns the name the kernel chose from a pattern.
pub(crate) fn attach(file: &File, name: &str, flags: libc::c_int) -> io::Result<String> {
    // SAFETY: all bytes zero is a valid `ifreq`: an empty name and a union of plain numbers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes().take(NAME_MAX)) {
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
    // The kernel's field is a short whose top bit (IFF_TUN_EXCL) counts like any other.
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: `request` is what TUNSETIFF reads and writes, and lives across the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    name_of(&request)
}

fn name_of(request: &libc::ifreq) -> io::Result<String> {
    let name = request.ifr_name.iter().map(|byte| byte.to_ne_bytes()[0]).take_while(|byte| *byte != 0).collect();
    String::from_utf8(name).map_err(io::Error::other)
}

/// Returns name and flags of the device of this handle (`TUNGETIFF`).
pub(crate) fn describe(file: &File) -> io::Result<(String, libc::c_int)> {
    // SAFETY: all bytes zero is a valid `ifreq`: an empty name and a union of plain numbers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // SAFETY: `request` is what TUNGETIFF writes, and lives across the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETIFF, &raw mut request) })?;
    // SAFETY: TUNGETIFF has filled the flags of the union, and every pattern of bits is a number.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok((name_of(&request)?, libc::c_int::from(flags)))
}

/// Makes reads and writes non-blocking (`O_NONBLOCK`), for all handles of this open file.
pub(crate) fn set_nonblocking(file: &File) -> io::Result<()> {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    check(flags)?;
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })
}

/// Returns true if the device of this handle exists (`TUNGETIFF`), in any network namespace.
pub(crate) fn is_attached(file: &File) -> bool {
    // SAFETY: all bytes zero is a valid `ifreq`: an empty name and a union of plain numbers.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // SAFETY: `request` is what TUNGETIFF writes, and lives across the call.
    let answer = check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETIFF, &raw mut request) });
    // Only EBADFD means that the device is gone; other errors do not.
    answer.err().and_then(|error| error.raw_os_error()) != Some(libc::EBADFD)
}

/// Returns the network namespace that the device is in now (`TUNGETDEVNETNS`, Linux 5.2).
pub(crate) fn namespace(file: &File) -> io::Result<OwnedFd> {
    // SAFETY: no argument.
    let fd = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETDEVNETNS) };
    check(fd)?;
    // SAFETY: a new descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets the length of the header in front of packets (`TUNSETVNETHDRSZ`).
pub(crate) fn set_header_length(file: &File, length: usize) -> io::Result<()> {
    let length = libc::c_int::try_from(length).map_err(io::Error::other)?;
    // SAFETY: the argument is a pointer to an int that lives across the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const length) })
}

/// Makes the header little-endian (`TUNSETVNETLE`, Linux 4.0); without it, it has the host's order.
pub(crate) fn set_little_endian(file: &File) -> io::Result<()> {
    let yes: libc::c_int = 1;
    // SAFETY: the argument is a pointer to an int that lives across the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETLE, &raw const yes) })
}

/// Sets the offloads (`TUNSETOFFLOAD`); fails with `InvalidInput` if the kernel does not know one of `bits`.
pub(crate) fn set_offload(file: &File, bits: libc::c_uint) -> io::Result<()> {
    // SAFETY: the argument is a number.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(bits)) })
}

/// Makes the kernel run a program that chooses the queue of each packet (`TUNSETSTEERINGEBPF`, Linux 4.16).
pub(crate) fn set_steering(file: &File, program: BorrowedFd<'_>) -> io::Result<()> {
    let program = program.as_raw_fd();
    // SAFETY: the argument is a pointer to a descriptor that is open and lives across the call; the kernel keeps the program itself.
    check(unsafe { libc::ioctl(file.as_raw_fd(), TUNSETSTEERINGEBPF, &raw const program) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

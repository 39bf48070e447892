//! Options of packet sockets.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

pub(crate) fn set<T>(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` has `length` bytes and lives across the call, which only reads them.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the number of frames that found no room at the socket since the last call (`PACKET_STATISTICS`).
pub(crate) fn missed(fd: BorrowedFd<'_>) -> io::Result<u32> {
    // `struct tpacket_stats` (include/uapi/linux/if_packet.h): all frames, then the frames that found no room.
    let mut statistics: [libc::c_uint; 2] = [0; 2];
    let mut length = size_of_val(&statistics) as libc::socklen_t;
    // SAFETY: `statistics` has room for `length` bytes, and both live across the call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            statistics.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(statistics[1]) }
}

/// Returns the MTU of an interface in bytes (`SIOCGIFMTU`).
pub(crate) fn mtu(fd: BorrowedFd<'_>, name: &str) -> io::Result<usize> {
    // SAFETY: all bytes zero is a valid `ifreq`: an empty name and a union of plain numbers.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *slot = libc::c_char::from_ne_bytes([byte]);
    }
    // SAFETY: `request` is what SIOCGIFMTU reads and writes, and lives across the call.
    if unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFMTU as libc::Ioctl, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: SIOCGIFMTU has filled the number of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    usize::try_from(mtu).map_err(io::Error::other)
}

//! Socket options that are ints.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SO_MEMINFO` of include/uapi/asm-generic/socket.h, which libc lacks; sparc and parisc have other numbers, and get an
/// error.
const SO_MEMINFO: libc::c_int = 55;

/// Fields of `SO_MEMINFO` up to and with the drop counter (include/uapi/linux/sock_diag.h).
const MEMINFO_FIELDS: usize = libc::SK_MEMINFO_DROPS as usize + 1;

pub(crate) fn set(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` has `length` bytes and lives across the call.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn get(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int) -> io::Result<libc::c_int> {
    read(fd, level, name, [0]).map(|[value]| value)
}

/// Datagrams that the kernel dropped at this socket, because its buffer was full or their checksum was wrong.
pub(crate) fn dropped(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let fields = read(fd, libc::SOL_SOCKET, SO_MEMINFO, [0; MEMINFO_FIELDS])?;
    Ok(fields[MEMINFO_FIELDS - 1].cast_unsigned())
}

fn read<const N: usize>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    mut value: [libc::c_int; N],
) -> io::Result<[libc::c_int; N]> {
    let mut length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: `value` has room for `length` bytes, and both live across the call.
    let result = unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

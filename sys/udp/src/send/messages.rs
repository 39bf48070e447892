//! The kernel's description of up to [`MAX_MESSAGES`] messages, and the system call that sends them.

use super::Transmit;
use super::cursor::Cursor;
use crate::MAX_MESSAGES;
use crate::address::Name;
use crate::control::SendControl;
use crate::local::Local;
use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Arrays on the stack; a call writes only the part that it needs.
pub(super) struct Messages {
    headers: [MaybeUninit<libc::mmsghdr>; MAX_MESSAGES],
    pieces: [MaybeUninit<libc::iovec>; MAX_MESSAGES],
    names: [MaybeUninit<Name>; MAX_MESSAGES],
    controls: [MaybeUninit<SendControl>; MAX_MESSAGES],
}

impl Messages {
    pub(super) fn new() -> Self {
        Self {
            headers: [const { MaybeUninit::uninit() }; MAX_MESSAGES],
            pieces: [const { MaybeUninit::uninit() }; MAX_MESSAGES],
            names: [const { MaybeUninit::uninit() }; MAX_MESSAGES],
            controls: [const { MaybeUninit::uninit() }; MAX_MESSAGES],
        }
    }

    /// Sends the messages from `cursor` on, and returns how many the kernel took, at least one. An error is about the message
    /// at `cursor`.
    pub(super) fn send(
        &mut self,
        fd: BorrowedFd<'_>,
        cursor: Cursor,
        transmits: &[Transmit<'_>],
        local_of: &impl Fn(&Transmit<'_>) -> Option<Local>,
    ) -> io::Result<usize> {
        let count = self.describe(cursor, transmits, local_of);
        // musl has a loop of `sendmsg` under the name `sendmmsg`; the system call itself is the same everywhere, and
        // the headers' padding, which that loop is for, is zero. SAFETY: `describe` initialised `count` headers; what
        // they point to lies in `self`, which has not moved since, and in `transmits`. The kernel only reads it, and
        // writes the headers' lengths.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_sendmmsg,
                fd.as_raw_fd(),
                self.headers.as_mut_ptr(),
                libc::c_uint::try_from(count).unwrap_or_default(),
                libc::MSG_NOSIGNAL,
            )
        };
        usize::try_from(taken).map_err(|_| io::Error::last_os_error())
    }

    fn describe(
        &mut self,
        mut cursor: Cursor,
        transmits: &[Transmit<'_>],
        local_of: &impl Fn(&Transmit<'_>) -> Option<Local>,
    ) -> usize {
        let mut count = 0;
        while count < MAX_MESSAGES {
            let Some(transmit) = transmits.get(cursor.index()) else { break };
            let (bytes, segment_size) = cursor.message(transmit);
            let (name, name_length) = Name::encode(transmit.destination);
            let name = self.names[count].write(name);
            // sendmmsg takes pointers to mutable memory, and only reads.
            let piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            let piece = self.pieces[count].write(piece);
            // SAFETY: all bytes zero is a valid `mmsghdr`: null pointers and numbers, padding included.
            let header = self.headers[count].write(unsafe { mem::zeroed() });
            header.msg_hdr.msg_name = ptr::from_mut(name).cast();
            header.msg_hdr.msg_namelen = name_length;
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            let local = local_of(transmit).filter(|local| cursor.may_leave_from(*local));
            if segment_size.is_some() || local.is_some() || transmit.ecn != 0 {
                let control = self.controls[count].write(SendControl::new());
                if let Some(size) = segment_size {
                    control.segment(size);
                }
                if let Some(local) = local {
                    local.write(control);
                }
                if transmit.ecn != 0 {
                    control.ecn(transmit.ecn, transmit.destination.ip().to_canonical().is_ipv6());
                }
                // As with the iovec: it is only read.
                header.msg_hdr.msg_control = control.bytes().as_ptr().cast_mut().cast();
                header.msg_hdr.msg_controllen = control.bytes().len() as _;
            }
            cursor = cursor.behind(transmit, bytes.len());
            count += 1;
        }
        count
    }
}

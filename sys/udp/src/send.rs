//! Sending: runs of datagrams to many destinations per system call.

mod cursor;
mod messages;

use crate::{Local, UdpSocket};
use cursor::Cursor;
use messages::Messages;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// A datagram, or a run of them, for one destination.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The destination.
    pub destination: SocketAddr,
    /// The datagrams, one behind the other.
    pub contents: &'a [u8],
    /// Bytes of each datagram in `contents`; the last may be shorter. With 0, or at least the length of `contents`, there is
    /// one datagram. A run beyond [`MAX_SEGMENTS`](crate::MAX_SEGMENTS) or [`MAX_GSO_BYTES`](crate::MAX_GSO_BYTES)
    /// costs more messages, nothing else.
    pub segment_size: usize,
    /// The two bits of congestion notification on each datagram (RFC 3168).
    pub ecn: u8,
}

/// The result of sending a batch.
#[derive(Debug, Default)]
#[must_use = "a blocked batch has a rest that is still to be sent"]
pub struct Sent {
    /// Number of transmits, from the front, that were passed to the kernel or failed. The whole batch unless
    /// `blocked`.
    pub sent: usize,
    /// Bytes of `transmits[sent].contents` that the kernel took before it was full; not zero only for runs it takes
    /// datagram by datagram. A caller that sends the rest later starts after them.
    pub partial: usize,
    /// The send buffer is full: wait until the socket is writable, and do not read more meanwhile.
    pub blocked: bool,
    /// Number of transmits that failed because of their destination or size. They are part of `sent`; of a failed run
    /// some datagrams may have been sent.
    pub failed: usize,
    /// Number of these that are longer than the interface's MTU (`EMSGSIZE`).
    pub too_long: usize,
    /// Index and error of the first transmit that failed.
    pub first_error: Option<(usize, io::Error)>,
    /// A local address that the kernel refused: the host no longer has it, or no route exists for it. Datagrams for this
    /// source address left from the address that the routes choose. There may be more such addresses; each is reported after
    /// the caller stops using the one before.
    pub refused: Option<Local>,
}

impl UdpSocket {
    /// Sends `transmits` in order until all are sent or failed, or the send buffer is full. Never blocks, allocates nothing.
    ///
    /// A destination that the kernel refuses (unreachable, forbidden, datagram larger than the interface's MTU) is
    /// counted, and the batch continues after it. When the network device cannot do GSO (`EIO`: no checksum offload, or
    /// IPsec on the way), GSO is switched off for this socket, and runs are sent datagram by datagram, starting with
    /// the one it failed on.
    pub fn send(&self, transmits: &[Transmit<'_>]) -> Sent {
        self.send_from(transmits, |_| None)
    }

    /// As [`send`](Self::send), each transmit from the local address that `local_of` returns; `None` means the one that the
    /// routes choose. It may be called several times for one transmit.
    pub fn send_from(&self, transmits: &[Transmit<'_>], local_of: impl Fn(&Transmit<'_>) -> Option<Local>) -> Sent {
        let mut report = Sent::default();
        let mut cursor = Cursor::new(self.gso_enabled());
        let mut messages = Messages::new();
        while cursor.index() < transmits.len() {
            match messages.send(self.as_fd(), cursor, transmits, &local_of) {
                Ok(count) => cursor = cursor.behind_messages(count, transmits),
                Err(error)
                    if is_about_local(&error) && refuse_local(transmits, &local_of, &mut cursor, &mut report) => {}
                Err(error) => {
                    if self.handle(error, transmits, &mut cursor, &mut report) {
                        report.blocked = true;
                        break;
                    }
                }
            }
        }
        report.sent = cursor.index();
        report.partial = cursor.offset();
        report
    }

    /// Handles an error of the message under the cursor. Returns true if the socket is full.
    fn handle(&self, error: io::Error, transmits: &[Transmit<'_>], cursor: &mut Cursor, report: &mut Sent) -> bool {
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // ENOBUFS is the same from the layer below (a queue that tells its socket), but no wake-up would follow: it
            // counts as failed.
            Some(libc::EAGAIN) => return true,
            Some(libc::EIO) if cursor.is_run(transmits) => {
                self.disable_gso();
                cursor.disable_gso();
            }
            // Some kernels refuse single runs with EINVAL for reasons that a caller cannot know, and none fragments the
            // datagrams of a run that are longer than the interface's MTU (EMSGSIZE): only this run is sent datagram by
            // datagram.
            Some(libc::EINVAL | libc::EMSGSIZE) if cursor.is_run(transmits) => cursor.split_current(),
            _ => {
                report.failed += 1;
                report.too_long += usize::from(error.raw_os_error() == Some(libc::EMSGSIZE));
                report.first_error.get_or_insert((cursor.index(), error));
                cursor.skip();
            }
        }
        false
    }
}

/// Returns true if the local address may be the reason: the host no longer has it, or no route exists for it.
fn is_about_local(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENODEV | libc::EADDRNOTAVAIL)
    )
}

/// Stops using the local address of the message under the cursor. Returns false if it has none.
fn refuse_local(
    transmits: &[Transmit<'_>],
    local_of: &impl Fn(&Transmit<'_>) -> Option<Local>,
    cursor: &mut Cursor,
    report: &mut Sent,
) -> bool {
    let local = transmits.get(cursor.index()).and_then(local_of).filter(|local| cursor.may_leave_from(*local));
    if let Some(local) = local {
        cursor.refuse(local);
        report.refused.get_or_insert(local);
    }
    local.is_some()
}

#[cfg(test)]
mod tests;

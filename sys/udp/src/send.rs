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
    /// Where to.
    pub destination: SocketAddr,
    /// The datagrams, one behind the other.
    pub contents: &'a [u8],
    /// Bytes of each datagram in `contents`; the last may be shorter. 0, or at least the length of `contents`: it is
    /// one datagram. A run beyond [`MAX_SEGMENTS`](crate::MAX_SEGMENTS) or [`MAX_GSO_BYTES`](crate::MAX_GSO_BYTES)
    /// costs more messages, nothing else.
    pub segment_size: usize,
    /// The two bits of congestion notification on each datagram (RFC 3168).
    pub ecn: u8,
}

/// What became of a batch.
#[derive(Debug, Default)]
#[must_use = "a blocked batch has a rest that is still to be sent"]
pub struct Sent {
    /// How many transmits, from the front, are done with: handed to the kernel, or failed. The whole batch unless
    /// `blocked`.
    pub sent: usize,
    /// Bytes of `transmits[sent].contents` that the kernel took before it was full; not zero only for runs it takes
    /// datagram by datagram. Whoever sends the rest later starts behind them.
    pub partial: usize,
    /// The send buffer is full: wait until the socket is writable, and do not read more meanwhile.
    pub blocked: bool,
    /// How many transmits failed, because of their destination or their size. They are part of `sent`; of a failed run
    /// some datagrams may have been sent.
    pub failed: usize,
    /// Index and reason of the first one that failed.
    pub first_error: Option<(usize, io::Error)>,
    /// An address that the kernel refused to send from: it is not ours any more, or no route leads on from it. What should
    /// have left from there went as the routes say. There may have been others: each is named once the one before it is
    /// not used any more.
    pub refused: Option<Local>,
}

impl UdpSocket {
    /// Sends `transmits` in order until all are done with or the send buffer is full. Never blocks, allocates nothing.
    ///
    /// A destination that the kernel refuses (unreachable, forbidden, datagram larger than the interface's MTU) is
    /// counted, and the batch goes on behind it. When the network device cannot do GSO (`EIO`: no checksum offload, or
    /// IPsec on the way), GSO is switched off for this socket, and runs are sent datagram by datagram, starting with
    /// the one it failed on.
    pub fn send(&self, transmits: &[Transmit<'_>]) -> Sent {
        self.send_from(transmits, |_| None)
    }

    /// As [`send`](Self::send), each transmit from the address of ours that `local_of` says: `None` for the one that the
    /// routes choose. It may be asked several times about one transmit.
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

    /// Deals with the refusal of the message under the cursor; true when the socket is full.
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
            // Some kernels refuse single runs by this without a reason that a caller could know: only this one goes
            // piece by piece.
            Some(libc::EINVAL) if cursor.is_run(transmits) => cursor.split_current(),
            _ => {
                report.failed += 1;
                report.first_error.get_or_insert((cursor.index(), error));
                cursor.skip();
            }
        }
        false
    }
}

/// What the kernel answers where the address of ours is gone or has no way on, among other reasons.
fn is_about_local(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENODEV | libc::EADDRNOTAVAIL)
    )
}

/// Gives up the address of ours that the message under the cursor should leave from; false when there is none.
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

//! Bytes between a socket of this host and one of the stack. Both directions have the stack's buffers and no others: a reader that is slow closes the window of its sender.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use smoltcp::socket::tcp::{Socket, State};

/// What is known about both ends.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Whether a read of the local socket may find something.
    pub(crate) readable: bool,
    /// Whether the local socket may have room.
    pub(crate) writable: bool,
    /// Bytes for the peer that come before what the local socket has.
    pub(crate) received: Vec<u8>,
    /// Bytes for the local program that come before what the peer sent.
    pub(crate) pending: Vec<u8>,
    /// Whether the local program has ended its direction.
    pub(crate) local_ended: bool,
    /// Whether the peer has, and the program was told.
    pub(crate) remote_ended: bool,
    /// Bytes that were moved, for idle timeouts.
    pub(crate) moved: u64,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both directions ended in order.
    Done,
    /// The local program went away: the peer gets a reset.
    Local,
    /// The peer, or the way to it, went away: the program gets a reset.
    Remote,
}

impl Flow {
    /// Moves what can be moved. Returns how the connection ended, if it did.
    pub(crate) fn pump(&mut self, local: &TcpStream, remote: &mut Socket<'_>) -> Option<End> {
        if self.write_local(local, remote).and_then(|()| self.read_local(local, remote)).is_err() {
            return Some(End::Local);
        }
        let is_ended = self.local_ended && self.remote_ended;
        match remote.state() {
            State::Closed if is_ended => Some(End::Done),
            State::Closed => Some(End::Remote),
            State::TimeWait if is_ended => Some(End::Done),
            _ => None,
        }
    }

    fn write_local(&mut self, mut local: &TcpStream, remote: &mut Socket<'_>) -> io::Result<()> {
        while self.writable && (!self.pending.is_empty() || remote.can_recv()) {
            let result = match self.pending.is_empty() {
                false => local.write(&self.pending).inspect(|count| drop(self.pending.drain(..*count))),
                true => remote
                    .recv(|bytes| match local.write(bytes) {
                        Ok(count) => (count, Ok(count)),
                        Err(error) => (0, Err(error)),
                    })
                    .unwrap_or(Ok(0)),
            };
            match moved(result)? {
                Some(count) => self.moved += count as u64,
                None => self.writable = false,
            }
        }
        // The states after a FIN of the peer. A socket that is closed without one of them was reset, which the program must not take for an end.
        let is_ending = matches!(remote.state(), State::CloseWait | State::LastAck | State::Closing | State::TimeWait);
        let has_ended = is_ending && !remote.can_recv();
        if has_ended && self.pending.is_empty() && !self.remote_ended {
            self.remote_ended = true;
            // Fails if the program is gone; reading tells.
            let _ = local.shutdown(Shutdown::Write);
        }
        Ok(())
    }

    fn read_local(&mut self, mut local: &TcpStream, remote: &mut Socket<'_>) -> io::Result<()> {
        while remote.can_send() && !self.local_ended {
            if !self.received.is_empty() {
                let count = remote.send_slice(&self.received).unwrap_or(0);
                self.received.drain(..count);
                self.moved += count as u64;
                continue;
            }
            if !self.readable {
                break;
            }
            let result = remote.send(|room| match local.read(room) {
                Ok(count) => (count, Ok(count)),
                Err(error) => (0, Err(error)),
            });
            match moved(result.unwrap_or(Ok(0)))? {
                None => self.readable = false,
                Some(0) => {
                    self.local_ended = true;
                    remote.close();
                }
                Some(count) => self.moved += count as u64,
            }
        }
        Ok(())
    }

    /// Returns true if the local socket has to be watched for bytes.
    pub(crate) fn wants_read(&self) -> bool {
        !self.readable && !self.local_ended
    }
}

/// Returns the number of bytes of a read or write; `None` if there is nothing to read, or no room.
fn moved(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        // Tried again at the next turn, which follows at once: the flag stays.
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

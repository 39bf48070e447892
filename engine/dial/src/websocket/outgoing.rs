//! From messages to bytes: what waits for the stream, and the masks.

use std::io::{self, ErrorKind, Write};

use ring::rand::{SecureRandom, SystemRandom};
use taut_wire::websocket::{Opcode, apply_mask, client_header};

/// Bytes of random masks drawn at once, 256: a system call for 64 messages.
const DRAWN: usize = 256;

/// Bytes that wait for the stream.
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    most: usize,
    /// Position behind the last pong in `bytes`; 0 if no pong is there.
    pong_end: usize,
    /// The answer to the newest ping, if no room was left for it.
    pong: Option<Vec<u8>>,
    masks: Masks,
}

impl Outgoing {
    /// Limits what waits to `most` bytes. Only a pong and the close frame may exceed it.
    pub(super) fn new(most: usize) -> Self {
        Self { bytes: Vec::new(), most, pong_end: 0, pong: None, masks: Masks::new() }
    }

    /// Returns the number of waiting bytes.
    pub(super) fn waiting(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the waiting bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Queues a frame. Returns false if there is no room for it.
    pub(super) fn queue(&mut self, opcode: Opcode, payload: &[u8]) -> io::Result<bool> {
        let (header, length) = client_header(opcode, payload.len(), self.masks.next()?);
        let frame = length.saturating_add(payload.len());
        if self.bytes.len().saturating_add(frame) > self.most {
            return Ok(false);
        }
        self.append(header.get(..length).unwrap_or_default(), payload);
        Ok(true)
    }

    /// Appends a frame. The last four bytes of its header are the mask.
    fn append(&mut self, header: &[u8], payload: &[u8]) {
        self.bytes.extend_from_slice(header);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        let mask = header.last_chunk().copied().unwrap_or_default();
        apply_mask(self.bytes.get_mut(start..).unwrap_or_default(), mask);
    }

    fn append_control(&mut self, opcode: Opcode, payload: &[u8]) -> io::Result<()> {
        let (header, length) = client_header(opcode, payload.len(), self.masks.next()?);
        self.append(header.get(..length).unwrap_or_default(), payload);
        Ok(())
    }

    /// Answers a ping, in place of an older one whose answer is not queued yet.
    pub(super) fn answer(&mut self, ping: Vec<u8>) {
        self.pong = Some(ping);
    }

    /// Queues a close frame without a reason. No pong may follow it.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.pong = None;
        self.append_control(Opcode::Close, &[])
    }

    /// Queues the answer to the newest ping, unless the one before it still waits: a server that sends pings and reads nothing costs no more memory.
    fn queue_pong(&mut self) -> io::Result<()> {
        if self.pong_end == 0
            && let Some(payload) = self.pong.take()
        {
            self.append_control(Opcode::Pong, &payload)?;
            self.pong_end = self.bytes.len();
        }
        Ok(())
    }

    /// Sends all that waits.
    ///
    /// # Errors
    /// `WouldBlock` if the stream does not take all of it; the rest is kept.
    pub(super) fn send(&mut self, stream: &mut impl Write) -> io::Result<()> {
        // A second pong waits at most, so this ends.
        loop {
            self.queue_pong()?;
            let mut sent = 0;
            let written = write_all(stream, &self.bytes, &mut sent);
            self.bytes.drain(..sent);
            self.pong_end = self.pong_end.saturating_sub(sent);
            written?;
            if self.pong.is_none() {
                return stream.flush();
            }
        }
    }
}

/// Writes `bytes`, and counts in `sent` those that the stream took.
fn write_all(stream: &mut impl Write, bytes: &[u8], sent: &mut usize) -> io::Result<()> {
    while let Some(rest) = bytes.get(*sent..).filter(|rest| !rest.is_empty()) {
        match stream.write(rest) {
            // A stream that takes nothing is closed.
            Ok(0) => return Err(ErrorKind::BrokenPipe.into()),
            Ok(length) => *sent += length,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Random masks of the operating system. They are drawn before they are needed, but no server can know them (RFC 6455, section 10.3).
struct Masks {
    random: SystemRandom,
    drawn: [u8; DRAWN],
    /// Position of the next mask.
    next: usize,
}

impl Masks {
    fn new() -> Self {
        Self { random: SystemRandom::new(), drawn: [0; DRAWN], next: DRAWN }
    }

    fn next(&mut self) -> io::Result<[u8; 4]> {
        let chunk = |masks: &Self| masks.drawn.get(masks.next..).and_then(|rest| rest.first_chunk()).copied();
        let mask = match chunk(self) {
            Some(mask) => mask,
            None => {
                self.random.fill(&mut self.drawn).map_err(|_| io::Error::other("the system gave no random bytes"))?;
                self.next = 0;
                chunk(self).unwrap_or_default()
            }
        };
        self.next += mask.len();
        Ok(mask)
    }
}

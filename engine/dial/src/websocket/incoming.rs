//! From bytes to messages: the read buffer, and the machine that joins the parts of a message.

use taut_wire::websocket::{BadFrame, FrameHeader, MAX_CONTROL, Opcode};

use super::WebSocketError;

/// A complete message or control frame.
pub(super) enum Item {
    Binary(Vec<u8>),
    Text,
    Ping(Vec<u8>),
    Pong,
    /// With the server's reason.
    Close(String),
}

/// The frame whose payload is being read.
struct Frame {
    header: FrameHeader,
    /// Bytes of the payload that are still missing.
    missing: usize,
}

/// Received bytes that are not a complete message yet.
pub(super) struct Incoming {
    buffer: Box<[u8]>,
    /// The unread bytes are `buffer[start..end]`.
    start: usize,
    end: usize,
    frame: Option<Frame>,
    /// The payloads of the present message so far.
    message: Vec<u8>,
    /// The kind of the present message. `None` between messages.
    kind: Option<Opcode>,
    /// The payload of the present control frame so far. It may be between the parts of a message.
    control: Vec<u8>,
    most: usize,
}

impl Incoming {
    /// Begins with the bytes `received`, reads up to `read` bytes at once, and accepts messages of up to `most` bytes.
    pub(super) fn new(mut received: Vec<u8>, read: usize, most: usize) -> Self {
        let end = received.len();
        // The incomplete header that may stay in the buffer leaves room for more.
        received.resize(end.max(read).max(taut_wire::websocket::MAX_HEADER), 0);
        Self {
            buffer: received.into_boxed_slice(),
            start: 0,
            end,
            frame: None,
            message: Vec::new(),
            kind: None,
            control: Vec::new(),
            most,
        }
    }

    /// Returns the room for further bytes. It is empty only if [`Self::next`] was not called until it returned `None`.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end.saturating_sub(self.start));
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Notes that this number of bytes was read into the room.
    pub(super) fn note_read(&mut self, length: usize) {
        self.end = self.end.saturating_add(length).min(self.buffer.len());
    }

    /// Returns the next message or control frame, or `None` if more bytes are needed.
    pub(super) fn next(&mut self) -> Result<Option<Item>, WebSocketError> {
        loop {
            let Some(frame) = &mut self.frame else {
                let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
                let Some((header, length)) = FrameHeader::read_from_server(unread)? else { return Ok(None) };
                self.start += length;
                self.begin(header)?;
                continue;
            };
            let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
            let part = unread.get(..frame.missing).unwrap_or(unread);
            let payload = if frame.header.opcode.is_control() { &mut self.control } else { &mut self.message };
            payload.extend_from_slice(part);
            self.start += part.len();
            frame.missing -= part.len();
            if frame.missing > 0 {
                return Ok(None);
            }
            let header = frame.header;
            self.frame = None;
            if let Some(item) = self.finish(header)? {
                return Ok(Some(item));
            }
        }
    }

    /// Begins a frame. The limit and the order are checked here, before the payload comes.
    fn begin(&mut self, header: FrameHeader) -> Result<(), WebSocketError> {
        let length = usize::try_from(header.length).map_err(|_| BadFrame::TooLong)?;
        match header.opcode {
            Opcode::Close | Opcode::Ping | Opcode::Pong => self.control = Vec::with_capacity(length.min(MAX_CONTROL)),
            Opcode::Continuation if self.kind.is_none() => return Err(BadFrame::NoMessage.into()),
            Opcode::Text | Opcode::Binary if self.kind.is_some() => return Err(BadFrame::InsideMessage.into()),
            Opcode::Text | Opcode::Binary => {
                self.kind = Some(header.opcode);
                self.reserve(length)?;
            }
            Opcode::Continuation => self.reserve(length)?,
        }
        self.frame = Some(Frame { header, missing: length });
        Ok(())
    }

    /// Makes room for a part of the message. Room for the whole part costs no memory before it comes; room for several small parts doubles, within the limit.
    fn reserve(&mut self, length: usize) -> Result<(), WebSocketError> {
        let whole = self.message.len().checked_add(length).filter(|whole| *whole <= self.most);
        let whole = whole.ok_or(BadFrame::TooLong)?;
        if whole > self.message.capacity() {
            let room = self.message.capacity().saturating_mul(2).min(self.most).max(whole);
            let more = room.saturating_sub(self.message.len());
            self.message.try_reserve_exact(more).map_err(|error| WebSocketError::Io(error.into()))?;
        }
        Ok(())
    }

    fn finish(&mut self, header: FrameHeader) -> Result<Option<Item>, WebSocketError> {
        Ok(match header.opcode {
            Opcode::Ping => Some(Item::Ping(std::mem::take(&mut self.control))),
            Opcode::Pong => Some(Item::Pong),
            Opcode::Close => Some(Item::Close(close_reason(&self.control)?)),
            Opcode::Continuation | Opcode::Text | Opcode::Binary if !header.is_final => None,
            Opcode::Continuation | Opcode::Text | Opcode::Binary => {
                let message = std::mem::take(&mut self.message);
                match self.kind.take() {
                    Some(Opcode::Text) => {
                        str::from_utf8(&message).map_err(|_| BadFrame::NotText)?;
                        Some(Item::Text)
                    }
                    _ => Some(Item::Binary(message)),
                }
            }
        })
    }
}

/// Returns the reason in a close frame, behind the code of two bytes. A frame without both is valid.
fn close_reason(payload: &[u8]) -> Result<String, BadFrame> {
    match payload {
        [] => Ok(String::new()),
        [_] => Err(BadFrame::HalfCode),
        [_, _, reason @ ..] => str::from_utf8(reason).map(String::from).map_err(|_| BadFrame::NotText),
    }
}

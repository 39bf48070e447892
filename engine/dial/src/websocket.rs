//! The client's end of a WebSocket (RFC 6455) on any stream. Servers use a library; this end needs a small part of it.
//!
//! ```text
//! WebSocket::open ── opening: request, head of the answer ──▶ Incoming: stream ─▶ buffer ─▶ message
//!                                                             Outgoing: messages, pongs, close ─▶ stream
//! ```
//! - **Blocking**: [`WebSocket::open`] blocks as its stream does. Nothing else does on a stream that does not block: what was read is kept, and bytes that the
//!   stream does not take wait.
//! - **Memory**: the read buffer, one message within the limit, what waits for the stream within the limit, and at most two answers to pings: a ping replaces
//!   an older one that could not be answered yet (section 5.5.3).
//! - **Time**: each call of [`WebSocket::read`] ends with the first message or control frame, or when the stream has no bytes. A server that sends parts of a
//!   message without end is limited by the stream's budget per turn, and by the callers.
//! - **Trust**: none. After bytes that no server may send, the connection is unusable.

mod incoming;
mod opening;
mod outgoing;
mod sha1;

use std::io::{self, ErrorKind, Read, Write};

use taut_wire::websocket::{BadFrame, Opcode};

use incoming::{Incoming, Item};
use outgoing::Outgoing;

/// The sizes of a WebSocket's buffers, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebSocketLimits {
    /// Most bytes read from the stream at once.
    pub read: usize,
    /// Most bytes of one received message.
    pub message: usize,
    /// Most bytes that wait for the stream.
    pub waiting: usize,
}

/// A message or a control frame of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A message of bytes.
    Binary(Vec<u8>),
    /// A message of text, whose content is ignored: no server of Taut sends one.
    Text,
    /// A ping, which is answered already, or a pong.
    Control,
    /// The server closes the connection. The text is its reason, often empty.
    Close(String),
}

/// The reason why a WebSocket is unusable.
#[derive(Debug)]
pub enum WebSocketError {
    /// The stream failed.
    Io(io::Error),
    /// The server answered the opening with this HTTP status.
    Status(u16),
    /// The stream ended before the answer to the opening.
    NoAnswer,
    /// The server speaks TLS, and the request was plain HTTP.
    SpeaksTls,
    /// The answer to the opening is not that of a WebSocket server, because of this.
    Opening(&'static str),
    /// The server sent bytes that no server may send.
    Frame(BadFrame),
    /// The connection is closed.
    Closed,
}

impl From<io::Error> for WebSocketError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<BadFrame> for WebSocketError {
    fn from(bad: BadFrame) -> Self {
        Self::Frame(bad)
    }
}

/// The client's end of a WebSocket.
pub struct WebSocket<S> {
    stream: S,
    incoming: Incoming,
    outgoing: Outgoing,
    /// True if the stream did not take all bytes at the last attempt.
    blocked: bool,
    /// True once a close frame is queued: no message may follow it.
    closing: bool,
    /// True once nothing can be received any more.
    ended: bool,
}

impl<S: Read + Write> WebSocket<S> {
    /// Asks the server at the other end of `stream` for a WebSocket at `path`, and waits for the answer. `authority` is the server's host and port, and
    /// `secure` is true if the stream has TLS.
    ///
    /// # Errors
    /// If the server does not answer in time, or not with a WebSocket.
    pub fn open(
        mut stream: S,
        authority: &str,
        path: &str,
        secure: bool,
        limits: WebSocketLimits,
    ) -> Result<Self, WebSocketError> {
        let rest = opening::open(&mut stream, authority, path, secure)?;
        Ok(Self::opened(stream, rest, limits))
    }

    /// Returns a WebSocket on a stream whose opening is complete; `received` was read behind the answer.
    pub fn opened(stream: S, received: Vec<u8>, limits: WebSocketLimits) -> Self {
        Self {
            stream,
            incoming: Incoming::new(received, limits.read, limits.message),
            outgoing: Outgoing::new(limits.waiting),
            blocked: false,
            closing: false,
            ended: false,
        }
    }

    /// Returns the next message or control frame, or `None` if the stream has no more bytes at present. Answers pings.
    ///
    /// # Errors
    /// If the stream failed, or the server sent bytes that no server may send.
    pub fn read(&mut self) -> Result<Option<Message>, WebSocketError> {
        if self.ended {
            return Err(WebSocketError::Closed);
        }
        let read = self.read_item();
        self.ended = matches!(read, Err(_) | Ok(Some(Item::Close(_))));
        Ok(read?.map(|item| match item {
            Item::Binary(bytes) => Message::Binary(bytes),
            Item::Text => Message::Text,
            Item::Pong => Message::Control,
            Item::Ping(payload) => {
                if !self.closing {
                    self.outgoing.answer(payload);
                    self.try_answer();
                }
                Message::Control
            }
            Item::Close(reason) => {
                let _ = self.queue_close();
                self.try_answer();
                Message::Close(reason)
            }
        }))
    }

    fn read_item(&mut self) -> Result<Option<Item>, WebSocketError> {
        loop {
            if let Some(item) = self.incoming.next()? {
                return Ok(Some(item));
            }
            match self.stream.read(self.incoming.room()) {
                Ok(0) => return Err(WebSocketError::Closed),
                Ok(length) => self.incoming.note_read(length),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends an answer if the stream takes it now; otherwise the caller does by [`Self::flush`]. A failed stream is left to the next read: a last message of
    /// the server may wait there.
    fn try_answer(&mut self) {
        if !self.blocked {
            let _ = self.flush();
        }
    }

    /// Queues a message for [`Self::flush`]. Returns false if too many bytes wait already; then the message is dropped.
    ///
    /// # Errors
    /// If the connection is closing, or the operating system has no randomness for the mask.
    pub fn queue(&mut self, payload: &[u8]) -> Result<bool, WebSocketError> {
        if self.closing {
            return Err(WebSocketError::Closed);
        }
        Ok(self.outgoing.queue(Opcode::Binary, payload)?)
    }

    /// Sends what waits. Afterwards [`Self::is_blocked`] tells whether the stream took all of it.
    ///
    /// # Errors
    /// If the stream failed.
    pub fn flush(&mut self) -> Result<(), WebSocketError> {
        let sent = self.outgoing.send(&mut self.stream);
        self.blocked = matches!(&sent, Err(error) if error.kind() == ErrorKind::WouldBlock);
        if self.blocked { Ok(()) } else { Ok(sent?) }
    }

    /// Returns true if the stream did not take all bytes, so that [`Self::flush`] has to be called when it is writable.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Returns the number of bytes that wait for the stream.
    pub fn waiting(&self) -> usize {
        self.outgoing.waiting()
    }

    /// Queues a close frame, and sends what the stream takes. Messages can still be received, but not sent.
    ///
    /// # Errors
    /// If the stream failed.
    pub fn close(&mut self) -> Result<(), WebSocketError> {
        self.queue_close()?;
        self.flush()
    }

    fn queue_close(&mut self) -> Result<(), WebSocketError> {
        if !self.closing {
            self.closing = true;
            self.outgoing.close()?;
        }
        Ok(())
    }
}

impl<S> WebSocket<S> {
    /// Returns the stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Returns the stream, to change its settings.
    pub fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

#[cfg(test)]
mod tests;

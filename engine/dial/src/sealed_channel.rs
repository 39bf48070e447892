//! A sealed channel: WebSocket, in it `Noise_IK`, in it messages of JSON. No method blocks after the handshakes.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use serde::Serialize;
use taut_base::{PrivateKey, PublicKey};
use taut_noise::Transport;
use taut_noise::ik::Initiator;

use crate::broken::{Broken, Server, no_answer, printable};
use crate::random;
use crate::stream::Stream;
use crate::url::Url;
use crate::websocket::{Message, WebSocket, WebSocketError, WebSocketLimits};

/// Bytes of the read buffer, 4 KiB: most messages are shorter, and the buffer exists as long as the channel.
const BUFFER: usize = 4096;

/// Limit on the bytes received since the last complete message, 32 MiB: twice the longest message, because TLS, frame headers and pings count, too. Beyond it
/// the channel counts as broken. Without a limit, a message of endless frames would never complete.
const MOST_UNFINISHED: u64 = 2 * taut_noise::MAX_MESSAGE as u64;

/// Limit on the bytes that wait for a coordinator, 32 MiB: twice the longest message. Beyond it the channel counts as broken.
const MOST_WAITING: usize = 2 * taut_noise::MAX_MESSAGE;

/// A channel to a coordinator after its handshakes.
pub struct SealedChannel {
    socket: WebSocket<Stream>,
    transport: Transport,
    /// Total of received bytes at the last complete message.
    bytes_at_message: u64,
    /// True if the other end has closed the connection, so that nothing is sent any more.
    closed_for_writing: bool,
    /// The addresses to which the name of the URL's host resolved.
    addresses: Vec<IpAddr>,
}

/// What the handshakes need: where the channel is, and the keys of its two ends.
pub struct ChannelTarget {
    /// Path and query below the coordinator's URL, beginning with a slash.
    pub path: String,
    /// The prologue of the `Noise_IK` handshake.
    pub prologue: Vec<u8>,
    /// The private key of this end.
    pub key: PrivateKey,
    /// The coordinator's key.
    pub coordinator: PublicKey,
    /// Longest message that may come, in bytes.
    pub max_message: usize,
    /// Error for the user if the server does not finish the handshake and shows no key.
    pub wrong_server: &'static str,
    /// Path below the coordinator's URL at which it shows its key to anybody.
    pub key_path: &'static str,
    /// Where this end has the coordinator's key from, such as "the relay token".
    pub key_source: &'static str,
}

/// The reason why [`SealedChannel::open`] failed.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// The connection failed, or the server is no coordinator.
    Broken(Broken),
    /// The server did not finish the handshake. A coordinator with another key does not say so: it cannot read the first message, and ends the connection.
    Handshake(Broken),
}

impl From<Broken> for NotOpened {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// What [`SealedChannel::receive`] found.
pub enum Received {
    /// A message, opened.
    Message(Vec<u8>),
    /// Something that only keeps the WebSocket alive, such as a ping.
    Other,
    /// No message is complete yet, or this turn's limit on bytes is reached.
    Nothing,
}

impl SealedChannel {
    /// Does the handshakes on `stream`, which blocks with a timeout, and makes it non-blocking afterwards.
    ///
    /// # Errors
    /// If the server does not answer in time, or is not the coordinator.
    pub(crate) fn open(stream: Stream, url: &Url, target: &ChannelTarget) -> Result<Self, NotOpened> {
        let limits = WebSocketLimits { read: BUFFER, message: target.max_message, waiting: MOST_WAITING };
        let path = format!("{}{}", url.path, target.path);
        let mut socket = WebSocket::open(stream, &url.authority(), &path, url.secure, limits).map_err(explain)?;
        let transport = shake_hands(&mut socket, target)?;
        let tcp = socket.stream().socket();
        tcp.set_nonblocking(true)
            .and_then(|()| tcp.set_read_timeout(None))
            .map_err(|error| Broken(error.to_string()))?;
        socket.stream_mut().begin_turn();
        Ok(Self {
            bytes_at_message: socket.stream().total(),
            socket,
            transport,
            closed_for_writing: false,
            addresses: Vec::new(),
        })
    }

    /// Sends a message. Bytes that the socket does not take yet are buffered; see [`Self::wants_write`]. A message to an end that has closed the connection is
    /// dropped without an error, because the last message of that end, a refusal, may wait to be read: [`Self::receive`] returns it, and then the end.
    ///
    /// # Errors
    /// If the channel is broken.
    pub fn send(&mut self, message: &impl Serialize) -> Result<(), Broken> {
        if self.closed_for_writing {
            return Ok(());
        }
        let plain = taut_json::to_vec(message).map_err(|error| Broken(error.to_string()))?;
        let sealed = self.transport.seal(&plain);
        if !self.socket.queue(&sealed).map_err(explain)? {
            return Err(Broken(String::from("the coordinator sends, but reads nothing: 32 MiB wait for it")));
        }
        self.flush()
    }

    /// Sends the buffered bytes.
    ///
    /// # Errors
    /// If the channel is broken.
    pub fn flush(&mut self) -> Result<(), Broken> {
        if self.closed_for_writing {
            return Ok(());
        }
        match self.socket.flush() {
            Err(WebSocketError::Io(error))
                if matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) =>
            {
                self.closed_for_writing = true;
                Ok(())
            }
            flushed => flushed.map_err(explain),
        }
    }

    /// Returns true if [`Self::flush`] has to be called when the socket is writable.
    pub fn wants_write(&self) -> bool {
        self.socket.is_blocked() && !self.closed_for_writing
    }

    /// Starts a turn of [`Self::receive`], which reads a bounded number of bytes.
    pub fn begin_turn(&mut self) {
        self.socket.stream_mut().begin_turn();
    }

    /// Returns the next message.
    ///
    /// # Errors
    /// If the channel is broken, or the other end closed it.
    pub fn receive(&mut self) -> Result<Received, Broken> {
        if self.socket.stream().total().saturating_sub(self.bytes_at_message) > MOST_UNFINISHED {
            return Err(Broken(String::from(
                "32 MiB came without a complete message of the coordinator; a proxy in between may be broken",
            )));
        }
        let sealed = match self.socket.read().map_err(explain)? {
            Some(Message::Binary(sealed)) => sealed,
            Some(Message::Close(reason)) => {
                // The close frame is outside the encrypted channel: over http:// anybody on the way may have written it.
                let reason = match reason.is_empty() {
                    true => reason,
                    false => format!(" (unverified text: {})", printable(&reason)),
                };
                return Err(Broken(format!("the server closed the channel{reason}")));
            }
            Some(Message::Text | Message::Control) => return Ok(Received::Other),
            None => return Ok(Received::Nothing),
        };
        let plain = self.transport.open(sealed).map_err(|error| Broken(error.to_string()))?;
        self.bytes_at_message = self.socket.stream().total();
        Ok(Received::Message(plain))
    }

    /// Returns the number of bytes received so far.
    pub fn received(&self) -> u64 {
        self.socket.stream().received()
    }

    /// Notes all addresses of the URL's host.
    pub(crate) fn set_addresses(&mut self, addresses: &[SocketAddr]) {
        self.addresses = addresses.iter().map(|address| address.ip().to_canonical()).collect();
    }

    /// Returns the coordinator's addresses, or those of a proxy in front of it: the address in use first, then the other addresses of its host name.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let peer = self.socket.stream().socket().peer_addr().ok().map(|address| address.ip().to_canonical());
        peer.into_iter().chain(self.addresses.iter().copied()).collect()
    }

    /// Returns true if this host's source address changed since the channel was opened. Answers on such a channel cannot arrive.
    pub fn is_stale(&self) -> bool {
        self.socket.stream().is_stale()
    }

    /// Returns true if this host has a route to the other end of the channel.
    pub fn has_route(&self) -> bool {
        self.socket.stream().source_address().is_ok()
    }

    /// Closes the channel. Sends a close frame first if the socket takes one without blocking.
    pub fn close(&mut self) {
        let _ = self.socket.close();
    }
}

impl AsFd for SealedChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.stream().as_fd()
    }
}

fn shake_hands(socket: &mut WebSocket<Stream>, target: &ChannelTarget) -> Result<Transport, NotOpened> {
    let wrong_server = || NotOpened::Handshake(Broken(String::from(target.wrong_server)));
    let ephemeral = random::private_key().map_err(|error| Broken(error.to_string()))?;
    let (initiator, first) =
        Initiator::start(&target.prologue, &target.key, &target.coordinator, ephemeral).map_err(|_| {
            Broken(String::from("the coordinator's key in the token is no key; ask the operator for a new token"))
        })?;
    socket.queue(&first).and_then(|_| socket.flush()).map_err(explain)?;
    let second = loop {
        match socket.read().map_err(unfinished)?.ok_or_else(no_answer)? {
            Message::Binary(second) => break second,
            Message::Control => {}
            Message::Text | Message::Close(_) => return Err(wrong_server()),
        }
    };
    initiator.finish(&second).map_err(|_| wrong_server())
}

/// Returns the error of a handshake whose answer did not come.
fn unfinished(error: WebSocketError) -> NotOpened {
    let is_end = match &error {
        WebSocketError::Closed => true,
        WebSocketError::Io(error) => {
            matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof)
        }
        _ => false,
    };
    if is_end { NotOpened::Handshake(explain(error)) } else { NotOpened::Broken(explain(error)) }
}

fn explain(error: WebSocketError) -> Broken {
    error.explain(Server::Coordinator)
}

#[cfg(test)]
mod tests;

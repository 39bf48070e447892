//! An open control channel. No method blocks after the handshakes.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use serde::Deserialize;
use taut_base::{NodeId, PrivateKey, PublicKey, is_printable};
use taut_netmap::{CONTROL_PATH, Problem, ToCoordinator, ToNode};
use taut_noise::ik::Initiator;
use taut_noise::{MAX_MESSAGE, Transport};
use tungstenite::handshake::HandshakeError;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};

use crate::random;
use crate::stream::Stream;
use crate::url::Url;

/// Bytes of the read buffer and of the write buffer. The default of tungstenite, 128 KiB each, would be a twentieth of the node's memory.
const BUFFER: usize = 4096;

/// Limit on the bytes received since the last complete message, 32 MiB: twice the longest message, because TLS, frame headers and pings count, too. Beyond it
/// the channel counts as broken. Without a limit, a message of endless frames would never complete.
const MOST_UNFINISHED: u64 = 2 * MAX_MESSAGE as u64;

/// A control channel after its handshakes.
pub(crate) struct Channel {
    socket: WebSocket<Stream>,
    transport: Transport,
    /// Total of received bytes at the last complete message.
    bytes_at_message: u64,
    /// True if bytes are buffered because the socket does not take them yet.
    blocked: bool,
    /// The addresses to which the name of the URL's host resolved.
    addresses: Vec<IpAddr>,
}

/// The keys of the channel's two ends, and the network.
pub(crate) struct Parties {
    pub(crate) network: [u8; 16],
    pub(crate) machine_key: PrivateKey,
    pub(crate) coordinator: PublicKey,
}

impl Channel {
    /// Does the handshakes on `stream`, which blocks with a timeout, and makes it non-blocking afterwards.
    pub(crate) fn open(stream: Stream, url: &Url, parties: &Parties) -> Result<Self, Broken> {
        let network = crate::disk::hex(&parties.network);
        // The library requires a scheme, but the stream exists already.
        let target = format!("ws://{}{}{CONTROL_PATH}?network={network}", url.authority(), url.path);
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(0)
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let (mut socket, _) =
            tungstenite::client::client_with_config(target, stream, Some(config)).map_err(|error| match error {
                HandshakeError::Interrupted(_) => Broken(String::from("no answer in time")),
                HandshakeError::Failure(error) => explain(error),
            })?;
        let transport = shake_hands(&mut socket, parties)?;
        let tcp = socket.get_ref().socket();
        tcp.set_nonblocking(true)
            .and_then(|()| tcp.set_read_timeout(None))
            .map_err(|error| Broken(error.to_string()))?;
        socket.get_mut().begin_turn();
        Ok(Self {
            bytes_at_message: socket.get_ref().total(),
            socket,
            transport,
            blocked: false,
            addresses: Vec::new(),
        })
    }

    /// Sends a message. Bytes that the socket does not take yet are buffered; see [`Self::wants_write`].
    pub(crate) fn send(&mut self, message: &ToCoordinator) -> Result<(), Broken> {
        let plain = serde_json::to_vec(message).map_err(|error| Broken(error.to_string()))?;
        let sealed = self.transport.seal(&plain);
        let written = self.socket.write(Message::binary(sealed));
        self.settle(written)?;
        self.flush()
    }

    /// Sends the buffered bytes.
    pub(crate) fn flush(&mut self) -> Result<(), Broken> {
        let flushed = self.socket.flush();
        self.settle(flushed)
    }

    fn settle(&mut self, result: Result<(), tungstenite::Error>) -> Result<(), Broken> {
        match result {
            Ok(()) => self.blocked = false,
            Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => self.blocked = true,
            Err(error) => return Err(explain(error)),
        }
        Ok(())
    }

    /// Returns true if [`Self::flush`] has to be called when the socket is writable.
    pub(crate) fn wants_write(&self) -> bool {
        self.blocked
    }

    /// Starts a turn of [`Self::receive`], which reads a bounded number of bytes.
    pub(crate) fn begin_turn(&mut self) {
        self.socket.get_mut().begin_turn();
    }

    /// Returns the next message. Returns `None` if no message is complete yet, or this turn's limit on bytes is reached.
    pub(crate) fn receive(&mut self) -> Result<Option<ReceivedMessage>, Broken> {
        if self.socket.get_ref().total().saturating_sub(self.bytes_at_message) > MOST_UNFINISHED {
            return Err(Broken(String::from(
                "32 MiB came without a complete message of the coordinator; a proxy in between may be broken",
            )));
        }
        let sealed = match self.socket.read() {
            Ok(Message::Binary(sealed)) => sealed,
            Ok(Message::Close(frame)) => {
                let reason = frame.map(|frame| frame.reason.to_string()).filter(|reason| !reason.is_empty());
                // The close frame is outside the encrypted channel: over http:// anybody on the way may have written it.
                let reason =
                    reason.map(|reason| format!(" (unverified text: {})", printable(&reason))).unwrap_or_default();
                return Err(Broken(format!("the server closed the channel{reason}")));
            }
            Ok(_) => return Ok(Some(ReceivedMessage::Unknown)),
            Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(explain(error)),
        };
        let plain = self.transport.open(sealed.into()).map_err(|error| Broken(error.to_string()))?;
        self.bytes_at_message = self.socket.get_ref().total();
        read_message(&plain).map(Some)
    }

    /// Returns the number of bytes received so far.
    pub(crate) fn received(&self) -> u64 {
        self.socket.get_ref().received()
    }

    /// Notes all addresses of the URL's host.
    pub(crate) fn set_addresses(&mut self, addresses: &[SocketAddr]) {
        self.addresses = addresses.iter().map(|address| address.ip().to_canonical()).collect();
    }

    /// Returns the coordinator's addresses, or those of a proxy in front of it: the address in use first, then the other addresses of its host name.
    pub(crate) fn addresses(&self) -> Vec<IpAddr> {
        let peer = self.socket.get_ref().socket().peer_addr().ok().map(|address| address.ip().to_canonical());
        peer.into_iter().chain(self.addresses.iter().copied()).collect()
    }

    /// Returns true if this host's source address changed since the channel was opened. Answers on such a channel cannot arrive.
    pub(crate) fn is_stale(&self) -> bool {
        self.socket.get_ref().is_stale()
    }

    /// Returns true if this host has a route to the other end of the channel.
    pub(crate) fn has_route(&self) -> bool {
        self.socket.get_ref().source_address().is_ok()
    }

    /// Closes the channel. Sends a close frame first if the socket takes one without blocking.
    pub(crate) fn close(&mut self) {
        let _ = self.socket.close(None);
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.get_ref().as_fd()
    }
}

fn shake_hands(socket: &mut WebSocket<Stream>, parties: &Parties) -> Result<Transport, Broken> {
    let prologue = taut_netmap::prologue(&parties.network);
    let ephemeral = random::private_key().map_err(|error| Broken(error.to_string()))?;
    let (initiator, first) = Initiator::start(&prologue, &parties.machine_key, &parties.coordinator, ephemeral)
        .map_err(|_| {
            Broken(String::from("the coordinator's key in the join token is no key; ask the operator for a new token"))
        })?;
    socket.send(Message::binary(first.to_vec())).map_err(explain)?;
    let second = loop {
        match socket.read().map_err(explain)? {
            Message::Binary(second) => break second,
            Message::Ping(_) | Message::Pong(_) => {}
            _ => return Err(Broken(String::from(WRONG_SERVER))),
        }
    };
    initiator.finish(&second).map_err(|_| Broken(String::from(WRONG_SERVER)))
}

const WRONG_SERVER: &str =
    "the server at this URL does not have the coordinator's key of the join token, or does not know this network";

/// A message of the coordinator.
#[derive(Debug)]
pub(crate) enum ReceivedMessage {
    /// A message that this version knows.
    Known(Box<ToNode>),
    /// A message that only a later version knows. It is ignored without an error (fault L5).
    Unknown,
}

/// Parses a message. The type is read first, and the content is parsed directly into its final form: otherwise a map of thousands of peers would be in memory
/// twice.
pub(crate) fn read_message(bytes: &[u8]) -> Result<ReceivedMessage, Broken> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    #[derive(Deserialize)]
    struct Presence {
        whole: bool,
        nodes: Vec<(NodeId, bool)>,
    }
    #[derive(Deserialize)]
    struct Ticket {
        ticket: String,
        numbered: Option<String>,
        expires: u64,
    }
    #[derive(Deserialize)]
    struct Twin {
        problem: Option<Problem>,
    }
    let kind: Kind<'_> = content(bytes)?;
    let message = match kind.kind.as_ref() {
        "map" => ToNode::Map(content(bytes)?),
        "delta" => ToNode::Delta(content(bytes)?),
        "refused" => ToNode::Refused(content(bytes)?),
        "pong" => ToNode::Pong,
        "ticket" => {
            let Ticket { ticket, numbered, expires } = content(bytes)?;
            ToNode::Ticket { ticket, numbered, expires }
        }
        "twin" => ToNode::Twin { problem: content::<Twin>(bytes)?.problem },
        "presence" => {
            let Presence { whole, nodes } = content(bytes)?;
            ToNode::Presence { whole, nodes }
        }
        _ => return Ok(ReceivedMessage::Unknown),
    };
    Ok(ReceivedMessage::Known(Box::new(message)))
}

fn content<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Broken> {
    serde_json::from_slice(bytes)
        .map_err(|error| Broken(format!("the coordinator sent a message that makes no sense: {error}")))
}

/// The reason why the channel failed, as text for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub(crate) String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Broken {}

fn explain(error: tungstenite::Error) -> Broken {
    use io::ErrorKind as Kind;
    use tungstenite::Error as Ws;
    use tungstenite::error::ProtocolError;
    Broken(match error {
        Ws::Http(response) => format!(
            "it answered with HTTP status {} instead of a control channel; is this the coordinator's URL?",
            response.status().as_u16()
        ),
        Ws::Io(error) if matches!(error.kind(), Kind::WouldBlock | Kind::TimedOut) => String::from("no answer in time"),
        Ws::Io(error) if matches!(error.kind(), Kind::ConnectionReset | Kind::BrokenPipe | Kind::UnexpectedEof) => {
            String::from("the coordinator closed the connection")
        }
        Ws::Io(error) => error.to_string(),
        Ws::ConnectionClosed | Ws::AlreadyClosed | Ws::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            String::from("the coordinator closed the connection")
        }
        Ws::Protocol(ProtocolError::HandshakeIncomplete) => {
            String::from("the coordinator closed the connection before it answered")
        }
        other => format!("the server at this URL does not speak WebSocket as expected: {other}"),
    })
}

/// Returns a text from the network for a terminal: only its printable characters, and at most 200 of them.
fn printable(text: &str) -> String {
    text.chars().filter(|character| is_printable(*character)).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_l5_messages_and_fields_from_the_future() {
        assert!(matches!(read_message(br#"{"type":"teleport","to":[1,2]}"#), Ok(ReceivedMessage::Unknown)));
        let known =
            read_message(br#"{"later":1,"type":"presence","whole":true,"nodes":[[3,true]],"more":{}}"#).unwrap();
        let ReceivedMessage::Known(message) = known else { panic!("presence is known") };
        assert_eq!(*message, ToNode::Presence { whole: true, nodes: vec![(NodeId(3), true)] });
        assert!(matches!(read_message(br#"{"type":"pong"}"#), Ok(ReceivedMessage::Known(_))));
        let escaped = read_message(br#"{"type":"p\u006fng"}"#);
        assert!(matches!(escaped, Ok(ReceivedMessage::Known(_))));
    }

    #[test]
    fn nonsense_is_an_error_not_a_silence() {
        for text in ["", "7", "{}", r#"{"type":7}"#, r#"{"type":"map"}"#, r#"{"type":"delta","from":1}"#] {
            assert!(read_message(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_coordinators_words_cannot_drive_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a[2Jb");
    }
}

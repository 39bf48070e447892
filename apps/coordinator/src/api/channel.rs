//! A sealed channel of a node or a relay: messages in both directions, encrypted by Noise. No message is parsed before the handshake has ended.

use std::fmt;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket};
use serde::Serialize;
use serde::de::DeserializeOwned;
use taut_base::{PrivateKey, PublicKey};
use taut_noise::Transport;
use taut_noise::ik::Responder;
use tokio::time::timeout;

use crate::state::random;

/// Slowest rate at which a node may read a message, 16 KiB/s. A slower node is disconnected, because its messages would queue here.
const SLOWEST: usize = 16 * 1024;

/// Time that a node has for any message, however short, 10 s.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest time for the end of a channel, 1 s: the close frame reaches the other side, and its own comes back. The slowest paths take about that.
const LINGER: Duration = Duration::from_secs(1);

/// Limit on WebSocket pings and pongs between two messages. Some proxies send one every half minute, and a node sends a message every 15 s.
const PINGS: u32 = 64;

/// An open channel.
pub(super) struct ControlChannel {
    socket: WebSocket,
    transport: Transport,
}

/// Reason for the end of a channel.
#[derive(Debug)]
pub(super) enum ChannelCloseReason {
    /// The other side closed it.
    Closed,
    /// The other side violated the protocol.
    Broken(&'static str),
    /// The other side reads too slowly.
    Slow,
}

impl ControlChannel {
    /// Performs the coordinator's side of the handshake. Returns the key that the other side has proven: a node's machine key, or a relay's key.
    pub(super) async fn accept(
        mut socket: WebSocket,
        prologue: &[u8],
        key: &PrivateKey,
    ) -> Result<(Self, PublicKey), ChannelCloseReason> {
        let first = next(&mut socket).await?;
        let wrong = |_| ChannelCloseReason::Broken("no handshake for this coordinator, or for this network");
        let replying = Responder::read(prologue, key, &first).map_err(wrong)?;
        let other = replying.initiator();
        let (transport, second) = replying.reply(&PrivateKey::from_bytes(random())).map_err(wrong)?;
        let mut channel = Self { socket, transport };
        channel.write(second.to_vec()).await?;
        Ok((channel, other))
    }

    /// Receives the next message. Dropping this future loses no message.
    pub(super) async fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ChannelCloseReason> {
        let sealed = next(&mut self.socket).await?;
        let plain = self
            .transport
            .open(sealed.into())
            .map_err(|_| ChannelCloseReason::Broken("a message that does not open"))?;
        serde_json::from_slice(&plain).map_err(|_| ChannelCloseReason::Broken("a message that is not of this protocol"))
    }

    /// Sends a message, and waits until the kernel has accepted it.
    pub(super) async fn send(&mut self, message: &impl Serialize) -> Result<(), ChannelCloseReason> {
        let plain = serde_json::to_vec(message)
            .map_err(|_| ChannelCloseReason::Broken("a message of ours that cannot be written"))?;
        self.send_json(&plain).await
    }

    /// Sends a message that is JSON already, and waits until the kernel has accepted it.
    pub(super) async fn send_json(&mut self, plain: &[u8]) -> Result<(), ChannelCloseReason> {
        let sealed = self.transport.seal(plain);
        self.write(sealed).await
    }

    /// Sends a last message, a refusal, and closes the channel.
    pub(super) async fn refuse(mut self, refusal: &impl Serialize) {
        let _ = self.send(refusal).await;
        self.close().await;
    }

    /// Closes the WebSocket properly, so that proxies in between release it as well, and waits up to [`LINGER`] for the other side to close. Without the wait a
    /// message of the other side that arrives after ours, unread, would make the kernel reset the connection, and our last message could be lost with it.
    pub(super) async fn close(mut self) {
        let closed = async {
            if self.socket.send(Message::Close(None)).await.is_ok() {
                while next(&mut self.socket).await.is_ok() {}
            }
        };
        let _ = timeout(LINGER, closed).await;
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), ChannelCloseReason> {
        let patience = WRITE_TIMEOUT + Duration::from_secs((bytes.len() / SLOWEST) as u64);
        match timeout(patience, self.socket.send(Message::Binary(Bytes::from(bytes)))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(ChannelCloseReason::Closed),
            Err(_) => Err(ChannelCloseReason::Slow),
        }
    }
}

/// Receives the next binary message. The WebSocket library answers pings; a ping does not renew the node's lease.
async fn next(socket: &mut WebSocket) -> Result<Bytes, ChannelCloseReason> {
    for _ in 0..PINGS {
        match socket.recv().await {
            Some(Ok(Message::Binary(bytes))) => return Ok(bytes),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Text(_))) => {
                return Err(ChannelCloseReason::Broken("text where only sealed messages are sent"));
            }
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(ChannelCloseReason::Closed),
        }
    }
    Err(ChannelCloseReason::Broken("pings without end"))
}

impl fmt::Display for ChannelCloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed by the other side",
            Self::Broken(what) => what,
            Self::Slow => "the other side reads too slowly",
        })
    }
}

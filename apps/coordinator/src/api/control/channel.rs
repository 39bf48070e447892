//! An open control channel: messages in and out, sealed by Noise. Nothing is read as a message before the handshake has ended.

use std::fmt;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::ws::{Message, WebSocket};
use taut_base::{PrivateKey, PublicKey};
use taut_netmap::{Problem, ToCoordinator, ToNode, prologue};
use taut_noise::Transport;
use taut_noise::ik::Responder;
use tokio::time::timeout;

use crate::state::random;
use crate::store::NetworkId;

/// Who takes less than this many bytes per second is cut off: its messages would pile up here.
const SLOWEST: usize = 16 * 1024;

/// What every message may take at least, however short it is.
const PATIENCE: Duration = Duration::from_secs(10);

/// WebSocket pings and pongs between two messages. Some proxies send one every half minute, and a node sends a message every 15 s.
const PINGS: u32 = 64;

/// Both directions of a channel.
pub(super) struct Channel {
    socket: WebSocket,
    transport: Transport,
}

/// Why a channel ended.
#[derive(Debug)]
pub(super) enum End {
    /// The other side closed it.
    Closed,
    /// The other side says what this protocol does not know.
    Broken(&'static str),
    /// The other side is too slow.
    Slow,
}

impl Channel {
    /// The coordinator's side of the handshake. Returns the machine key that the node has proven.
    pub(super) async fn accept(
        mut socket: WebSocket,
        network: NetworkId,
        key: &PrivateKey,
    ) -> Result<(Self, PublicKey), End> {
        let first = next(&mut socket).await?;
        let wrong = |_| End::Broken("no handshake for this coordinator and network");
        let replying = Responder::read(&prologue(&network.0), key, &first).map_err(wrong)?;
        let machine = replying.initiator();
        let (transport, second) = replying.reply(&PrivateKey::from_bytes(random())).map_err(wrong)?;
        let mut channel = Self { socket, transport };
        channel.write(second.to_vec()).await?;
        Ok((channel, machine))
    }

    /// The next message. Dropping this future loses nothing.
    pub(super) async fn receive(&mut self) -> Result<ToCoordinator, End> {
        let sealed = next(&mut self.socket).await?;
        let plain = self.transport.open(sealed.into()).map_err(|_| End::Broken("a message that does not open"))?;
        serde_json::from_slice(&plain).map_err(|_| End::Broken("a message that is none of this protocol"))
    }

    /// Sends one message; waits until the system has taken it.
    pub(super) async fn send(&mut self, message: &ToNode) -> Result<(), End> {
        let plain = serde_json::to_vec(message).map_err(|_| End::Broken("a message of ours that cannot be written"))?;
        let sealed = self.transport.seal(&plain);
        self.write(sealed).await
    }

    /// Tells the node why it is not served, and closes.
    pub(super) async fn refuse(mut self, problem: Problem) {
        let _ = self.send(&ToNode::Refused(problem)).await;
        self.close().await;
    }

    /// Says goodbye to the WebSocket, so that proxies in between let go of it, too.
    pub(super) async fn close(mut self) {
        let _ = timeout(Duration::from_secs(1), self.socket.send(Message::Close(None))).await;
    }

    async fn write(&mut self, bytes: Vec<u8>) -> Result<(), End> {
        let patience = PATIENCE + Duration::from_secs((bytes.len() / SLOWEST) as u64);
        match timeout(patience, self.socket.send(Message::Binary(Bytes::from(bytes)))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Closed),
            Err(_) => Err(End::Slow),
        }
    }
}

/// The next binary message. Pings of the WebSocket are answered below; they are no sign of the node's life.
async fn next(socket: &mut WebSocket) -> Result<Bytes, End> {
    for _ in 0..PINGS {
        match socket.recv().await {
            Some(Ok(Message::Binary(bytes))) => return Ok(bytes),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Text(_))) => return Err(End::Broken("text where only sealed messages are sent")),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(End::Closed),
        }
    }
    Err(End::Broken("pings without end"))
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed by the node",
            Self::Broken(what) => what,
            Self::Slow => "the node reads too slowly",
        })
    }
}

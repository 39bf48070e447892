//! The other side of the coordinator's channels: a node's, or a relay's.

use std::net::{Ipv4Addr, SocketAddr};

use futures_util::{SinkExt, StreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use taut_base::{PrivateKey, PublicKey};
use taut_noise::Transport;
use taut_noise::ik::Initiator;
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::state::random;

/// An open channel.
pub(super) struct Channel {
    socket: WebSocketStream<TcpStream>,
    transport: Transport,
}

/// Where a channel leads, and who opens it.
pub(super) struct Route<'a> {
    pub(super) coordinator: &'a PublicKey,
    pub(super) address: SocketAddr,
    /// Address of this host that the channel comes from: the coordinator has limits for each address.
    pub(super) source: Ipv4Addr,
    /// Path and query of the channel.
    pub(super) path: String,
    /// Prologue of the handshake.
    pub(super) prologue: Vec<u8>,
    /// Key of this side.
    pub(super) key: &'a PrivateKey,
}

impl Channel {
    /// Opens a channel; `None` if the coordinator cannot be reached or ends it.
    pub(super) async fn open(route: Route<'_>) -> Option<Self> {
        let socket = TcpSocket::new_v4().ok()?;
        socket.bind((route.source, 0).into()).ok()?;
        let stream = socket.connect(route.address).await.ok()?;
        let _ = stream.set_nodelay(true);
        let url = format!("ws://{}{}", route.address, route.path);
        let (mut socket, _) = client_async(url, stream).await.ok()?;
        let ephemeral = PrivateKey::from_bytes(random());
        let (initiator, first) = Initiator::start(&route.prologue, route.key, route.coordinator, ephemeral).ok()?;
        socket.send(Message::binary(first.to_vec())).await.ok()?;
        let second = next(&mut socket).await?;
        Some(Self { transport: initiator.finish(&second).ok()?, socket })
    }

    pub(super) async fn send(&mut self, message: &impl Serialize) -> Option<()> {
        let sealed = self.transport.seal(&serde_json::to_vec(message).ok()?);
        self.socket.send(Message::binary(sealed)).await.ok()
    }

    /// Returns the next message and its length on the wire; `None` at the end. Dropping this future loses no message.
    pub(super) async fn receive<T: DeserializeOwned>(&mut self) -> Option<(T, usize)> {
        let sealed = next(&mut self.socket).await?;
        let length = sealed.len();
        let plain = self.transport.open(sealed).ok()?;
        Some((serde_json::from_slice(&plain).ok()?, length))
    }
}

async fn next(socket: &mut WebSocketStream<TcpStream>) -> Option<Vec<u8>> {
    loop {
        match socket.next().await? {
            Ok(Message::Binary(bytes)) => return Some(bytes.into()),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

//! The coordinator's side of a control channel, on a real socket, message by message.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use taut_base::{NodeId, PrivateKey, PublicKey, RelayId};
use taut_netmap::{
    Hello, JoinToken, LocalMember, NetworkInfo, NetworkMap, Peer, Relay, ToCoordinator, ToNode, prologue,
};
use taut_noise::ik::Responder;
use taut_noise::{Transport, public_key};
use tungstenite::handshake::server::{Request, Response};
use tungstenite::{Message, WebSocket};

/// Limit on every wait, 60 s: longer than any machine needs, so that a test that hangs fails.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const SECRET: [u8; 32] = [7; 32];

pub(crate) struct Coordinator {
    listener: TcpListener,
    key: PrivateKey,
    pub(crate) network: [u8; 16],
}

pub(crate) trait Bytes: Read + Write + Send {}
impl<T: Read + Write + Send> Bytes for T {}

/// A channel, seen from the coordinator.
pub(crate) struct Session {
    socket: WebSocket<Box<dyn Bytes>>,
    transport: Transport,
    /// The node's machine key.
    pub(crate) machine: PublicKey,
    /// Path and query of the node's HTTP request.
    pub(crate) target: String,
}

impl Coordinator {
    pub(crate) fn start() -> Self {
        // Each coordinator has a loopback address of its own. Otherwise one test might open a port that another test has just closed.
        static NUMBER: AtomicU8 = AtomicU8::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self::start_at(SocketAddr::from(([127, 0, number, 1], 0)))
    }

    pub(crate) fn start_at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        Self { listener, key: PrivateKey::from_bytes([42; 32]), network: [1; 16] }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    pub(crate) fn token(&self) -> Box<JoinToken> {
        self.token_with(vec![self.url()])
    }

    pub(crate) fn token_with(&self, urls: Vec<String>) -> Box<JoinToken> {
        Box::new(JoinToken { network: self.network, coordinator: public_key(&self.key), urls, secret: SECRET })
    }

    /// Accepts a TCP connection, and does no handshake.
    pub(crate) fn accept_socket(&self) -> TcpStream {
        let (socket, _) = self.listener.accept().unwrap();
        socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        socket.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
        socket
    }

    pub(crate) fn accept(&self) -> Session {
        self.shake_hands(Box::new(self.accept_socket()))
    }

    pub(crate) fn shake_hands(&self, stream: Box<dyn Bytes>) -> Session {
        let mut target = String::new();
        #[expect(clippy::result_large_err, reason = "the library's signature")]
        let look = |request: &Request, response: Response| {
            target = request.uri().to_string();
            Ok(response)
        };
        let mut socket = tungstenite::accept_hdr(stream, look).unwrap();
        let first = binary(&mut socket).unwrap();
        let replying = Responder::read(&prologue(&self.network), &self.key, &first).unwrap();
        let machine = replying.initiator();
        let (transport, second) = replying.reply(&PrivateKey::from_bytes([43; 32])).unwrap();
        socket.send(Message::binary(second.to_vec())).unwrap();
        Session { socket, transport, machine, target }
    }
}

impl Session {
    /// Returns the node's next message, or `None` if the node closed the channel.
    pub(crate) fn receive(&mut self) -> Option<ToCoordinator> {
        let sealed = binary(&mut self.socket)?;
        let plain = self.transport.open(sealed).unwrap();
        Some(serde_json::from_slice(&plain).unwrap())
    }

    pub(crate) fn receive_hello(&mut self) -> Hello {
        match self.receive() {
            Some(ToCoordinator::Hello(hello)) => hello,
            other => panic!("a hello comes first, not {other:?}"),
        }
    }

    pub(crate) fn send(&mut self, message: &ToNode) {
        self.send_json(&serde_json::to_vec(message).unwrap());
    }

    pub(crate) fn send_json(&mut self, json: &[u8]) {
        let sealed = self.transport.seal(json);
        self.send_sealed(&sealed);
    }

    /// Returns the message, encrypted. It is not sent.
    pub(crate) fn seal(&mut self, message: &ToNode) -> Vec<u8> {
        self.transport.seal(&serde_json::to_vec(message).unwrap())
    }

    /// Sends encrypted bytes, which may be those of an earlier message or channel.
    pub(crate) fn send_sealed(&mut self, sealed: &[u8]) {
        self.socket.send(Message::binary(sealed.to_vec())).unwrap();
    }

    /// Sends frames of 2 bytes that complete no message, until the node closes the channel. Returns false if it does not.
    pub(crate) fn flood(&mut self) -> bool {
        let (began, stream) = (Instant::now(), self.socket.get_mut());
        let mut was_closed = stream.write_all(&[2, 0]).is_err();
        while !was_closed && began.elapsed() < 2 * TEST_TIMEOUT {
            was_closed = stream.write_all(&[0; 100_000]).is_err();
        }
        was_closed
    }

    /// Sends bytes that are not an encrypted message.
    pub(crate) fn send_garbage(&mut self) {
        self.socket.send(Message::binary(vec![0; 40])).unwrap();
    }
}

fn binary(socket: &mut WebSocket<Box<dyn Bytes>>) -> Option<Vec<u8>> {
    loop {
        match socket.read() {
            Ok(Message::Binary(bytes)) => return Some(bytes.into()),
            Ok(Message::Ping(_) | Message::Pong(_)) => {}
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(other) => panic!("unexpected {other:?}"),
        }
    }
}

/// Returns a map for the node with `key`, with the peers 2, 3, … up to `peers + 1`.
pub(crate) fn map(version: u64, key: PublicKey, peers: u8) -> NetworkMap {
    NetworkMap {
        version,
        network: NetworkInfo {
            name: String::from("home"),
            ipv4: "100.64.0.0/10".parse().unwrap(),
            ipv6: "fd00::/48".parse().unwrap(),
            naming: taut_netmap::Naming::default(),
        },
        me: LocalMember {
            id: NodeId(1),
            name: String::from("a"),
            key,
            addresses: vec!["100.64.0.1".parse().unwrap()],
            routes: Vec::new(),
        },
        peers: (2..=peers + 1).map(|id| (NodeId(id.into()), peer(id))).collect(),
        relays: Vec::new(),
        filter: None,
    }
}

pub(crate) fn peer(id: u8) -> Peer {
    Peer {
        id: NodeId(id.into()),
        name: format!("n{id}"),
        key: PublicKey([id; 32]),
        addresses: vec![format!("100.64.0.{id}").parse().unwrap()],
        endpoints: vec![],
        relays: Vec::new(),
        native: false,
        routes: Vec::new(),
    }
}

/// Returns a relay with two endpoints: 192.0.2.`number`, and the unspecified address, which stands for the coordinator's address.
pub(crate) fn relay(number: u8) -> Relay {
    Relay {
        id: RelayId(number.into()),
        name: format!("relay-{number}"),
        key: PublicKey([100 + number; 32]),
        endpoints: vec![([192, 0, 2, number], 3478).into(), ([0, 0, 0, 0], 3478).into()],
        stun_port: 3479,
        web: None,
        busy: false,
    }
}

//! Limits on a relay's connections by WebSocket (faults E19, F13, P6): unauthenticated ones by time and address, members' by network.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use taut_base::{PrivateKey, PublicKey, Time};
use taut_noise::public_key;
use taut_relay::{Client, ClientOutput, Credentials, NetworkTag, SigningKey, Terms, Ticket};
use taut_relay_server::{ConnectionAdmission, Metrics, RelayConfig, RelayServer, Stats, WebConfig};
use taut_testkit::Seeded;
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

/// Time limit of each wait, 60 s: long enough for the slowest machine, because only a failure should reach it.
const PATIENCE: Duration = Duration::from_secs(60);

fn coordinator() -> SigningKey {
    SigningKey::from_seed([1; 32]).unwrap()
}

/// Starts a relay with `places` for unauthenticated connections and `streams` for bound ones; loopback is a trusted proxy if `is_behind_proxy`.
fn start(places: usize, streams: usize, is_behind_proxy: bool) -> RelayServer {
    let mut config = RelayConfig::new(PrivateKey::from_bytes([200; 32]));
    (config.port, config.stun_port, config.workers) = (0, 0, 1);
    config.trusted.push(coordinator().verifying());
    let trusted = if is_behind_proxy { vec!["127.0.0.1/32".parse().unwrap()] } else { Vec::new() };
    let admission = ConnectionAdmission::new(places, trusted);
    let address = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    config.web = Some(WebConfig { address, certificate: None, admission, streams });
    RelayServer::start(&config).unwrap()
}

/// Waits until `done` returns true for the relay's counters.
#[track_caller]
fn wait_for(relay: &RelayServer, done: impl Fn(&Stats) -> bool) {
    let began = Instant::now();
    while !done(&relay.stats()) {
        assert!(began.elapsed() < PATIENCE, "{:?}", relay.stats());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Opens a WebSocket on which no client binds, as a proxy does for a client at this address.
fn stranger(relay: &RelayServer, client: &str) -> WebSocket<TcpStream> {
    let mut request = format!("ws://{}/", relay.web().unwrap()).into_client_request().unwrap();
    request.headers_mut().insert("x-forwarded-for", client.parse().unwrap());
    let tcp = TcpStream::connect(relay.web().unwrap()).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    let socket = tungstenite::client(request, tcp).unwrap().0;
    socket.get_ref().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    socket
}

/// Returns true if the relay has not closed the connection. Received messages are dropped.
fn is_open(socket: &mut WebSocket<TcpStream>) -> bool {
    loop {
        match socket.read() {
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) => return error.kind() == ErrorKind::WouldBlock,
            Err(_) => return false,
        }
    }
}

/// Sends one message without an end, as empty frames of 6 bytes, until the relay closes the connection or [`PATIENCE`] is over.
fn endless(socket: &WebSocket<TcpStream>) -> JoinHandle<bool> {
    let mut tcp = socket.get_ref().try_clone().unwrap();
    tcp.set_write_timeout(Some(PATIENCE)).unwrap();
    let (began, rest) = (Instant::now(), [0, 0x80, 0, 0, 0, 0].repeat(20_000));
    std::thread::spawn(move || {
        let mut was_closed = tcp.write_all(&[2, 0x80, 0, 0, 0, 0]).is_err();
        while !was_closed && began.elapsed() < 2 * PATIENCE {
            was_closed = tcp.write_all(&rest).is_err();
        }
        was_closed
    })
}

/// A relay client that uses WebSocket, or UDP while `by_udp` is set.
struct Node {
    web: WebSocket<TcpStream>,
    udp: UdpSocket,
    relay: SocketAddr,
    by_udp: bool,
    client: Client,
    random: Seeded,
    start: Instant,
}

impl Node {
    fn new(relay: &RelayServer, network: u8, number: u8) -> Self {
        let bind = PrivateKey::from_bytes([number ^ 0xff; 32]);
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let node: PublicKey = public_key(&PrivateKey::from_bytes([number; 32]));
        let (network, bind_key) = (NetworkTag([network; 16]), public_key(&bind));
        let terms = Terms { network, id: None, node, bind: bind_key, not_before: wall, expires: wall + 3600 };
        let ticket = Ticket::sign(&terms, &coordinator());
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        Self {
            web: stranger(relay, &format!("203.0.113.{number}")),
            udp,
            relay: SocketAddr::from((Ipv4Addr::LOCALHOST, relay.port())),
            by_udp: false,
            client: Client::new(relay.key(), Credentials { bind, ticket, numbered: None }, Time::ZERO),
            random: Seeded::new(number.into()),
            start: Instant::now(),
        }
    }

    /// Sends all datagrams that are due, and receives one message or waits for a moment.
    fn turn(&mut self) {
        let now = Time::from_duration(self.start.elapsed());
        self.client.handle_timeout(now, &mut self.random);
        while let Some(output) = self.client.poll_output() {
            let ClientOutput::Transmit(datagram) = output else { continue };
            if self.by_udp {
                self.udp.send_to(datagram.as_bytes(), self.relay).unwrap();
            } else {
                // Errors are ignored: some tests wait until the relay closes the connection.
                let _ = self.web.send(Message::binary(datagram.as_bytes().to_vec()));
            }
        }
        let mut buffer = [0; 2048];
        let bytes = if self.by_udp {
            self.udp.recv_from(&mut buffer).map(|(length, _)| buffer[..length].to_vec()).unwrap_or_default()
        } else {
            match self.web.read() {
                Ok(Message::Binary(bytes)) => bytes.to_vec(),
                _ => Vec::new(),
            }
        };
        self.client.handle_datagram(&bytes, now, &mut self.random);
    }

    #[track_caller]
    fn run(&mut self, relay: &RelayServer, done: impl Fn(&Self, &Stats) -> bool) {
        let began = Instant::now();
        while !done(self, &relay.stats()) {
            assert!(began.elapsed() < PATIENCE, "{:?}", relay.stats());
            self.turn();
        }
    }

    fn bound(relay: &RelayServer, network: u8, number: u8) -> Self {
        let mut node = Self::new(relay, network, number);
        let before = relay.stats().tally.bound;
        node.run(relay, |node, stats| node.client.is_ready() && stats.tally.bound > before);
        node
    }
}

#[test]
fn fault_f13_a_connection_without_a_bind_is_closed_after_ten_seconds_and_a_members_is_not() {
    let relay = start(64, 64, true);
    let mut member = Node::bound(&relay, 1, 1);
    let mut stranger = stranger(&relay, "192.0.2.1");
    let idle = TcpStream::connect(relay.web().unwrap()).unwrap();
    member.run(&relay, |_, stats| stats.late == 0 && stats.websockets == 3);
    // A frame of one byte per second does not keep an unauthenticated connection open.
    let (mut sent, began) = (0, Instant::now());
    while is_open(&mut stranger) {
        assert!(began.elapsed() < PATIENCE);
        if began.elapsed() > Duration::from_secs(sent) {
            sent += u64::from(stranger.send(Message::binary(vec![0x81])).is_ok());
        }
        member.turn();
    }
    assert!(sent > 2);
    member.run(&relay, |_, stats| stats.late == 2 && stats.websockets == 1);
    assert!(is_open(&mut member.web) && relay.stats().tally.clients == 1);
    drop(idle);
}

#[test]
fn fault_f13_an_unauthenticated_connection_that_sends_too_much_is_closed() {
    let relay = start(64, 64, true);
    let mut stranger = stranger(&relay, "192.0.2.1");
    let began = Instant::now();
    while is_open(&mut stranger) {
        assert!(began.elapsed() < PATIENCE);
        for _ in 0..100 {
            let _ = stranger.send(Message::Ping(Vec::new().into()));
        }
    }
    wait_for(&relay, |stats| stats.websockets == 0);
    assert_eq!(relay.stats().late, 0, "the connection was closed for its volume, not at the end of its time");
}

#[test]
fn fault_f13_endless_messages_of_unauthenticated_clients_delay_no_member() {
    let relay = start(64, 64, true);
    let strangers: Vec<_> = (1..=12).map(|number| stranger(&relay, &format!("192.0.2.{number}"))).collect();
    let floods: Vec<_> = strangers.iter().map(endless).collect();
    let mut member = Node::bound(&relay, 1, 1);
    assert!(floods.into_iter().all(|flood| flood.join().unwrap()), "the relay closes all flooding connections");
    member.run(&relay, |_, stats| stats.websockets == 1);
    assert!(is_open(&mut member.web));
    assert_eq!(relay.stats().late, 0, "the connections were closed for their volume, not at the end of their time");
}

#[test]
fn fault_f13_endless_messages_of_members_delay_no_other_member() {
    let relay = start(64, 64, true);
    let crowd: Vec<_> = (1..=12).map(|number| Node::bound(&relay, 1, number)).collect();
    let floods: Vec<_> = crowd.iter().map(|node| endless(&node.web)).collect();
    let mut other = Node::bound(&relay, 2, 20);
    assert!(floods.into_iter().all(|flood| flood.join().unwrap()), "the relay closes all flooding connections");
    other.run(&relay, |_, stats| stats.websockets == 1 && stats.tally.clients == 1);
    assert!(is_open(&mut other.web));
}

#[test]
fn fault_f13_a_message_in_many_frames_is_read_as_one() {
    let relay = start(64, 64, true);
    let mut node = Node::bound(&relay, 1, 1);
    let before = relay.stats().counts.not_wireguard;
    // One message in 30,000 frames of one byte: more bytes than a worker reads in one turn, and fewer than an unfinished message may have. A ping precedes the end.
    let pieces = (0..30_000).flat_map(|place| [if place == 0 { 2 } else { 0 }, 0x81, 0, 0, 0, 0, 0]);
    let end = [0x89, 0x80, 0, 0, 0, 0, 0x80, 0x80, 0, 0, 0, 0];
    let mut tcp = node.web.get_ref().try_clone().unwrap();
    tcp.write_all(&pieces.chain(end).collect::<Vec<u8>>()).unwrap();
    node.run(&relay, |_, stats| stats.counts.not_wireguard > before);
    assert!(is_open(&mut node.web));
}

#[test]
fn fault_f13_a_connection_that_its_client_left_is_closed_ten_seconds_later() {
    let relay = start(64, 64, true);
    let mut node = Node::bound(&relay, 1, 1);
    node.by_udp = true;
    node.client.handle_move(Time::from_duration(node.start.elapsed()), &mut node.random);
    node.run(&relay, |_, stats| stats.tally.moved == 1);
    assert!(is_open(&mut node.web), "the connection stays open for ten seconds, so that the client can return");
    node.run(&relay, |_, stats| stats.websockets == 0);
    assert_eq!((relay.stats().late, relay.stats().tally.clients), (1, 1));
}

#[test]
fn fault_f13_networks_share_the_connections_of_members() {
    let relay = start(64, 4, true);
    let mut first: Vec<_> = (1..=4).map(|number| Node::bound(&relay, 1, number)).collect();
    let mut refused = Node::new(&relay, 1, 5);
    refused.run(&relay, |_, stats| stats.crowded == 1);
    assert!(first.iter_mut().all(|node| is_open(&mut node.web)));
    // Each of the two clients of another network displaces one of the four.
    let mut second: Vec<_> = (6..=7).map(|number| Node::bound(&relay, 2, number)).collect();
    wait_for(&relay, |stats| stats.crowded == 3 && stats.tally.clients == 4);
    assert_eq!(first.iter_mut().map(|node| is_open(&mut node.web)).collect::<Vec<_>>(), [false, false, true, true]);
    assert!(second.iter_mut().all(|node| is_open(&mut node.web)));
}

#[test]
fn fault_e19_f13_a_clients_flood_through_a_proxy_displaces_itself() {
    let relay = start(64, 64, true);
    let mut other = stranger(&relay, "203.0.113.7");
    let mut crowd: Vec<_> = (0..30).map(|number| stranger(&relay, &format!("10.0.0.{number}, 192.0.2.1"))).collect();
    wait_for(&relay, |stats| stats.websockets == 1 + 8 && stats.crowded == 22);
    assert!(is_open(&mut other));
    assert_eq!(crowd.iter_mut().map(is_open).filter(|is_open| *is_open).count(), 8);
    let mut member = Node::bound(&relay, 1, 1);
    member.run(&relay, |_, stats| stats.tally.clients == 1);
}

/// Returns a connection that sent a PROXY protocol header and a WebSocket request.
fn proxied(relay: &RelayServer, header: &[u8]) -> TcpStream {
    let request =
        b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
        sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut tcp = TcpStream::connect(relay.web().unwrap()).unwrap();
    tcp.set_read_timeout(Some(PATIENCE)).unwrap();
    // The bytes are sent in pieces, as a network may deliver them.
    for piece in [header, request].concat().chunks(11) {
        let _ = tcp.write_all(piece);
        std::thread::sleep(Duration::from_millis(1));
    }
    tcp
}

/// Returns the beginning of the HTTP answer; empty when there is no answer.
fn answer(tcp: &mut TcpStream) -> String {
    let mut answer = [0; 12];
    tcp.read_exact(&mut answer).map_or_else(|_| String::new(), |()| String::from_utf8_lossy(&answer).into_owned())
}

/// A PROXY protocol header of version 2: TCP over IPv4, from 192.0.2.1.
const HEADER: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\x7f\0\0\x01\x9c\x40\x01\xbb";

#[test]
fn fault_e19_the_proxy_protocol_is_read_only_from_a_trusted_proxy() {
    let relay = start(64, 64, true);
    let mut crowd: Vec<_> = (0..12).map(|_| proxied(&relay, HEADER)).collect();
    wait_for(&relay, |stats| stats.crowded == 4 && stats.websockets == 8);
    assert_eq!(crowd.iter_mut().map(answer).filter(|answer| answer == "HTTP/1.1 101").count(), 12);
    assert_eq!(answer(&mut proxied(&relay, b"PROXY TCP4 203.0.113.7 127.0.0.1 40000 443\r\n")), "HTTP/1.1 101");
    assert_eq!(answer(&mut proxied(&relay, b"")), "HTTP/1.1 101", "a trusted proxy may connect without a header");
    assert_eq!(answer(&mut proxied(&relay, b"PROXY TCP4 nonsense\r\n")), "");
    let relay = start(64, 64, false);
    assert_eq!(
        answer(&mut proxied(&relay, HEADER)),
        "",
        "a header from an untrusted address is an invalid HTTP request"
    );
}

#[test]
fn fault_p6_idle_connections_at_the_metrics_port_make_room_for_requests() {
    let relay = start(64, 64, true);
    let metrics = Metrics::start("127.0.0.1:0".parse().unwrap(), relay.observer()).unwrap();
    let _idle: Vec<_> = (0..40).map(|_| TcpStream::connect(metrics.address()).unwrap()).collect();
    let mut requester = TcpStream::connect(metrics.address()).unwrap();
    // 30 s is less than the 80 s that 40 idle connections would take one after the other, at two seconds each.
    requester.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    requester.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    requester.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("taut_relay_clients 0"), "{text}");
}

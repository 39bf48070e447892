//! A relay over real sockets on loopback: clients of several workers, STUN, floods, metrics.
#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use taut_base::{Entropy, PrivateKey, PublicKey, Time};
use taut_noise::public_key;
use taut_relay::{Client, ClientOutput, Credentials, ForwardRate, NetworkTag, SigningKey, Terms, Ticket, frame};
use taut_relay_server::{Arrival, ConnectionAdmission, Metrics, RelayConfig, RelayServer, WebConfig, key_from_file};
use taut_testkit::Seeded;
use taut_wire::stun::{BindingRequest, BindingResponse, REQUEST_LEN};

/// Time limit of each wait, 30 s: long enough for the slowest machine, because only a failure should reach it.
const PATIENCE: Duration = Duration::from_secs(30);

fn coordinator() -> SigningKey {
    SigningKey::from_seed([1; 32]).unwrap()
}

fn node_key(number: u8) -> PublicKey {
    public_key(&PrivateKey::from_bytes([number; 32]))
}

fn start(workers: usize, share: ForwardRate) -> RelayServer {
    let mut config = RelayConfig::new(PrivateKey::from_bytes([200; 32]));
    (config.port, config.stun_port, config.workers, config.share) = (0, 0, workers, share);
    let relay = RelayServer::start(&config).unwrap();
    relay.trust(coordinator().verifying());
    relay
}

const WIDE: ForwardRate = ForwardRate::bits_per_second(10_000_000_000);

/// A relay client with its UDP socket, and those of its lanes beyond the first.
struct Node {
    socket: UdpSocket,
    lanes: Vec<UdpSocket>,
    client: Client,
    relay: SocketAddr,
    random: Seeded,
    start: Instant,
    data: Vec<Vec<u8>>,
}

impl Node {
    fn new(relay: &RelayServer, number: u8) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let bind = PrivateKey::from_bytes([number ^ 0xff; 32]);
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let terms = Terms {
            network: NetworkTag([1; 16]),
            id: None,
            node: node_key(number),
            bind: public_key(&bind),
            not_before: wall,
            expires: wall + 3600,
        };
        let ticket = Ticket::sign(&terms, &coordinator());
        let client = Client::new(relay.key(), Credentials { bind, ticket, numbered: None }, Time::ZERO);
        let relay = SocketAddr::from(([127, 0, 0, 1], relay.port()));
        let (lanes, data) = (Vec::new(), Vec::new());
        Self { socket, lanes, client, relay, random: Seeded::new(number.into()), start: Instant::now(), data }
    }

    fn now(&self) -> Time {
        Time::from_duration(self.start.elapsed())
    }

    fn flush(&mut self) {
        while let Some(output) = self.client.poll_output() {
            let (socket, datagram) = match &output {
                ClientOutput::Transmit(datagram) => (&self.socket, datagram),
                ClientOutput::LaneTransmit(lane, datagram) => (&self.lanes[usize::from(*lane) - 1], datagram),
                ClientOutput::Event(_) => continue,
            };
            socket.send_to(datagram.as_bytes(), self.relay).unwrap();
        }
    }

    /// Binds this many lanes, the first included.
    fn bind_lanes(&mut self, count: u8) {
        for _ in 1..count {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            self.lanes.push(socket);
        }
        self.client.set_lanes(count, self.now(), &mut self.random);
        self.run(|node| (1..count).all(|lane| node.client.has_lane(lane)));
    }

    fn receive_on_lanes(&mut self) {
        let (now, mut buffer) = (self.now(), [0; 65_536]);
        for (lane, socket) in (1..).zip(&self.lanes) {
            while let Ok((length, _)) = socket.recv_from(&mut buffer) {
                match frame::data(&buffer[..length]) {
                    Some((_, inner)) => self.data.push(inner[32..].to_vec()),
                    None => self.client.handle_lane_datagram(lane, &buffer[..length], now, &mut self.random),
                }
            }
        }
    }

    /// Runs the client until `done` returns true.
    #[track_caller]
    fn run(&mut self, done: impl Fn(&Self) -> bool) {
        let mut buffer = [0; 65_536];
        while !done(self) {
            assert!(self.start.elapsed() < PATIENCE, "timed out after {} data frames", self.data.len());
            let now = self.now();
            self.client.handle_timeout(now, &mut self.random);
            self.flush();
            self.receive_on_lanes();
            let Ok((length, source)) = self.socket.recv_from(&mut buffer) else { continue };
            let bytes = &buffer[..length];
            assert_eq!(source, self.relay);
            match frame::data(bytes) {
                Some((_, inner)) => self.data.push(inner[32..].to_vec()),
                None => self.client.handle_datagram(bytes, now, &mut self.random),
            }
        }
    }

    fn bound(relay: &RelayServer, number: u8) -> Self {
        let mut node = Self::new(relay, number);
        // The relay counts the client once its confirming frame has arrived. Only then can a peer open a channel to it.
        let before = relay.stats().tally.clients;
        node.run(|node| node.client.is_ready() && relay.stats().tally.clients > before);
        node
    }

    fn open(&mut self, peer: u8) -> u32 {
        let now = self.now();
        let id = self.client.open(node_key(peer), now, &mut self.random).expect("bound");
        self.flush();
        id
    }

    fn send(&self, id: u32, text: &[u8]) {
        self.send_from(&self.socket, id, text);
    }

    fn send_from(&self, socket: &UdpSocket, id: u32, text: &[u8]) {
        let frame = [&frame::data_header(id), &[4, 0, 0, 0][..], &[0; 28], text].concat();
        socket.send_to(&frame, self.relay).unwrap();
    }
}

#[test]
fn data_of_a_lane_arrives_at_the_peers_lane_that_it_names() {
    let relay = start(4, WIDE);
    let (mut a, mut b) = (Node::bound(&relay, 1), Node::bound(&relay, 2));
    a.bind_lanes(4);
    b.bind_lanes(3);
    let id = a.open(2);
    a.run(|a| a.client.round_trip().is_some());
    for lane in 0..3 {
        let from = a.lanes[2 - usize::from(lane)].try_clone().unwrap();
        let mut buffer = [0; 100];
        let end = Instant::now() + PATIENCE;
        let at = if lane == 0 { &b.socket } else { &b.lanes[usize::from(lane) - 1] };
        let frame = loop {
            assert!(Instant::now() < end, "nothing came to lane {lane}");
            // The thread that this packet comes to may learn of the channel after the others; nodes probe a lane before they use it.
            a.send_from(&from, id | u32::from(lane), &[lane]);
            std::thread::sleep(Duration::from_millis(5));
            if let Ok((length, _)) = at.recv_from(&mut buffer)
                && let Some((id, inner)) = frame::data(&buffer[..length])
            {
                break (id & 0xf, inner[32..].to_vec());
            }
        };
        assert_eq!(frame, (3 - u32::from(lane), vec![lane]), "the sender's lane, and what it sent");
    }
    assert_eq!(relay.stats().tally.lanes, 5);
    b.run(|b| b.client.is_ready());
}

#[test]
fn fault_f6_the_lanes_of_a_client_have_one_share_together_at_all_workers() {
    let relay = start(4, ForwardRate { bytes_per_second: 50_000, burst: 65_536 });
    let (mut a, _b) = (Node::bound(&relay, 1), Node::bound(&relay, 2));
    a.bind_lanes(16);
    let id = a.open(2);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        for socket in &a.lanes {
            (0..4).for_each(|_| a.send_from(socket, id, &[0; 1000]));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(50));
    let (stats, seconds) = (relay.stats(), began.elapsed().as_secs_f64());
    let allowed = 65_536.0 + 50_000.0 * seconds + 2_000.0;
    assert!(stats.counts.bytes as f64 <= allowed, "{} bytes in {seconds} s", stats.counts.bytes);
    assert!(stats.counts.bytes > 60_000 && stats.counts.over_share > 0, "{:?}", stats.counts);
}

#[test]
fn two_nodes_exchange_data_and_the_first_packet_leaves_with_the_open() {
    let relay = start(1, WIDE);
    let (mut a, mut b) = (Node::bound(&relay, 1), Node::bound(&relay, 2));
    let id = a.open(2);
    a.send(id, b"first");
    b.run(|b| !b.data.is_empty());
    assert_eq!(b.data, [b"first".to_vec()]);
    let back = b.client.id_of(&node_key(1)).expect("the peer is announced before its data arrives");
    b.send(back, b"answer");
    a.run(|a| !a.data.is_empty());
    // A worker publishes its counts after its datagrams have left.
    let end = Instant::now() + PATIENCE;
    while relay.stats().counts.datagrams < 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(relay.stats().counts.datagrams, 2);
    assert_eq!((relay.stats().tally.clients, relay.stats().tally.channels), (2, 2));
    relay.stop();
    a.run(|a| !a.client.is_ready());
}

#[test]
fn clients_of_different_workers_reach_each_other_in_order() {
    const NODES: u8 = 8;
    let relay = start(4, WIDE);
    let mut nodes: Vec<_> = (1..=NODES).map(|number| Node::bound(&relay, number)).collect();
    for round in 0..50_u32 {
        for number in 1..=NODES {
            let peer = number % NODES + 1;
            let node = &mut nodes[usize::from(number) - 1];
            let id = node.open(peer);
            node.send(id, &round.to_le_bytes());
        }
    }
    for node in &mut nodes {
        node.run(|node| node.data.len() == 50);
        let rounds: Vec<_> = node.data.iter().map(|text| u32::from_le_bytes(text[..].try_into().unwrap())).collect();
        assert_eq!(rounds, (0..50).collect::<Vec<_>>());
    }
}

#[test]
fn fault_f5_a_client_that_does_not_read_delays_no_other_client() {
    let relay = start(1, WIDE);
    let (mut a, mut b) = (Node::bound(&relay, 1), Node::bound(&relay, 2));
    let _not_reading = Node::bound(&relay, 3);
    let (to_b, to_not_reading) = (a.open(2), a.open(3));
    a.run(|a| a.client.round_trip().is_some());
    for round in 0..500_u32 {
        // Ten frames for the client that does not read, far more in all than its socket buffer holds, then one frame for b.
        for _ in 0..10 {
            a.send(to_not_reading, &[0; 1200]);
        }
        a.send(to_b, &round.to_le_bytes());
        b.run(|b| b.data.len() > round as usize);
    }
    assert_eq!(b.data.len(), 500);
}

#[test]
fn fault_f6_the_rate_limit_of_a_client_holds_over_real_sockets() {
    let relay = start(2, ForwardRate { bytes_per_second: 50_000, burst: 65_536 });
    let (mut a, b) = (Node::bound(&relay, 1), Node::bound(&relay, 2));
    let id = a.open(2);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        for _ in 0..20 {
            a.send(id, &[0; 1000]);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(50));
    let (stats, seconds) = (relay.stats(), began.elapsed().as_secs_f64());
    let allowed = 65_536.0 + 50_000.0 * seconds + 2_000.0;
    assert!(stats.counts.bytes as f64 <= allowed, "{} bytes in {seconds} s", stats.counts.bytes);
    assert!(stats.counts.over_share > 0);
    drop(b);
}

#[test]
fn fault_f1_a14_bytes_of_unauthenticated_senders_are_silently_dropped_and_counted() {
    let relay = start(2, WIDE);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let (to, stun) = (("127.0.0.1", relay.port()), ("127.0.0.1", relay.stun_port()));
    let mut random = Seeded::new(5);
    let mut bytes = [0; 1500];
    for length in 0..1500 {
        random.fill(&mut bytes);
        // Data frames are excluded, because the relay answers an unknown one with a shorter frame.
        bytes[0] = bytes[0].max(0x81);
        socket.send_to(&bytes[..length], if length % 2 == 0 { to } else { stun }).unwrap();
    }
    socket.send_to(&[0x45; 100], to).unwrap();
    assert!(socket.recv_from(&mut bytes).is_err(), "the relay answered an unauthenticated sender");
    let mut node = Node::bound(&relay, 1);
    node.run(|node| node.client.is_ready());
    assert_eq!(relay.stats().tally.clients, 1);
}

#[test]
fn an_unbound_sender_of_data_gets_a_shorter_answer() {
    let relay = start(1, WIDE);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let frame = [&frame::data_header(0x70), &[4, 0, 0, 0][..], &[9; 28]].concat();
    socket.send_to(&frame, ("127.0.0.1", relay.port())).unwrap();
    let mut bytes = [0; 100];
    let (length, _) = socket.recv_from(&mut bytes).unwrap();
    assert!(length == frame::AGAIN_LEN && length < frame.len());
    assert_eq!(relay.stats().tally.unbound, 1);
}

#[test]
fn stun_on_both_ports_returns_the_address_of_the_client() {
    let relay = start(2, WIDE);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let own = socket.local_addr().unwrap();
    for (port, other) in [(relay.port(), relay.stun_port()), (relay.stun_port(), relay.port())] {
        for change_port in [false, true] {
            let mut request = [0; REQUEST_LEN];
            BindingRequest { transaction: [7; 12], change_port }.write(&mut request);
            socket.send_to(&request, ("127.0.0.1", port)).unwrap();
            let mut bytes = [0; 200];
            let (length, source) = socket.recv_from(&mut bytes).unwrap();
            assert_eq!(source.port(), if change_port { other } else { port });
            let answer = BindingResponse::parse(&bytes[..length]).unwrap();
            assert_eq!((answer.mapped, answer.transaction), (own, [7; 12]));
            assert_eq!(answer.other, Some(SocketAddr::from(([127, 0, 0, 1], other))));
        }
    }
    // A request that is shorter than its answer would be is ignored.
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let short = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat();
    socket.send_to(&short, ("127.0.0.1", relay.port())).unwrap();
    assert!(socket.recv_from(&mut [0; 200]).is_err());
}

fn http_get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    // The request is written at once: the server may answer and close the connection before a second write.
    stream.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn fault_f12_counters_are_on_loopback_and_name_no_node() {
    let relay = start(1, WIDE);
    let metrics = Metrics::start("127.0.0.1:0".parse().unwrap(), relay.observer()).unwrap();
    let (mut a, _b) = (Node::bound(&relay, 1), Node::bound(&relay, 2));
    let id = a.open(2);
    a.send(id, b"counted");
    a.run(|a| a.start.elapsed() > Duration::from_millis(400));
    let text = http_get(metrics.address(), "/metrics");
    assert!(text.contains("\ntaut_relay_clients 2\n"), "{text}");
    for secret in ["127.0.0.1", "::", &node_key(1).to_string(), &relay.key().to_string()] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let status = http_get(metrics.address(), "/status");
    assert!(status.contains("\"clients\":2") && status.contains("\"schema\":1"), "{status}");
    assert!(http_get(metrics.address(), "/").starts_with("HTTP/1.1 404"));
}

#[test]
fn fault_k2_a_damaged_key_is_an_error_and_never_a_new_key() {
    let folder = std::env::temp_dir().join(format!("taut-relay-key-{}", std::process::id()));
    let path = folder.join("state/key");
    let made = key_from_file(&path).unwrap();
    assert!(key_from_file(&path).is_ok_and(|again| again == made));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let good = std::fs::read(&path).unwrap();
    let doubled = [good.as_slice(), &good].concat();
    for bad in [&good[..good.len() - 1], &good[..10], b"", &doubled, &[0; 45]] {
        std::fs::write(&path, bad).unwrap();
        let error = key_from_file(&path).err().expect("no key");
        assert!(error.to_string().contains("key"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bad, "the damaged key file is not changed");
    }
    std::fs::write(&path, &good).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(key_from_file(&path).is_err(), "a key file that other users may read is refused");
    std::fs::remove_file(&path).unwrap();
    symlink(&folder, &path).unwrap();
    assert!(key_from_file(&path).is_err(), "a folder is not a key file");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_port_in_use_is_an_error_that_says_so() {
    let relay = start(1, WIDE);
    let mut config = RelayConfig::new(PrivateKey::from_bytes([1; 32]));
    (config.port, config.stun_port) = (relay.port(), 0);
    let error = RelayServer::start(&config).err().expect("the port is taken");
    assert!(error.to_string().contains("another program has it"), "{error}");
}

/// A node that cannot use UDP: the same client, over WebSocket.
struct WebNode {
    socket: tungstenite::WebSocket<TcpStream>,
    client: Client,
    random: Seeded,
    start: Instant,
    data: Vec<Vec<u8>>,
}

impl WebNode {
    fn new(relay: &RelayServer, number: u8) -> Self {
        Self::at(relay, relay.web().unwrap(), number)
    }

    fn at(relay: &RelayServer, address: SocketAddr, number: u8) -> Self {
        let tcp = TcpStream::connect(address).unwrap();
        let (socket, _) = tungstenite::client(format!("ws://{address}/"), tcp).unwrap();
        socket.get_ref().set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let Node { client, random, start, .. } = Node::new(relay, number);
        Self { socket, client, random, start, data: Vec::new() }
    }

    #[track_caller]
    fn run(&mut self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            assert!(self.start.elapsed() < PATIENCE, "timed out after {} data frames", self.data.len());
            let now = Time::from_duration(self.start.elapsed());
            self.client.handle_timeout(now, &mut self.random);
            self.flush();
            let Ok(tungstenite::Message::Binary(bytes)) = self.socket.read() else { continue };
            match frame::data(&bytes) {
                Some((_, inner)) => self.data.push(inner[32..].to_vec()),
                None => self.client.handle_datagram(&bytes, now, &mut self.random),
            }
        }
    }

    fn flush(&mut self) {
        while let Some(output) = self.client.poll_output() {
            let ClientOutput::Transmit(datagram) = output else { continue };
            self.socket.send(tungstenite::Message::binary(datagram.as_bytes().to_vec())).unwrap();
        }
    }

    fn open(&mut self, peer: u8) -> u32 {
        let now = Time::from_duration(self.start.elapsed());
        let id = self.client.open(node_key(peer), now, &mut self.random).expect("bound");
        self.flush();
        id
    }

    fn send(&mut self, id: u32, text: &[u8]) {
        let frame = [&frame::data_header(id), &[4, 0, 0, 0][..], &[0; 28], text].concat();
        self.socket.send(tungstenite::Message::binary(frame)).unwrap();
    }
}

fn start_web() -> RelayServer {
    let mut config = RelayConfig::new(PrivateKey::from_bytes([200; 32]));
    (config.port, config.stun_port, config.workers) = (0, 0, 2);
    config.trusted.push(coordinator().verifying());
    config.web = Some(web(Some("127.0.0.1:0".parse().unwrap())));
    RelayServer::start(&config).unwrap()
}

fn web(address: Option<SocketAddr>) -> WebConfig {
    WebConfig { address, certificate: None, admission: ConnectionAdmission::new(256, Vec::new()), streams: 256 }
}

#[test]
fn websocket_clients_reach_udp_clients_and_each_other() {
    let relay = start_web();
    let (mut a, mut b, mut c) = (WebNode::new(&relay, 1), Node::bound(&relay, 2), WebNode::new(&relay, 3));
    a.run(|a| a.client.is_ready() && relay.stats().tally.clients == 2);
    c.run(|c| c.client.is_ready() && relay.stats().tally.clients == 3);
    let (to_b, to_c) = (a.open(2), a.open(3));
    for round in 0..100_u32 {
        a.send(to_b, &round.to_le_bytes());
        a.send(to_c, &round.to_le_bytes());
    }
    b.run(|b| b.data.len() == 100);
    c.run(|c| c.data.len() == 100);
    let back = b.client.id_of(&node_key(1)).unwrap();
    b.send(back, b"answer");
    a.run(|a| !a.data.is_empty());
    assert_eq!(a.data, [b"answer".to_vec()]);
    drop(a);
    // The end of a connection ends its binding.
    b.run(|b| b.client.id_of(&node_key(1)).is_none());
    assert_eq!(relay.stats().tally.clients, 2);
}

#[test]
fn a_connection_that_a_web_server_passed_on_is_served_like_any_other() {
    let mut config = RelayConfig::new(PrivateKey::from_bytes([200; 32]));
    (config.port, config.stun_port, config.workers) = (0, 0, 1);
    config.trusted.push(coordinator().verifying());
    config.web = Some(web(None));
    let admission = config.web.as_ref().unwrap().admission.clone();
    let relay = RelayServer::start(&config).unwrap();
    assert_eq!(relay.web(), None);
    // The web server of this test reads the request and answers it. Later bytes belong to the relay.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let entrance = relay.entrance().unwrap();
    let server = std::thread::spawn(move || {
        let (mut tcp, from) = listener.accept().unwrap();
        let pass = std::sync::Arc::new(admission.enter(from.ip()).unwrap());
        let (mut request, mut byte) = (Vec::new(), [0]);
        while !request.ends_with(b"\r\n\r\n") {
            tcp.read_exact(&mut byte).unwrap();
            request.extend(byte);
        }
        let text = String::from_utf8(request).unwrap();
        let key = text.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
        let accept = taut_relay_server::accept_key(key.as_bytes());
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
        tcp.write_all(format!("{head}Sec-WebSocket-Accept: {accept}\r\n\r\n").as_bytes()).unwrap();
        // Bytes that arrived by now are passed to the relay as if the server had read them together with the request.
        tcp.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let mut read = vec![0; 4096];
        let length = tcp.read(&mut read).unwrap_or(0);
        read.truncate(length);
        entrance.take(Arrival { tcp, tls: None, unread: Vec::new(), read, pass });
    });
    let mut node = WebNode::at(&relay, address, 1);
    // The relay counts the client once it has received a frame that is sealed with the keys of its binding.
    node.run(|node| node.client.is_ready() && relay.stats().tally.clients == 1);
    server.join().unwrap();
}

#[test]
fn fault_f7_idle_and_broken_connections_leave_room_for_others() {
    let relay = start_web();
    let address = relay.web().unwrap();
    let idle: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (number, mut stream) in idle.iter().enumerate() {
        let _ = stream.write_all(if number % 2 == 0 { b"GET / HTTP/1.1\r\n" } else { b"\x16\x03\x01nonsense\r\n\r\n" });
    }
    for _ in 0..200 {
        drop(TcpStream::connect(address).unwrap());
    }
    let mut node = WebNode::new(&relay, 1);
    node.run(|node| node.client.is_ready());
}

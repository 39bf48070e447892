//! `taut-coordinator serve` under slow, huge or many requests: other clients are served meanwhile, and memory and time are bounded.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]
#![expect(clippy::panic, reason = "the same")]

#[path = "../kill/client.rs"]
#[expect(dead_code, reason = "the tests that kill need more of it")]
mod client;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use taut_netmap::{CONTROL_PATH, JoinToken, ToCoordinator, ToNode};

use client::{Operator, Serve, TestChannel, TestHost};

/// Longest wait until the coordinator closes a connection, 120 s: its own timeouts are 10 s and 30 s.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Limit on the unauthenticated connections of this host, 56: of 512 files 64 are for other purposes, a quarter of the rest is for unauthenticated connections,
/// and loopback has half of these.
const UNAUTHENTICATED_LIMIT: usize = 56;

/// Number of members that are connected at the same time, 160. Half of the files that unauthenticated connections leave are for channels.
const MEMBERS: usize = 160;

/// Number of connections that an attack opens, 300.
const ATTACK_CONNECTIONS: usize = 300;

/// Limit on the answers that the kernel holds for one client that reads nothing, 1 MiB: what the coordinator may leave unsent, and what is on its way to the
/// client's own buffer. The kernel alone would hold up to 4 MiB (`tcp_wmem`).
const HELD_ANSWERS: usize = 1 << 20;

/// Limit on the memory that an attack may cost, in KiB: the buffers of all unauthenticated connections, and the allocator's overhead.
const MEMORY: u64 = 32 * 1024;

struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("taut-limits-{}-{number}", std::process::id())))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A coordinator, and its memory before the attack.
struct Target {
    serve: Serve,
    operator: Operator,
    token: String,
    join: JoinToken,
    before: u64,
    _directory: Directory,
}

impl Target {
    fn start() -> Self {
        let directory = Directory::new();
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 512 && exec \"$0\" \"$@\"", client::PROGRAM]);
        let serve = Serve::start_by(command, &directory.0);
        let (token, join) = serve.tokens.clone().unwrap();
        let operator = Operator::new(&serve, &token);
        let mut target = Self { serve, operator, token, join: join.parse().unwrap(), before: 0, _directory: directory };
        target.is_served("first");
        target.before = target.memory("VmRSS");
        target
    }

    /// Makes an operator's request and joins a node: both must succeed during an attack.
    fn is_served(&self, name: &str) {
        assert_eq!(self.operator.get("nodes")["schema"], 1);
        let host = TestHost::new(&self.join, String::from(name));
        let (_, answer) = host.hello(&self.serve.address, 0).expect("a channel during the attack");
        assert!(matches!(answer, ToNode::Map(_)), "{answer:?}");
    }

    /// Returns `VmRSS` or `VmHWM` (the maximum so far) in KiB (proc(5)).
    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.serve.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Panics if the attack cost too much memory.
    fn is_bounded(&self) {
        let most = self.memory("VmHWM");
        println!("{} KiB before, {most} KiB at most", self.before);
        assert!(most < self.before + MEMORY, "{} KiB became {most} KiB", self.before);
    }

    /// Returns what the kernel holds for each of the coordinator's clients, in bytes (proc(5), `/proc/net/tcp`: `tx_queue`).
    fn held_answers(&self) -> Vec<usize> {
        let port: u16 = self.serve.address.rsplit(':').next().unwrap().parse().unwrap();
        let local = format!("0100007F:{port:04X}");
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let held = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            (fields[1] == local).then(|| usize::from_str_radix(fields[4].split(':').next().unwrap(), 16).unwrap())
        };
        sockets.lines().filter_map(held).collect()
    }

    /// Panics if more connections stay open than the limit allows.
    fn has_room(&self, crowd: &[TcpStream]) {
        // The client that is served was the last one, so all earlier connections were accepted or closed.
        self.is_served("last");
        let until = Instant::now() + Duration::from_secs(3);
        while open(crowd) > UNAUTHENTICATED_LIMIT {
            assert!(Instant::now() < until, "{} of {ATTACK_CONNECTIONS} are still in", open(crowd));
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.serve.address).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream
    }

    /// Opens a connection, and sends only `first`.
    fn send(&self, first: &str) -> TcpStream {
        let mut stream = self.connect();
        // The coordinator may close the connection at any moment.
        let _ = stream.write_all(first.as_bytes());
        stream
    }

    /// Opens a WebSocket, and reads the HTTP answer.
    fn websocket(&self) -> TcpStream {
        let network: String = self.join.network.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut stream = self.send(&format!(
            "GET {CONTROL_PATH}?network={network} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ));
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while !answer.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
            answer.extend(byte);
        }
        stream
    }
}

/// Reads from a connection until the other side closes it.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("still open after {TEST_TIMEOUT:?}"),
        _ => all,
    }
}

/// Returns the number of these connections that the other side has not closed.
fn open(streams: &[TcpStream]) -> usize {
    let is_open = |stream: &&TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let answer = stream.peek(&mut [0]);
        stream.set_nonblocking(false).unwrap();
        answer.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    streams.iter().filter(is_open).count()
}

#[test]
fn fault_e11_endless_headers_time_out() {
    let target = Target::start();
    let request = "GET /api/v1/nodes HTTP/1.1\r\nhost: x\r\n";
    let mut silent = target.send("");
    let mut slow = target.send(request);
    let mut idle = target.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    // Sends header lines until the connection is closed.
    let until = Instant::now() + TEST_TIMEOUT;
    while slow.write_all(b"x: y\r\n").is_ok() {
        assert!(Instant::now() < until, "still listening");
        thread::sleep(Duration::from_millis(500));
    }
    rest(&mut silent);
    assert!(rest(&mut idle).starts_with(b"HTTP/1.1 200"), "who is silent after a request is hung up on, too");
}

#[test]
fn fault_e11_many_slow_requests_cost_little_and_other_clients_are_served() {
    let target = Target::start();
    let head = format!("GET /api/v1/nodes HTTP/1.1\r\nhost: x\r\nx: {}", "y".repeat(12_000));
    let mut crowd = Vec::new();
    for number in 0..ATTACK_CONNECTIONS {
        crowd.push(target.send(&head));
        if number % 100 == 99 {
            target.is_served(&format!("n{number}"));
        }
    }
    target.has_room(&crowd);
    target.is_bounded();
}

#[test]
fn fault_e11_channels_without_a_hello_are_limited_in_number_and_time() {
    let target = Target::start();
    // A frame of 60,000 bytes without its last bytes.
    let frame = [&[0x82, 0xfe, 0xea, 0x60, 0, 0, 0, 0][..], &[0; 59_000]].concat();
    let mut crowd = Vec::new();
    for number in 0..ATTACK_CONNECTIONS {
        let mut stream = target.websocket();
        if number % 4 == 0 {
            let _ = stream.write_all(&frame);
        }
        crowd.push(stream);
        if number % 100 == 99 {
            target.is_served(&format!("n{number}"));
        }
    }
    target.has_room(&crowd);
    target.is_bounded();
    for stream in &mut crowd {
        rest(stream);
    }
}

#[test]
fn fault_e11_members_do_not_count_as_unauthenticated() {
    let target = Target::start();
    let mut members: Vec<TestChannel> = Vec::new();
    for number in 0..MEMBERS {
        let (channel, answer) =
            TestHost::new(&target.join, format!("m{number}")).hello(&target.serve.address, 0).unwrap();
        assert!(matches!(answer, ToNode::Map(_)), "{answer:?}");
        members.push(channel);
        // A channel without a message for 45 s is closed, and on a busy machine the joins take longer than that together.
        if number % 20 == 19 {
            ping_all(&mut members);
        }
    }
    ping_all(&mut members);
}

/// Asserts that the channels of all members are open, and that each ping is answered.
#[track_caller]
fn ping_all(members: &mut [TestChannel]) {
    for (number, member) in members.iter_mut().enumerate() {
        let sent = member.send(&ToCoordinator::Ping);
        let answered = std::iter::from_fn(|| member.receive()).any(|message| message == ToNode::Pong);
        assert!(sent.is_some() && answered, "the channel of member {number} was closed");
    }
}

#[test]
fn fault_e11_huge_bodies_are_not_read() {
    let target = Target::start();
    let head = |token: &str, more: &str| {
        format!("POST /api/v1/networks HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{more}\r\n\r\n")
    };
    let answer = |token: &str, more: &str, body: &[u8]| {
        let mut stream = target.send(&head(token, more));
        // Sends until an answer arrives or the connection is closed.
        for _ in 0..4_096 {
            if stream.write_all(body).is_err() || open(std::slice::from_ref(&stream)) == 0 {
                break;
            }
        }
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        String::from_utf8_lossy(&status[9..]).into_owned()
    };
    let piece = [b'x'; 64 * 1024];
    let chunk = [&b"10000\r\n"[..], &piece, b"\r\n"].concat();
    assert_eq!(answer(&target.token, "content-length: 1000000000000", &piece), "413");
    assert_eq!(answer(&target.token, "transfer-encoding: chunked", &chunk), "413");
    assert_eq!(answer("tautop-x", "content-length: 1000000000000", &piece), "401", "before any of it is read");
    assert_eq!(answer("tautop-x", "transfer-encoding: chunked", &chunk), "401");
    assert_eq!(answer(&target.token, &format!("x: {}", "y".repeat(100_000)), b""), "431", "headers have a bound, too");
    target.is_served("after");
    target.is_bounded();
}

#[test]
fn fault_e11_deep_bodies_are_refused() {
    let target = Target::start();
    for body in
        ["[".repeat(60_000), "{\"name\":".repeat(8_000), format!("{{\"name\":\"x\",\"y\":{}", "[".repeat(60_000))]
    {
        let mut stream = target.send(&format!(
            "POST /api/v1/networks HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n{body}",
            target.token,
            body.len()
        ));
        let answer = String::from_utf8(rest(&mut stream)).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    target.is_served("after");
}

#[test]
fn fault_e11_a_slow_body_times_out() {
    let target = Target::start();
    let mut stream = target.send(&format!(
        "POST /api/v1/networks HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\ncontent-length: 60000\r\n\r\n",
        target.token
    ));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut writer = stream.try_clone().unwrap();
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) && writer.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(500));
            }
        });
        let mut status = [0; 12];
        let answered = stream.read_exact(&mut status);
        done.store(true, Ordering::Relaxed);
        answered.expect("an answer");
        assert_eq!(&status[9..], b"408");
    });
}

#[test]
fn fault_e11_unread_answers_do_not_accumulate() {
    let target = Target::start();
    for _ in 0..200 {
        let (status, answer) = target.operator.ask("POST", "keys", &json!({})).unwrap();
        assert_eq!(status, 201, "{answer}");
    }
    let request =
        format!("GET /api/v1/keys HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n", target.token).repeat(100);
    // Each sends as many requests as possible, and reads no answer.
    let ask = |_| {
        let mut stream = target.connect();
        stream.set_nonblocking(true).unwrap();
        let mut unanswered = 0;
        while unanswered < 20 {
            match stream.write(request.as_bytes()) {
                Ok(_) => unanswered = 0,
                Err(_) => unanswered += 1,
            }
            thread::sleep(Duration::from_millis(2));
        }
        stream.set_nonblocking(false).unwrap();
        stream
    };
    let deaf: Vec<TcpStream> = (0..16).map(ask).collect();
    target.is_served("meanwhile");
    let mut most = 0;
    for stream in deaf {
        let until = Instant::now() + TEST_TIMEOUT;
        stream.set_nonblocking(true).unwrap();
        while !is_reset(&stream) {
            assert!(Instant::now() < until, "it is still there");
            most = target.held_answers().into_iter().max().unwrap_or(0).max(most);
            thread::sleep(Duration::from_millis(200));
        }
    }
    println!("{most} bytes of answers waited for one client");
    assert!((1..HELD_ANSWERS).contains(&most), "{most} bytes of answers waited for one client");
    target.is_bounded();
}

/// Returns true if the other side closed the connection: its kernel answers data by a reset.
fn is_reset(mut stream: &TcpStream) -> bool {
    stream.write(b"x").is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
}

#[test]
fn fault_e12_http_2_is_not_supported() {
    let target = Target::start();
    // The preface of HTTP/2 and its first frame (RFC 9113 section 3.4), from a client with prior knowledge.
    let mut known = target.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    let answer = rest(&mut known);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
    // An upgrade request (RFC 7540 section 3.2).
    let mut asked = target.send(
        "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n",
    );
    let answer = String::from_utf8(rest(&mut asked)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && !answer.contains("h2c"), "{answer}");
    target.is_served("after");
}

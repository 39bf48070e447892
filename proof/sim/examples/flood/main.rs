//! Floods a node's socket with initiations, at a given rate.
//!
//! `flood ADDRESS:PORT NODE_KEY_IN_BASE64 KIND DATAGRAMS_PER_SECOND [PRIVATE_KEY_IN_BASE64]`
//!
//! | kind | initiations | from |
//! |---|---|---|
//! | `bad-mac1` | with a wrong mac1 (fault B1) | one socket, in runs (GSO) |
//! | `one-source` | from an unknown key, with a correct mac1 (fault B4) | one socket |
//! | `spoofed` | the same (fault B2) | for each datagram a random address of 172.16.0.0/12 or of a random /64 in fd66::/16, and a random port |
//! | `replay` | one initiation made with the given private key, repeated (fault B6) | one socket |
//! | `ports` | those of `spoofed`, and as many with a cookie (fault B12) | as `spoofed`; and 500 ports of one address, in turn |
//!
//! It reads durations in milliseconds from standard input, one per line, floods for each duration, and answers with one JSON line: `sent`, `refused` (by the
//! sender's kernel) and `seconds`. For `spoofed` and `ports` the sender's host must own the addresses: `ip route add local 172.16.0.0/12 dev lo`. The
//! answers to these addresses come back to this host, and its kernel counts them. `lab/runs/flood.py` drives it.

use std::io::{BufRead, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use taut_base::{Entropy, PresharedKey, PrivateKey, PublicKey, ReceiverIndex, Time};
use taut_testkit::Seeded;
use taut_tunnel::cookie::{Cookies, mac1};
use taut_tunnel::handshake::{Identity, Remote, SentInitiation, Timestamp};
use taut_udp::{Transmit, UdpConfig, UdpSocket};
use taut_wire::wireguard::{Message, classify, initiation};

/// Datagrams per run, 60: as many initiations as fit into a GSO run, with room to spare.
const RUN: u64 = 60;

/// Number of ports of `ports`, 500: with the limit of 20 handshakes a second per port, ten times what all senders with a cookie together are allowed.
const PORTS: usize = 500;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [target, key, kind, rate, rest @ ..] = words.as_slice() else {
        return Err("usage: flood ADDRESS:PORT NODE_KEY KIND DATAGRAMS_PER_SECOND [PRIVATE_KEY]".into());
    };
    let private = match rest.first() {
        Some(private) => PrivateKey::from_bytes(private.parse::<PublicKey>()?.0),
        None => PrivateKey::from_bytes([0x77; 32]),
    };
    let (remote, mut message) = initiation_to(key.parse()?, private)?;
    if kind == "bad-mac1" {
        message[initiation::MAC1.start] ^= 1;
    }
    let way = match kind.as_str() {
        "bad-mac1" | "one-source" | "replay" => Way::OneSocket(socket()?),
        "spoofed" => Way::Anywhere(Seeded::new(1)),
        "ports" => Way::Ports(Seeded::new(1), Ports::open(target.parse()?, remote, message)?),
        _ => return Err("KIND is one of bad-mac1, one-source, spoofed, replay, ports".into()),
    };
    let mut flood = Flood { way, target: target.parse()?, rate: rate.parse()?, message };
    for line in std::io::stdin().lock().lines() {
        let (sent, refused, elapsed) = flood.run(Duration::from_millis(line?.trim().parse()?));
        println!(r#"{{"sent":{sent},"refused":{refused},"seconds":{:.3}}}"#, elapsed.as_secs_f64());
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn socket() -> Outcome<UdpSocket> {
    let buffer = 4 << 20;
    Ok(UdpSocket::bind(&UdpConfig {
        port: 0,
        ipv4_only: false,
        send_buffer: buffer,
        receive_buffer: buffer,
        gso: true,
        gro: false,
    })?)
}

/// Returns an initiation made now by the owner of this key, and the node as a remote peer.
fn initiation_to(node: PublicKey, from: PrivateKey) -> Outcome<(Remote, [u8; initiation::LEN])> {
    let identity = Identity::new(from);
    let remote = Remote::new(&identity, node, PresharedKey::NONE).map_err(|_| "that key makes no handshake")?;
    let stamp = Timestamp::from_wall_clock(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?);
    let mut ephemeral = [0; 32];
    Seeded::new(u64::from(std::process::id())).fill(&mut ephemeral);
    let ephemeral = PrivateKey::from_bytes(ephemeral);
    let started = SentInitiation::start(&identity, &remote, ReceiverIndex(0x1230), stamp, ephemeral);
    let message = started.map_err(|_| "no handshake")?.1;
    Ok((remote, message))
}

enum Way {
    OneSocket(UdpSocket),
    Anywhere(Seeded),
    Ports(Seeded, Ports),
}

/// Sockets of one address, each with the initiation that it sends. The initiation has a mac2 once the socket received a cookie.
struct Ports {
    remote: Remote,
    all: Vec<(std::net::UdpSocket, [u8; initiation::LEN])>,
    next: usize,
}

impl Ports {
    fn open(target: SocketAddr, remote: Remote, message: [u8; initiation::LEN]) -> Outcome<Self> {
        let any: SocketAddr = if target.is_ipv4() { "0.0.0.0:0".parse()? } else { "[::]:0".parse()? };
        let open = || {
            let socket = std::net::UdpSocket::bind(any)?;
            socket.set_nonblocking(true)?;
            socket.connect(target).map(|()| (socket, message))
        };
        let all = (0..PORTS).map(|_| open()).collect::<std::io::Result<_>>()?;
        Ok(Self { remote, all, next: 0 })
    }

    /// Sends from the next port. Reads the port's replies first, because a cookie is valid for two minutes at most.
    fn send(&mut self, target: SocketAddr) -> std::io::Result<usize> {
        let (socket, message) = &mut self.all[self.next];
        self.next = (self.next + 1) % PORTS;
        let mut bytes = [0; 128];
        while let Ok(length) = socket.recv(&mut bytes) {
            let Ok(Message::CookieReply(reply)) = classify(&bytes[..length]) else { continue };
            let mut cookies = Cookies::default();
            if mac1(message).is_some_and(|mac1| cookies.take(&self.remote, mac1, target, &reply, Time::ZERO)) {
                cookies.write_mac2(target, message, Time::ZERO);
            }
        }
        socket.send(message)
    }
}

struct Flood {
    way: Way,
    target: SocketAddr,
    rate: u64,
    message: [u8; initiation::LEN],
}

impl Flood {
    /// Floods for `duration`. Returns the datagrams sent and refused, and the time it took.
    fn run(&mut self, duration: Duration) -> (u64, u64, Duration) {
        let (start, mut sent, mut refused) = (Instant::now(), 0, 0);
        while start.elapsed() < duration {
            let due = u64::try_from(start.elapsed().as_micros()).unwrap_or(0) * self.rate / 1_000_000;
            let missing = due.saturating_sub(sent + refused).min(RUN);
            if missing == 0 {
                std::thread::sleep(Duration::from_micros(200));
                continue;
            }
            let taken = self.send(missing);
            sent += taken;
            refused += missing - taken;
        }
        (sent, refused, start.elapsed())
    }

    /// Sends `count` datagrams. Returns the number that the kernel accepted.
    fn send(&mut self, count: u64) -> u64 {
        match &mut self.way {
            Way::OneSocket(socket) => {
                let contents = self.message.repeat(usize::try_from(count).unwrap_or(1));
                let run = Transmit {
                    destination: self.target,
                    contents: &contents,
                    segment_size: self.message.len(),
                    ecn: 0,
                };
                let report = socket.send(&[run]);
                if report.blocked || report.failed > 0 { 0 } else { count }
            }
            Way::Anywhere(random) => {
                (0..count).filter(|_| send_from_anywhere(random, self.target, &self.message).is_ok()).count() as u64
            }
            Way::Ports(random, ports) => {
                let mut send = |number: &u64| match number % 2 {
                    0 => send_from_anywhere(random, self.target, &self.message),
                    _ => ports.send(self.target),
                };
                (0..count).filter(|number| send(number).is_ok()).count() as u64
            }
        }
    }
}

/// Sends a datagram from a new socket. The kernel picks the port; the random address is local because of its route.
fn send_from_anywhere(random: &mut Seeded, target: SocketAddr, message: &[u8]) -> std::io::Result<usize> {
    let address = match target {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(0xac10_0000 | random.below(1 << 20))),
        SocketAddr::V6(_) => {
            IpAddr::V6(Ipv6Addr::from_bits(0xfd66 << 112 | u128::from(random.below(u32::MAX)) << 64 | 1))
        }
    };
    std::net::UdpSocket::bind((address, 0))?.send_to(message, target)
}

//! Measures the throughput of a relay on loopback: sends full-sized frames through it between PAIRS pairs of nodes, and prints how much arrived.
//!
//! ```text
//! cargo run --release -p taut-relay-server --example carry -- [SECONDS] [PAIRS] [WORKERS] [--json]
//! ```
//! Senders, relay and receivers share the machine's cores, so a relay alone on the machine carries more.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use taut_base::{PrivateKey, Time};
use taut_event::{Events, Interest, Poller};
use taut_noise::public_key;
use taut_relay::{Client, ClientOutput, Credentials, ForwardRate, NetworkTag, SigningKey, Terms, Ticket, frame};
use taut_relay_server::{RelayConfig, RelayServer};
use taut_testkit::Seeded;
use taut_udp::{MAX_MESSAGES, ReceiveBatch, Transmit, UdpSocket};

/// Bytes of a frame: WireGuard's datagram around a packet of 1,420 bytes, and the relay's header.
const FRAME: usize = 1420 + 32 + 8;
/// Frames of one run, 44: as many as the segments of a full superpacket.
const RUN: usize = 44;

fn main() -> io::Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let json = words.iter().any(|word| word == "--json");
    words.retain(|word| word != "--json");
    let number = |place: usize, default: u64| words.get(place).and_then(|word| word.parse().ok()).unwrap_or(default);
    let (seconds, pairs, workers) = (number(0, 5), number(1, 1).clamp(1, 100), number(2, 0));

    let mut config = RelayConfig::new(PrivateKey::from_bytes([200; 32]));
    (config.port, config.stun_port) = (0, 0);
    config.workers = usize::try_from(workers).unwrap_or(0);
    config.share = ForwardRate::bits_per_second(1_000_000_000_000);
    let signer = SigningKey::from_seed([1; 32]).ok_or_else(|| io::Error::other("no signing key"))?;
    config.trusted.push(signer.verifying());
    let relay = RelayServer::start(&config).map_err(io::Error::other)?;

    let (received, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut threads = Vec::new();
    for pair in 0..u8::try_from(pairs).unwrap_or(1) {
        let (mut from, to) = (Node::bound(&relay, &signer, 2 * pair)?, Node::bound(&relay, &signer, 2 * pair + 1)?);
        let id = from.open(2 * pair + 1)?;
        let (counter, stopped) = (received.clone(), stop.clone());
        threads.push(thread::spawn(move || receive_frames(&to, &counter, &stopped)));
        let stopped = stop.clone();
        threads.push(thread::spawn(move || send_frames(&from, id, &stopped)));
    }
    thread::sleep(Duration::from_millis(500));
    let (before, began) = (received.load(Ordering::Relaxed), Instant::now());
    thread::sleep(Duration::from_secs(seconds));
    let bytes = received.load(Ordering::Relaxed) - before;
    let gigabits = bytes as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e9;
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        let _ = thread.join();
    }
    let drops = relay.stats().drops().into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
    if json {
        println!("{{\"schema\":1,\"pairs\":{pairs},\"seconds\":{seconds},\"gbit_per_s\":{gigabits:.3}}}");
    } else {
        println!("{gigabits:.2} Gbit/s through the relay, {pairs} pair(s), {seconds} s; dropped {drops:?}");
    }
    relay.stop();
    Ok(())
}

/// A node that is bound to the relay.
struct Node {
    socket: UdpSocket,
    client: Client,
    relay: SocketAddr,
    dice: Seeded,
    began: Instant,
}

impl Node {
    fn bound(relay: &RelayServer, signer: &SigningKey, number: u8) -> io::Result<Self> {
        let buffer = 8 << 20;
        let socket = UdpSocket::bind(&taut_udp::UdpConfig {
            port: 0,
            ipv4_only: true,
            send_buffer: buffer,
            receive_buffer: buffer,
            gso: true,
            gro: true,
        });
        let (bind, node) = (PrivateKey::from_bytes([number; 32]), node_key(number));
        let wall = taut_event::wall_clock().as_secs();
        let terms = Terms {
            network: NetworkTag([0; 16]),
            id: None,
            node,
            bind: public_key(&bind),
            not_before: wall - 60,
            expires: wall + 3600,
        };
        let credentials = Credentials { bind, ticket: Ticket::sign(&terms, signer), numbered: None };
        let client = Client::new(relay.key(), credentials, Time::ZERO);
        let to = SocketAddr::from(([127, 0, 0, 1], relay.port()));
        let mut node = Self {
            socket: socket.map_err(io::Error::other)?,
            client,
            relay: to,
            dice: Seeded::new(number.into()),
            began: Instant::now(),
        };
        // The relay counts the node as bound once the first ping was answered.
        for _ in 0..20 {
            node.turn()?;
        }
        if node.client.is_ready() { Ok(node) } else { Err(io::Error::other("the relay did not bind a node")) }
    }

    fn turn(&mut self) -> io::Result<()> {
        let now = Time::from_duration(self.began.elapsed());
        self.client.handle_timeout(now, &mut self.dice);
        while let Some(output) = self.client.poll_output() {
            let ClientOutput::Transmit(datagram) = output else { continue };
            let contents = datagram.as_bytes();
            let _ = self.socket.send(&[Transmit { destination: self.relay, contents, segment_size: 0, ecn: 0 }]);
        }
        thread::sleep(Duration::from_millis(5));
        let mut batch = ReceiveBatch::new(8)?;
        if self.socket.recv(&mut batch).is_ok() {
            for mut run in batch.iter_mut() {
                for datagram in run.datagrams() {
                    self.client.handle_datagram(datagram, now, &mut self.dice);
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, peer: u8) -> io::Result<u32> {
        let now = Time::from_duration(self.began.elapsed());
        let id = self.client.open(node_key(peer), now, &mut self.dice);
        for _ in 0..5 {
            self.turn()?;
        }
        id.ok_or_else(|| io::Error::other("not bound"))
    }
}

fn node_key(number: u8) -> taut_base::PublicKey {
    public_key(&PrivateKey::from_bytes([number ^ 0x55; 32]))
}

/// Sends frames as fast as the socket accepts them.
fn send_frames(node: &Node, id: u32, stop: &AtomicBool) {
    let mut frame = [0; FRAME];
    frame[..8].copy_from_slice(&frame::data_header(id));
    frame[8] = 4;
    let run = frame.repeat(RUN);
    let transmit = Transmit { destination: node.relay, contents: &run, segment_size: FRAME, ecn: 0 };
    let Ok(poller) = Poller::new() else { return };
    let watched = poller.add(std::os::fd::AsFd::as_fd(&node.socket), 0, Interest::WRITE);
    while !stop.load(Ordering::Relaxed) && watched.is_ok() {
        if node.socket.send(&[transmit; 4]).blocked {
            let _ = poller.wait(&mut Events::with_capacity(1), Some(Duration::from_millis(10)));
        }
    }
}

fn receive_frames(node: &Node, received: &AtomicU64, stop: &AtomicBool) {
    let (Ok(mut batch), Ok(poller)) = (ReceiveBatch::new(MAX_MESSAGES), Poller::new()) else { return };
    let watched = poller.add(std::os::fd::AsFd::as_fd(&node.socket), 0, Interest::READ);
    while !stop.load(Ordering::Relaxed) && watched.is_ok() {
        if node.socket.recv(&mut batch).is_err() {
            let _ = poller.wait(&mut Events::with_capacity(1), Some(Duration::from_millis(10)));
            continue;
        }
        let bytes: usize = batch.iter_mut().map(|run| run.data.len()).sum();
        received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

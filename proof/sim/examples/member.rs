//! A hostile member of a network, against a real node: it has a session like any other member, and sends hostile control messages (fault B11).
//!
//! `member NODE_ADDRESS:PORT NODE_KEY NODE_OVERLAY_ADDRESS OWN_PRIVATE_KEY OWN_OVERLAY_ADDRESS OWN_PORT KIND PER_SECOND`
//!
//! | kind | messages |
//! |---|---|
//! | `offers` | every 48 ms an offer of another port for its second lane; it answers probes to this port, but not the probe that follows on the first lane |
//! | `control` | any control messages with random contents, on all three lanes, PER_SECOND a second |
//! | `closed` | the same bytes as `control`, sent to the port behind the node's lanes, where no socket listens |
//!
//! Keys are in base64. It pings the node a hundred times a second throughout, so that the node has packets to send to it. It reads durations in milliseconds
//! from standard input, one per line, attacks for each duration, and answers with one JSON line: `sent`, `answers` (pings that were answered) and `seconds`.
//! The last byte of its overlay address is its number. lab/tests/test_hostile_member.py drives it.

use std::io::{BufRead, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use taut_base::{Entropy, LaneId, NodeId, PrivateKey, PublicKey, Time};
use taut_netmap::{NetworkMap, Peer};
use taut_sim::{Host, LanesHost, Party, Seeded, Settings, map_for};
use taut_wire::control::{Abilities, ControlMessage, Endpoints, Lanes, Search, Suite, Suites};
use taut_wire::icmp::{Echo, EchoKind};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Number of the member's lanes.
const LANES: u16 = 3;
/// Time between two offers of other lanes, 48 ms: just less than the 50 ms for which the node holds packets.
const OFFERS: Duration = Duration::from_millis(48);
/// Time after an offer during which the member answers nothing on the first lane, 40 ms.
const WITHHELD: Duration = Duration::from_millis(40);
/// Sealed length of a probe and of its answer, in bytes.
const ANSWER: usize = 64;
/// Reading of a simulated host's wall clock when its time begins (`WALL_AT_START` in proof/sim/src/wall.rs).
const EPOCH: Duration = Duration::from_secs(1_780_000_000);
/// A port of the node that no lane uses.
const CLOSED: u16 = 7;

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [node, key, node_inner, private, inner, port, kind, rate] = words.as_slice() else {
        return Err("usage: member ADDRESS:PORT NODE_KEY NODE_OVERLAY PRIVATE_KEY OVERLAY PORT KIND PER_SECOND".into());
    };
    let kind = match kind.as_str() {
        "offers" => Attack::Offers,
        "control" => Attack::Control,
        "closed" => Attack::Closed,
        _ => return Err("KIND is one of offers, control, closed".into()),
    };
    let inner: Ipv4Addr = inner.parse()?;
    let me = Party {
        number: inner.octets()[3],
        key: PrivateKey::from_bytes(private.parse::<PublicKey>()?.0),
        endpoint: SocketAddr::from((Ipv4Addr::UNSPECIFIED, port.parse()?)),
    };
    let (node, node_inner) = (node.parse()?, node_inner.parse()?);
    let mut member = Member::new(&me, map(&me, inner, key.parse()?, node, node_inner), node, kind, rate.parse()?)?;
    member.pings = (inner, node_inner);
    // The session comes first.
    member.run(Duration::from_secs(2), false)?;
    for line in std::io::stdin().lock().lines() {
        let (sent, answers, elapsed) = member.run(Duration::from_millis(line?.trim().parse()?), true)?;
        println!(r#"{{"sent":{sent},"answers":{answers},"seconds":{:.3}}}"#, elapsed.as_secs_f64());
        std::io::stdout().flush()?;
    }
    Ok(())
}

/// Returns the member's map: itself and the node.
fn map(me: &Party, inner: Ipv4Addr, key: PublicKey, node: SocketAddr, node_inner: Ipv4Addr) -> NetworkMap {
    let mut map = map_for(me, &[]);
    map.me.addresses = vec![inner.into()];
    let id = NodeId(1_000);
    let peer = Peer {
        id,
        name: "node".into(),
        key,
        addresses: vec![IpAddr::from(node_inner)],
        endpoints: vec![node],
        relays: Vec::new(),
        native: false,
        routes: Vec::new(),
    };
    map.peers.insert(id, peer);
    map
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Attack {
    Offers,
    Control,
    Closed,
}

struct Member {
    host: LanesHost,
    sockets: Vec<UdpSocket>,
    node: SocketAddr,
    attack: Attack,
    rate: u64,
    chance: Seeded,
    pings: (Ipv4Addr, Ipv4Addr),
    /// The time of the last offer of other lanes.
    offered: Instant,
    answers: u64,
}

impl Member {
    fn new(me: &Party, map: NetworkMap, node: SocketAddr, attack: Attack, rate: u64) -> Outcome<Self> {
        let first = me.endpoint.port();
        let sockets = (first..first + LANES).map(|port| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        let seed = u64::from(std::process::id());
        Ok(Self {
            host: LanesHost::new(me, map, Settings::default(), &[Duration::ZERO; LANES as usize], seed),
            sockets: sockets.collect::<std::io::Result<_>>()?,
            node,
            attack,
            rate,
            chance: Seeded::new(seed),
            pings: (Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED),
            offered: Instant::now(),
            answers: 0,
        })
    }

    /// Returns the time for the simulated host. Its wall clock starts at [`EPOCH`]; the timestamps of handshakes must rise from run to run.
    fn now(&self) -> Time {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Time::ZERO + wall.saturating_sub(EPOCH)
    }

    /// Runs for `duration`, with or without the attack. Returns the messages sent, the pings answered, and the time it took.
    fn run(&mut self, duration: Duration, attacks: bool) -> Outcome<(u64, u64, Duration)> {
        let (start, mut said, mut pinged) = (Instant::now(), 0, 0);
        self.answers = 0;
        while start.elapsed() < duration {
            self.receive();
            let now = self.now();
            if self.host.poll_timeout().is_some_and(|due| due <= now) {
                self.host.handle_timeout(now);
                self.transmit(false);
            }
            let elapsed = u64::try_from(start.elapsed().as_micros())?;
            if elapsed / 10_000 > pinged {
                pinged += 1;
                self.ping();
            }
            match self.attack {
                _ if !attacks => {}
                Attack::Offers => {
                    if self.offered.elapsed() >= OFFERS {
                        self.offer(said);
                        said += 1;
                    }
                }
                Attack::Control | Attack::Closed => {
                    for _ in 0..(elapsed * self.rate / 1_000_000).saturating_sub(said).min(50) {
                        self.say();
                        said += 1;
                    }
                }
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok((said, self.answers, start.elapsed()))
    }

    fn receive(&mut self) {
        let mut buffer = [0; 2_048];
        for port in 0..LANES {
            while let Ok((length, source)) = self.sockets[usize::from(port)].recv_from(&mut buffer) {
                let now = self.now();
                self.host.receive_at(port, source, &buffer[..length], now);
            }
        }
        self.transmit(false);
        while self.host.poll_delivered().is_some() {
            self.answers += 1;
        }
    }

    /// Sends the datagrams of the member's host. `attack` is true if they belong to the attack.
    fn transmit(&mut self, attack: bool) {
        while let Some((port, destination, datagram)) = self.host.poll_transmit_at() {
            let withheld = self.attack == Attack::Offers && self.offered.elapsed() < WITHHELD;
            if withheld && !attack && port == 0 && datagram.len() == ANSWER {
                continue;
            }
            let closed = attack && self.attack == Attack::Closed;
            let destination = if closed { SocketAddr::new(self.node.ip(), CLOSED) } else { destination };
            // What the kernel has no room for is lost, as on any network.
            let _ = self.sockets[usize::from(port)].send_to(&datagram, destination);
        }
    }

    fn ping(&mut self) {
        let (from, to) = self.pings;
        let mut packet = [0; 64];
        let echo = Echo { kind: EchoKind::Request, ident: 7, sequence: 7, payload: &[0; 36] };
        if echo.write_packet(from.into(), to.into(), &mut packet).is_ok() {
            let now = self.now();
            self.host.send(&packet, now);
            self.transmit(false);
        }
    }

    /// Offers one of two ports, in turn, for the second lane.
    fn offer(&mut self, number: u64) {
        let first = self.sockets[0].local_addr().map_or(0, |address| address.port());
        let port = first + 1 + u16::from(number % 2 == 1);
        let offer = ControlMessage::Offer {
            lanes: Lanes::with_ports(&[port]),
            suites: Suites::STOCK,
            abilities: Abilities::OURS,
        };
        let now = self.now();
        self.host.say(LaneId::FIRST, offer, now);
        self.transmit(true);
        self.offered = Instant::now();
    }

    fn say(&mut self) {
        let lane = LaneId(u8::try_from(self.chance.below(u32::from(LANES))).unwrap_or(0));
        let message = some_message(&mut self.chance);
        let now = self.now();
        self.host.say(lane, message, now);
        self.transmit(true);
    }
}

/// Returns any kind of control message with random contents.
fn some_message(chance: &mut Seeded) -> ControlMessage {
    let place = |chance: &mut Seeded| SocketAddr::from(([198, 51, 100, 7], chance.below(60_000) as u16));
    let lanes = |chance: &mut Seeded| {
        Lanes::with_ports(&(0..chance.below(16)).map(|_| 1_024 + chance.below(60_000) as u16).collect::<Vec<_>>())
    };
    let suite = if chance.below(2) == 0 { Suite::ChaCha20Poly1305 } else { Suite::Aes256Gcm };
    match chance.below(7) {
        0 => ControlMessage::Offer { lanes: lanes(chance), suites: Suites::STOCK, abilities: Abilities::OURS },
        1 => ControlMessage::Accept { lanes: lanes(chance), suite, abilities: Abilities::OURS },
        2 => ControlMessage::Probe { id: chance.next_u64() },
        3 => ControlMessage::Answer { id: chance.next_u64(), seen: place(chance) },
        4 => ControlMessage::Receipt {
            suite,
            counter: chance.next_u64() >> chance.below(64),
            longest: chance.next_u32().to_le_bytes()[0].into(),
        },
        5 => {
            let (serial, heard, nat) = (chance.next_u32(), chance.next_u32(), chance.below(7) as u8);
            let places: Vec<_> = (0..chance.below(9)).map(|_| place(chance)).collect();
            ControlMessage::Endpoints(Endpoints::new(serial, heard, nat, places))
        }
        _ => ControlMessage::Search(Search {
            from: place(chance),
            step: chance.below(3) as u8,
            ports: 1_024,
            sockets: 256,
        }),
    }
}

//! A hostile member of a real relay: it has the tickets of a network's members and sends any frame from any address (faults F14 to F16).
//!
//! `hostile CONFIG`: CONFIG is a JSON file with `relay` (address and port), `key` (the relay's), `members` (each with `bind`, its private bind key, and `ticket`),
//! and the settings of the attack. The program binds, writes `ready`, reads a number of milliseconds from standard input, attacks for that time, and prints one
//! JSON line.
//!
//! | `attack` | what it does | answer |
//! |---|---|---|
//! | `forge` | The first member sends a newer control frame from each of `places` in turn, 50 times a second. The program binds a socket to each of these addresses, so this host must have them. The second member sends the first one 1,000 frames of 1,000 bytes a second. | `forged`: bytes that left with each place as source; `received`: frames that arrived at the first member's own address |
//! | `binds` | The first member sends `rate` binds a second from `sockets` ports and from `places`, with cookies where the relay asks for them, and confirms none. With `repeats` each socket repeats one bind. | `binds`: binds that were sent; `answers`: answers to them |
//! | `honest` | No attack: the members bind in turn, `attempts` times in all, as every node does. | `attempts`: attempts that were made; `bound`: those that succeeded |
//!
//! Keys are in base64, tickets in base64url. lab/tests/test_relay_attacks.py runs this program.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use taut_base::{Entropy, PrivateKey, PublicKey, Time};
use taut_noise::public_key;
use taut_relay::{Client, ClientOutput, Credentials, Ticket, frame};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The operating system's randomness.
struct OsRandom(SystemRandom);

impl Entropy for OsRandom {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill(bytes).expect("the operating system gives randomness");
    }
}

fn main() -> Outcome<()> {
    let path = std::env::args().nth(1).ok_or("usage: hostile CONFIG")?;
    let config: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let mut attack = Attack::new(&config)?;
    print_line(&json!("ready"))?;
    for line in std::io::stdin().lock().lines() {
        let duration = Duration::from_millis(line?.trim().parse()?);
        let told = attack.run(duration)?;
        print_line(&told)?;
    }
    Ok(())
}

fn print_line(what: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{what}")?;
    out.flush()
}

enum Attack {
    Forge(Box<Forge>),
    Binds(Binds),
    Honest(Honest),
}

impl Attack {
    fn new(config: &Value) -> Outcome<Self> {
        match config["attack"].as_str() {
            Some("forge") => Forge::new(config).map(|forge| Self::Forge(Box::new(forge))),
            Some("binds") => Binds::new(config).map(Self::Binds),
            Some("honest") => Honest::new(config).map(Self::Honest),
            _ => Err("`attack` is one of forge, binds, honest".into()),
        }
    }

    fn run(&mut self, duration: Duration) -> Outcome<Value> {
        match self {
            Self::Forge(forge) => forge.run(duration),
            Self::Binds(binds) => binds.run(duration),
            Self::Honest(honest) => honest.run(duration),
        }
    }
}

/// The relay's address and key, and the credentials of the members.
struct Scene {
    relay: SocketAddr,
    key: PublicKey,
    members: Vec<Credentials>,
}

impl Scene {
    fn new(config: &Value) -> Outcome<Self> {
        let text = |value: &Value, name: &str| {
            value[name].as_str().map(String::from).ok_or_else(|| format!("the config has no `{name}`"))
        };
        let mut members = Vec::new();
        for member in config["members"].as_array().into_iter().flatten() {
            let bind = PrivateKey::from_bytes(text(member, "bind")?.parse::<PublicKey>()?.0);
            let ticket: Ticket = text(member, "ticket")?.parse()?;
            members.push(Credentials { bind, ticket, numbered: None });
        }
        Ok(Self { relay: text(config, "relay")?.parse()?, key: text(config, "key")?.parse()?, members })
    }

    /// Returns a client of this member whose binds carry the host's wall-clock time.
    fn client(&self, member: usize, now: Time) -> Outcome<Client> {
        let credentials = self.members.get(member).ok_or("too few members")?.clone();
        let mut client = Client::new(self.key, credentials, now);
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
        client.set_clock(wall.saturating_sub(now.since(Time::ZERO)));
        Ok(client)
    }
}

fn socket(from: SocketAddr) -> Outcome<UdpSocket> {
    let socket = UdpSocket::bind(from)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

/// A member with its binding.
struct Member {
    client: Client,
    socket: UdpSocket,
    data: u64,
}

impl Member {
    /// Sends all datagrams that the client has to send.
    fn flush(&mut self, relay: SocketAddr) {
        while let Some(output) = self.client.poll_output() {
            let ClientOutput::Transmit(datagram) = output else { continue };
            // A datagram that the kernel has no room for is lost, as on any network.
            let _ = self.socket.send_to(datagram.as_bytes(), relay);
        }
    }

    /// Handles received datagrams and due timers.
    fn turn(&mut self, relay: SocketAddr, now: Time, random: &mut OsRandom) {
        let mut buffer = [0; 2048];
        while let Ok((length, _)) = self.socket.recv_from(&mut buffer) {
            match frame::data(&buffer[..length]) {
                Some(_) => self.data += 1,
                None => self.client.handle_datagram(&buffer[..length], now, random),
            }
        }
        self.client.handle_timeout(now, random);
        self.flush(relay);
    }
}

/// A member that claims to be at other addresses.
struct Forge {
    scene: Scene,
    start: Instant,
    random: OsRandom,
    forger: Member,
    sender: Member,
    places: Vec<(SocketAddr, UdpSocket)>,
}

impl Forge {
    fn new(config: &Value) -> Outcome<Self> {
        let scene = Scene::new(config)?;
        let bound = |member| {
            Ok::<_, Box<dyn std::error::Error>>(Member {
                client: scene.client(member, Time::ZERO)?,
                socket: socket(ANY)?,
                data: 0,
            })
        };
        let (forger, sender) = (bound(0)?, bound(1)?);
        let mut places = Vec::new();
        for place in config["places"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let place = place.parse()?;
            places.push((place, socket(place)?));
        }
        let mut forge =
            Self { scene, start: Instant::now(), random: OsRandom(SystemRandom::new()), forger, sender, places };
        let end = forge.start + Duration::from_secs(20);
        while !(forge.forger.client.is_ready() && forge.sender.client.is_ready()) {
            if Instant::now() > end {
                return Err("the relay does not bind the members".into());
            }
            forge.turn();
        }
        // These turns deliver the frames that confirm the bindings before the attack begins.
        (0..100).for_each(|_| forge.turn());
        Ok(forge)
    }

    fn now(&self) -> Time {
        Time::from_duration(self.start.elapsed())
    }

    fn turn(&mut self) {
        let (now, relay) = (self.now(), self.scene.relay);
        self.forger.turn(relay, now, &mut self.random);
        self.sender.turn(relay, now, &mut self.random);
        std::thread::sleep(Duration::from_micros(500));
    }

    fn run(&mut self, duration: Duration) -> Outcome<Value> {
        let (start, relay) = (Instant::now(), self.scene.relay);
        let peer = public_key_of(&self.scene.members, 0)?;
        let now = self.now();
        self.sender.client.open(peer, now, &mut self.random).ok_or("the relay has lost a member")?;
        let (mut said, mut sent, mut forged) = (0, 0, BTreeMap::new());
        self.forger.data = 0;
        while start.elapsed() < duration {
            self.turn();
            let milliseconds = u64::try_from(start.elapsed().as_millis())?;
            while said < milliseconds / 20 {
                self.send_forged(said, &mut forged);
                said += 1;
            }
            for _ in sent..milliseconds.min(sent + 20) {
                let Some(id) = self.sender.client.id_of(&peer) else { break };
                let bytes = [&frame::data_header(id), &[4, 0, 0, 0][..], &[7; 988]].concat();
                let _ = self.sender.socket.send_to(&bytes, relay);
            }
            sent = milliseconds;
        }
        Ok(json!({ "said": said, "sent": sent, "forged": forged, "received": self.forger.data }))
    }

    /// Sends a control frame that is newer than all earlier ones from the next of the places.
    fn send_forged(&mut self, number: u64, forged: &mut BTreeMap<String, u64>) {
        let count = self.places.len().max(1) as u64;
        let Some((place, socket)) = self.places.get(usize::try_from(number % count).unwrap_or(0)) else { return };
        let now = Time::from_duration(self.start.elapsed());
        self.forger.client.handle_move(now, &mut self.random);
        while let Some(output) = self.forger.client.poll_output() {
            let ClientOutput::Transmit(datagram) = output else { continue };
            if let Ok(length) = socket.send_to(datagram.as_bytes(), self.scene.relay) {
                *forged.entry(place.to_string()).or_default() += length as u64;
            }
        }
    }
}

/// Returns the node key in a member's ticket.
fn public_key_of(members: &[Credentials], member: usize) -> Outcome<PublicKey> {
    let credentials = members.get(member).ok_or("too few members")?;
    let terms = credentials.ticket.terms();
    if terms.bind != public_key(&credentials.bind) {
        return Err("the ticket is not for this bind key".into());
    }
    Ok(terms.node)
}

/// A socket that sends binds.
struct BindSocket {
    socket: UdpSocket,
    client: Option<Client>,
    /// The last bind that the socket sent.
    bytes: Vec<u8>,
}

/// A member that sends binds and confirms none.
struct Binds {
    scene: Scene,
    start: Instant,
    random: OsRandom,
    rate: u64,
    repeats: bool,
    bind_sockets: Vec<BindSocket>,
}

impl Binds {
    fn new(config: &Value) -> Outcome<Self> {
        let scene = Scene::new(config)?;
        let number = |name: &str| config[name].as_u64().ok_or_else(|| format!("the config has no number `{name}`"));
        let forged = config["places"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::parse);
        let own = (0..number("sockets")?).map(|_| Ok(ANY));
        let bind_socket = |from| Ok(BindSocket { socket: socket(from)?, client: None, bytes: Vec::new() });
        let bind_sockets = own.chain(forged).map(|from| bind_socket(from?)).collect::<Outcome<Vec<_>>>()?;
        let (start, random) = (Instant::now(), OsRandom(SystemRandom::new()));
        let repeats = config["repeats"].as_bool().unwrap_or(false);
        Ok(Self { scene, start, random, rate: number("rate")?, repeats, bind_sockets })
    }

    fn run(&mut self, duration: Duration) -> Outcome<Value> {
        let (start, mut binds, mut answers) = (Instant::now(), 0, 0);
        while start.elapsed() < duration {
            let due = u64::try_from(start.elapsed().as_micros())? * self.rate / 1_000_000;
            // After a pause, for which the host was busy, at most 100 binds are sent at once.
            for _ in 0..due.saturating_sub(binds).min(100) {
                self.bind(binds)?;
                binds += 1;
            }
            answers += self.receive();
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(json!({ "binds": binds, "answers": answers }))
    }

    /// Sends a bind from the next socket: a new one, or with `repeats` that socket's last one.
    fn bind(&mut self, number: u64) -> Outcome<()> {
        let at = usize::try_from(number % self.bind_sockets.len().max(1) as u64)?;
        let now = Time::from_duration(self.start.elapsed());
        let Some(bind_socket) = self.bind_sockets.get_mut(at) else { return Ok(()) };
        if !self.repeats || bind_socket.bytes.is_empty() {
            let mut client = self.scene.client(0, now)?;
            client.handle_timeout(now, &mut self.random);
            bind_socket.bytes = std::iter::from_fn(|| client.poll_output())
                .find_map(|output| match output {
                    ClientOutput::Transmit(datagram) => Some(datagram.as_bytes().to_vec()),
                    ClientOutput::LaneTransmit(..) | ClientOutput::Event(_) => None,
                })
                .unwrap_or_default();
            bind_socket.client = Some(client);
        }
        // A datagram that the kernel has no room for is lost, as on any network.
        let _ = bind_socket.socket.send_to(&bind_socket.bytes, self.scene.relay);
        Ok(())
    }

    /// Answers received cookies with another bind, and returns the number of other answers, which are not confirmed.
    fn receive(&mut self) -> u64 {
        let (now, mut answers, mut buffer) = (Time::from_duration(self.start.elapsed()), 0, [0; 2048]);
        for BindSocket { socket, client: asking, bytes } in &mut self.bind_sockets {
            while let Ok((length, _)) = socket.recv_from(&mut buffer) {
                let Some(client) = asking else { continue };
                client.handle_datagram(&buffer[..length], now, &mut self.random);
                if client.is_ready() {
                    answers += 1;
                    *asking = None;
                    continue;
                }
                while let Some(output) = client.poll_output() {
                    let ClientOutput::Transmit(datagram) = output else { continue };
                    *bytes = datagram.as_bytes().to_vec();
                    let _ = socket.send_to(bytes, self.scene.relay);
                }
            }
        }
        answers
    }
}

/// Members that bind by the protocol, one attempt after the other, each from another port.
struct Honest {
    scene: Scene,
    start: Instant,
    random: OsRandom,
    attempts: u64,
}

impl Honest {
    fn new(config: &Value) -> Outcome<Self> {
        let attempts = config["attempts"].as_u64().ok_or("the config has no number `attempts`")?;
        Ok(Self { scene: Scene::new(config)?, start: Instant::now(), random: OsRandom(SystemRandom::new()), attempts })
    }

    fn run(&mut self, duration: Duration) -> Outcome<Value> {
        let (start, mut bound, mut tried) = (Instant::now(), 0, 0);
        while tried < self.attempts && start.elapsed() < duration {
            let member = usize::try_from(tried % self.scene.members.len().max(1) as u64)?;
            bound += u64::from(self.attempt(member)?);
            tried += 1;
        }
        Ok(json!({ "attempts": tried, "bound": bound }))
    }

    /// Returns true if the relay bound the member within one attempt, which sends its bind three times in 1.75 s.
    fn attempt(&mut self, member: usize) -> Outcome<bool> {
        let now = || Time::from_duration(self.start.elapsed());
        let mut one = Member { client: self.scene.client(member, now())?, socket: socket(ANY)?, data: 0 };
        one.turn(self.scene.relay, now(), &mut self.random);
        while one.client.is_asking() {
            std::thread::sleep(Duration::from_millis(1));
            one.turn(self.scene.relay, now(), &mut self.random);
        }
        Ok(one.client.is_ready())
    }
}

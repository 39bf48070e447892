//! Starting and stopping a relay.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::{fmt, io, thread};

use ring::rand::SystemRandom;
use taut_base::{Entropy, PrivateKey, PublicKey};
use taut_event::Waker;
use taut_netmap::RelayToken;
use taut_noise::public_key;
use taut_relay::{Forward, ForwardRate, RelayLimits, Server, Shares, VerifyingKey};
use taut_udp::{BindError, UdpSocket};
use zeroize::Zeroizing;

use crate::coordinator_link::{CoordinatorLink, LinkOptions};
use crate::liveness::Liveness;
use crate::removals::Removals;
use crate::shared::Shared;
use crate::stats::Stats;
use crate::system::OsEntropy;
use crate::web::{Entrance, Web, WebConfig};
use crate::worker::{Sockets, Worker};
use crate::{DEFAULT_PORT, DEFAULT_STUN_PORT};

/// Requested bytes of each socket buffer, 8 MiB: about 50 ms at 1 Gbit/s, longer than a worker takes between two reads.
const BUFFER: usize = 8 * 1024 * 1024;
/// Maximum number of workers, 16. More gain nothing, because the kernel keeps the sockets of one port in one list.
const MAX_WORKERS: usize = 16;

/// The settings of a relay.
#[derive(Clone)]
pub struct RelayConfig {
    /// UDP port of frames and STUN, on all addresses; 0 for any free one.
    pub port: u16,
    /// UDP port of STUN alone; 0 for any free one.
    pub stun_port: u16,
    /// The relay's private key. Clients know the relay by its public half.
    pub key: PrivateKey,
    /// Keys of the coordinators whose tickets are accepted. [`RelayServer::trust`] adds more.
    pub trusted: Vec<VerifyingKey>,
    /// Rate limit of each client's data.
    pub share: ForwardRate,
    /// Bounds of the tables.
    pub limits: RelayLimits,
    /// Number of forwarding threads; 0 for one per core.
    pub workers: usize,
    /// Settings for WebSocket; `None` for a relay without WebSocket.
    pub web: Option<WebConfig>,
}

impl RelayConfig {
    /// Returns the settings of a relay with this key: the usual ports, and 1 Gbit/s for each client.
    pub fn new(key: PrivateKey) -> Self {
        Self {
            port: DEFAULT_PORT,
            stun_port: DEFAULT_STUN_PORT,
            key,
            trusted: Vec::new(),
            share: ForwardRate::DEFAULT,
            limits: RelayLimits::DEFAULT,
            workers: 0,
            web: None,
        }
    }
}

/// A running relay. It stops when it is dropped.
pub struct RelayServer {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    key: PublicKey,
    private_key: PrivateKey,
    /// Most clients, and number of forwarding threads.
    clients: usize,
    workers: usize,
    port: u16,
    stun_port: u16,
    web: Option<SocketAddr>,
    has_web: bool,
}

impl RelayServer {
    /// Opens the ports and starts the workers.
    ///
    /// # Errors
    /// [`RelayStartError`] names the cause and the fix.
    pub fn start(config: &RelayConfig) -> Result<Self, RelayStartError> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers = if config.workers == 0 { cores } else { config.workers }.clamp(1, MAX_WORKERS);
        let socket = |port| taut_udp::UdpConfig {
            port,
            ipv4_only: false,
            send_buffer: BUFFER,
            receive_buffer: BUFFER,
            gso: true,
            gro: true,
        };
        let frames = UdpSocket::bind_shared(&socket(config.port), workers)?;
        let stun = UdpSocket::bind(&socket(config.stun_port))?;
        let (port, stun_port) = (frames.first().map_or(0, UdpSocket::port), stun.port());

        let mut entropy = OsEntropy(SystemRandom::new());
        let mut seed = Zeroizing::new([0; 32]);
        entropy.fill(&mut *seed);
        let server = Server::new(config.key.clone(), config.trusted.clone(), config.limits, *seed);
        let mut wakers = frames.iter().map(|_| Waker::new()).collect::<io::Result<Vec<_>>>()?;
        let web_waker = Waker::new()?;
        wakers.extend(config.web.as_ref().map(|_| web_waker.clone()));
        let shared = Arc::new(Shared::new(server, wakers.clone(), web_waker.clone()));
        let shares = Arc::new(Shares::new(config.share, config.limits.clients));
        let mut relay = Self {
            shared,
            threads: Vec::new(),
            key: public_key(&config.key),
            private_key: config.key.clone(),
            clients: config.limits.clients,
            workers,
            port,
            stun_port,
            web: None,
            has_web: false,
        };
        if let (Some(web), Some(first)) = (&config.web, frames.first()) {
            relay.start_web(web, frames.len(), first.try_clone()?, web_waker, Arc::clone(&shares))?;
        }
        for (number, (frames, waker)) in frames.into_iter().zip(wakers).enumerate() {
            let sockets = Sockets { frames, stun: stun.try_clone()? };
            let entropy = OsEntropy(SystemRandom::new());
            let shared = relay.shared.clone();
            let worker = Worker::new(number, sockets, waker, Forward::sharing(Arc::clone(&shares)), shared, entropy)?;
            let builder = thread::Builder::new().name(format!("relay-{number}"));
            relay.threads.push(builder.spawn(move || worker.run())?);
        }
        Ok(relay)
    }

    fn start_web(
        &mut self,
        config: &WebConfig,
        number: usize,
        udp: UdpSocket,
        waker: Waker,
        shares: Arc<Shares>,
    ) -> Result<(), RelayStartError> {
        let entropy = OsEntropy(SystemRandom::new());
        let web =
            Web::new(number, config, udp, waker, shares, self.shared.clone(), entropy).map_err(RelayStartError::Web)?;
        self.web = web.address();
        self.has_web = true;
        self.threads.push(thread::Builder::new().name("relay-web".to_owned()).spawn(move || web.run())?);
        Ok(())
    }

    /// Returns the address of its WebSocket listener, if it has one.
    pub fn web(&self) -> Option<SocketAddr> {
        self.web
    }

    /// Returns the handle by which a web server passes connections to the relay, if the relay has WebSocket.
    pub fn entrance(&self) -> Option<Entrance> {
        self.has_web.then(|| Entrance(self.shared.clone()))
    }

    /// Returns the public key, which the map must have.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// Returns the UDP port of frames and STUN.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the UDP port of STUN only.
    pub fn stun_port(&self) -> u16 {
        self.stun_port
    }

    /// Serves the members of this coordinator, too.
    pub fn trust(&self, key: VerifyingKey) {
        self.shared.ask(|server| server.trust(key));
    }

    /// Serves the members of this coordinator, and opens a channel to it: it tells of removed members, and is told of the relay's load. `capacity`: the traffic
    /// that this relay can forward in bits per second, 0 if unknown.
    ///
    /// # Errors
    /// If the token is forged, or the system refuses a thread.
    pub fn connect(&self, token: RelayToken, version: &str, capacity: u64) -> Result<CoordinatorLink, RelayStartError> {
        let tickets = VerifyingKey(token.tickets);
        if !tickets.is_of(&token.coordinator, &token.proof) {
            return Err(RelayStartError::Token);
        }
        self.trust(tickets);
        let options = LinkOptions {
            token,
            key: self.private_key.clone(),
            version: String::from(version),
            capacity,
            clients: self.clients,
            workers: self.workers,
        };
        Ok(CoordinatorLink::start(options, self.removals(), self.observer())?)
    }

    /// Returns the handle by which the relay's own coordinator cuts off removed members.
    pub fn removals(&self) -> Removals {
        Removals::new(self.shared.clone())
    }

    /// Returns the counters.
    pub fn stats(&self) -> Stats {
        Stats::gather(&self.shared)
    }

    /// Returns a function that returns the counters, for another thread.
    pub fn observer(&self) -> impl Fn() -> Stats + Send + Sync + 'static {
        let shared = self.shared.clone();
        move || Stats::gather(&shared)
    }

    /// Returns what sees whether the relay's threads work.
    pub fn liveness(&self) -> Liveness {
        Liveness::new(self.shared.clone())
    }

    /// Tells all clients that the relay stops, and stops it.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // A panic of a worker was reported when it happened; the other workers end as usual.
            let _ = thread.join();
        }
    }
}

impl Drop for RelayServer {
    fn drop(&mut self) {
        self.end();
    }
}

impl Stats {
    fn gather(shared: &Shared) -> Self {
        let tally = shared.ask(|server| server.tally());
        let slow_reader = shared.streams.dropped.load(Ordering::Relaxed);
        let websockets = shared.streams.count();
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let streams = &shared.streams;
        let (coordinators, revocations) = (read(&shared.coordinators), read(&shared.revocations));
        let (crowded, late, hurried) = (read(&streams.crowded), read(&streams.late), read(&streams.hurried));
        let mut stats = Self {
            tally,
            slow_reader,
            websockets,
            crowded,
            late,
            hurried,
            coordinators,
            revocations,
            ..Self::default()
        };
        for worker in &shared.published {
            stats.counts.datagrams += read(&worker.datagrams);
            stats.counts.bytes += read(&worker.bytes);
            stats.counts.not_wireguard += read(&worker.not_wireguard);
            stats.counts.unknown_id += read(&worker.unknown_id);
            stats.counts.over_share += read(&worker.over_share);
            stats.counts.unbound += read(&worker.unbound);
            stats.not_sent += read(&worker.not_sent);
            stats.stun += read(&worker.stun);
            stats.bad_stun += read(&worker.bad_stun);
            stats.socket_full += read(&worker.kernel);
        }
        stats
    }
}

/// The error of a relay that did not start.
#[derive(Debug)]
pub enum RelayStartError {
    /// A UDP port cannot be opened.
    Bind(BindError),
    /// WebSocket cannot be started: the address cannot be opened, or the certificate's files cannot be used.
    Web(io::Error),
    /// A relay token names the key for tickets of another coordinator.
    Token,
    /// The system refused another resource.
    System(io::Error),
}

impl From<BindError> for RelayStartError {
    fn from(error: BindError) -> Self {
        Self::Bind(error)
    }
}

impl From<io::Error> for RelayStartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl fmt::Display for RelayStartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(error) => error.fmt(f),
            Self::Web(error) => write!(f, "cannot start WebSocket: {error}"),
            Self::Token => f.write_str(
                "the relay token is forged: its coordinator has not the key for tickets that it names; take the token from `taut-coordinator relay-token`",
            ),
            Self::System(error) => {
                write!(f, "cannot start the relay: {error}; check the limits of descriptors and memory (ulimit -a)")
            }
        }
    }
}

impl Error for RelayStartError {}

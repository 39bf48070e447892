//! A lane between the UDP socket of a peer and the UDP socket of an application, in a network namespace of its own.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use taut_base::{LaneId, PeerId, Prefix, PrivateKey, ReceiverIndex, SessionId, Time};
use taut_event::{Waker, boot_time};
use taut_lane::{AgentEnd, DropReason, Lane, LaneShared, Rings, queues};
use taut_netlink::{Netlink, Route};
use taut_node::{FromLane, Routes, ToLane};
use taut_noise::AeadKey;
use taut_tunnel::handshake::Identity;
use taut_tunnel::{Limits, Role, SessionKeys};
use taut_wire::wireguard::{DATA_HEADER, write_data_header};

/// Time after which a wait is hopeless, 60 s: longer than any step of these tests takes.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Frames on their way at most, 100, so that no socket buffer overflows and a missing frame was lost by the lane.
pub(crate) const IN_FLIGHT: u64 = 100;
const MTU: u16 = 1420;
const PORT: u16 = 9000;
/// Bytes of a packet: IPv4 and UDP header, and a number.
const PACKET: usize = 20 + 8 + 8;
/// Bytes of a packet that is padded to a multiple of 16.
const PADDED: usize = 48;

/// Waits until a condition is true.
pub(crate) fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "the condition never became true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A peer of the lane, with the key that it seals with and the receiver index of its session on the lane.
pub(crate) struct Peer {
    pub(crate) id: PeerId,
    pub(crate) inner: Ipv4Addr,
    index: ReceiverIndex,
    key: AeadKey,
}

impl Peer {
    /// Returns peer `number` with session `session`.
    pub(crate) fn new(number: u8, session: u32) -> Self {
        let inner = Ipv4Addr::new(100, 64, 0, number);
        Self { id: PeerId(number.into()), inner, index: ReceiverIndex(session << 4), key: AeadKey::new(&[number; 32]) }
    }

    /// Returns the receiver index in the lane's packets to it.
    pub(crate) fn remote(&self) -> u32 {
        self.index.0 | 1 << 30
    }

    /// Returns the command that gives its session to the lane.
    pub(crate) fn session(&self, id: u64) -> ToLane {
        let (remote, receiving) = (ReceiverIndex(self.remote()), [self.id.0.to_le_bytes()[0]; 32]);
        let keys = SessionKeys::stock(Role::Responder, self.index, remote, [200; 32].into(), receiving.into());
        let born = Time::from_duration(boot_time());
        ToLane::AddSession { peer: self.id, id: SessionId(id), keys: Box::new(keys), born, proven: None }
    }

    /// Returns a data message under any counter, with a packet to the application that carries `number`.
    pub(crate) fn frame(&self, counter: u64, number: u64) -> Vec<u8> {
        let mut frame = vec![0; DATA_HEADER + PADDED];
        write_data_header(frame.first_chunk_mut().unwrap(), self.index.0, counter);
        frame[DATA_HEADER..DATA_HEADER + PACKET].copy_from_slice(&self.packet(number));
        let tag = self.key.seal(counter, &[], &mut frame[DATA_HEADER..]);
        frame.extend(tag);
        frame
    }

    fn packet(&self, number: u64) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 36, 0, 0, 0x40, 0, 64, 17, 0, 0];
        packet.extend(self.inner.octets());
        packet.extend([100, 64, 0, 1]);
        let checksum = !ones_sum(&packet);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        let mut udp = [PORT.to_be_bytes(), PORT.to_be_bytes(), [0, 16], [0, 0]].concat();
        udp.extend(number.to_be_bytes());
        let checksum = match !ones_sum(&[&packet[12..20], &[0, 17, 0, 16], &udp].concat()) {
            0 => 0xffff,
            checksum => checksum,
        };
        udp[6..8].copy_from_slice(&checksum.to_be_bytes());
        packet.extend(udp);
        packet
    }
}

/// Returns the ones' complement sum of RFC 1071, the slow way.
fn ones_sum(bytes: &[u8]) -> u16 {
    bytes.chunks_exact(2).fold(0, |sum: u16, pair| {
        let (sum, carry) = sum.overflowing_add(u16::from_be_bytes([pair[0], pair[1]]));
        sum + u16::from(carry)
    })
}

/// The lane, its peer and its application. Each frame that is sent ends in a drop counter or at the application, so all frames are accounted for.
pub(crate) struct Rig {
    agent: Mutex<AgentEnd>,
    pub(crate) target: SocketAddr,
    /// The socket of the peer.
    pub(crate) wire: UdpSocket,
    /// The socket of the application on the lane's host, behind the TUN.
    pub(crate) app: UdpSocket,
    pub(crate) sent: AtomicU64,
    received: AtomicU64,
    shared: Arc<LaneShared>,
    _lane: Lane,
}

impl Rig {
    /// Returns a lane with these peers and no session yet.
    pub(crate) fn new(peers: &[&Peer]) -> Self {
        let mut netlink = Netlink::open().unwrap();
        netlink.set_link_up(1, true).unwrap();
        let offload = taut_tun::Offload::ALL;
        let tun =
            taut_tun::Tun::create(&taut_tun::TunConfig { name: "taut%d".into(), offload, multi_queue: false }).unwrap();
        let index = netlink.link(tun.name()).unwrap().unwrap().index;
        netlink.set_link_up(index, true).unwrap();
        netlink.add_address(index, IpAddr::from([100, 64, 0, 1]), 32).unwrap();
        let config = taut_udp::UdpConfig {
            port: 0,
            ipv4_only: true,
            send_buffer: 1 << 20,
            receive_buffer: 4 << 20,
            gso: true,
            gro: true,
        };
        let udp = taut_udp::UdpSocket::bind(&config).unwrap();
        let target = SocketAddr::from(([127, 0, 0, 1], udp.port()));
        let (waker, other) = (Waker::new().unwrap(), Waker::new().unwrap());
        let (agent, lane_end) = queues(other, waker.clone());
        let checker = Identity::new(PrivateKey::from_bytes([1; 32])).checker([1; 32]);
        let limits = Limits::WIREGUARD;
        let config = taut_lane::LaneConfig {
            own: LaneId::FIRST,
            lanes: 1,
            rings: Rings::default(),
            tun,
            mtu: MTU,
            udp,
            checker,
            limits,
            queues: lane_end,
            waker,
            by_peer: false,
            low_latency: false,
            congestion_marks: true,
        };
        let lane = Lane::start(config).unwrap();
        let routes: Vec<_> = peers.iter().map(|peer| (Prefix::host(peer.inner.into()), peer.id)).collect();
        for peer in peers {
            netlink.add_route(&Route::new(peer.inner.into(), 32, index)).unwrap();
            assert!(agent.send(ToLane::AddPeer { peer: peer.id, roams: true }).is_ok());
        }
        assert!(agent.send(ToLane::Routes(Arc::new(Routes::new(routes)))).is_ok());
        agent.wake();
        let app = UdpSocket::bind((Ipv4Addr::new(100, 64, 0, 1), PORT)).unwrap();
        app.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        Self {
            agent: Mutex::new(agent),
            target,
            wire: Self::endpoint(1),
            app,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            shared: Arc::clone(lane.shared()),
            _lane: lane,
        }
    }

    /// Returns a socket of a peer.
    pub(crate) fn endpoint(number: u8) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, number), 0)).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket
    }

    /// Sends a command to the lane, as soon as its queue takes it.
    pub(crate) fn tell(&self, mut command: ToLane) {
        let agent = self.agent.lock().unwrap();
        while let Err(again) = agent.send(command) {
            command = again;
            agent.wake();
            std::thread::yield_now();
        }
        agent.wake();
    }

    /// Returns the next message of the lane.
    pub(crate) fn hear(&self) -> Option<FromLane> {
        self.agent.lock().unwrap().receive()
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        self.shared.drops.count(reason)
    }

    /// Returns the number of frames that are neither dropped nor at the application yet.
    pub(crate) fn on_the_way(&self) -> u64 {
        // Only received frames count: the kernel may send packets of its own into the TUN, which are dropped under a reason that begins with `out-`.
        let inbound = self.shared.drops.iter().filter(|(name, _)| name.starts_with("in-"));
        let dropped: u64 = inbound.map(|(_, count)| count).sum();
        // The number of sent frames is read last: both others only rise.
        let ended = dropped + self.received.load(Ordering::SeqCst);
        self.sent.load(Ordering::SeqCst).saturating_sub(ended)
    }

    /// Sends one frame from `socket`, as soon as fewer than [`IN_FLIGHT`] are on their way.
    pub(crate) fn send_from(&self, socket: &UdpSocket, frame: &[u8]) {
        let start = Instant::now();
        while self.on_the_way() >= IN_FLIGHT {
            assert!(start.elapsed() < TIMEOUT, "{} frames went nowhere", self.on_the_way());
            std::thread::yield_now();
        }
        self.sent.fetch_add(1, Ordering::SeqCst);
        socket.send_to(frame, self.target).unwrap();
    }

    /// Returns the numbers that reach the application until no frame is on its way; `more` returns true while more frames will be sent.
    pub(crate) fn drain(&self, more: impl Fn() -> bool) -> Vec<u64> {
        let (mut numbers, mut last) = (Vec::new(), Instant::now());
        let mut buffer = [0; 64];
        while more() || self.on_the_way() > 0 {
            match self.app.recv(&mut buffer) {
                Ok(length) => {
                    numbers.push(u64::from_be_bytes(buffer[..length].try_into().unwrap()));
                    self.received.fetch_add(1, Ordering::SeqCst);
                    last = Instant::now();
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    assert!(last.elapsed() < TIMEOUT, "{} frames went nowhere", self.on_the_way());
                }
                Err(error) => panic!("{error}"),
            }
        }
        // A packet that was delivered twice would still be on its way, and not accounted for.
        while let Ok(length) = self.app.recv(&mut buffer) {
            numbers.push(u64::from_be_bytes(buffer[..length].try_into().unwrap()));
        }
        numbers
    }

    /// Sends these frames, in order, and returns the numbers that reached the application.
    pub(crate) fn play(&self, socket: &UdpSocket, frames: &[Vec<u8>]) -> Vec<u64> {
        let mut delivered = Vec::new();
        for some in frames.chunks(50) {
            for frame in some {
                self.send_from(socket, frame);
            }
            delivered.extend(self.drain(|| false));
        }
        delivered
    }
}

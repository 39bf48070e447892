//! Two lane cores with a session to each of some peers, and packets as a TUN returns them. Nothing here allocates once it runs, so tests that count
//! allocations or instructions count the lane's own.
#![allow(dead_code, reason = "each test uses only a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use taut_base::{DEFAULT_MTU, PeerId, Prefix, PrivateKey, ReceiverIndex, SessionId, Time};
use taut_lane::{DropCounts, Flush, InboundIo, LaneCore, SendBatch};
use taut_node::{Routes, ToLane};
use taut_path::{Choice, Way};
use taut_testkit::packets;
use taut_tunnel::handshake::Identity;
use taut_tunnel::{Exporter, Limits, Role, SessionKeys};
use taut_udp::Transmit;
use taut_wire::control::{Abilities, Suite, Suites};
use taut_wire::merge::{Offloads, Run};
use taut_wire::vnet::VnetHeader;

/// Peers of each lane core, 16. Peer n of one core is the n-th address of the other, so that small packets go to many peers.
pub(crate) const PEERS: u16 = 16;

/// Returns the time `millis` milliseconds after the sessions began.
pub(crate) fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_secs(1_000) + Duration::from_millis(millis)
}

fn inner(side: u8, peer: u16) -> IpAddr {
    IpAddr::from([100, 64, side, peer.to_le_bytes()[0]])
}

fn outer(side: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, side], 8288))
}

/// Counts the packets that are written to the TUN.
#[derive(Default)]
pub(crate) struct Tun {
    pub(crate) writes: u64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl InboundIo for Tun {
    fn write(&mut self, run: Run<'_>) -> bool {
        self.writes += 1;
        self.packets += run.packets() as u64;
        self.bytes += run.slices().map(|slice| slice.len() as u64).sum::<u64>();
        true
    }

    fn next_command(&mut self) -> Option<ToLane> {
        None
    }
}

/// One host: its lane core, its send batch and its TUN.
pub(crate) struct Host {
    pub(crate) side: u8,
    pub(crate) core: LaneCore,
    pub(crate) out: SendBatch,
    pub(crate) tun: Tun,
    pub(crate) drops: Arc<DropCounts>,
}

impl Host {
    fn new(side: u8) -> Self {
        let drops = Arc::<DropCounts>::default();
        let checker = Identity::new(PrivateKey::from_bytes([side; 32])).checker([side; 32]);
        let (limits, offloads) = (Limits::WIREGUARD, Offloads::ALL);
        let core = LaneCore::new(limits, 1420, checker, true, offloads, Arc::clone(&drops), Arc::default());
        let mut end = Self { side, core, out: SendBatch::new(), tun: Tun::default(), drops };
        let other = 3 - side;
        let routes = (0..PEERS).map(|peer| (Prefix::host(inner(other, peer)), PeerId(peer.into())));
        let own: Vec<IpAddr> = (0..PEERS).map(|peer| inner(side, peer)).collect();
        end.command(ToLane::Routes(Arc::new(Routes::new(routes).only_to(&own))));
        for peer in 0..PEERS {
            let peer = PeerId(peer.into());
            end.command(ToLane::AddPeer { peer, roams: false });
        }
        end
    }

    fn command(&mut self, command: ToLane) {
        self.core.command(command, &mut self.out, at(0));
    }

    fn add_session(&mut self, peer: u16, suite: Suite) {
        let (here, there) = (u32::from(self.side), u32::from(3 - self.side));
        let index = |side: u32| ReceiverIndex((u32::from(peer) * 2 + side) << 4);
        let role = if self.side == 1 { Role::Initiator } else { Role::Responder };
        let key = |side: u32| [side.to_le_bytes()[0] ^ peer.to_le_bytes()[0] << 2; 32].into();
        let stock = SessionKeys::stock(role, index(here), index(there), key(here), key(there));
        let exporter = Exporter::new([9; 32].into(), role, index(here), index(there));
        let keys = SessionKeys { extension: Some(exporter), suites: Suites::STOCK.with(Suite::Aes256Gcm), ..stock };
        let (id, peer) = (SessionId(u64::from(peer)), PeerId(peer.into()));
        let proven = Some(outer(3 - self.side).into());
        self.command(ToLane::AddSession { peer, id, keys: Box::new(keys), born: at(0), proven });
        self.command(ToLane::UseSuite { peer, session: id, suite, abilities: Abilities::OURS });
    }

    /// Sends a packet that was read from the TUN.
    pub(crate) fn send(&mut self, read: &[u8], now: Time) {
        assert!(self.out.has_room());
        self.core.outbound(read, &mut self.out, now);
    }

    /// Delivers all that waits to `other`, which opens it in place; `wire` is the buffer of the kernel between them.
    pub(crate) fn deliver(&mut self, other: &mut Host, wire: &mut [u8], now: Time) {
        while !self.out.is_empty() {
            let mut transmits = [Transmit { destination: outer(0), contents: &[], segment_size: 0, ecn: 0 }; 8];
            let count = self.out.transmits(Flush::All, &mut transmits);
            for transmit in &transmits[..count] {
                let received = &mut wire[..transmit.contents.len()];
                received.copy_from_slice(transmit.contents);
                other.receive(received, transmit.segment_size, now);
            }
            self.out.consume(count, 0);
        }
    }

    /// Receives a run of datagrams from the other host.
    pub(crate) fn receive(&mut self, run: &mut [u8], segment_size: usize, now: Time) {
        self.core.inbound(outer(3 - self.side), run, segment_size, &mut self.tun, &mut self.out, now);
    }

    /// Handles timeouts, and takes the messages for the agent.
    pub(crate) fn turn(&mut self, now: Time) {
        self.core.handle_timeout(&mut self.out, now);
        while self.core.poll_output().is_some() {}
    }

    /// Returns the number of packets that were dropped for any reason.
    pub(crate) fn dropped(&self) -> u64 {
        self.drops.iter().map(|(_, count)| count).sum()
    }
}

impl Host {
    /// Has all peers reached through a relay at the other host's endpoint, which changes no number; with `also`, copies take the direct path.
    pub(crate) fn use_relay(&mut self, also: bool) {
        let place = outer(3 - self.side);
        self.command(ToLane::Relays(Arc::new([place])));
        self.use_path(
            |peer| Way::Relayed { relay: place, id: peer.into() },
            also.then_some(Way::Direct(place)),
            DEFAULT_MTU,
        );
    }

    /// Has all peers reached on the direct path, which carries packets of `limit` bytes.
    pub(crate) fn use_limit(&mut self, limit: u16) {
        let place = outer(3 - self.side);
        self.use_path(|_| Way::Direct(place), None, limit);
    }

    fn use_path(&mut self, way: impl Fn(u16) -> Way, also: Option<Way>, limit: u16) {
        let round_trip = Some(Duration::from_millis(10));
        for peer in 0..PEERS {
            let choice = Choice { way: way(peer), also, spare: None, behind: Duration::ZERO, round_trip, limit };
            self.command(ToLane::SetPath { peer: PeerId(peer.into()), choice });
        }
    }
}

/// Returns two hosts with confirmed sessions, on a direct path that carries packets of the default MTU.
pub(crate) fn pair(suite: Suite) -> (Host, Host) {
    let (mut here, mut there) = (Host::new(1), Host::new(2));
    for peer in 0..PEERS {
        there.add_session(peer, suite);
        here.add_session(peer, suite);
    }
    here.use_limit(DEFAULT_MTU);
    there.use_limit(DEFAULT_MTU);
    let mut wire = vec![0; 1 << 16];
    here.deliver(&mut there, &mut wire, at(0));
    there.deliver(&mut here, &mut wire, at(0));
    (here, there)
}

/// Returns a TCP superpacket of `payload` bytes from `side` as the kernel makes it, with virtio header and partial checksum.
pub(crate) fn superpacket(side: u8, payload: u16, gso_size: u16) -> Vec<u8> {
    let (header, packet) = packets::tcp_superpacket(addresses(side, 0), payload.into(), gso_size);
    [&header.encode()[..], &packet].concat()
}

/// Returns a UDP packet of `payload` bytes without a checksum, from `side` to the other host's address of `peer`.
pub(crate) fn small(side: u8, peer: u16, payload: u16) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((28 + payload).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    packet.extend(addresses(side, peer).concat());
    let checksum = !packets::naive_sum(&packet);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet.extend([0x9c, 0x40, 0, 53]);
    packet.extend((8 + payload).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend((0..payload).map(|place| place.to_le_bytes()[0]));
    [&VnetHeader::NONE.encode()[..], &packet].concat()
}

/// Returns source and destination of a packet from `side`.
fn addresses(side: u8, peer: u16) -> [[u8; 4]; 2] {
    let [peer, _] = peer.to_le_bytes();
    [[100, 64, side, peer], [100, 64, 3 - side, peer]]
}

//! Lane cores with a peer, sessions between them, and packets.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use taut_base::{LaneId, MAX_MTU, PeerId, Prefix, PrivateKey, ReceiverIndex, SessionId, Time};
use taut_node::{FromLane, Routes, ToLane};
use taut_path::{Choice, Way};
use taut_testkit::packets;
use taut_tunnel::handshake::Identity;
use taut_tunnel::{Exporter, Limits, Role, SessionKeys};
use taut_udp::Transmit;
use taut_wire::control::Suites;
use taut_wire::icmp::{Echo, EchoKind};
use taut_wire::merge::{Offloads, Run};
use taut_wire::vnet::VnetHeader;

use crate::batch::{Flush, SendBatch};
use crate::drops::DropReason;
use crate::inbound_io::InboundIo;
use crate::lane_core::LaneCore;

/// The peer of each lane core.
pub(super) const PEER: PeerId = PeerId(5);

pub(super) fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(1_000 + seconds)
}

/// Returns the overlay address of a host.
pub(super) fn inner(number: u8) -> IpAddr {
    IpAddr::from([100, 64, 0, number])
}

/// Returns the endpoint of host `number`.
pub(super) fn outer(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 8288))
}

pub(super) fn identity(number: u8) -> Identity {
    Identity::new(PrivateKey::from_bytes([number; 32]))
}

/// A lane core with its send batch and its TUN.
pub(super) struct TestLane {
    pub(super) core: LaneCore,
    pub(super) out: SendBatch,
    pub(super) io: TestIo,
}

/// Keeps the packets that are written to the TUN.
#[derive(Default)]
pub(super) struct TestIo {
    pub(super) written: Vec<(VnetHeader, Vec<u8>)>,
    pub(super) commands: VecDeque<ToLane>,
    pub(super) refuses: bool,
    /// Datagrams that were handed off to other lanes.
    pub(super) strays: Vec<(LaneId, SocketAddr, Vec<u8>)>,
}

impl InboundIo for TestIo {
    fn write(&mut self, run: Run<'_>) -> bool {
        self.written.push((run.header(), run.slices().collect::<Vec<_>>().concat()));
        !self.refuses
    }

    fn hand_off(&mut self, to: LaneId, source: SocketAddr, datagram: &[u8]) -> bool {
        self.strays.push((to, source, datagram.to_vec()));
        true
    }

    fn next_command(&mut self) -> Option<ToLane> {
        self.commands.pop_front()
    }
}

impl TestLane {
    /// Returns host `number`, whose only peer is host `peer`, a native peer.
    pub(super) fn new(number: u8, peer: u8) -> Self {
        Self::with(number, peer, true)
    }

    /// Returns host `number`, whose only peer is host `peer`, a Taut node.
    pub(super) fn taut(number: u8, peer: u8) -> Self {
        Self::with(number, peer, false)
    }

    fn with(number: u8, peer: u8, roams: bool) -> Self {
        let checker = identity(number).checker([number; 32]);
        let core = LaneCore::new(Limits::WIREGUARD, 1420, checker, true, Offloads::ALL, Arc::default(), Arc::default());
        let mut end = Self { core, out: SendBatch::new(), io: TestIo::default() };
        end.command(ToLane::AddPeer { peer: PEER, roams }, at(0));
        end.command(ToLane::Routes(Arc::new(Routes::new([(Prefix::host(inner(peer)), PEER)]))), at(0));
        end
    }

    pub(super) fn command(&mut self, command: ToLane, now: Time) {
        self.core.command(command, &mut self.out, now);
    }

    /// Has the host send a packet. The datagrams in the batch stay there.
    pub(super) fn outbound(&mut self, packet: &[u8], now: Time) {
        self.core.outbound(&read(VnetHeader::NONE, packet), &mut self.out, now);
    }

    /// Handles timeouts, and sends held packets whose wait is over.
    pub(super) fn time_passes(&mut self, now: Time) {
        self.core.handle_timeout(&mut self.out, now);
        while self.core.release(&mut self.out, now).is_some() {}
    }

    /// Receives a datagram, or a run of equal datagrams.
    pub(super) fn inbound(&mut self, source: SocketAddr, data: &[u8], segment_size: usize, now: Time) {
        self.core.inbound(source, &mut data.to_vec(), segment_size, &mut self.io, &mut self.out, now);
    }

    /// Takes the batch, as runs.
    pub(super) fn runs(&mut self) -> Vec<(SocketAddr, Vec<u8>, usize)> {
        let mut runs = Vec::new();
        while !self.out.is_empty() {
            let mut transmit = [Transmit { destination: outer(0), contents: &[], segment_size: 0, ecn: 0 }];
            let count = self.out.transmits(Flush::All, &mut transmit);
            let [Transmit { destination, contents, segment_size, .. }] = transmit;
            runs.push((destination, contents.to_vec(), segment_size));
            self.out.consume(count, 0);
        }
        runs
    }

    /// Takes the batch, datagram by datagram.
    pub(super) fn datagrams(&mut self) -> Vec<Vec<u8>> {
        let runs = self.runs();
        runs.iter().flat_map(|(_, contents, size)| contents.chunks(*size)).map(<[u8]>::to_vec).collect()
    }

    /// Takes the packets that were written to the TUN, without their virtio headers.
    pub(super) fn written(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.io.written).into_iter().map(|(_, packet)| packet).collect()
    }

    /// Returns the bytes sent to the peer: of packets, and of messages.
    pub(super) fn sent(&self) -> (u64, u64) {
        (self.core.peers.traffic().of(PEER).1, self.core.peers.traffic().outer_of(PEER).1)
    }

    /// Returns the bytes received from the peer: of packets, and of messages.
    pub(super) fn received(&self) -> (u64, u64) {
        (self.core.peers.traffic().of(PEER).0, self.core.peers.traffic().outer_of(PEER).0)
    }

    /// Takes the messages for the agent.
    pub(super) fn outputs(&mut self) -> Vec<FromLane> {
        std::iter::from_fn(|| self.core.poll_output()).collect()
    }

    pub(super) fn dropped(&self, reason: DropReason) -> u64 {
        self.core.drops.count(reason)
    }

    /// Asserts that this reason was counted `packets` times, and no other reason.
    #[track_caller]
    pub(super) fn assert_dropped(&self, reason: DropReason, packets: u64) {
        let total: u64 = self.core.drops.iter().map(|(_, count)| count).sum();
        assert_eq!((self.dropped(reason), total), (packets, packets), "{:?}", self.core.drops);
    }
}

/// Returns the keys of session `number` for initiator and responder.
pub(super) fn keys(number: u32) -> (SessionKeys, SessionKeys) {
    let side = |role, local: u32, remote: u32, sending: u8, receiving: u8| {
        let (local, remote) = (ReceiverIndex(local << 4), ReceiverIndex(remote << 4));
        SessionKeys::stock(role, local, remote, [sending; 32].into(), [receiving; 32].into())
    };
    let (here, there) = (2 * number, 2 * number + 1);
    let [first, second] = [here, there].map(|number| number.to_le_bytes()[0]);
    (side(Role::Initiator, here, there, first, second), side(Role::Responder, there, here, second, first))
}

/// Returns the exporter from which the pairs beside WireGuard's own derive.
pub(super) fn exporter(role: Role, local: ReceiverIndex, remote: ReceiverIndex) -> Exporter {
    Exporter::new([9; 32].into(), role, local, remote)
}

pub(super) fn add_session(number: u32, keys: SessionKeys, proven: Option<SocketAddr>, born: Time) -> ToLane {
    ToLane::AddSession {
        peer: PEER,
        id: SessionId(u64::from(number)),
        keys: Box::new(keys),
        born,
        proven: proven.map(Into::into),
    }
}

/// Returns hosts 1 and 2 with session 1, which host 1 initiated and on which host 2 has received nothing yet. The batches are empty.
pub(super) fn pair() -> (TestLane, TestLane) {
    let (mut here, mut there) = (TestLane::new(1, 2), TestLane::new(2, 1));
    let (ours, theirs) = keys(1);
    there.command(add_session(1, theirs, None, at(0)), at(0));
    here.command(add_session(1, ours, Some(outer(2)), at(0)), at(0));
    here.datagrams();
    here.outputs();
    (here, there)
}

/// Returns the same as [`pair`] for Taut nodes; host 1 knows the endpoint of host 2.
pub(super) fn taut_pair() -> (TestLane, TestLane) {
    taut_pair_with(Suites::STOCK)
}

/// Returns the same as [`taut_pair`] for nodes that have these suites.
pub(super) fn taut_pair_with(suites: Suites) -> (TestLane, TestLane) {
    let (mut here, mut there) = (TestLane::with(1, 2, false), TestLane::with(2, 1, false));
    let (ours, theirs) = keys(1);
    let extended = |keys: SessionKeys| SessionKeys {
        extension: Some(exporter(keys.role, keys.stock.local, keys.stock.remote)),
        suites,
        ..keys
    };
    there.command(add_session(1, extended(theirs), None, at(0)), at(0));
    here.command(add_session(1, extended(ours), Some(outer(2)), at(0)), at(0));
    here.datagrams();
    here.outputs();
    (here, there)
}

/// Returns the choice of this path alone, with a short round trip. It carries packets of any length.
pub(super) fn choice(way: Way) -> Choice {
    let round_trip = Some(Duration::from_millis(10));
    Choice { way, also: None, spare: None, behind: Duration::ZERO, round_trip, limit: MAX_MTU }
}

/// Returns a packet of `length` bytes from host `from` to host `to`.
pub(super) fn packet(from: u8, to: u8, length: usize) -> Vec<u8> {
    let payload = vec![length.to_le_bytes()[0]; length - 28];
    let echo = Echo { kind: EchoKind::Request, ident: 1, sequence: 1, payload: &payload };
    let mut packet = vec![0; length];
    assert_eq!(echo.write_packet(inner(from), inner(to), &mut packet), Ok(length));
    packet
}

/// Returns a packet as it is read from the TUN.
pub(super) fn read(header: VnetHeader, packet: &[u8]) -> Vec<u8> {
    [&header.encode(), packet].concat()
}

/// Returns a TCP superpacket from host 1 to host 2 as the kernel makes it, with a partial checksum.
pub(super) fn superpacket(payload: usize, gso_size: u16) -> (VnetHeader, Vec<u8>) {
    let (header, packet) = packets::tcp_superpacket([[100, 64, 0, 1], [100, 64, 0, 2]], payload, gso_size);
    (VnetHeader::decode(&header.encode()), packet)
}

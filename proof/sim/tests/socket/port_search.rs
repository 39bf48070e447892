//! The port search of a real lane: which of its sockets is kept, which datagrams leave from it, and that all the others are closed.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use taut_base::{DEFAULT_MTU, PeerId, Prefix, PrivateKey, ReceiverIndex, SessionId, Time};
use taut_event::boot_time;
use taut_lane::{Flush, InboundIo, LaneCore, SendBatch};
use taut_namespace::in_namespace;
use taut_node::{FromLane, Routes, ToLane};
use taut_path::{Choice, PortSearch, Way};
use taut_tunnel::handshake::Identity;
use taut_tunnel::{Exporter, Limits, Role, SessionKeys};
use taut_udp::Transmit;
use taut_wire::control::{ControlMessage, Suites};
use taut_wire::merge::{Offloads, Run};

use crate::rig::{Peer, Rig, wait_until};

const SESSION: SessionId = SessionId(7);

fn now() -> Time {
    Time::from_duration(boot_time())
}

/// Returns the keys of a session between the lane, the responder, and the peer.
fn keys(role: Role) -> Box<SessionKeys> {
    let (lane, peer) = (ReceiverIndex(5 << 4), ReceiverIndex(6 << 4));
    let (own, other) = if role == Role::Responder { (lane, peer) } else { (peer, lane) };
    let (sending, receiving) = if role == Role::Responder { ([1; 32], [2; 32]) } else { ([2; 32], [1; 32]) };
    let stock = SessionKeys::stock(role, own, other, sending.into(), receiving.into());
    let exporter = Exporter::new([9; 32].into(), role, own, other);
    Box::new(SessionKeys { extension: Some(exporter), suites: Suites::STOCK, ..stock })
}

/// The peer's TUN, which takes everything.
struct Tun;

impl InboundIo for Tun {
    fn write(&mut self, _: Run<'_>) -> bool {
        true
    }

    fn next_command(&mut self) -> Option<ToLane> {
        None
    }
}

/// The peer: a lane core on a plain socket.
struct FarPeer {
    id: PeerId,
    core: LaneCore,
    out: SendBatch,
    socket: UdpSocket,
}

impl FarPeer {
    fn new(peer: &Peer) -> Self {
        let checker = Identity::new(PrivateKey::from_bytes([3; 32])).checker([3; 32]);
        let (drops, traffic) = (Arc::default(), Arc::default());
        let core = LaneCore::new(Limits::WIREGUARD, 1420, checker, false, Offloads::ALL, drops, traffic);
        let mut far = Self { id: peer.id, core, out: SendBatch::new(), socket: Rig::endpoint(9) };
        far.command(ToLane::AddPeer { peer: peer.id, roams: false });
        let routes = Routes::new([(Prefix::host([100, 64, 0, 1].into()), peer.id)]);
        far.command(ToLane::Routes(Arc::new(routes)));
        let nowhere = Some(SocketAddr::from(([127, 0, 0, 1], 9)).into());
        far.command(ToLane::AddSession {
            peer: peer.id,
            id: SESSION,
            keys: keys(Role::Initiator),
            born: now(),
            proven: nowhere,
        });
        far.sent();
        far
    }

    fn command(&mut self, command: ToLane) {
        self.core.command(command, &mut self.out, now());
    }

    /// Takes the datagrams in its batch.
    fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while !self.out.is_empty() {
            let mut transmits =
                [Transmit { destination: self.socket.local_addr().unwrap(), contents: &[], segment_size: 0, ecn: 0 }];
            let count = self.out.transmits(Flush::All, &mut transmits);
            all.extend(transmits[0].contents.chunks(transmits[0].segment_size).map(<[u8]>::to_vec));
            self.out.consume(count, 0);
        }
        all
    }

    /// Receives one datagram. Returns its source port and the messages for the agent.
    fn read(&mut self) -> (u16, Vec<FromLane>) {
        let mut buffer = [0; 2_000];
        let (length, from) = self.socket.recv_from(&mut buffer).unwrap();
        self.core.inbound(from, &mut buffer[..length], length, &mut Tun, &mut self.out, now());
        (from.port(), std::iter::from_fn(|| self.core.poll_output()).collect())
    }

    /// Sends a probe to a port of the lane's host.
    fn probe(&mut self, port: u16, id: u64) {
        self.sent();
        let way = Some(Way::Direct(SocketAddr::from(([127, 0, 0, 1], port))));
        let lane = taut_base::LaneId::FIRST;
        self.command(ToLane::Control {
            peer: self.id,
            session: SESSION,
            lane,
            way,
            message: ControlMessage::Probe { id },
        });
        for datagram in self.sent() {
            self.socket.send_to(&datagram, ("127.0.0.1", port)).unwrap();
        }
    }
}

/// Returns the number of UDP sockets in the namespace of the calling thread.
fn sockets() -> usize {
    ["udp", "udp6"]
        .iter()
        .map(|kind| std::fs::read_to_string(format!("/proc/thread-self/net/{kind}")).unwrap().lines().count() - 1)
        .sum()
}

/// Returns a lane with a confirmed session to a peer.
fn rig() -> (Rig, Peer, FarPeer) {
    let peer = Peer::new(2, 1);
    let rig = Rig::new(&[&peer]);
    rig.tell(ToLane::RemovePeer(peer.id));
    rig.tell(ToLane::AddPeer { peer: peer.id, roams: false });
    rig.tell(ToLane::AddSession { peer: peer.id, id: SESSION, keys: keys(Role::Responder), born: now(), proven: None });
    let mut far = FarPeer::new(&peer);
    far.probe(rig.target.port(), 1);
    let (from, outputs) = far.read();
    assert_eq!(from, rig.target.port());
    assert!(
        outputs
            .iter()
            .any(|output| matches!(output, FromLane::Control { message: ControlMessage::Answer { id: 1, .. }, .. })),
        "{outputs:?}"
    );
    (rig, peer, far)
}

fn open_search(rig: &Rig, far: &FarPeer, sockets: u16, lasts: Duration) {
    let search = PortSearch { to: far.socket.local_addr().unwrap(), sockets, lasts };
    rig.tell(ToLane::OpenSearch { peer: far.id, session: SESSION, search });
}

#[test]
fn the_socket_that_the_peer_reaches_is_kept_and_used_and_the_others_are_closed() {
    in_namespace(|| {
        let (rig, peer, mut far) = rig();
        let other = Rig::endpoint(5);
        let before = sockets();
        open_search(&rig, &far, 40, Duration::from_secs(600));
        let mut ports: Vec<u16> = (0..40).map(|_| far.read().0).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!((ports.len(), ports.contains(&rig.target.port())), (40, false), "each from a socket of its own");
        assert_eq!(sockets(), before + 40);

        // Datagrams that are not authentic select no socket.
        other.send_to(&[4; 64], ("127.0.0.1", ports[3])).unwrap();
        far.socket.send_to(&[4; 64], ("127.0.0.1", ports[4])).unwrap();
        far.probe(ports[7], 2);
        let (from, outputs) = far.read();
        assert_eq!(from, ports[7], "answered from the socket that was probed");
        assert!(
            outputs.iter().any(|output| matches!(
                output,
                FromLane::Control { message: ControlMessage::Answer { id: 2, .. }, .. }
            )),
            "{outputs:?}"
        );
        wait_until(|| sockets() == before + 1);

        // Probes and data to this endpoint leave from that socket from now on.
        let choice = Choice {
            way: Way::Direct(far.socket.local_addr().unwrap()),
            also: None,
            spare: None,
            behind: Duration::ZERO,
            round_trip: None,
            limit: DEFAULT_MTU,
        };
        rig.tell(ToLane::SetPath { peer: far.id, choice });
        rig.app.send_to(b"data", (peer.inner, 9000)).unwrap();
        assert_eq!(far.read().0, ports[7]);
        // The lane's own socket still receives.
        far.probe(rig.target.port(), 3);
        assert_eq!(far.read().0, ports[7], "the answer leaves from the kept socket");

        rig.tell(ToLane::CloseSearch(far.id));
        wait_until(|| sockets() == before);
        rig.app.send_to(b"data", (peer.inner, 9000)).unwrap();
        assert_eq!(far.read().0, rig.target.port(), "from the lane's own socket again");
    });
}

#[test]
fn sockets_that_the_peer_does_not_reach_are_closed_in_time_and_another_search_replaces_the_first() {
    in_namespace(|| {
        let (rig, peer, mut far) = rig();
        let before = sockets();
        open_search(&rig, &far, 20, Duration::from_secs(2));
        (0..20).for_each(|_| drop(far.read()));
        wait_until(|| sockets() == before);
        open_search(&rig, &far, 20, Duration::from_secs(600));
        let first: Vec<u16> = (0..20).map(|_| far.read().0).collect();
        far.probe(first[0], 2);
        far.read();
        wait_until(|| sockets() == before + 1);
        open_search(&rig, &far, 10, Duration::from_secs(600));
        let second: Vec<u16> = (0..10).map(|_| far.read().0).collect();
        wait_until(|| sockets() == before + 10);
        assert!(second.iter().all(|port| *port != first[0]));
        rig.tell(ToLane::CloseSearch(peer.id));
        wait_until(|| sockets() == before);
    });
}

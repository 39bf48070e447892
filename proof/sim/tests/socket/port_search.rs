//! The many sockets of a port search in a real lane: one stays and carries the traffic, all others are closed.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use taut_base::{PeerId, Prefix, PrivateKey, ReceiverIndex, SessionId, Time};
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

/// Keys of one session between the lane, which answered, and the peer.
fn keys(role: Role) -> Box<SessionKeys> {
    let (lane, peer) = (ReceiverIndex(5 << 4), ReceiverIndex(6 << 4));
    let (own, other) = if role == Role::Responder { (lane, peer) } else { (peer, lane) };
    let (sending, receiving) = if role == Role::Responder { ([1; 32], [2; 32]) } else { ([2; 32], [1; 32]) };
    let stock = SessionKeys::stock(role, own, other, sending.into(), receiving.into());
    let exporter = Exporter::new([9; 32].into(), role, own, other);
    Box::new(SessionKeys { extension: Some(exporter), suites: Suites::STOCK, ..stock })
}

/// The packets that the peer's TUN receives.
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
struct Far {
    id: PeerId,
    core: LaneCore,
    out: SendBatch,
    place: UdpSocket,
}

impl Far {
    fn new(peer: &Peer) -> Self {
        let checker = Identity::new(PrivateKey::from_bytes([3; 32])).checker([3; 32]);
        let (drops, traffic) = (Arc::default(), Arc::default());
        let core = LaneCore::new(Limits::WIREGUARD, 1420, checker, false, Offloads::ALL, drops, traffic);
        let mut far = Self { id: peer.id, core, out: SendBatch::new(), place: Rig::place(9) };
        far.command(ToLane::AddPeer { peer: peer.id, persistent_keepalive: None, roams: false });
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

    /// Returns the datagrams that it would send.
    fn sent(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while !self.out.is_empty() {
            let mut transmits =
                [Transmit { destination: self.place.local_addr().unwrap(), contents: &[], segment_size: 0, ecn: 0 }];
            let count = self.out.transmits(Flush::All, &mut transmits);
            all.extend(transmits[0].contents.chunks(transmits[0].segment_size).map(<[u8]>::to_vec));
            self.out.consume(count, 0);
        }
        all
    }

    /// Reads one datagram; returns its source port and the messages to the agent.
    fn read(&mut self) -> (u16, Vec<FromLane>) {
        let mut buffer = [0; 2_000];
        let (length, from) = self.place.recv_from(&mut buffer).unwrap();
        self.core.inbound(from, &mut buffer[..length], length, &mut Tun, &mut self.out, now());
        (from.port(), std::iter::from_fn(|| self.core.poll_output()).collect())
    }

    /// Probes a port of the lane's host.
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
            self.place.send_to(&datagram, ("127.0.0.1", port)).unwrap();
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

/// A lane with a session to a peer whose first packet it has heard.
fn rig() -> (Rig, Peer, Far) {
    let peer = Peer::new(2, 1);
    let rig = Rig::new(&[&peer]);
    rig.tell(ToLane::RemovePeer(peer.id));
    rig.tell(ToLane::AddPeer { peer: peer.id, persistent_keepalive: None, roams: false });
    rig.tell(ToLane::AddSession { peer: peer.id, id: SESSION, keys: keys(Role::Responder), born: now(), proven: None });
    let mut far = Far::new(&peer);
    far.probe(rig.target.port(), 1);
    let (from, said) = far.read();
    assert_eq!(from, rig.target.port());
    assert!(
        said.iter().any(|said| matches!(said, FromLane::Control { message: ControlMessage::Answer { id: 1, .. }, .. })),
        "{said:?}"
    );
    (rig, peer, far)
}

fn dig(rig: &Rig, far: &Far, sockets: u16, lasts: Duration) {
    let dig = PortSearch { to: far.place.local_addr().unwrap(), sockets, lasts };
    rig.tell(ToLane::OpenSearch { peer: far.id, session: SESSION, search: dig });
}

#[test]
fn the_socket_that_hears_the_peer_stays_and_carries_all_and_the_others_are_closed() {
    in_namespace(|| {
        let (rig, peer, mut far) = rig();
        let stranger = Rig::place(5);
        let before = sockets();
        dig(&rig, &far, 40, Duration::from_secs(600));
        let mut ports: Vec<u16> = (0..40).map(|_| far.read().0).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!((ports.len(), ports.contains(&rig.target.port())), (40, false), "each by a socket of its own");
        assert_eq!(sockets(), before + 40);

        // Noise, and authentic datagrams from another address, choose no socket.
        stranger.send_to(&[4; 64], ("127.0.0.1", ports[3])).unwrap();
        far.place.send_to(&[4; 64], ("127.0.0.1", ports[4])).unwrap();
        far.probe(ports[7], 2);
        let (from, said) = far.read();
        assert_eq!(from, ports[7], "answered by the socket that was asked");
        assert!(
            said.iter()
                .any(|said| matches!(said, FromLane::Control { message: ControlMessage::Answer { id: 2, .. }, .. })),
            "{said:?}"
        );
        wait_until(|| sockets() == before + 1);

        // Probes and data to this endpoint use the chosen socket from now on.
        let choice = Choice {
            way: Way::Direct(far.place.local_addr().unwrap()),
            also: None,
            spare: None,
            behind: Duration::ZERO,
            round_trip: None,
        };
        rig.tell(ToLane::SetPath { peer: far.id, choice });
        rig.app.send_to(b"data", (peer.inner, 9000)).unwrap();
        assert_eq!(far.read().0, ports[7]);
        // Packets on the chosen socket are delivered, and the lane's own socket still works.
        far.probe(rig.target.port(), 3);
        assert_eq!(far.read().0, ports[7], "what goes to this place goes by it, whatever asked");

        rig.tell(ToLane::CloseSearch(far.id));
        wait_until(|| sockets() == before);
        rig.app.send_to(b"data", (peer.inner, 9000)).unwrap();
        assert_eq!(far.read().0, rig.target.port(), "by the lane's own again");
    });
}

#[test]
fn sockets_that_nobody_finds_are_closed_in_time_and_another_search_replaces_the_former() {
    in_namespace(|| {
        let (rig, peer, mut far) = rig();
        let before = sockets();
        dig(&rig, &far, 20, Duration::from_secs(2));
        (0..20).for_each(|_| drop(far.read()));
        wait_until(|| sockets() == before);
        dig(&rig, &far, 20, Duration::from_secs(600));
        let first: Vec<u16> = (0..20).map(|_| far.read().0).collect();
        far.probe(first[0], 2);
        far.read();
        wait_until(|| sockets() == before + 1);
        dig(&rig, &far, 10, Duration::from_secs(600));
        let second: Vec<u16> = (0..10).map(|_| far.read().0).collect();
        wait_until(|| sockets() == before + 10);
        assert!(second.iter().all(|port| *port != first[0]));
        rig.tell(ToLane::CloseSearch(peer.id));
        wait_until(|| sockets() == before);
    });
}

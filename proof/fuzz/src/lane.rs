//! The inbound direction of a lane with a session: only packets that the peer sealed and that come from its own address are delivered, and unauthenticated senders
//! get no answer.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use taut_base::{DEFAULT_MTU, PeerId, Prefix, PrivateKey, ReceiverIndex, SessionId, Time};
use taut_lane::{Flush, InboundIo, LaneCore, SendBatch};
use taut_node::{FromLane, Routes, ToLane};
use taut_tunnel::handshake::Identity;
use taut_tunnel::{Exporter, Limits, Role, Session, SessionKeys};
use taut_udp::Transmit;
use taut_wire::control::{Abilities, Suite, Suites};
use taut_wire::icmp::ErrorAbout;
use taut_wire::ip::Packet;
use taut_wire::merge::{Offloads, Run};
use taut_wire::mss;
use taut_wire::pieces::{Plan, is_piece};
use taut_wire::relay::{HEADER, header};
use taut_wire::wireguard::{DATA_HEADER, padded_len};
use zeroize::Zeroizing;

use crate::input::Input;
use crate::reference;
use crate::superpackets::{apart, by_flow};

const PEER: PeerId = PeerId(5);
const START: Time = Time(1_000_000_000_000);
/// Maximum number of steps of a script that are executed, 32.
const MAX_STEPS: usize = 32;
/// Maximum number of datagrams in one run, 8.
const MAX_RUN: u8 = 8;

/// Longest piece of the peer's packets, 64 bytes, so that short packets have several.
const PIECE: usize = 64;
/// Number of the peer's first packet in pieces. A script that writes pieces rarely uses it.
const FIRST_PACKET: u32 = 0x5a5a_0000;

/// The overlay address of the peer.
pub(crate) const PEER_ADDRESS: [u8; 4] = [100, 64, 0, 2];

/// The private key of the lane's node. Seeds contain handshakes to it.
pub(crate) fn own_key() -> PrivateKey {
    PrivateKey::from_bytes([1; 32])
}

/// Keeps the packets that are written to the TUN.
#[derive(Default)]
struct FuzzIo(Vec<Vec<u8>>);

impl InboundIo for FuzzIo {
    fn write(&mut self, run: Run<'_>) -> bool {
        self.0.extend(apart(run));
        true
    }

    fn next_command(&mut self) -> Option<ToLane> {
        None
    }
}

/// A lane core under test, and its peer.
struct FuzzedLane {
    core: LaneCore,
    out: SendBatch,
    io: FuzzIo,
    /// The peer's half of the session.
    peer_session: Session,
    /// The datagrams that the peer sealed, each with its packet without the flag of a partial checksum, and true if it arrived unaltered.
    history: Vec<(Vec<u8>, Vec<u8>, bool)>,
    now: Time,
    /// Number of the next packet that the peer sends in pieces.
    next_packet: u32,
    /// The script contains bytes that are a piece.
    has_forged_pieces: bool,
}

/// Runs a script: each step is a kind and its data (see `step`).
pub(crate) fn lane(data: &[u8]) {
    let mut end = FuzzedLane::new();
    let mut input = Input::new(data);
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            return;
        }
        end.step(&mut input);
        end.check();
    }
}

impl FuzzedLane {
    fn new() -> Self {
        let checker = Identity::new(own_key()).checker([7; 32]);
        let mut core =
            LaneCore::new(Limits::WIREGUARD, DEFAULT_MTU, checker, true, Offloads::ALL, Arc::default(), Arc::default());
        let mut out = SendBatch::new();
        let keys = |role, local, remote, sending: u8, receiving: u8| {
            let (local, remote) = (ReceiverIndex(local), ReceiverIndex(remote));
            SessionKeys {
                extension: Some(Exporter::new(Zeroizing::new([9; 32]), role, local, remote)),
                suites: Suites::STOCK.with(Suite::Aes256Gcm),
                ..SessionKeys::stock(role, local, remote, [sending; 32].into(), [receiving; 32].into())
            }
        };
        let routes = Routes::new([(Prefix::host(IpAddr::from(PEER_ADDRESS)), PEER)]);
        let session = Box::new(keys(Role::Responder, 0x10, 0x20, 3, 4));
        for command in [
            ToLane::Relays(Arc::new([relay()])),
            ToLane::AddPeer { peer: PEER, roams: true },
            ToLane::Routes(Arc::new(routes)),
            ToLane::AddSession { peer: PEER, id: SessionId(1), keys: session, born: START, proven: None },
            ToLane::UseSuite { peer: PEER, session: SessionId(1), suite: Suite::Aes256Gcm, abilities: Abilities::OURS },
        ] {
            core.command(command, &mut out, START);
        }
        let peer_session = Session::new(SessionId(1), keys(Role::Initiator, 0x20, 0x10, 4, 3), START);
        let (io, history) = (FuzzIo::default(), Vec::new());
        Self { core, out, io, peer_session, history, now: START, next_packet: FIRST_PACKET, has_forged_pieces: false }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 6 {
            // A run of an unauthenticated sender, or of the relay itself.
            0 => {
                let size = usize::from(input.word());
                let source = if size & 0x8000 == 0 { unauthenticated() } else { relay() };
                let size = size & 0x7fff;
                let bytes = input.piece().to_vec();
                self.drain();
                self.receive(source, bytes, size, &[]);
                assert!(self.out.is_empty(), "an unauthenticated sender was answered");
            }
            // Packets of the peer in one run: with the highest bit sealed by AES, with the next bit flagged as partial, with the third through the relay,
            // with the fifth one packet in pieces.
            1 => {
                let how = input.byte();
                let count = how % MAX_RUN + 1;
                self.use_aes(how & 0x80 != 0);
                let mut packet = input.piece().to_vec();
                if let Some(first) = packet.first_mut() {
                    *first |= how << 1 & 0x80;
                }
                if how & 0x08 != 0 && self.receive_pieces(packet.clone(), how & 0x20 != 0) {
                    return;
                }
                let packet = packet.as_slice();
                let sealed: Vec<_> = (0..count).map(|_| self.seal(packet, true)).collect();
                let size = sealed[0].len();
                let packet = self.without_flag(packet);
                let packets = vec![packet.as_slice(); sealed.len()];
                if how & 0x20 == 0 {
                    return self.receive(peer(), sealed.concat(), size, &packets);
                }
                let framed = sealed.iter().flat_map(|sealed| [&header(7)[..], sealed].concat()).collect();
                self.receive(relay(), framed, HEADER + size, &packets);
            }
            // A packet that was altered on its way.
            2 => {
                let (place, mask) = (usize::from(input.word()), input.byte());
                let packet = input.piece();
                let mut sealed = self.seal(packet, mask == 0);
                let place = place % sealed.len();
                sealed[place] ^= mask;
                let size = sealed.len();
                let packet = self.without_flag(packet);
                let expected: &[&[u8]] = if mask == 0 { &[&packet] } else { &[] };
                self.receive(peer(), sealed, size, expected);
            }
            // An earlier packet, which may arrive once.
            3 => {
                let number = usize::from(input.byte()) % self.history.len().max(1);
                let Some((old, packet, arrived)) = self.history.get_mut(number) else { return };
                let (old, packet, arrived) = (old.clone(), packet.clone(), std::mem::replace(arrived, true));
                let size = old.len();
                let expected: &[&[u8]] = if arrived { &[] } else { &[&packet] };
                self.receive(peer(), old, size, expected);
            }
            4 => {
                self.now = self.now + Duration::from_millis(u64::from(input.word()));
                self.core.handle_timeout(&mut self.out, self.now);
            }
            _ => {
                let packet = input.piece();
                self.core.outbound(packet, &mut self.out, self.now);
            }
        }
    }

    /// Sets the suite that the peer seals with.
    fn use_aes(&mut self, aes: bool) {
        self.peer_session.use_suite(if aes { Suite::Aes256Gcm } else { Suite::ChaCha20Poly1305 }, Abilities::default());
    }

    /// Seals these bytes as the peer.
    fn seal(&mut self, packet: &[u8], arrives: bool) -> Vec<u8> {
        let mut datagram = vec![0; Session::sealed_len(packet.len(), usize::from(DEFAULT_MTU))];
        datagram[DATA_HEADER..DATA_HEADER + packet.len()].copy_from_slice(packet);
        assert!(self.peer_session.seal(&mut datagram, packet.len()).is_ok(), "a new session can seal");
        // A piece alone is not delivered. If the script wrote it, it may complete a packet of the script's pieces.
        self.has_forged_pieces |= is_piece(packet) && packet.get(4..8) != Some(&self.next_packet.to_le_bytes());
        self.history.push((datagram.clone(), self.without_flag(packet), arrives));
        datagram
    }

    /// Has the peer send a packet in pieces. Returns false if it is too short for that.
    fn receive_pieces(&mut self, mut packet: Vec<u8>, relayed: bool) -> bool {
        packet.resize(padded_len(packet.len(), usize::from(DEFAULT_MTU)), 0);
        let Some(plan) = Plan::new(packet.len(), PIECE) else { return false };
        let whole = self.without_flag(&packet);
        let (mut run, mut size) = (Vec::new(), 0);
        for index in 0..plan.count() {
            let mut piece = vec![0; plan.longest()];
            assert!(plan.write(index, self.next_packet, &packet, &mut piece).is_some());
            let sealed = self.seal(&piece, true);
            let framed = if relayed { [&header(7)[..], &sealed].concat() } else { sealed };
            size = framed.len();
            run.extend(framed);
        }
        self.next_packet += 1;
        self.receive(if relayed { relay() } else { peer() }, run, size, &[&whole]);
        true
    }

    /// Returns a packet as it may be delivered if it is sealed now: without the flag of a partial checksum, and empty if the flag is wrong.
    fn without_flag(&self, packet: &[u8]) -> Vec<u8> {
        let mut padded = packet.to_vec();
        if self.peer_session.suite() == Suite::ChaCha20Poly1305
            || !matches!(packet.first(), Some(0xc0..0xd0 | 0xe0..0xf0))
        {
            return padded;
        }
        padded[0] &= 0x7f;
        padded.resize(padded_len(packet.len(), usize::from(DEFAULT_MTU)), 0);
        let valid = Packet::parse(&padded).is_ok_and(|ip| reference::is_partial(&padded, &ip));
        if valid { padded } else { Vec::new() }
    }

    /// Receives a run of which only `packets` may be delivered.
    fn receive(&mut self, source: SocketAddr, mut bytes: Vec<u8>, size: usize, packets: &[&[u8]]) {
        let allowed = allowed(packets);
        self.core.inbound(source, &mut bytes, size, &mut self.io, &mut self.out, self.now);
        let delivered = std::mem::take(&mut self.io.0);
        let expected = by_flow(&allowed);
        let too_old = self.now.since(START) >= Limits::WIREGUARD.reject_after;
        if too_old {
            return assert!(delivered.is_empty(), "a session that is too old opened a packet");
        }
        if self.has_forged_pieces {
            let foreign = |packet: &Vec<u8>| Packet::parse(packet).map(|ip| ip.source()) != Ok(PEER_ADDRESS.into());
            return assert!(!delivered.iter().any(foreign), "a packet from an address that is not the peer's");
        }
        assert!(by_flow(&delivered) == expected, "delivered {delivered:02x?} instead of {expected:02x?}");
    }

    fn drain(&mut self) {
        while !self.out.is_empty() {
            let mut run = [Transmit { destination: peer(), contents: &[], segment_size: 0, ecn: 0 }];
            let count = self.out.transmits(Flush::All, &mut run);
            let known = [peer(), relay()].contains(&run[0].destination);
            assert!(count == 1 && known, "a datagram is sent to an unknown endpoint");
            self.out.consume(count, 0);
        }
    }

    fn check(&mut self) {
        self.drain();
        let outputs: Vec<FromLane> = std::iter::from_fn(|| self.core.poll_output()).collect();
        let of_relay = outputs.iter().filter(|output| matches!(output, FromLane::Datagram { .. })).count();
        let others = outputs.len() - of_relay;
        // Each datagram of an unauthenticated run may be a handshake; no other message is sent twice per step.
        assert!(others <= crate::MAX_INPUT / 64 + 4, "{others} messages to the agent");
        // A lane passes 200 frames of each of two kinds in a burst (protocol.md 6.7).
        assert!(of_relay <= 400, "{of_relay} frames of a relay to the agent");
    }
}

/// Returns the packets of the peer that may reach the TUN. A packet's length may include zeros that pad it.
fn allowed(packets: &[&[u8]]) -> Vec<Vec<u8>> {
    let allowed = |packet: &&[u8]| {
        let mut padded = packet.to_vec();
        padded.resize(padded_len(packet.len(), usize::from(DEFAULT_MTU)), 0);
        let packet = Packet::parse(&padded).ok()?;
        // An ICMP error is for the host's own packets to the peer alone (fault I3).
        let concerns = match ErrorAbout::of(&packet) {
            ErrorAbout::Nothing => true,
            about => about == ErrorAbout::PacketTo(PEER_ADDRESS.into()),
        };
        let mut bytes = packet.bytes().to_vec();
        if mss::opens_connection(&packet) {
            // Checksums are not compared (`by_flow`).
            mss::lower(&mut bytes, usize::from(DEFAULT_MTU), false);
        }
        (concerns && packet.source() == IpAddr::from(PEER_ADDRESS)).then_some(bytes)
    };
    packets.iter().filter_map(allowed).collect()
}

fn peer() -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 2], 8288))
}

fn relay() -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 3], 3478))
}

fn unauthenticated() -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 9], 9))
}

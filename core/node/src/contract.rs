//! What agent and lanes say to each other. Plain data in bounded queues (ARCHITECTURE.md).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use taut_base::{LaneId, PeerId, SessionId, Time};
use taut_path::{Choice, PortSearch, Way};
use taut_tunnel::cookie::SourceAddress;
use taut_tunnel::{SessionIndices, SessionKeys};
use taut_wire::control::{Abilities, ControlMessage, Suite};
use taut_wire::wireguard::{cookie_reply, initiation, response};

use crate::routes::Routes;

/// The two clocks, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Since boot; all timers use it.
    pub now: Time,
    /// Since the Unix epoch, as the host believes; only for the stamp of an initiation.
    pub wall: Duration,
}

/// A handshake message (types 1 to 3), in place: agent and lanes pass it without allocating.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeMessage {
    length: u8,
    bytes: [u8; initiation::LEN],
}

impl HandshakeMessage {
    /// Takes the bytes of an initiation, a response or a cookie reply; `None` for any other length.
    pub fn new(message: &[u8]) -> Option<Self> {
        let length = match message.len() {
            length @ (initiation::LEN | response::LEN | cookie_reply::LEN) => u8::try_from(length).ok()?,
            _ => return None,
        };
        let mut bytes = [0; initiation::LEN];
        bytes[..message.len()].copy_from_slice(message);
        Some(Self { length, bytes })
    }

    /// The message as it goes on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The same, to write mac2 into it.
    pub(crate) fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.length)]
    }

    /// The index by which an initiation's or a response's sender is named in the answer.
    pub(crate) fn sender(&self) -> Option<u32> {
        self.as_bytes().get(initiation::SENDER)?.try_into().ok().map(u32::from_le_bytes)
    }
}

/// A datagram that is nobody's packet, as it goes on the wire: a frame between us and a relay, or a STUN message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram(Box<[u8]>);

impl Datagram {
    /// Bytes at most: no frame of a relay is longer, nor any STUN message that we understand.
    pub const MAX: usize = 512;

    /// Takes a copy of the bytes; `None` for more than [`Self::MAX`].
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= Self::MAX).then(|| Self(bytes.into()))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Who a message that came this way is from, for cookies and limits (protocol.md 2.3).
pub fn source_of(way: Way) -> SourceAddress {
    match way {
        Way::Direct(endpoint) => endpoint.into(),
        Way::Relayed { relay, id } => SourceAddress::relayed(relay, id),
    }
}

/// What the agent tells a lane. What concerns one lane of a session goes to the lane of ours that serves it ([`LaneId::served_by`]).
pub enum ToLane {
    /// Routes from now on; replaces the former ones.
    Routes(Arc<Routes>),
    /// A peer that sessions may belong to.
    AddPeer {
        /// Who.
        peer: PeerId,
        /// Interval of unconditional keepalives, if any.
        persistent_keepalive: Option<Duration>,
        /// Whether an authentic packet from elsewhere moves it there ([`FromLane::Moved`]), as stock WireGuard does. Otherwise it is where
        /// [`Self::SetPath`] says, and the lane only tells that it heard from elsewhere ([`FromLane::Arrived`]); before the first of them it is where the
        /// first authentic packet came from.
        roams: bool,
    },
    /// How packets go to the peer from now on: only a proof moves it (law 3). Nothing that is on the way is overtaken (protocol.md 5.4).
    SetPath {
        /// Whose.
        peer: PeerId,
        /// The ways, and how far apart they are.
        choice: Choice,
    },
    /// Where packets for the peer go until it is heard from elsewhere: somebody configured it.
    SetEndpoint {
        /// Whose.
        peer: PeerId,
        /// Where to.
        endpoint: SocketAddr,
    },
    /// Another interval of unconditional keepalives; the first one goes at once.
    SetKeepalive {
        /// Whose.
        peer: PeerId,
        /// The interval, if any.
        interval: Option<Duration>,
    },
    /// The TUN has another MTU: what is padded never becomes longer.
    SetMtu(u16),
    /// Forget the peer and its sessions.
    RemovePeer(PeerId),
    /// A session on one of its lanes, once: its counters and windows live in the lane from here on (protocol.md 1.7).
    AddSession {
        /// Whose.
        peer: PeerId,
        /// Its name; never used before for the lane that the keys are for.
        id: SessionId,
        /// Its keys.
        keys: Box<SessionKeys>,
        /// When its handshake ended.
        born: Time,
        /// Where the handshake proved the peer to be; on the answering side the peer's first packet proves it. On further lanes a probe will.
        proven: Option<Way>,
    },
    /// The peer used a session that we had answered for, on another lane than this: it is in use on all.
    Confirm {
        /// Whose.
        peer: PeerId,
        /// Which.
        id: SessionId,
    },
    /// All lanes of the peer's sessions that this lane of ours serves were proven. What is read here for the peer is sealed here, as soon as nothing
    /// that was handed over to the first lane can be overtaken.
    OpenLanes {
        /// Whose.
        peer: PeerId,
        /// Each further lane that is served here, and where the peer answered on it.
        lanes: Vec<(LaneId, SocketAddr)>,
        /// The ids that follow this one are for probes on the first lane, one for each try: once the last is answered, everything that was sent there
        /// before has arrived ([`Self::Passed`]).
        barrier: u64,
    },
    /// A probe of those was answered.
    Passed {
        /// Whose.
        peer: PeerId,
        /// Its id.
        barrier: u64,
    },
    /// What is for the peer goes by the first lane again.
    CloseLanes(PeerId),
    /// The way to this place from the address of ours that it speaks to is another one now, or none: the routes choose the address again.
    ForgetLocal {
        /// Where.
        place: SocketAddr,
    },
    /// Forget which addresses of ours the peers speak to: the routes choose the source of what is sent, until a peer is heard again. Sent when the
    /// user changes the mark of the socket, as the kernel's WireGuard does.
    ForgetLocals,
    /// Send a handshake message from this lane's socket: a NAT mapping belongs to the socket that made it.
    Send {
        /// Where to.
        way: Way,
        /// What.
        message: HandshakeMessage,
    },
    /// Send this from this lane's socket as it is: a frame to a relay, or a question to a STUN server.
    Datagram {
        /// Where to.
        destination: SocketAddr,
        /// What.
        bytes: Datagram,
    },
    /// From these places, and no others, this lane takes relayed datagrams, and frames and STUN answers ([`FromLane::Datagram`]). Replaces the former
    /// ones.
    Relays(Arc<[SocketAddr]>),
    /// Send a control message on the control pair of a lane of a session, if it is still there.
    Control {
        /// Whose.
        peer: PeerId,
        /// Which session.
        session: SessionId,
        /// Which lane of it.
        lane: LaneId,
        /// Where to; `None` for where data goes.
        way: Option<Way>,
        /// What.
        message: ControlMessage,
    },
    /// Send a probe that is as long as a packet of `size` bytes, on the control pair of the first lane of a session. Its answer is short.
    SizedProbe {
        /// Whose.
        peer: PeerId,
        /// Which session.
        session: SessionId,
        /// Where to.
        way: Way,
        /// The probe's id.
        id: u64,
        /// Bytes of the packet; an ordinary probe if it is shorter than one.
        size: u16,
    },
    /// Open many sockets, each with a probe to where the peer is, on the control pair of the first lane of a session; the one where an authentic packet of
    /// the peer comes from there first stays and carries all that goes there, and the others are closed (protocol.md 5.7). What was dug for the peer
    /// before is filled.
    OpenSearch {
        /// Whose.
        peer: PeerId,
        /// Which session.
        session: SessionId,
        /// Where to, how many, and for how long.
        search: PortSearch,
    },
    /// Close all sockets that were opened for the peer: what goes to where it is goes by this lane's own again.
    CloseSearch(PeerId),
    /// The peer is ready for data under this suite: seal with it from now on.
    UseSuite {
        /// Whose.
        peer: PeerId,
        /// Which session.
        session: SessionId,
        /// Which suite.
        suite: Suite,
        /// What else the peer understands.
        abilities: Abilities,
    },
    /// How long a packet takes to the peer and back.
    SetRoundTrip {
        /// Whose.
        peer: PeerId,
        /// As measured by a probe.
        round_trip: Duration,
    },
    /// Nobody answered for a long time: drop what waits for this peer.
    GiveUp(PeerId),
    /// What of the host's packets this lane reads from now on.
    Read(Reading),
    /// Say [`FromLane::Drained`] once everything that waits now was read, as far as this lane reads, and handed over where it belongs.
    Drain,
}

/// What a lane reads of the host's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Nothing: no packet waits on its queue.
    Nothing,
    /// What waits on its queue, for itself.
    Own,
    /// What waits on its queue, for all lanes: each packet is handed to the lane of its flow.
    Spread,
}

/// What a lane tells the agent. Rare things only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromLane {
    /// A handshake message with a mac1 made for us.
    Handshake {
        /// Where from.
        source: Way,
        /// What.
        message: HandshakeMessage,
    },
    /// A frame of a relay that carries nobody's packet, or a STUN answer, from a place that [`ToLane::Relays`] named. Nothing of it is checked yet.
    Datagram {
        /// Where from.
        source: SocketAddr,
        /// What.
        bytes: Datagram,
    },
    /// Packets wait for this peer, or its session is getting old.
    WantsHandshake(PeerId),
    /// The peer used a session that we had answered for, or that of two that crossed which both sides use: packets are sent with it from now on.
    Confirmed {
        /// Whose.
        peer: PeerId,
        /// Which.
        id: SessionId,
    },
    /// Authenticated packets come from another endpoint than before, and packets go there now.
    Moved {
        /// Whose.
        peer: PeerId,
        /// Where to.
        way: Way,
    },
    /// An authentic packet of a peer that does not roam came by another way than packets go to it. At most once per way and second.
    Arrived {
        /// Whose.
        peer: PeerId,
        /// Which way.
        way: Way,
    },
    /// Data is sent and nothing comes back, neither data nor a receipt (protocol.md 5.3). Data goes on the spare way too, if there is one.
    Suspect {
        /// Whom to.
        peer: PeerId,
    },
    /// Data was sent to the peer or came from it. At most once per 5 seconds and peer.
    Active {
        /// Which.
        peer: PeerId,
    },
    /// An authentic control message that is the agent's to act on: offer, accept or answer. Probes and receipts end in the lane.
    Control {
        /// Whose.
        peer: PeerId,
        /// On which session.
        session: SessionId,
        /// On which lane of it.
        lane: LaneId,
        /// Where it came from.
        source: Way,
        /// What.
        message: ControlMessage,
    },
    /// To [`ToLane::Drain`].
    Drained,
    /// Nothing comes back on further lanes of the peer's session: what is for it goes by the first one again.
    Silent {
        /// Whose.
        peer: PeerId,
    },
    /// A session is gone from one of its lanes; its indices there are free.
    Retired {
        /// Whose.
        peer: PeerId,
        /// Which.
        id: SessionId,
        /// The indices that it had.
        indices: SessionIndices,
    },
}

//! Messages between agent and lanes: plain data in bounded queues (ARCHITECTURE.md).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use taut_base::{LaneId, PeerId, Placement, ReceiverIndex, SessionId, Time};
use taut_dns::{Client, Question};
use taut_path::{Choice, PortSearch, Way};
use taut_tunnel::cookie::{CookieChecker, SourceAddress};
use taut_tunnel::{SessionIndices, SessionKeys};
use taut_wire::control::{Abilities, ControlMessage, Suite};
use taut_wire::wireguard::{cookie_reply, initiation, response};

use crate::routes::Routes;

/// Both clocks of the host, read at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Time since boot; all timers use it.
    pub now: Time,
    /// Time since the Unix epoch by the host's wall clock; only stamps of initiations and of binds to relays use it.
    pub wall: Duration,
}

/// A handshake message (types 1 to 3), stored inline: agent and lanes pass it without an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeMessage {
    length: u8,
    bytes: [u8; initiation::LEN],
}

impl HandshakeMessage {
    /// Copies an initiation, a response or a cookie reply. Returns `None` for any other length.
    pub fn new(message: &[u8]) -> Option<Self> {
        let length = match message.len() {
            length @ (initiation::LEN | response::LEN | cookie_reply::LEN) => u8::try_from(length).ok()?,
            _ => return None,
        };
        let mut bytes = [0; initiation::LEN];
        bytes[..message.len()].copy_from_slice(message);
        Some(Self { length, bytes })
    }

    /// Returns the message as it is on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Returns the message for writing, which is how mac2 is set.
    pub(crate) fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.length)]
    }

    /// Returns the receiver index that the answer to an initiation names; `None` for other messages.
    pub fn initiation_sender(&self) -> Option<ReceiverIndex> {
        self.sender().map(ReceiverIndex).filter(|_| self.as_bytes().len() == initiation::LEN)
    }

    /// Returns the sender's receiver index of an initiation or a response. The reply to the message names this index.
    pub(crate) fn sender(&self) -> Option<u32> {
        self.as_bytes().get(initiation::SENDER)?.try_into().ok().map(u32::from_le_bytes)
    }
}

/// A datagram between this node and a relay or a STUN server, as it is on the wire. It carries no packet of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram(Box<[u8]>);

impl Datagram {
    /// Maximum length in bytes: no control frame of a relay and no STUN message that this node understands is longer.
    pub const MAX: usize = 512;

    /// Copies the bytes. Returns `None` for more than [`Self::MAX`] bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= Self::MAX).then(|| Self(bytes.into()))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Returns the sender that cookies and rate limits count a message from this way under (protocol.md 2.3): all lanes of a relay's client count together.
pub fn source_of(way: Way) -> SourceAddress {
    match way.to_lane(LaneId::FIRST) {
        Way::Direct(endpoint) => endpoint.into(),
        Way::Relayed { relay, id } => SourceAddress::relayed(relay, id),
    }
}

/// A command of the agent to a lane. A command about one lane of a session goes to the local lane that serves it ([`LaneId::served_by`]).
pub enum ToLane {
    /// Replaces the routes.
    Routes(Arc<Routes>),
    /// Adds a peer, which sessions may belong to.
    AddPeer {
        /// The peer.
        peer: PeerId,
        /// Whether an authentic packet from another endpoint moves the peer there ([`FromLane::Moved`]), as in stock WireGuard. Packets to any other peer
        /// take the path of [`Self::SetPath`], and the lane only reports packets from other endpoints ([`FromLane::Arrived`]); before the first
        /// `SetPath` they go to the source of the first authentic packet.
        roams: bool,
    },
    /// Adds all peers to a lane that has just started, with their paths. It is one command, so that ten thousand peers delay no command to another lane.
    AddPeers(Arc<[KnownPeer]>),
    /// Sets the path to the peer: only a proof moves it (law 3). Packets on the new path do not overtake those on the old one (protocol.md 5.4).
    SetPath {
        /// The peer.
        peer: PeerId,
        /// The way for data and the spare way, with the difference of their delays.
        choice: Choice,
    },
    /// Sets the endpoint that a user configured: packets go there until the peer is heard from another endpoint.
    SetEndpoint {
        /// The peer.
        peer: PeerId,
        /// The endpoint.
        endpoint: SocketAddr,
    },
    /// Changes the interval of unconditional keepalives. The first keepalive leaves at once.
    SetKeepalive {
        /// The peer.
        peer: PeerId,
        /// The interval, if any.
        interval: Option<Duration>,
    },
    /// Sets the MTU of the TUN. Padding never makes a packet longer than this.
    SetMtu(u16),
    /// Replaces the checker of handshake messages, because this node's key changed.
    SetChecker(Box<CookieChecker>),
    /// Removes the peer and its sessions.
    RemovePeer(PeerId),
    /// Gives one lane of a session to this lane, once: from then on its counters and replay windows exist only there (protocol.md 1.7).
    AddSession {
        /// The peer.
        peer: PeerId,
        /// The session's id; never used before for the lane that the keys are for.
        id: SessionId,
        /// The session's keys.
        keys: Box<SessionKeys>,
        /// Time at which the handshake ended.
        born: Time,
        /// The way that the handshake proved. `None` on the answering side, where the peer's first packet proves a way, and on extra lanes, where a
        /// probe does.
        proven: Option<Way>,
    },
    /// The peer used a session that this node answered for, on another lane than this one: the session is in use on all lanes.
    Confirm {
        /// The peer.
        peer: PeerId,
        /// The session.
        id: SessionId,
    },
    /// Opens this lane for the peer, because all session lanes that it serves were proven. Packets for the peer that are read here are also sealed here,
    /// as soon as they cannot overtake packets that were handed off to the first lane.
    OpenLanes {
        /// The peer.
        peer: PeerId,
        /// Each extra lane of the session that this lane serves, and the way to the peer on it.
        lanes: Vec<(LaneId, Way)>,
        /// True if this lane serves all lanes of the session: what other lanes read and hand off takes the lane of its flow, too.
        whole: bool,
        /// Base of the ids of this lane's probes on the first lane, one id for each attempt. The answer to the last probe shows that everything sent
        /// on the first lane before it has arrived ([`Self::Passed`]).
        barrier: u64,
    },
    /// Reports the answer to a probe that this lane sent after [`Self::OpenLanes`].
    Passed {
        /// The peer.
        peer: PeerId,
        /// The probe's id.
        barrier: u64,
    },
    /// Closes all extra lanes of the peer: packets to it go through the first lane.
    CloseLanes(PeerId),
    /// Forgets the local address that packets to this endpoint leave from, because the route from there changed or is gone. The kernel's routes
    /// choose the address.
    ForgetLocal {
        /// The endpoint.
        place: SocketAddr,
    },
    /// Forgets all local addresses that packets leave from: the kernel's routes choose the source until a peer is heard again. The agent sends this
    /// when the user changes the mark of the socket, like the kernel's WireGuard.
    ForgetLocals,
    /// Sends a handshake message from this lane's socket, because a NAT mapping belongs to the socket that made it.
    Send {
        /// The way that the message takes.
        way: Way,
        /// The message.
        message: HandshakeMessage,
    },
    /// Sends a frame to a relay or a request to a STUN server from this lane's socket.
    Datagram {
        /// The address of the relay or server.
        destination: SocketAddr,
        /// The frame or request.
        bytes: Datagram,
    },
    /// Replaces the addresses of relays. From these addresses, and no others, a lane accepts relayed datagrams, frames and STUN answers
    /// ([`FromLane::Datagram`]).
    Relays(Arc<[SocketAddr]>),
    /// Sends a control message on the control pair of a lane of a session, if the session still exists.
    Control {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
        /// The lane of the session.
        lane: LaneId,
        /// The way that the message takes; `None` for the way of data.
        way: Option<Way>,
        /// The message.
        message: ControlMessage,
    },
    /// Sends a probe as long as an inner packet of `size` bytes, on the control pair of the first lane of a session. The answer is short.
    SizedProbe {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
        /// The way that the probe takes.
        way: Way,
        /// The probe's id.
        id: u64,
        /// Bytes of the inner packet. For a packet shorter than an ordinary probe, an ordinary probe is sent.
        size: u16,
    },
    /// Starts a port search (protocol.md 5.7): opens many sockets, and sends a probe to the peer's endpoint from each, on the control pair of the first lane of a
    /// session. The first socket that receives an authentic packet of the peer from there stays open and carries all packets to that endpoint; the others
    /// are closed. An earlier search for the peer ends.
    OpenSearch {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
        /// The endpoint, the number of sockets, and the time limit.
        search: PortSearch,
    },
    /// Ends the port search for the peer: closes all its sockets. Packets to the endpoint leave from this lane's own socket.
    CloseSearch(PeerId),
    /// Seals data to the peer under this suite, which the peer is ready to open. All lanes are told, in each session, also if the suite is WireGuard's own.
    UseSuite {
        /// The peer.
        peer: PeerId,
        /// The session.
        session: SessionId,
        /// The suite.
        suite: Suite,
        /// Extensions that the peer understands.
        abilities: Abilities,
    },
    /// Sets the round-trip time to the peer.
    SetRoundTrip {
        /// The peer.
        peer: PeerId,
        /// The time that a probe measured.
        round_trip: Duration,
    },
    /// Drops the packets that wait for this peer, because no handshake was answered for a long time.
    GiveUp(PeerId),
    /// Passes the answer of another server to the program that asked this lane's stub ([`FromLane::Question`]).
    Answer {
        /// The program.
        client: Client,
        /// The message, which was checked.
        message: Box<[u8]>,
    },
    /// Sets which packets of the host this lane reads.
    Read(Reading),
    /// Sets the node's lanes that run, this one included, and the flows of each. This lane takes its ends of the rings to the others, which the agent has left for it.
    Lanes(Placement),
    /// Ends all sessions on this lane, which is not needed any more: each is reported as retired, and then [`FromLane::Ended`].
    End,
    /// Requests [`FromLane::Drained`] once this lane has read the packets that wait now, and has handed off those of other lanes.
    Drain,
}

/// A peer as a new lane learns of it, by [`ToLane::AddPeers`].
#[derive(Clone, Copy, Debug)]
pub struct KnownPeer {
    /// The peer.
    pub peer: PeerId,
    /// As in [`ToLane::AddPeer`].
    pub roams: bool,
    /// As in [`ToLane::SetPath`], if the peer has a path.
    pub choice: Option<Choice>,
    /// As in [`ToLane::SetRoundTrip`], if it was measured.
    pub round_trip: Option<Duration>,
}

impl ToLane {
    /// Returns the peer that the command is about; `None` for commands to a whole lane.
    pub fn peer(&self) -> Option<PeerId> {
        match self {
            Self::AddPeer { peer, .. }
            | Self::SetPath { peer, .. }
            | Self::SetEndpoint { peer, .. }
            | Self::SetKeepalive { peer, .. }
            | Self::RemovePeer(peer)
            | Self::AddSession { peer, .. }
            | Self::Confirm { peer, .. }
            | Self::OpenLanes { peer, .. }
            | Self::Passed { peer, .. }
            | Self::CloseLanes(peer)
            | Self::Control { peer, .. }
            | Self::SizedProbe { peer, .. }
            | Self::OpenSearch { peer, .. }
            | Self::CloseSearch(peer)
            | Self::UseSuite { peer, .. }
            | Self::SetRoundTrip { peer, .. }
            | Self::GiveUp(peer) => Some(*peer),
            Self::Routes(_)
            | Self::AddPeers(_)
            | Self::SetMtu(_)
            | Self::SetChecker(_)
            | Self::ForgetLocal { .. }
            | Self::ForgetLocals
            | Self::Send { .. }
            | Self::Datagram { .. }
            | Self::Relays(_)
            | Self::Answer { .. }
            | Self::Read(_)
            | Self::Lanes(_)
            | Self::End
            | Self::Drain => None,
        }
    }
}

/// The packets of the host that a lane reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// None: no packet waits on its queue.
    Nothing,
    /// Those on its queue, which are its own to seal.
    Own,
    /// Those on its queue, which are for all lanes: each packet is handed off to the lane of its flow.
    Spread,
}

/// A message of a lane to the agent. Only rare events are reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromLane {
    /// A handshake message whose mac1 was made for this node's key.
    Handshake {
        /// The way that it came.
        source: Way,
        /// The message.
        message: HandshakeMessage,
    },
    /// A control frame of a relay or a STUN answer, from an address that [`ToLane::Relays`] named. Its contents are not checked yet.
    Datagram {
        /// The sender's address.
        source: SocketAddr,
        /// The frame or answer.
        bytes: Datagram,
    },
    /// A handshake is needed: packets wait for this peer, or its session is due for renewal.
    WantsHandshake(PeerId),
    /// The peer used a session that this node answered for, or the one that both sides prefer of two whose handshakes crossed. The lane sends
    /// packets under this session from now on.
    Confirmed {
        /// The peer.
        peer: PeerId,
        /// The session.
        id: SessionId,
    },
    /// Authentic packets of a roaming peer come from another endpoint than before, and packets to it go there now.
    Moved {
        /// The peer.
        peer: PeerId,
        /// The new way.
        way: Way,
    },
    /// The packet filter refused a packet of a peer. A sample: at most one in ten seconds per peer, after three.
    Filtered {
        /// The peer.
        peer: PeerId,
        /// The packet's destination.
        destination: IpAddr,
        /// The packet's protocol number.
        protocol: u8,
        /// The packet's destination port; `None` if the protocol has no ports or the header cannot be read.
        port: Option<u16>,
    },
    /// An authentic packet of a peer that does not roam came by another way than the path to it. Reported at most once per way and second.
    Arrived {
        /// The peer.
        peer: PeerId,
        /// The way that the packet came.
        way: Way,
    },
    /// Data is sent to the peer, and neither data nor a receipt comes back (protocol.md 5.3). The lane sends data on the spare way too, if the path
    /// has one.
    Suspect {
        /// The peer.
        peer: PeerId,
    },
    /// Long packets were sent to the peer, and none of them arrived although later packets did: the path carries shorter packets than its packet limit says. Reported at most
    /// once per second and peer.
    LongLost {
        /// The peer.
        peer: PeerId,
    },
    /// Data was sent to the peer or came from it. Reported at most once per 5 seconds and peer.
    Active {
        /// The peer.
        peer: PeerId,
    },
    /// An authentic control message for the agent: offer, accept, answer, endpoints or search. Probes and receipts are handled in the lane.
    Control {
        /// The peer.
        peer: PeerId,
        /// The session that it came on.
        session: SessionId,
        /// The lane of the session.
        lane: LaneId,
        /// The way that it came.
        source: Way,
        /// The message.
        message: ControlMessage,
    },
    /// A program of this host asked the stub for a name in a domain of other servers. [`ToLane::Answer`] on the same lane answers it.
    Question(Box<Question>),
    /// The reply to [`ToLane::Drain`].
    Drained,
    /// The reply to [`ToLane::End`].
    Ended,
    /// The work of a lane that was busy, at most ten times a second. A lane that has little to do reports nothing.
    Load(LaneLoad),
    /// Nothing comes back on the extra lanes that this lane serves: it closed them, and packets to the peer go through the first lane.
    Silent {
        /// The peer.
        peer: PeerId,
    },
    /// A session was removed from one of its lanes; its receiver indices there are free.
    Retired {
        /// The peer.
        peer: PeerId,
        /// The session.
        id: SessionId,
        /// The receiver indices that it had.
        indices: SessionIndices,
    },
}

/// The work of a lane within a short time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneLoad {
    /// Share of the time that the lane did not wait, in thousandths.
    pub busy: u16,
    /// The time.
    pub span: Duration,
    /// All datagrams that were received, also those that were dropped, and those that were sent.
    pub datagrams: u64,
    /// The flows with most datagrams; their counts are estimates.
    pub flows: Vec<FlowLoad>,
}

/// The work for one flow of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLoad {
    /// The peer.
    pub peer: PeerId,
    /// The number of the flow by which packets are steered to lanes.
    pub flow: u16,
    /// Its authentic datagrams in both directions.
    pub datagrams: u32,
}

//! State changes of a node, as data: what `taut log` tells. Each carries its reason; no text is made here.
//!
//! Events of paths, the NAT and home relays are those of `taut_path`; a peer or relay is named by its id, and the agent knows the names.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use taut_base::{PeerId, Prefix, RelayId};
use taut_path::{HomeRelayEvent, NatEvent, PathEvent, Way};
use taut_relay::LostCause;
use taut_tunnel::Role;
use taut_wire::control::Suite;

use crate::auto_lanes::GatherReason;

/// A state change of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// A handshake begins: this node sends an initiation to the peer.
    HandshakeStarted {
        /// The peer.
        peer: PeerId,
    },
    /// The peer's response made a session.
    HandshakeCompleted {
        /// The peer.
        peer: PeerId,
        /// The path that the response came by.
        way: Way,
        /// Time since the initiation was first sent.
        took: Duration,
    },
    /// No initiation was answered, and no further one is sent until a packet waits again.
    HandshakeFailed {
        /// The peer.
        peer: PeerId,
        /// The reason.
        reason: HandshakeFailure,
        /// Time since the first initiation.
        tried: Duration,
        /// True if the last attempt failed, too: the peer has been told of as silent.
        again: bool,
    },
    /// A peer that did not answer handshakes has a session again.
    PeerAnswers {
        /// The peer.
        peer: PeerId,
    },
    /// An authentic initiation of a peer was not answered.
    HandshakeRefused {
        /// The peer.
        peer: PeerId,
        /// The path that it came by.
        way: Way,
        /// The reason.
        reason: HandshakeRefusal,
    },
    /// The packet filter refused a packet of the peer. A sample.
    Filtered {
        /// The peer.
        peer: PeerId,
        /// The packet's destination.
        destination: IpAddr,
        /// The packet's protocol number.
        protocol: u8,
        /// The packet's destination port, if it has one.
        port: Option<u16>,
    },
    /// A session is in use.
    SessionBegan {
        /// The peer.
        peer: PeerId,
        /// The side of the handshake that this node was on.
        role: Role,
        /// The number of sessions with this peer so far, this one included.
        number: u64,
    },
    /// The last session with a peer has ended: nothing was exchanged for minutes.
    SessionExpired {
        /// The peer.
        peer: PeerId,
    },
    /// Both ends of a session are ready for data under another suite than WireGuard's.
    SuiteChosen {
        /// The peer.
        peer: PeerId,
        /// The suite.
        suite: Suite,
    },
    /// The flows of a peer keep a lane busy: the next session with it has more lanes.
    LanesWanted {
        /// The peer.
        peer: PeerId,
        /// The number of lanes.
        lanes: u8,
        /// Share of its time for which the lane was busy, in thousandths.
        busy: u32,
    },
    /// The next session with a peer has one lane.
    LanesReturned {
        /// The peer.
        peer: PeerId,
        /// The reason.
        reason: GatherReason,
    },
    /// A state change of the paths to a peer.
    Path {
        /// The peer.
        peer: PeerId,
        /// The change.
        event: PathEvent,
    },
    /// Packets to a subnet go through another router, because the former one does not answer, or one that is preferred answers again.
    RouteMoved {
        /// The subnet.
        prefix: Prefix,
        /// The router so far.
        from: PeerId,
        /// The router from now on.
        to: PeerId,
    },
    /// Packets to the internet go through another exit node, through one at last, or through none any more.
    ExitMoved {
        /// The exit node so far; `None` if none could be used.
        from: Option<PeerId>,
        /// The exit node from now on; `None` if none can be used.
        to: Option<PeerId>,
    },
    /// A state change of what relays see of this node.
    Nat(NatEvent),
    /// A state change of the choice of home relays.
    HomeRelay(HomeRelayEvent),
    /// A relay has bound this node.
    RelayBound {
        /// The relay.
        relay: RelayId,
        /// The address at which it answered.
        place: SocketAddr,
        /// True if that is a bridge by WebSocket.
        by_bridge: bool,
    },
    /// A relay is not of use any more.
    RelayLost {
        /// The relay.
        relay: RelayId,
        /// The reason.
        reason: LostCause,
    },
    /// A relay that nobody needed for a while was left.
    RelayReleased {
        /// The relay.
        relay: RelayId,
    },
}

/// The reason why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// No answer came.
    NoAnswer,
    /// There is no path that it could be sent by: no endpoint is known, and no relay has the peer.
    NoPath,
}

/// The reason why a peer's handshake was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeRefusal {
    /// Its stamp is not later than that of an earlier one: a replay, or a clock that went back.
    OldStamp,
    /// The peer sends too many.
    TooMany,
}

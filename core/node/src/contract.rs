//! What keeper and lanes say to each other. Plain data in bounded queues (ARCHITECTURE.md).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use taut_base::{PeerId, SessionId, Time};
use taut_tunnel::{SessionIndices, SessionKeys};
use taut_wire::control::{Abilities, Control, Suite};
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

/// A handshake message (types 1 to 3), in place: keeper and lanes pass it without allocating.
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

/// What the keeper tells a lane.
pub enum ToLane {
    /// Routes from now on; replaces the former ones.
    Routes(Arc<Routes>),
    /// A peer that sessions may belong to.
    AddPeer {
        /// Who.
        peer: PeerId,
        /// Interval of unconditional keepalives, if any.
        persistent_keepalive: Option<Duration>,
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
    /// A session, once: its counters and windows live in the lane from here on (protocol.md 1.7).
    AddSession {
        /// Whose.
        peer: PeerId,
        /// Its name; never used before.
        id: SessionId,
        /// Its keys.
        keys: Box<SessionKeys>,
        /// When its handshake ended.
        born: Time,
        /// Where the handshake proved the peer to be; on the answering side the peer's first packet proves it.
        proven: Option<SocketAddr>,
    },
    /// The way to this place from the address of ours that it speaks to is another one now, or none: the routes choose the address again.
    ForgetLocal {
        /// Where.
        place: SocketAddr,
    },
    /// Send a handshake message from this lane's socket: a NAT mapping belongs to the socket that made it.
    Send {
        /// Where to.
        destination: SocketAddr,
        /// What.
        message: HandshakeMessage,
    },
    /// Send a control message on a session's control pair, if the lane still has the session.
    Control {
        /// Whose.
        peer: PeerId,
        /// Which session.
        session: SessionId,
        /// Where to; `None` for where data goes.
        destination: Option<SocketAddr>,
        /// What.
        message: Control,
    },
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
}

/// What a lane tells the keeper. Rare things only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromLane {
    /// A handshake message with a mac1 made for us.
    Handshake {
        /// Where from.
        source: SocketAddr,
        /// What.
        message: HandshakeMessage,
    },
    /// Packets wait for this peer, or its session is getting old.
    WantsHandshake(PeerId),
    /// The peer used a session that we had answered for.
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
        endpoint: SocketAddr,
    },
    /// An authentic control message that is the keeper's to act on: offer, accept or answer. Probes and receipts end in the lane.
    Control {
        /// Whose.
        peer: PeerId,
        /// On which session.
        session: SessionId,
        /// Where it came from.
        source: SocketAddr,
        /// What.
        message: Control,
    },
    /// A session is gone; its indices are free.
    Retired {
        /// Whose.
        peer: PeerId,
        /// Which.
        id: SessionId,
        /// The indices that it had.
        indices: SessionIndices,
    },
}

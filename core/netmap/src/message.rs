//! The messages of the control channel.
//!
//! The channel: a WebSocket at [`CONTROL_PATH`]; its first two binary messages are the Noise_IK handshake (`taut_noise::ik`) between the
//! node's machine key and the coordinator's key, with [`prologue`]; each later binary message is one JSON message, sealed.
//!
//! ```text
//! node                                   coordinator
//! Hello{schema, node_key, bind_key?, enrol?, have} ──▶
//!                                        ◀── Map(whole) or Delta(from `have` on), or Refused
//!                                        ◀── Ticket(…)                   again when half of its life is over
//! Endpoints(…), Relays(…) ──▶             ◀── Delta(…), Presence(…), Twin(…)   whenever something changed
//! Ping ──▶                                ◀── Pong                       renews the lease
//! Leave ──▶                               ◀── Refused(NotAMember)        the node is no member any more
//! ```

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use taut_base::{NodeId, PublicKey, RelayId};

use crate::map::{Delta, NetworkMap};

/// Version of these messages. A side that gets a larger one than it knows refuses with [`ProblemCode::Version`].
pub const SCHEMA: u32 = 1;

/// Longest text of a ticket, in characters: several times what today's have, so that there is room for more in it (fault L5).
pub const MAX_TICKET: usize = 1024;

/// Where the coordinator takes control channels, below its URL.
pub const CONTROL_PATH: &str = "/control/v1";

/// The prologue of the control channel's handshake: version ‖ network (protocol.md 8). The node also names the network in the query of
/// the WebSocket's URL (`?network=<32 hex digits>`), so that the coordinator knows which prologue to expect.
pub fn prologue(network: &[u8; 16]) -> Vec<u8> {
    [b"taut control v1".as_slice(), network].concat()
}

/// What a node says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToCoordinator {
    /// First message on every channel.
    Hello(Hello),
    /// All places where the node may be reached now; replaces what it said before.
    Endpoints {
        /// Interface addresses with the node's UDP ports, best first.
        endpoints: Vec<SocketAddr>,
        /// The node's UDP ports, one per lane; the coordinator adds the IP that it saw with each of them.
        ports: Vec<u16>,
        /// Where the node is seen from outside its NAT: what relays' STUN says of its sockets, and ports that the gateway mapped; the
        /// mapped ones first. Empty from a node that knows of none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        observed: Vec<SocketAddr>,
    },
    /// The relays that the node is bound to now, the one that it measured as nearest first; replaces what it said before. What is beyond
    /// [`crate::MAX_PEER_RELAYS`] is passed over.
    Relays {
        /// Their numbers in the map.
        ids: Vec<RelayId>,
    },
    /// Renews the lease of the node's presence; answered by [`ToNode::Pong`].
    Ping,
    /// The user asked for the node to leave; ends presence at once instead of when the lease runs out.
    Goodbye,
    /// The node gives up its membership: the coordinator removes it, and refuses the channel with [`ProblemCode::NotAMember`]. Release 0.1.0 passes over
    /// this message, and goes on listing the node.
    Leave,
    /// A message that this program does not know: from a newer node, to be passed over (fault L5).
    #[serde(other)]
    Unknown,
}

/// The first message of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`SCHEMA`] of the node.
    pub schema: u32,
    /// The node's WireGuard key.
    pub node_key: PublicKey,
    /// The key that the node binds to relays with; tickets are for it alone. Left out by nodes that know of no relays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind_key: Option<PublicKey>,
    /// Present until the node was accepted once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrol: Option<Enrol>,
    /// Version of the map that the node has; 0 for none.
    #[serde(default)]
    pub have: u64,
    /// Version of the program, for the operator's eyes.
    #[serde(default)]
    pub version: String,
    /// Drawn when the program started, never 0: a host that was cloned shows another one than its copy. Left out by nodes that do not say it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub run: u64,
}

/// For fields that are left out when they say nothing.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a node shows to become a member.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Enrol {
    /// The enrolment secret of the join token, base64url.
    pub secret: String,
    /// The name that the node would like; the coordinator makes it unique.
    pub name: String,
}

impl fmt::Debug for Enrol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enrol").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What the coordinator says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToNode {
    /// The whole map; replaces what the node has.
    Map(NetworkMap),
    /// What changed since the version that the node has.
    Delta(Delta),
    /// Who is connected to the coordinator now; for the eyes of users, never for a decision of the data plane.
    Presence {
        /// Whether `nodes` is everybody who is online (first message) or only who changed.
        whole: bool,
        /// Node and whether it is online.
        nodes: Vec<(NodeId, bool)>,
    },
    /// Answer to [`ToCoordinator::Ping`].
    Pong,
    /// Leave to use the network's relays (protocol.md 6.2): said after the map on every channel, and again when half of its life is over.
    Ticket {
        /// The signed ticket, base64url; at most [`MAX_TICKET`] characters. Only relays read it. Of version 1, which every relay takes.
        ticket: String,
        /// The same in version 2, which also names the node. Left out by coordinators of release 0.1.0; nodes of release 0.1.0 pass over it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        numbered: Option<String>,
        /// When it ends: seconds since 1970.
        expires: u64,
    },
    /// Whether another host uses this node's keys, which is served no more while this one is: what is told to the user. `None` when it was not seen any
    /// more for a while.
    Twin {
        /// What happened and what to do.
        problem: Option<Problem>,
    },
    /// The coordinator does not serve this node; it closes the channel.
    Refused(Problem),
}

/// Why the coordinator refuses, in words for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// For programs.
    pub code: ProblemCode,
    /// What happened and why.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.hint)
    }
}

/// Kinds of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemCode {
    /// The enrolment secret is unknown, used up, expired or revoked. Trying again is of no use.
    Enrolment,
    /// The machine is no member (any more). Trying again is of no use.
    NotAMember,
    /// The node key belongs to another machine. Trying again is of no use.
    KeyConflict,
    /// Another host uses this node's keys, and is served. Tried again, but not soon.
    Twin,
    /// The machine, or the token that it shows, does this too often. Tried again: release 0.1.0 does so as with every code that it does not know.
    TooOften,
    /// One side is too old for the other.
    Version,
    /// The message makes no sense.
    BadRequest,
    /// The coordinator cannot answer now (its database, say); the node keeps its map and tries again.
    Unavailable,
    /// A code that this program does not know.
    #[serde(other)]
    Unknown,
}

impl ProblemCode {
    /// Whether only a person can change the answer; otherwise the node tries again by itself.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Enrolment | Self::NotAMember | Self::KeyConflict | Self::Version)
    }
}

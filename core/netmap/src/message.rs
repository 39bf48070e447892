//! The messages of the control channel.
//!
//! The channel is a WebSocket at [`CONTROL_PATH`]. Its first two binary messages are the Noise_IK handshake (`taut_noise::ik`) between the node's machine
//! key and the coordinator's key, with [`prologue`]. Each later binary message is one sealed JSON message.
//!
//! ```text
//! node                                   coordinator
//! Hello{schema, node_key, bind_key?, enrol?, have} ──▶
//!                                        ◀── Map(whole) or Delta(from `have` on), or Refused
//!                                        ◀── Ticket(…)                   again after half of its lifetime
//! Endpoints(…), Relays(…), Routes(…) ──▶  ◀── Delta(…), Presence(…), Twin(…)   whenever something changed
//! Ping ──▶                                ◀── Pong                       renews the lease
//! Explain(connection) ──▶                ◀── Decision(…)                  only for `taut why PEER --port`
//! Leave ──▶                               ◀── Refused(NotAMember)        the node is not a member any more
//! ```
//! A machine without an enrolment secret asks on a channel for [`NO_NETWORK`] instead, and a person approves it:
//! ```text
//! Hello{…, request} ──▶                   ◀── Waiting(…, code)
//!                                        ◀── Welcome(network)           the node connects again, to that network
//! ```

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use taut_base::{NodeId, Prefix, PublicKey, RelayId};

use crate::decision::{Connection, Decision};
use crate::map::{Delta, NetworkMap};

/// Version of these messages. A program that receives a larger one than its own refuses with [`ProblemCode::Version`].
pub const SCHEMA: u32 = 1;

/// Longest text of a ticket, 1,024 characters: several times the length of current tickets, so that newer ones may be longer (fault L5).
pub const MAX_TICKET: usize = 1024;

/// Path of the control channel below the coordinator's URL.
pub const CONTROL_PATH: &str = "/control/v1";

/// Returns the prologue of the control channel's handshake: version ‖ network (protocol.md 8). The node also names the network in the query of the
/// WebSocket's URL (`?network=<32 hex digits>`), so that the coordinator knows which prologue to expect.
pub fn prologue(network: &[u8; 16]) -> Vec<u8> {
    [b"taut control v1".as_slice(), network].concat()
}

/// A message of a node to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToCoordinator {
    /// The first message on every channel.
    Hello(Hello),
    /// All endpoints at which the node may be reachable now. Replaces the earlier list.
    Endpoints {
        /// Interface addresses with the node's UDP ports, best first.
        endpoints: Vec<SocketAddr>,
        /// The node's UDP ports, one per lane. The coordinator combines each of them with the source address of the channel.
        ports: Vec<u16>,
        /// The node's endpoints outside its NAT: ports that the gateway mapped, then addresses that the relays' STUN servers saw. Empty if the node knows
        /// none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        observed: Vec<SocketAddr>,
    },
    /// The relays that the node is bound to now, nearest first by its own measurement. Replaces the earlier list. Relays beyond
    /// [`crate::MAX_PEER_RELAYS`] are ignored.
    Relays {
        /// Their numbers in the map.
        ids: Vec<RelayId>,
    },
    /// All prefixes behind the node that it offers to its peers. Replaces the earlier list. Each is a proposal until it is approved; those beyond
    /// [`crate::MAX_ROUTES`] are ignored. Coordinators of release 0.1.0 ignore this message.
    Routes {
        /// The prefixes, as peers see them.
        prefixes: Vec<Prefix>,
    },
    /// Renews the lease of the node's presence. The answer is [`ToNode::Pong`].
    Ping,
    /// The node goes offline. Its presence ends at once instead of when the lease expires.
    Goodbye,
    /// The node gives up its membership. The coordinator removes it and refuses the channel with [`ProblemCode::NotAMember`]. Release 0.1.0 ignores this
    /// message and keeps listing the node.
    Leave,
    /// Asks whether the policy allows a connection of this node. The answer is [`ToNode::Decision`]. Coordinators of release 0.1.0 ignore it.
    Explain(Connection),
    /// An unknown message of a newer node, which is ignored (fault L5).
    #[serde(other)]
    Unknown,
}

/// The first message of a node.
#[derive(Clone, Debug, PartialEq, Serialize, taut_json::Deserialize)]
pub struct Hello {
    /// [`SCHEMA`] of the node.
    pub schema: u32,
    /// The node's WireGuard key.
    pub node_key: PublicKey,
    /// The key with which the node binds to relays; its tickets are for this key only. Omitted by nodes that do not know relays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bind_key: Option<PublicKey>,
    /// Present until the coordinator has accepted the node once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrol: Option<Enrol>,
    /// Version of the map that the node has; 0 for none.
    #[serde(default)]
    pub have: u64,
    /// Version of the program, shown to the operator.
    #[serde(default)]
    pub version: String,
    /// Present while the node asks a person to approve it: a machine that is no member, or a member that waits or whose membership has expired. Coordinators
    /// of release 0.1.0 ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// Random number of this run of the program, never 0. It tells a host from its clone. Omitted by nodes that do not tell it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub run: u64,
}

/// Returns true for a number that is omitted in JSON.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The request of a machine that a person has to approve. The coordinator binds it to the machine key of the channel and to the node key of the hello.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Request {
    /// The requested name; the coordinator makes it unique.
    pub name: String,
}

/// The network of a channel on which a machine asks to join any network of the coordinator. No network has this number.
pub const NO_NETWORK: [u8; 16] = [0; 16];

/// Path of the coordinator's public key below its URL: `{"schema":1,"key":"<base64>"}`.
pub const KEY_PATH: &str = "/key";

/// The credentials with which a node becomes a member.
#[derive(Clone, PartialEq, Serialize, taut_json::Deserialize)]
pub struct Enrol {
    /// The enrolment secret of the join token, base64url.
    pub secret: String,
    /// The requested name; the coordinator makes it unique.
    pub name: String,
}

impl fmt::Debug for Enrol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enrol").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A message of the coordinator to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToNode {
    /// The full map. Replaces the node's map.
    Map(NetworkMap),
    /// The difference from the node's map.
    Delta(Delta),
    /// The nodes that are connected to the coordinator now. For users only: the data plane never depends on it.
    Presence {
        /// True if `nodes` lists all online nodes (first message), false if it lists changes.
        whole: bool,
        /// Nodes, with true for an online one.
        nodes: Vec<(NodeId, bool)>,
    },
    /// Answer to [`ToCoordinator::Ping`].
    Pong,
    /// A ticket for the network's relays (protocol.md 6.2): sent after the map on every channel, and again after half of its lifetime.
    Ticket {
        /// The signed ticket, base64url; at most [`MAX_TICKET`] characters. Only relays read it. Version 1, which every relay accepts.
        ticket: String,
        /// The same in version 2, which also names the node. Coordinators of release 0.1.0 omit it; nodes of release 0.1.0 ignore it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        numbered: Option<String>,
        /// Expiry, in seconds since 1970.
        expires: u64,
    },
    /// Another host uses this node's keys, and is not served while this node is. `None` if the other host was not seen for a while.
    Twin {
        /// What happened and what to do.
        problem: Option<Problem>,
    },
    /// The node takes no part in the network now: it gets no map, or one without peers. The channel stays open, and a map follows as soon as it takes part.
    /// Nodes of release 0.1.0 ignore this message.
    Waiting(Waiting),
    /// Answer to a [`Request`] on a channel for [`NO_NETWORK`]: the machine is a member. It connects again, to this network.
    Welcome {
        /// The network, 32 hex digits.
        network: String,
        /// The coordinator's URLs, best first; empty if only the one in use is known.
        #[serde(default)]
        urls: Vec<String>,
    },
    /// Time left until the node's membership expires. It is sent after the map on every channel, and again when it changes. Coordinators that know no expiry omit it.
    Expiry {
        /// Seconds until the membership expires, by the coordinator's clock, which alone decides; `None` if it never does.
        left: Option<u64>,
    },
    /// Answer to [`ToCoordinator::Explain`].
    Decision(Decision),
    /// The coordinator does not serve this node; it closes the channel.
    Refused(Problem),
}

/// The reason for which a node takes no part in its network, with advice and the code of its request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Waiting {
    /// The reason, for programs.
    pub reason: WaitingFor,
    /// Description of the event and its cause.
    pub message: String,
    /// Advice to the user.
    pub hint: String,
    /// Code that a person types to approve the node; `None` if the node has no request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Page on which a person approves the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    /// Seconds until the code expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
}

/// Reason for which a node waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitingFor {
    /// A person has to approve the machine.
    Approval,
    /// An operator has to enable the node again.
    Enabling,
    /// The node's membership has expired and has to be renewed.
    Renewal,
    /// A reason that this version does not know.
    #[serde(other)]
    Unknown,
}

/// Why the coordinator refuses a node, for the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Problem {
    /// The kind of refusal, for programs.
    pub code: ProblemCode,
    /// Description of the event and its cause.
    pub message: String,
    /// Advice to the user.
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.hint)
    }
}

/// Kinds of refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProblemCode {
    /// The enrolment secret is unknown, used up, expired or revoked. Final.
    Enrolment,
    /// The machine is not a member (any more). Final.
    NotAMember,
    /// The node key belongs to another machine. Final.
    KeyConflict,
    /// Another host uses this node's keys and is served. The node retries, after a long back-off.
    Twin,
    /// An operator denied the machine's request. Final; release 0.1.0 retries as after every unknown code.
    Denied,
    /// The machine or its token is over the rate limit. The node retries; release 0.1.0 retries as after every unknown code.
    TooOften,
    /// One program is too old for the other. Final.
    Version,
    /// The message is invalid.
    BadRequest,
    /// The coordinator cannot answer now, for example because of its database. The node keeps its map and retries.
    Unavailable,
    /// An unknown code.
    #[serde(other)]
    Unknown,
}

impl ProblemCode {
    /// Returns true if only a person can change the answer. After all other refusals the node retries on its own.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Enrolment | Self::NotAMember | Self::KeyConflict | Self::Version | Self::Denied)
    }
}

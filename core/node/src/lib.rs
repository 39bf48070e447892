//! One node, composed of tunnel, path, relay and map: all decisions of the agent.
//!
//! [`Node`] is pure. Inputs are methods (a map, a message of a lane, the time). Everything that it wants done comes out of [`Node::poll_output`]:
//!
//! ```text
//! set_map(map)            ─▶ ┌──────┐ ─▶ Output::Lane: a command to a lane (ToLane): peers, routes, sessions, paths, messages to send
//!   or configure(changes)    │      │    Output::StampCeiling: for the disk
//! handle(FromLane)        ─▶ │ Node │    Output::{Endpoints, HomeRelays}: for the coordinator
//!                            │      │    Output::{NatTest, Bridges, ResetBridge, Lanes}: sockets and threads of the agent
//! handle_timeout()        ─▶ └──────┘      until poll_output() is empty
//!                                          then wait until poll_timeout()
//! ```
//! The agent passes commands on to the lanes. A lane owns the counters and replay windows of its sessions. The node only tracks which receiver indices are
//! in use, so that no two sessions share one (protocol.md 1.7).
//!
//! A node may have several lanes ([`Node::set_lanes`]), which are all told of peers, routes and sessions; or it asks for them by load ([`Node::set_auto_lanes`]).
//!
//! Peers come either from a network map ([`Node::set_map`]) or one by one from a user, like those of stock WireGuard ([`Node::configure`], [`uapi`]).

mod answer;
mod auto_lanes;
mod contract;
mod counts;
mod event;
mod exits;
mod extra_lanes;
mod filtering;
mod indices;
mod naming;
mod negotiation;
mod node;
mod output;
mod outside_endpoints;
mod peer;
mod relays;
mod routes;
mod spread_peers;
mod stamps;
mod subnets;
pub mod uapi;

pub use auto_lanes::GatherReason;
pub use contract::{
    Clocks, Datagram, FlowLoad, FromLane, HandshakeMessage, KnownPeer, LaneLoad, Reading, ToLane, source_of,
};
pub use counts::HandshakeCounts;
pub use event::{HandshakeFailure, HandshakeRefusal, NodeEvent};
pub use exits::Wish as ExitWish;
pub use node::{LanesLimit, NativePeer, Node};
pub use output::Output;
pub use peer::PeerView;
pub use taut_filter::ServicePorts;

pub use relays::{BridgeRequest, RelayView};
pub use routes::{ExitRoute, Routes};

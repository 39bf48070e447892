//! One node, composed out of tunnel, path and map: everything that an agent decides.
//!
//! [`Node`] is pure. What happened goes in (a map, a message of a lane, the time), what is to be done comes out ([`Node::poll_command`]):
//!
//! ```text
//! set_map(map)            ─▶ ┌──────┐ ─▶ ToLane::{AddPeer, RemovePeer, Routes}
//!   or configure(changes)    │      │    ToLane::{SetEndpoint, SetKeepalive}
//! handle_lane(FromLane)   ─▶ │ Node │ ─▶ ToLane::{Send, AddSession, GiveUp}
//!                            │      │    ToLane::{Control, UseSuite, SetRoundTrip}
//! handle_timeout()        ─▶ └──────┘      until poll_command() is empty
//!                                          then wait until poll_timeout()
//! ```
//! The agent carries the commands to the lanes. A lane owns its sessions' counters and windows; the node only knows which indices are in use,
//! so that no two sessions share one (protocol.md 1.7).
//!
//! A node may have several lanes, which all hear of peers, routes and sessions ([`Node::set_lanes`]); who has one need not ask which it is.
//!
//! Peers come from a network map ([`Node::set_map`]), or one by one, as stock WireGuard's do ([`Node::configure`], [`uapi`]).

mod answer;
mod contract;
mod counts;
mod event;
mod extra_lanes;
mod indices;
mod node;
mod peer;
mod relays;
mod routes;
mod stamps;
mod talk;
pub mod uapi;

pub use contract::{Clocks, Datagram, FromLane, HandshakeMessage, Reading, ToLane, source_of};
pub use counts::HandshakeCounts;
pub use event::{HandshakeFailure, HandshakeRefusal, NodeEvent};
pub use node::{NativePeer, Node};
pub use peer::PeerView;
pub use relays::{BridgeWish, RelayView};
pub use routes::Routes;

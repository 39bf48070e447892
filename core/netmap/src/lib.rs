//! The network map, its deltas, the contract between node and coordinator, the join token.
//!
//! - [`NetworkMap`]: everything one node must know. Built from one complete read at the coordinator, checked by the node
//!   ([`NetworkMap::check`]) before it replaces the last good one (law 6), kept on disk (law 5).
//! - [`Prefixes`]: the overlay's prefixes, which a node pins: a later map that changes them needs the user's consent.
//! - [`Relay`]: where sealed packets may go while no direct path works; named by the map, never by a peer.
//! - [`Delta`]: what changed between two versions; applied to a copy, checked, then taken.
//! - [`ToCoordinator`], [`ToNode`]: the messages of the control channel, JSON inside Noise inside a WebSocket (protocol.md 8).
//! - [`JoinToken`]: one line that enrols a node.
//!
//! Readers ignore fields they do not know, so that a newer side may add some (fault L5).

mod map;
mod message;
mod name;
mod prefixes;
mod relay;
mod token;

pub use map::{Delta, LocalMember, MapError, NetworkInfo, NetworkMap, Peer};
pub use message::{
    CONTROL_PATH, Enrol, Hello, MAX_TICKET, Problem, ProblemCode, SCHEMA, ToCoordinator, ToNode, prologue,
};
pub use name::{
    BadName, MAX_NAME, check_name, check_network_name, check_new_name, display_name, domain, is_reserved,
    name_from_host, placeholder_name,
};
pub use prefixes::Prefixes;
pub use relay::{
    MAX_PEER_RELAYS, MAX_RELAY_ENDPOINTS, MAX_RELAYS, RELAY_PATH, Relay, RelayFault, coordinator_relay_url,
    resolve_relay_endpoints, resolve_relay_urls,
};
pub use token::{BadToken, JoinToken, OPERATOR_PREFIX, TOKEN_PREFIX};

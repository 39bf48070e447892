//! The network map, its deltas, the contract between node and coordinator, the join token.
//!
//! - [`NetworkMap`]: everything that a node must know. The coordinator builds it from one complete read. The node checks it ([`NetworkMap::check`]) before it
//!   replaces the last good map (law 6), and keeps it on disk (law 5).
//! - [`Prefixes`]: the overlay's prefixes. A node pins them; a later map that changes them needs the user's consent.
//! - [`Relay`]: a relay for sealed packets while no direct path works. The map names relays; a peer never does.
//! - [`Delta`]: the difference between two versions of a map. The node applies it to a copy and checks the result.
//! - [`ToCoordinator`], [`ToNode`]: the messages of the control channel, JSON inside Noise inside a WebSocket (protocol.md 8).
//! - [`JoinToken`]: one line that enrols a node.
//! - [`RelayToCoordinator`], [`CoordinatorToRelay`], [`RelayToken`]: the channel between a relay and a coordinator, and the line that opens it.
//!
//! Readers ignore unknown fields, so that a newer program may add some (fault L5).

mod decision;
mod fingerprint;
mod map;
mod message;
mod name;
mod naming;
mod prefixes;
mod relay;
mod relay_channel;
mod routes;
mod suffixes;
mod token;
mod token_line;

pub use decision::{Connection, Decision, MAX_PEER_TEXT, MAX_PLACES, PolicyPlace, Verdict};
pub use fingerprint::fingerprint;
pub use map::{Delta, LocalMember, MapError, NetworkInfo, NetworkMap, Peer};
pub use message::{
    CONTROL_PATH, Enrol, Hello, KEY_PATH, MAX_TICKET, NO_NETWORK, Problem, ProblemCode, Request, SCHEMA, ToCoordinator,
    ToNode, Waiting, WaitingFor, prologue,
};
pub use name::{
    BadName, DEFAULT_BASE_DOMAIN, MAX_NAME, check_name, check_network_name, check_new_name, display_name, domain,
    is_base_domain, is_reserved, name_from_host, placeholder_name,
};
pub use naming::{
    DomainFault, MAX_DOMAINS, MAX_RECORD_ADDRESSES, MAX_RECORDS, MAX_SERVERS, NameRecord, Naming, RefusedDomain,
    SPECIAL, SplitDomain, UsableNames, check_domain, is_below,
};
pub use prefixes::Prefixes;
pub use relay::{
    MAX_PEER_RELAYS, MAX_RELAY_ENDPOINTS, MAX_RELAYS, RELAY_PATH, Relay, RelayFault, coordinator_relay_url,
    resolve_relay_endpoints, resolve_relay_urls,
};
pub use relay_channel::{
    BadRelayToken, CoordinatorToRelay, MAX_REVOCATIONS, RELAY_CONTROL_PATH, RELAY_PROLOGUE, RELAY_TOKEN_PREFIX,
    RelayLoad, RelayToCoordinator, RelayToken, Revocation,
};
pub use routes::{BadRoute, MAX_ROUTES, check_route, exit_routes, has_exit, is_exit_route, usable_routes};
pub use token::{BadToken, JoinToken, OPERATOR_PREFIX, TOKEN_PREFIX};

//! Areas of the coordinator's log ([`taut_relay_server::log`]; docs/log.md, "Coordinator and relay"): the targets of its events.

/// Start, stop and command line of the program.
pub(crate) use taut_relay_server::log::DAEMON;

/// The HTTP server and the operator's API.
pub(crate) const API: &str = "api";

/// Control channels of nodes.
pub(crate) const CONTROL: &str = "control";

/// Changes of networks, nodes, relays, keys and tokens.
pub(crate) const MEMBERS: &str = "members";

/// The database.
pub(crate) const DATABASE: &str = "database";

/// The coordinator's own relay.
pub(crate) use taut_relay_server::log::RELAY;

/// All areas, for `--log-level`.
pub(crate) const AREAS: &[&str] = &[DAEMON, API, CONTROL, MEMBERS, DATABASE, RELAY];

//! The one thread that owns the node: handshakes, map, host configuration, local API.
//!
//! It is rare work, and none of it blocks: disk and coordinator have a thread of their own (`taut-control`), packets have theirs (`taut-lane`).
//!
//! ```text
//!            control thread ──Event──▶ ┌────────┐ ──ToLane──▶ lane thread ◀──▶ TUN, UDP
//! coordinator ◀──Command────────────── │ agent │ ◀─FromLane─
//!            unix socket ──Request───▶ └────────┘ ──netlink──▶ addresses, routes
//! ```
//! - [`run`] is the daemon: it returns when a signal or a user asks for the end.
//! - [`metrics`] are its figures as Prometheus reads them.
//! - [`log`] is its story: what happened, with reasons.
//! - [`api`] is what the command line and others say to it.
//! - [`wg`] is a plain WireGuard interface: the same node and lane, configured by the stock `wg`, without a network.
//! - A network that is up is an `Overlay`: TUN device, socket, lane, and the node's rules. It is built from a map, survives every change of
//!   the map, and leaves nothing behind: closing the TUN takes its addresses and routes along (law 13).

mod apart;
pub mod api;
mod bridges;
mod config;
mod daemon;
mod entropy;
mod error;
pub mod fuzzing;
mod host;
mod link;
pub mod log;
pub mod metrics;
mod overlay;
mod server;
mod share;
mod status;
mod steering;
mod ways;
pub mod wg;
mod why;

pub use config::{Config, SEARCH_SOCKETS};
pub use daemon::run;
pub use error::RunError;

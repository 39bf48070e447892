//! The agent: the thread that owns the node. It makes handshakes, applies the map, configures the host and serves the local API.
//!
//! This work is rare, and none of it blocks: disk and coordinator have a thread of their own (`taut-control`), and so have packets (`taut-lane`).
//!
//! ```text
//!            control thread ──Event──▶ ┌────────┐ ──ToLane──▶ lane thread ◀──▶ TUN, UDP
//! coordinator ◀──Command────────────── │ agent  │ ◀─FromLane─
//!            unix socket ──Request───▶ └────────┘ ──netlink──▶ addresses, routes
//! ```
//! Rooms, from the lowest to the highest. A room uses only rooms above it in this table:
//!
//! | room | contents | uses |
//! |---|---|---|
//! | [`api`] | the contract of the local API: requests, responses, status | |
//! | [`log`] | the event log: levels, limits, lines, and what is kept of them in memory | |
//! | `given`, `config`, [`settings`], `error` | options of the daemon, and where their values come from; reasons why it did not start | `log` |
//! | `basics` | clocks, randomness, shares of processor time | |
//! | `server` | the unix sockets of the local API, bounded per user | `api`, `basics`, `error` |
//! | [`metrics`] | the figures for Prometheus, and the HTTP port that serves them | `api`, `basics` |
//! | `host` | addresses and routes of the TUN device, and the other interfaces of the host | `api` |
//! | [`kill_switch`] | the kill switch for commands, with and without a daemon | `host` |
//! | `lanes` | the running lanes, seen from the agent: queues, steering, sockets' buffers | `basics` |
//! | `outside` | the process that does for the daemon what its sandbox refuses | |
//! | `sandbox` | the rights that the daemon keeps | `api`, `config` |
//! | `resolver` | the host's resolver, and the helper process that changes it | `api`, `basics`, `outside` |
//! | `upstream` | servers of split domains, asked through the overlay | `basics`, `resolver` |
//! | [`wg`] | `taut wg`: a plain WireGuard interface that the stock `wg` configures, without a network; only with the feature `wg` | `basics`, `lanes` |
//! | `subnets` | subnet routes: what this node advertises and accepts | |
//! | `userspace` | the program with a TCP/IP stack that takes the place of a TUN device; only with the feature `userspace` | `api`, `config`, `outside` |
//! | `overlay` | a network that is up: TUN device, sockets, lanes, bridges, and the node between them | `api`, `basics`, `config`, `host`, `lanes`, `upstream`, `userspace` |
//! | `status` | an overlay described for users, and why a path is as it is | `api`, `overlay` |
//! | `daemon` | the loop of the agent thread, with the membership and the coordinator's news | all but `wg` |
//!
//! [`run`] is the daemon; it returns when a signal or a user ends it. An overlay is built from a network map, survives every change of the map, and leaves
//! nothing behind: the kernel removes the addresses and routes of the TUN device with the device (law 13).

pub mod api;
mod basics;
mod config;
mod daemon;
mod error;
mod exit;
pub mod fuzzing;
mod given;
mod host;
pub mod kill_switch;
mod lanes;
pub mod log;
pub mod metrics;
mod outside;
mod overlay;
mod resolver;
mod sandbox;
mod server;
pub mod settings;
mod status;
mod subnets;
#[cfg(test)]
mod testkit;
mod upstream;
mod userspace;
#[cfg(feature = "wg")]
pub mod wg;

pub use config::{AnswerFilter, DaemonConfig, SEARCH_SOCKETS};
pub use daemon::run;
pub use error::RunError;
pub use exit::{BadExitChoice, ExitChoice};
pub use lanes::{Steer, Steering};
pub use outside::run_outside;
pub use resolver::run_helper;
pub use subnets::{AdvertisedRoute, BadAdvertisedRoute, RouteOptions};
pub use userspace::conflict;

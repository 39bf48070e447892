//! A running relay: the program `taut-relay`, and the relay inside the coordinator (docs/relay.md).
//!
//! ```text
//!             ┌─ socket ─ worker 0: Forward, clock of the server ─┐
//!  UDP 3478 ──┼─ socket ─ worker 1: Forward                        ├── Mutex<Server>: bind and control frames only
//!             └─ socket ─ worker …                                 ┘        │ changes, in one order
//!  UDP 3479 ──── read by worker 0 ── STUN                   a queue to each worker, and a waker
//!  WebSocket ─── one thread, a queue for each connection ── Forward        connections of its own port, and those that a web server passes on
//! ```
//! **Threads.** Each worker has a socket of its own on the shared port (`SO_REUSEPORT`). The kernel delivers all datagrams of one sender to the same worker, so
//! a client's packets stay in order. The worker forwards them from its own socket, which has the same address for all receivers. Each worker has a table of its
//! own, too ([`Forward`](taut_relay::Forward)), so no packet needs a lock: a run of datagrams that arrived together leaves together, with the numbers rewritten
//! in the receive buffer.
//!
//! **The lock.** Rare work (bind, open, ping) goes through [`Server`](taut_relay::Server) under a lock. The worker that holds the lock applies the changes to its
//! own table and puts them into the queues of all others before it handles the next datagram: data behind an `open` finds the channel. A worker that does not
//! know a number or a sender first applies the changes in its queue.
//!
//! **Coordinators.** For each coordinator that has named a relay token there is a thread with a channel to it ([`CoordinatorLink`]): revocations come down, the load goes up.
//!
//! **Bounds.** [`ConnectionAdmission`] bounds connections until a client is bound on them; afterwards each client has one. A worker whose socket is full waits up
//! to 0.1 s, then drops and counts. Queues hold changes: each control frame causes a few, and control frames are limited.
//!
//! It refuses: logs and counters by address (fault F12), and packets to any address except those of clients and of STUN requests.

mod admission;
mod admission_table;
mod coordinator_link;
mod key;
mod listener;
mod liveness;
pub mod log;
mod metrics;
mod outbox;
mod relay;
mod removals;
mod service;
mod shared;
mod stats;
mod streams;
mod system;
mod web;
mod worker;

pub use admission::{ConnectionAdmission, PATIENCE, Pass, Source};
pub use admission_table::{AdmissionGuard, AdmissionTable};
pub use coordinator_link::CoordinatorLink;
pub use key::{KeyError, key_from_file};
pub use listener::{BACKLOG, PAUSE as ACCEPT_PAUSE, is_of_one_connection};
pub use liveness::Liveness;
pub use metrics::Metrics;
pub use relay::{RelayConfig, RelayServer, RelayStartError};
pub use removals::Removals;
pub use service::Service;
pub use stats::Stats;
pub use streams::Arrival;
pub use taut_event::open_regular;
pub use web::{Entrance, WebConfig, accept_key};

/// Advice in the log of coordinator and relay after a PROXY header from a client that is no trusted proxy.
pub const UNTRUSTED_PROXY: &str = "if this is a proxy of yours, name it with --trusted-proxy ADDRESS/32 (docs/reverse-proxy.md); otherwise it is a client that pretends to be one, and nothing is to be done";

/// Assumed limit of descriptors where the kernel does not tell it, 1,024: the usual soft limit.
const USUAL: u64 = 1_024;

/// Raises this process's limit of descriptors to the hard limit, and returns it (fault P6).
pub fn raise_open_files() -> u64 {
    taut_event::raise_open_files().unwrap_or(USUAL)
}

/// UDP port of frames and STUN: STUN's own (RFC 8489 section 18.6).
pub const DEFAULT_PORT: u16 = 3478;

/// UDP port of STUN alone.
pub const DEFAULT_STUN_PORT: u16 = 3479;

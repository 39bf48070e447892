//! A relay, ready to run: the program `taut-relay`, and what the coordinator has inside (docs/relay.md).
//!
//! ```text
//!             ┌─ socket ─ worker 0: Forward, clock of the server ─┐
//!  UDP 3478 ──┼─ socket ─ worker 1: Forward                        ├── Mutex<Server>: bind and control frames only
//!             └─ socket ─ worker …                                 ┘        │ changes, in one order
//!  UDP 3479 ──── read by worker 0 ── STUN                   a queue to each worker, and a waker
//!  WebSocket ─── one thread, a queue for each connection ── Forward        connections of its own port, and those that a web server gives away
//! ```
//! **Threads.** Each worker has a socket of its own on the one port (`SO_REUSEPORT`): the kernel gives all datagrams of one sender to the same worker, so
//! a client's packets stay in order, and it forwards them to whoever it is from its own socket, which has the same address. It has a table of its own,
//! too ([`Forward`](taut_relay::Forward)), so nothing is locked or shared per packet: a run that came in one piece leaves in one piece, its numbers
//! rewritten where it lies.
//!
//! **The lock.** What is rare (bind, open, ping) goes through [`Server`](taut_relay::Server) under a lock. Who holds it puts the changes that came of it into
//! every worker's queue and into its own table, before it looks at the next datagram: what follows an `open` finds it done. A worker that meets a number or
//! sender that it does not know looks into its queue before it gives up.
//!
//! **Bounds.** Connections are bounded by [`Admission`] until a client is bound on them, and by one per client then. A worker whose socket is full waits for a moment, then drops and counts. Queues hold changes, of which each control frame makes a few, and
//! control frames are limited.
//!
//! It refuses: to log or count by address (fault F12), to send anywhere but to clients and to who asks by STUN.

mod admission;
mod admission_table;
mod key;
mod listener;
pub mod log;
mod metrics;
mod outbox;
mod relay;
mod shared;
mod stats;
mod streams;
mod system;
mod web;
mod worker;

pub use admission::{Admission, PATIENCE, Pass, Source};
pub use admission_table::{AdmissionGuard, AdmissionTable};
pub use key::{KeyError, key_from_file};
pub use listener::{PAUSE as ACCEPT_PAUSE, is_of_one_connection};
pub use metrics::Metrics;
pub use relay::{Config, Relay, Removals, StartError};
pub use stats::Stats;
pub use web::{Entrance, WebConfig, accept_key};

/// Descriptors that are assumed where the kernel does not say how many there may be: the usual soft limit.
const USUAL: u64 = 1_024;

/// Raises this process's limit of descriptors as far as it may, and returns the limit (fault P6).
pub fn raise_open_files() -> u64 {
    taut_event::raise_open_files().unwrap_or(USUAL)
}

/// UDP port of frames and STUN: STUN's own (RFC 8489 section 18.6).
pub const DEFAULT_PORT: u16 = 3478;

/// UDP port of STUN alone.
pub const DEFAULT_STUN_PORT: u16 = 3479;

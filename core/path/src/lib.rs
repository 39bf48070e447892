//! Where a peer may be reached.
//!
//! A *candidate* is an endpoint not yet proven: the coordinator listed it, or a packet once came from it. [`Candidates`] keeps them for one
//! peer, says which to try for a handshake and in which order, and refuses what may never be one ([`acceptable`]).
//!
//! What proves a path and moves traffic is decided elsewhere: a finished handshake round trip on it, and after that authenticated packets,
//! as stock WireGuard does. Probing, choice between proven paths, failover and path MTU will live here.

mod candidates;

pub use candidates::{Candidates, acceptable};

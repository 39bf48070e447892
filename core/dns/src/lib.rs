//! The names of a network: what a node answers to a DNS question, and the stub that answers over UDP and TCP.
//!
//! - [`Names`] is a snapshot of the network's names as one node sees them, from its map.
//! - [`respond`] answers one message (RFC 1034, RFC 1035) from a snapshot.
//! - [`Stub`] answers packets that the host sends to the stub's own addresses, over UDP and over TCP (RFC 7766). A [`Question`] for another server's domain goes to the caller.
//! - [`question`] and [`addresses`] are for this node's own questions, as for the coordinator's addresses.
//! - [`Zones`] tells the questions of a host that belong to the network from all others.
//!
//! It promises: no panic on any input, no IO, no clock, and bounds on everything that a client can have the stub keep. The node answers for its own network alone: names in its zone `NETWORK.taut.internal`, the operator's records, and the
//! addresses of its prefixes. Questions for the operator's split domains, and for names of the internet while an exit node is used, are passed on unchanged; any other name is refused. An answer follows no compression pointer and no alias, so the cost of a question is linear in its length.

mod answer;
mod extra;
mod lookup;
mod name;
mod names;
mod query;
mod rebind;
mod reverse;
mod split;
mod stub;
#[cfg(test)]
mod testkit;

pub use answer::{MAX_UDP, Transport, respond};
pub use lookup::{addresses, question};
pub use names::{Names, Network};
pub use rebind::leads_to;
pub use split::{
    Way, Zones, asks_for_records, failure, is_answer, is_at, is_at_or_below, labels, no_data, no_name, refused,
    reverse_zones,
};
pub use stub::{Client, EXIT_PORT, PORT, Question, Stub};

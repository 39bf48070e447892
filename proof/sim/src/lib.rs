//! A deterministic world of two hosts in virtual time: whole nodes talk over a simulated wire, and hours pass in milliseconds.
//!
//! A [`TautHost`] is the code of the daemon without threads, sockets and clock: a [`Node`](taut_node::Node) (the agent's state machine) and a
//! [`LaneCore`](taut_lane::LaneCore) (the lane), joined by the same two queues as in the daemon. A [`LanesHost`] has a lane core for each of several
//! lanes. Another implementation of WireGuard takes part as
//! another [`Host`]. A [`World`] carries their datagrams over two [`Link`]s with delay, jitter, loss and duplication, lets applications
//! send ([`World::flow`]), and jumps from one event to the next:
//!
//! ```text
//! applications ─▶ Host ─▶ Link (lost? twice? late?) ─▶ Host ─▶ Ledger: sent by the other side? the first time? the same bytes?
//! ```
//! It promises: the same seed gives the same world, event for event, as long as its hosts are deterministic ([`TautHost`] is). After every
//! event it checks that each delivered packet was sent by the other side and is delivered for the first time, and that the hosts' state
//! stays within its bounds ([`Host::check`]).
//! It refuses: threads, sleeping, the machine's clock and its randomness. More than two hosts are a matter of the lab.

mod host;
mod lanes;
mod ledger;
mod link;
mod maps;
pub mod nat;
mod packet;
mod party;
mod relay;
mod side;
mod station;
mod taut;
mod wall;
mod wire;
mod world;

pub use host::Host;
pub use lanes::{AutoSettings, LanesHost};
pub use ledger::Ledger;
pub use link::{Counts, Link};
pub use maps::{map_for, map_with_relays};
pub use packet::MAX_PACKET;
pub use party::Party;
pub use relay::{RelayStation, SimRelay, credentials};
pub use side::Side;
pub use station::{Station, StationId};
pub use taut::{Settings, TautHost};
pub use taut_testkit::{Probability, Seeded};
pub use wire::Recorded;
pub use world::World;

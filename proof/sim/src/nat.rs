//! Simulated NATs in virtual time: what each kind does to a datagram, and between which hosts a direct path must be possible.
//!
//! ```text
//! host ─ zone (a home) ─ Router ─ zone (a carrier) ─ Router ─ zone 0 (public: servers, outsides of routers)
//! ```
//! A [`Kind`] is a name with [`Traits`] in the terms of RFC 4787. A [`Router`] simulates such a kind: a table of mappings, a table of permitted senders,
//! external ports drawn by a seed. Entries expire or are removed on request. [`Internet`] has zones, routers between them and hosts in them, and
//! determines where a datagram arrives ([`Internet::carry`]): a pure function of the earlier datagrams and their times. Delay and random loss are the
//! task of a [`Link`](crate::Link).
//!
//! [`possible`] states by rules alone what two hosts can reach: a direct path, only by guessing ports, or only through a relay. [`punch`](fn@punch) tries it
//! on the simulated NATs with full knowledge and unlimited rounds. Tests compare the two for every pair, and both with `lab/hosts/nats/matrix.json`.
//! The lab compares nftables routers and real sockets with the same list.
//!
//! [`Scene`] puts whole nodes and relays into such an internet. In a scene [`Figure`] measures the figures of docs/paths.md, and [`Flap`] makes everything
//! fail
//! and recover at random, once per seed.
//!
//! Not simulated: IPv6 (the lab's NATs have none either; a firewall without NAT is the same for both families), TCP, ICMP.

mod figures;
mod flap;
mod internet;
mod kind;
mod matrix;
mod punch;
mod router;
mod scene;
mod verdict;

pub use figures::{Figure, FigureResult};
pub use flap::{Flap, FlapOutcome};
pub use internet::{Delivery, Hole, HostId, Internet, Lost, RouterId, Transit};
pub use kind::{Filtering, Kind, Mapping, Place, Ports, Traits};
pub use matrix::matrix;
pub use punch::{BUDGET, PunchBudget, punch};
pub use router::{Refusal, Router};
pub use scene::{Carries, Scene, Setup};
pub use verdict::{Reach, Reachability, possible};

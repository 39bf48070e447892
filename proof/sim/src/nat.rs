//! NATs as machines in virtual time: what each kind does to a datagram, and between which hosts a direct path must be possible.
//!
//! ```text
//! host ─ zone (a home) ─ Router ─ zone (a carrier) ─ Router ─ zone 0 (public: servers, outsides of routers)
//! ```
//! A [`Kind`] is a name with [`Traits`] in the terms of RFC 4787. A [`Router`] is the machine of such a kind: a table of mappings, a table of who was
//! sent to, external ports drawn by a seed; it forgets with time, and on demand. [`Internet`] has zones, routers between them and hosts in them, and
//! says where a datagram ends ([`Internet::carry`]): a pure function of what was sent before and when. It takes no time and loses nothing by chance:
//! that is a [`Link`](crate::Link)'s work.
//!
//! [`possible`] states by rules alone what two hosts can reach: directly, only by guessing ports, or only by a relay. [`punch`](fn@punch) tries it on
//! the machines with all knowledge and patience there is; tests hold the two against each other for every pair, and both to `lab/hosts/nats/matrix.json`,
//! which the same list in the lab is held to: nftables routers, real sockets.
//!
//! [`Scene`] puts whole nodes and relays into such an internet. In it [`Figure`] measures what docs/paths.md counts, and a [`Flap`] has everything go away and
//! come back at random, once per seed.
//!
//! It refuses: IPv6 (the lab's NATs have none either; a firewall without NAT is the same for both families), TCP, ICMP.

mod figures;
mod flap;
mod internet;
mod kind;
mod matrix;
mod punch;
mod router;
mod scene;
mod verdict;

pub use figures::{Figure, Measured};
pub use flap::{Flap, Outcome};
pub use internet::{Delivery, Hole, HostId, Internet, Lost, RouterId, Transit};
pub use kind::{Filtering, Kind, Mapping, Place, Ports, Traits};
pub use matrix::matrix;
pub use punch::{BUDGET, Budget, punch};
pub use router::{Refusal, Router};
pub use scene::{Carries, Scene, Setup};
pub use verdict::{Reach, Verdict, possible};

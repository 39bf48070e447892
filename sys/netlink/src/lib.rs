//! The host's network configuration over rtnetlink: links, addresses, routes, rules, and their changes. A small subset
//! instead of a large library, because the node's size budget is a few megabytes.
//!
//! - [`Netlink`] reads and changes the configuration, one request at a time;
//! - [`NftTable`] is a table of nftables that belongs to this program;
//! - [`Monitor`] reports that something changed; the listener then reads the configuration again.
//!
//! It promises: a dump that the kernel interrupted is repeated, never returned in part; an error is an error and not an
//! empty answer; what the kernel sends is parsed with every length checked; errors carry the kernel's own explanation
//! where it gives one; a route of another program is never replaced; every route that this crate adds carries
//! [`ROUTE_PROTOCOL`], so that leftovers can be found.
//!
//! It refuses: neighbours, traffic control, link creation, and keeping state.
#![expect(unsafe_code, reason = "netlink sockets are reached through libc")]

mod abi;
mod address;
mod error;
mod fuzzing;
mod link;
mod message;
mod monitor;
mod namespace;
mod nft;
mod other_rule;
mod parse;
mod request;
mod route;
mod rule;
mod socket;
mod way;

pub use address::{Address, Scope};
pub use error::NetlinkError;
pub use fuzzing::fuzzing;
pub use link::InterfaceLink;
pub use monitor::{Changes, Monitor, Watch};
pub use nft::{DroppingChain, NftChain, NftHook, NftRule, NftTable, chains_that_drop_forwarded};
pub use other_rule::OtherRule;
pub use request::Netlink;
pub use route::{MAIN_TABLE, ROUTE_PROTOCOL, Route};
pub use rule::{RoutingRule, Selector};
pub use way::Hop;

//! The policy of a network: it decides which nodes and people may reach which services.
//!
//! - [`Policy::parse`] reads the text: comments and trailing commas are allowed, and everything that is not understood is an error with its place. The
//!   language is that of Tailscale's policy file, as far as it is about who may reach what; docs/policy.md describes it.
//! - [`compile()`] applies a policy to an [`Inventory`] of nodes and people. The result gives each node its [`Filter`], says which nodes must know each other,
//!   and explains decisions ([`Compiled::explain`]).
//! - [`run_tests`] runs the tests that a policy contains. [`diff()`] says what a change of the policy changes.
//! - [`Policy::may_assign_tag`] and [`Policy::approves_route`] evaluate the sections `tagOwners` and `autoApprovers`.
//! - [`oracle`] has the same meaning in a slow and obvious form, to test the compiler against.
//!
//! This crate promises: the same text and inventory give the same result; no panic on any text; work and memory that are bounded by the lengths of text and
//! inventory. What no rule allows is denied, and nothing is implied: a policy without rules has to say so.

mod addresses;
mod approve;
mod compile;
mod diff;
mod error;
mod explain;
pub mod filter;
mod hujson;
mod internet;
mod inventory;
mod ipset;
mod node_filter;
mod node_set;
pub mod oracle;
mod parse;
mod policy;
mod protocol;
mod resolve;
mod selector;
mod services;
mod verify;

pub use addresses::AddressSet;
pub use compile::{Compiled, compile};
pub use diff::{Change, Diff, End, diff};
pub use error::{PolicyError, Position};
pub use explain::Explanation;
pub use filter::{BadFilter, Filter, Packet, Rule, Target};
pub use hujson::MAX_TEXT;
pub use inventory::{Inventory, NodeFacts, Role, UserFacts};
pub use policy::{Access, IpSetStep, IpSetTarget, Origin, Policy, PolicyRule, PolicyTest, Service, TestTarget};
pub use protocol::{
    DEFAULT_PROTOCOLS, ICMP, ICMPV6, SCTP, TCP, UDP, has_ports, protocol_name, protocol_number, protocol_towards,
};
pub use selector::Selector;
pub use verify::{TestOutcome, run_tests};

//! The packet filter of one node: a policy, compiled for one receiver.

pub(crate) use taut_filter::allows_port;
pub use taut_filter::{ALL_PORTS, BadFilter, Filter, MAX_FILTER_PARTS, MAX_FILTER_RULES, Packet, Rule, Target};

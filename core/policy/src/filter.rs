//! The packet filter of one node: what a policy becomes for its receiver.

pub(crate) use taut_filter::allows_port;
pub use taut_filter::{ALL_PORTS, BadFilter, Filter, MAX_FILTER_PARTS, MAX_FILTER_RULES, Packet, Rule, Target};

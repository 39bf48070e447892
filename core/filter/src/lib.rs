//! The packet filter of a node: it decides which packets of its peers the node accepts.
//!
//! The coordinator compiles a network's policy into one [`Filter`] per node, which says what that node accepts. The receiving node enforces it for every packet, direct
//! and relayed alike, because a sender may be hostile. Three parts decide together:
//!
//! - [`Filter`] comes from the coordinator. [`PacketFilter`] is the same filter, prepared for look-ups. [`SourceRules`] is its part for one source address.
//! - [`Classified`] holds the fields of a packet that the filter needs: its protocol behind all extension headers, its ports, and whether it is a fragment or an error.
//! - [`FlowTable`] remembers the flows that this node began, so that answers pass although no rule allows them. All lanes share it, because an answer may arrive on another lane
//!   than the packet that it answers left on.
//!
//! A packet passes if a rule allows it, or if it answers a flow in the table. Packets of the host itself are not filtered here: their receiver does that.
//!
//! # When a flow is remembered
//!
//! Only the host's own packets add flows, and only where no rule allows the answers anyway. A peer that is allowed everything therefore costs no memory, and a peer cannot
//! fill the table by what it sends.
//!
//! A packet in the middle of a flow raises a question: which side began it? After a restart, or when the rules become narrower, the table does not know the flows that run.
//! If each packet of the host added its flow, a peer's connection that a new rule forbids would go on for as long as the host answers. If none did, every connection of the
//! host would break at a restart. [`Services`] decides by the host's port: a port on which the host listens is a service's, and below the ephemeral ports it may be one.

mod classified;
mod filter;
mod flows;
mod gate;
mod protocol;
mod rules;
mod services;

pub use classified::{Classified, Refusal, Transport};
pub use filter::{ALL_PORTS, BadFilter, Filter, MAX_FILTER_PARTS, MAX_FILTER_RULES, Packet, Rule, Target, allows_port};
pub use flows::{Answer, FlowClass, FlowKey, FlowTable, MOST_FLOWS, Remembered, seconds};
pub use gate::Gate;
pub use protocol::{
    DEFAULT_PROTOCOLS, ICMP, ICMPV6, SCTP, TCP, UDP, has_ports, is_icmp_of, protocol_name, protocol_number,
    protocol_towards,
};
pub use rules::{PacketFilter, SourceRules};
pub use services::{ServicePorts, Services};

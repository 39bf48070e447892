//! Explains why a connection is allowed or denied.

use std::net::IpAddr;

use crate::compile::Compiled;
use crate::filter::Packet;
use crate::policy::Origin;

/// The answer to "may this packet open a flow?".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The node that sends it: the owner of the source address, or a node with a route to it.
    pub sender: Option<usize>,
    /// The node that receives it and decides, or `None` if no node has the destination.
    pub receiver: Option<usize>,
    /// The first rule that allows it, or `None` if it is denied.
    pub rule: Option<Origin>,
    /// If it is denied: the rules that allow something else between these two addresses.
    pub near: Vec<Origin>,
}

impl Compiled {
    /// Explains what happens to a packet. If several nodes have a route to the destination, the explanation is for one that allows it, if there is one.
    pub fn explain(&self, packet: &Packet) -> Explanation {
        let receivers = self.receivers(packet.dst);
        let decided = receivers.iter().find_map(|node| Some((*node, self.deciding_rule(*node, packet)?)));
        let receiver = decided.map(|(node, _)| node).or(receivers.first().copied());
        let rule = decided.and_then(|(_, rule)| self.origin(rule));
        let near = match (receiver, rule) {
            (Some(node), None) => self.between(node, packet.src, packet.dst),
            _ => Vec::new(),
        };
        Explanation { sender: self.receivers(packet.src).first().copied(), receiver, rule, near }
    }

    /// Returns the nodes that receive packets for this address: its owner, or else all nodes with a route to it.
    pub fn receivers(&self, address: IpAddr) -> Vec<usize> {
        if let Some(owner) = self.owners.get(&address) {
            return vec![*owner];
        }
        (0..self.nodes.len()).filter(|node| self.nodes[*node].reach.contains(address)).collect()
    }

    /// Returns the rules that allow anything from one address to another at a node.
    fn between(&self, node: usize, src: IpAddr, dst: IpAddr) -> Vec<Origin> {
        let rules = &self.nodes[node];
        let sender = self.owners.get(&src).copied();
        let from = |source: u32| {
            let source = &self.sources[source as usize];
            sender.is_some_and(|node| source.nodes.contains(node)) || source.addresses.contains(src)
        };
        let matching = rules.entries.iter().filter(|entry| from(entry.source) && self.has_target(rules, entry, dst));
        let mut numbers: Vec<u32> = matching.map(|entry| entry.rule).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers.into_iter().filter_map(|rule| self.origin(rule)).collect()
    }
}

//! The options of the gateway thread, and the commands to it.

use taut_base::Prefix;

/// Options of [`crate::Portmap::start`].
#[derive(Clone, Debug, Default)]
pub struct PortmapOptions {
    /// The UDP ports of this node, one per lane.
    pub ports: Vec<u16>,
    /// The firewall mark of the node's packets, which routing rules may use; 0 for none.
    pub mark: u32,
    /// The overlay's prefixes: a gateway or an outer address inside them is ignored.
    pub overlay: Vec<Prefix>,
}

/// A command of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortmapCommand {
    /// Map these ports, and give back all others; empty while the network is down.
    Ports(Vec<u16>),
    /// Routes, addresses or links changed: look the gateway up again.
    Look,
    /// A mapping is in doubt: request all again, twice a minute at most.
    Check,
}

//! Exit nodes, as users see them.

use std::net::IpAddr;

use serde::Serialize;

use super::Failure;

/// The exit node that this host uses, and whether it is one itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, taut_json::Deserialize)]
pub struct ExitStatus {
    /// The user's choice: `none`, `auto`, or a node's name or overlay address.
    pub chosen: String,
    /// Name of the exit node that packets to the internet go through; `null` if none is used, or none can be.
    pub via: Option<String>,
    /// Seconds for which packets and names take this host's own way, in the clear, because the user paused the exit node; `null` if it is not paused.
    #[serde(default)]
    pub paused_s: Option<f64>,
    /// The addresses that the internet sees of this host through the exit node, IPv4 first.
    #[serde(default)]
    pub seen_as: Vec<SeenAddress>,
    /// Why nothing reaches the internet although an exit node was chosen.
    pub problem: Option<Failure>,
    /// Why no packet can take the chosen exit node: no member has that name, or the member is no exit node. `taut set` refuses such a choice.
    #[serde(default)]
    pub unusable: Option<Failure>,
    /// Names of the exit nodes that this host may use.
    pub candidates: Vec<String>,
    /// Whether this host offers to be an exit node.
    pub advertised: bool,
    /// Whether the operator or the policy approved that.
    pub approved: bool,
    /// Whether this host forwards packets to the internet now.
    pub is_exit: bool,
    /// Number of peers that the policy lets use this host as an exit node.
    pub users: usize,
}

/// An address that the internet sees of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct SeenAddress {
    /// The address.
    pub address: IpAddr,
    /// True if a relay answered through the exit node with this address; false if it is one at which the network map lists the exit node, which may send from another one.
    pub measured: bool,
}

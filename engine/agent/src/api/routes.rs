//! Subnet routes, as users see them.

use serde::Serialize;
use taut_base::Prefix;

/// The subnet routes of this node and of its peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct RoutesStatus {
    /// Prefixes behind this node that it offers.
    pub advertised: Vec<AdvertisedStatus>,
    /// Whether this host uses the routes of its peers.
    pub accepts: bool,
    /// The approved routes of peers.
    pub peers: Vec<PeerRouteStatus>,
}

/// A prefix behind this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct AdvertisedStatus {
    /// The prefix, as peers see it.
    pub route: Prefix,
    /// The prefix of the hosts, if it is another one.
    pub real: Option<Prefix>,
    /// Whether it is approved, so that peers may use it.
    pub approved: bool,
}

/// A prefix behind peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct PeerRouteStatus {
    /// The prefix.
    pub route: Prefix,
    /// Name of the peer that carries it; `null` if this host does not use the route.
    pub via: Option<String>,
    /// Names of all peers that are its routers, first choice first.
    pub routers: Vec<String>,
    /// The network of this host that contains the prefix, or the address that the prefix would cut off, so that it is not used.
    pub hidden_by: Option<Prefix>,
}

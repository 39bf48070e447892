//! The host's resolver, as far as it asks for the network's names.

use serde::Serialize;

use super::Failure;

/// The state of the host's resolver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct ResolverStatus {
    /// The resolver that asks this node for the network's names; `null` if none does.
    pub by: Option<ResolverBackEnd>,
    /// The reason why none does, while the network is up.
    pub problem: Option<Failure>,
}

/// A way to have the host ask this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResolverBackEnd {
    /// systemd-resolved, with domains of our link.
    SystemdResolved,
    /// A dnsmasq that NetworkManager runs.
    NetworkmanagerDnsmasq,
    /// A dnsmasq that the host runs.
    Dnsmasq,
    /// resolvconf or openresolv, with the forwarder as the only server.
    Resolvconf,
    /// `/etc/resolv.conf`, with the forwarder as the only server.
    File,
    /// One of a later release.
    #[serde(other)]
    Other,
}

impl ResolverBackEnd {
    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::SystemdResolved => "systemd-resolved",
            Self::NetworkmanagerDnsmasq => "networkmanager-dnsmasq",
            Self::Dnsmasq => "dnsmasq",
            Self::Resolvconf => "resolvconf",
            Self::File => "file",
            Self::Other => "other",
        }
    }
}

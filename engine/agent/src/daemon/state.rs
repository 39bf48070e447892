//! The state of the daemon: its membership, the coordinator's state, problems for the user, and the readings of the host's addresses.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use taut_base::{NodeId, PublicKey, SortedMap, Time};
use taut_control::{MemberIdentity, OtherPrefixes};
use taut_netlink::Changes;
use taut_netmap::{NetworkMap, Waiting};
use taut_relay::{Credentials, Ticket};

use super::DISK_SILENCE;
use crate::api::Failure;

/// The membership of this node in a network.
#[derive(Default)]
pub(super) struct MembershipState {
    pub(super) identity: Option<MemberIdentity>,
    /// Whether the state directory contains a membership, even one that the coordinator has ended.
    pub(super) exists: bool,
    pub(super) map: Option<Arc<NetworkMap>>,
    /// The ticket for the network's relays, if the coordinator issued one.
    pub(super) ticket: Option<Ticket>,
    /// The same ticket in version 2, if there is one.
    pub(super) numbered: Option<Ticket>,
    /// Peers that have a session with this node, or had one before a restart.
    pub(super) recent: Vec<PublicKey>,
    /// The ceiling of the timestamps of initiations, since the Unix epoch.
    pub(super) stamps: Duration,
}

impl MembershipState {
    /// Returns the ticket and the key for relays, once there is a ticket.
    pub(super) fn credentials(&self) -> Option<Credentials> {
        let (identity, ticket) = (self.identity.as_ref()?, self.ticket.as_ref()?);
        Some(Credentials { bind: identity.bind_key.clone(), ticket: ticket.clone(), numbered: self.numbered.clone() })
    }
}

/// The connection to the coordinator, and the coordinator's view of the network.
#[derive(Default)]
pub(super) struct CoordinatorState {
    /// The URL in use.
    pub(super) url: String,
    /// Addresses of the last connection.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) connected: bool,
    /// The coordinator's message about what this node waits for, and the time at which its code expires.
    pub(super) waiting: Option<(Waiting, Option<Time>)>,
    /// The time when this node's membership expires.
    pub(super) expires: Option<Time>,
    /// Time of the last scheduled attempt to rotate the key.
    pub(super) rotated_at: Option<Time>,
    /// True if the log has the warning that the membership expires soon.
    pub(super) expiry_told: bool,
    /// The time when the last open channel broke.
    pub(super) lost: Option<Time>,
    /// The time of the next attempt to connect, if one follows.
    pub(super) retry_at: Option<Time>,
    /// The reason why the last connection failed.
    pub(super) last_error: Option<String>,
    /// Whether each node is online; `None` while the coordinator is not connected.
    pub(super) presence: Option<SortedMap<NodeId, bool>>,
    /// Overlay prefixes that the coordinator wants instead of those in use.
    pub(super) other_prefixes: Option<OtherPrefixes>,
}

/// Returns the host name in a URL; `None` if it has an address.
pub(super) fn host_name(url: &str) -> Option<&str> {
    let place = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next()?;
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    Some(host).filter(|host| !host.is_empty() && literal_address(url).is_none())
}

/// Returns the address in a URL that has one instead of a name: it is known before the first connection.
pub(super) fn literal_address(url: &str) -> Option<IpAddr> {
    let place = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next()?;
    let with_port = || place.parse::<SocketAddr>().ok().map(|at| at.ip());
    place.trim_matches(['[', ']']).parse().ok().or_else(with_port)
}

/// Problems for the user, each from another source.
#[derive(Default)]
pub(super) struct Problems {
    /// The network could not come up, or the coordinator refused this node.
    pub(super) network: Option<Failure>,
    /// Another daemon runs with this node's state, according to the coordinator.
    pub(super) duplicate: Option<Failure>,
    /// The state directory cannot be written, with the time of the last report.
    pub(super) disk: Option<(Failure, Time)>,
}

impl Problems {
    /// Returns the problem of the state directory, while it is reported.
    pub(super) fn disk(&self, now: Time) -> Option<Failure> {
        let (problem, reported) = self.disk.as_ref()?;
        (now.since(*reported) < DISK_SILENCE).then(|| problem.clone())
    }
}

/// The readings of the host's addresses.
#[derive(Default)]
pub(super) struct Readings {
    /// Time of the next reading.
    pub(super) due: Option<Time>,
    /// The changes since the last reading.
    pub(super) changes: Changes,
    /// Time of the last reading.
    pub(super) last: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_a_url_is_known_at_once() {
        assert_eq!(host_name("wss://relay.example:443/relay"), Some("relay.example"));
        assert_eq!(host_name("http://coord.example"), Some("coord.example"));
        for (url, address) in [
            ("https://203.0.113.5", Some("203.0.113.5")),
            ("http://203.0.113.5:8080/", Some("203.0.113.5")),
            ("https://[2001:db8::5]:443/x", Some("2001:db8::5")),
            ("https://[2001:db8::5]", Some("2001:db8::5")),
            ("https://taut.example.com:443", None),
            ("", None),
        ] {
            assert_eq!(literal_address(url), address.map(|text| text.parse().unwrap()), "{url}");
            assert!(host_name(url).is_none() || address.is_none(), "{url}");
        }
    }
}

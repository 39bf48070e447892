//! Relays in the network map.
//!
//! A relay is identified by its key. A node never sends traffic to a server with another key, so a wrong endpoint costs one unanswered bind message.
//! Endpoints must still pass the rules for those of peers, so that a hostile coordinator cannot make nodes probe services of their own host (protocol.md
//! 5.6).
//!
//! The coordinator's own relay often does not know its address. The map then has an endpoint with an unspecified address (`0.0.0.0`, `[::]`), which means *the
//! address of the coordinator*; [`resolve_relay_endpoints`] replaces it. [`resolve_relay_urls`] does the same for a URL with the host `0.0.0.0`: scheme, host
//! and port become those of the coordinator's URL.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use taut_base::{Prefix, PublicKey, RelayId, SortedSet};
use taut_path::acceptable;

use crate::name::check_name;

/// Limit on the relays of a network, 32: two in each region of the world. A node measures all of them.
pub const MAX_RELAYS: usize = 32;

/// Limit on the endpoints of one relay, 8: a few addresses of each family.
pub const MAX_RELAY_ENDPOINTS: usize = 8;

/// Number of relays that a node is bound to, 2: the nearest one, and a second one for when the first one fails.
pub const MAX_PEER_RELAYS: usize = 2;

/// Longest URL of a relay, 255 bytes, as in a join token.
const MAX_WEB: usize = 255;

/// Path of the coordinator's own relay, below the coordinator's URL.
pub const RELAY_PATH: &str = "/relay/v1";

/// Beginning of a relay URL whose host is the coordinator's.
const COORDINATOR_WEB: &str = "ws://0.0.0.0/";

/// A relay of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Relay {
    /// Its number in the network.
    pub id: RelayId,
    /// Its name, for people.
    pub name: String,
    /// Its Noise static key (X25519), which identifies the relay.
    pub key: PublicKey,
    /// UDP endpoints for frames and STUN, best first. An unspecified address means the address of the coordinator.
    #[serde(default)]
    pub endpoints: Vec<SocketAddr>,
    /// A second UDP port that answers STUN on the same addresses, with which nodes find out how a NAT treats another port; 0 if there is none.
    #[serde(default)]
    pub stun_port: u16,
    /// `wss://` or `ws://` URL for the same frames if UDP is blocked. The host `0.0.0.0` means the coordinator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<String>,
    /// True while the relay says that it can hardly take more nodes. Nodes that are not bound to it prefer others. Release 0.1.0 does not know it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub busy: bool,
}

impl Relay {
    /// Checks that a node may use the relay. `overlay` has the network's own prefixes.
    ///
    /// # Errors
    /// The first reason to refuse the relay.
    pub fn check(&self, overlay: &[Prefix]) -> Result<(), RelayFault> {
        check_name(&self.name).map_err(|_| RelayFault::BadName(self.id))?;
        if self.endpoints.len() > MAX_RELAY_ENDPOINTS {
            return Err(RelayFault::TooManyEndpoints(self.id));
        }
        let bad = |endpoint: &&SocketAddr| !is_open(**endpoint) && !acceptable(**endpoint, overlay);
        if let Some(endpoint) = self.endpoints.iter().find(bad) {
            return Err(RelayFault::BadEndpoint(self.id, *endpoint));
        }
        match &self.web {
            Some(web) if !is_web(web) => Err(RelayFault::BadWeb(self.id)),
            _ => Ok(()),
        }
    }
}

/// Checks that a node may act on this list of relays.
pub(crate) fn check(relays: &[Relay], overlay: &[Prefix]) -> Result<(), RelayFault> {
    if relays.len() > MAX_RELAYS {
        return Err(RelayFault::TooMany { relays: relays.len() });
    }
    let (mut ids, mut keys) = (SortedSet::new(), SortedSet::new());
    for relay in relays {
        relay.check(overlay)?;
        if !ids.insert(relay.id) {
            return Err(RelayFault::SameId(relay.id));
        }
        if !keys.insert(relay.key) {
            return Err(RelayFault::SameKey(relay.id));
        }
    }
    Ok(())
}

/// Replaces unspecified addresses of endpoints by the coordinator's addresses: each by the first one, with which this node reaches the coordinator, and by the
/// others of the same family. Removes an endpoint without a usable address (none is known, or only a loopback one) and duplicates. A relay has at most
/// [`MAX_RELAY_ENDPOINTS`] endpoints afterwards.
pub fn resolve_relay_endpoints(relays: &mut [Relay], coordinator: &[IpAddr], overlay: &[Prefix]) {
    for relay in relays {
        let mut resolved: Vec<SocketAddr> = Vec::with_capacity(relay.endpoints.len());
        for endpoint in &relay.endpoints {
            let open = endpoint.ip().is_unspecified();
            let own = [endpoint.ip()];
            let addresses = if open { coordinator } else { &own };
            for (number, address) in addresses.iter().map(IpAddr::to_canonical).enumerate() {
                let known = SocketAddr::new(address, endpoint.port());
                let fits = number == 0 || address.is_ipv4() == endpoint.is_ipv4();
                let is_new = resolved.len() < MAX_RELAY_ENDPOINTS && !resolved.contains(&known);
                if fits && is_new && acceptable(known, overlay) {
                    resolved.push(known);
                }
            }
        }
        relay.endpoints = resolved;
    }
}

/// Replaces scheme, host and port of a relay URL with the host `0.0.0.0` by those of the coordinator's URL (`http://` or `https://`). Removes a URL that
/// cannot be resolved, or is not a WebSocket URL afterwards.
pub fn resolve_relay_urls(relays: &mut [Relay], coordinator: Option<&str>) {
    for relay in relays {
        let Some(path) = relay.web.as_deref().and_then(|web| web.strip_prefix(COORDINATOR_WEB)) else { continue };
        let secure = coordinator.and_then(|url| url.strip_prefix("https://")).map(|rest| ("wss", rest));
        let plain = coordinator.and_then(|url| url.strip_prefix("http://")).map(|rest| ("ws", rest));
        let resolved =
            secure.or(plain).map(|(scheme, rest)| format!("{scheme}://{}/{path}", rest.trim_end_matches('/')));
        relay.web = resolved.filter(|web| is_web(web) && !web.starts_with(COORDINATOR_WEB));
    }
}

/// Returns the URL of the coordinator's own relay, with the host `0.0.0.0`, at [`RELAY_PATH`].
pub fn coordinator_relay_url() -> String {
    format!("{COORDINATOR_WEB}{}", RELAY_PATH.trim_start_matches('/'))
}

/// Returns true if the endpoint has the coordinator's address.
fn is_open(endpoint: SocketAddr) -> bool {
    endpoint.ip().is_unspecified() && endpoint.port() != 0
}

fn is_web(url: &str) -> bool {
    let host = url.strip_prefix("wss://").or_else(|| url.strip_prefix("ws://"));
    host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'))
        && url.len() <= MAX_WEB
        && url.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Why a relay or a list of relays is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayFault {
    /// More relays than a node accepts.
    TooMany {
        /// Number of relays in the list.
        relays: usize,
    },
    /// A relay with too many endpoints.
    TooManyEndpoints(RelayId),
    /// An endpoint to which a node must not send.
    BadEndpoint(RelayId, SocketAddr),
    /// A URL that is not a WebSocket URL.
    BadWeb(RelayId),
    /// A name that is not a DNS label.
    BadName(RelayId),
    /// Two relays with one number.
    SameId(RelayId),
    /// Two relays with one key.
    SameKey(RelayId),
}

impl fmt::Display for RelayFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { relays } => write!(f, "{relays} relays are more than the {MAX_RELAYS} that a node accepts"),
            Self::TooManyEndpoints(id) => write!(f, "relay {id} has more than {MAX_RELAY_ENDPOINTS} endpoints"),
            Self::BadEndpoint(id, endpoint) => {
                write!(f, "relay {id} has the endpoint {endpoint}, to which nothing may be sent")
            }
            Self::BadWeb(id) => write!(f, "the URL of relay {id} is not a WebSocket URL (`wss://HOST/PATH`)"),
            Self::BadName(id) => write!(f, "the name of relay {id} is not a DNS label"),
            Self::SameId(id) => write!(f, "two relays have the number {id}"),
            Self::SameKey(id) => write!(f, "the key of relay {id} is also another relay's"),
        }
    }
}

impl Error for RelayFault {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn relay(number: u8) -> Relay {
        Relay {
            id: RelayId(u32::from(number)),
            name: format!("relay-{number}"),
            key: PublicKey([number; 32]),
            endpoints: vec![SocketAddr::from(([192, 0, 2, number], 3478))],
            stun_port: 3479,
            web: None,
            busy: false,
        }
    }

    fn overlay() -> [Prefix; 2] {
        ["100.64.0.0/10".parse().unwrap(), "fd12:3456:789a::/64".parse().unwrap()]
    }

    fn endpoints(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn honest_relays_are_taken() {
        let web = Relay { endpoints: Vec::new(), web: Some(String::from("wss://relay.example/r")), ..relay(2) };
        let open = Relay { endpoints: endpoints(&["0.0.0.0:3478", "[::]:3478"]), stun_port: 0, ..relay(3) };
        assert_eq!(check(&[relay(1), web, open], &overlay()), Ok(()));
        assert_eq!(check(&[], &overlay()), Ok(()));
    }

    #[test]
    fn fault_d11_no_map_sends_nodes_to_a_wrong_place_as_a_relay() {
        for text in
            ["127.0.0.1:1", "[::1]:1", "224.0.0.1:1", "169.254.169.254:80", "100.64.0.7:1", "10.0.0.1:0", "0.0.0.0:0"]
        {
            let wrong = Relay { endpoints: endpoints(&["192.0.2.1:1", text]), ..relay(1) };
            assert!(matches!(check(&[wrong], &overlay()), Err(RelayFault::BadEndpoint(RelayId(1), _))), "{text}");
        }
    }

    #[test]
    fn fault_e17_hostile_lists_of_relays_are_refused() {
        let with = |change: fn(&mut Relay)| {
            let mut second = relay(2);
            change(&mut second);
            check(&[relay(1), second], &overlay())
        };
        assert_eq!(with(|relay| relay.id = RelayId(1)), Err(RelayFault::SameId(RelayId(1))));
        assert_eq!(with(|relay| relay.key = PublicKey([1; 32])), Err(RelayFault::SameKey(RelayId(2))));
        assert_eq!(with(|relay| relay.name = String::from("a/b")), Err(RelayFault::BadName(RelayId(2))));
        assert_eq!(
            with(|relay| relay.endpoints = vec![relay.endpoints[0]; 9]),
            Err(RelayFault::TooManyEndpoints(RelayId(2)))
        );
        for web in ["https://a", "wss://", "wss:///x", "ws://a b", "ws://ä", "x"] {
            let wrong = Relay { web: Some(String::from(web)), ..relay(1) };
            assert_eq!(check(&[wrong], &overlay()), Err(RelayFault::BadWeb(RelayId(1))), "{web}");
        }
        let many: Vec<Relay> = (0..33).map(relay).collect();
        assert_eq!(check(&many, &overlay()), Err(RelayFault::TooMany { relays: 33 }));
        assert_eq!(check(&many[..32], &overlay()), Ok(()));
    }

    #[test]
    fn an_open_address_is_where_the_coordinator_is() {
        let resolved = |texts: &[&str], coordinator: &[&str]| {
            let mut relays = [Relay { endpoints: endpoints(texts), ..relay(1) }];
            let coordinator: Vec<IpAddr> = coordinator.iter().map(|text| text.parse().unwrap()).collect();
            resolve_relay_endpoints(&mut relays, &coordinator, &overlay());
            relays[0].endpoints.clone()
        };
        let both = ["0.0.0.0:3478", "[::]:3478"];
        assert_eq!(resolved(&both, &["203.0.113.7"]), endpoints(&["203.0.113.7:3478"]));
        assert_eq!(resolved(&both, &["::ffff:203.0.113.7"]), endpoints(&["203.0.113.7:3478"]));
        assert_eq!(resolved(&["[::]:5"], &["2001:db8::1"]), endpoints(&["[2001:db8::1]:5"]));
        assert_eq!(resolved(&["[::]:5", "192.0.2.9:5"], &[]), endpoints(&["192.0.2.9:5"]));
        // The node reaches the coordinator over IPv6 and knows its IPv4 address.
        let two = ["2001:db8::1", "203.0.113.7", "2001:db8::1"];
        assert_eq!(resolved(&["[::]:5", "0.0.0.0:5"], &two), endpoints(&["[2001:db8::1]:5", "203.0.113.7:5"]));
        assert_eq!(resolved(&["[::]:5"], &two), endpoints(&["[2001:db8::1]:5"]), "it does not listen there");
        let many: Vec<String> = (1..20).map(|last| format!("203.0.113.{last}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(resolved(&both, &many).len(), MAX_RELAY_ENDPOINTS);
        assert_eq!(resolved(&both, &["127.0.0.1"]), [], "a relay at loopback is nobody's");
        assert_eq!(resolved(&both, &["100.64.0.1"]), [], "a relay inside the overlay would carry itself");
    }

    #[test]
    fn an_open_url_is_where_the_coordinator_is() {
        let resolved = |web: &str, coordinator: Option<&str>| {
            let mut relays = [Relay { web: Some(String::from(web)), ..relay(1) }];
            resolve_relay_urls(&mut relays, coordinator);
            relays[0].web.clone()
        };
        let open = coordinator_relay_url();
        assert_eq!(check(&[Relay { web: Some(open.clone()), ..relay(1) }], &overlay()), Ok(()));
        assert_eq!(resolved(&open, Some("http://10.0.0.1:8288")).as_deref(), Some("ws://10.0.0.1:8288/relay/v1"));
        assert_eq!(resolved(&open, Some("https://vpn.example/a/")).as_deref(), Some("wss://vpn.example/a/relay/v1"));
        assert_eq!(
            resolved("wss://relay.example/r", Some("http://10.0.0.1")).as_deref(),
            Some("wss://relay.example/r")
        );
        for none in [None, Some("ftp://a"), Some("http:///"), Some("http://0.0.0.0")] {
            assert_eq!(resolved(&open, none), None, "{none:?}");
        }
    }

    proptest! {
        #[test]
        fn settled_relays_pass_the_check_and_stay_settled(ips in proptest::collection::vec(any::<(u32, bool, u16)>(), 0..9), at in any::<u32>()) {
            let spell = |(ip, open, port): (u32, bool, u16)| SocketAddr::new(IpAddr::V4(if open { 0 } else { ip }.into()), port);
            let mut relays = [Relay { endpoints: ips.into_iter().map(spell).collect(), ..relay(1) }];
            resolve_relay_endpoints(&mut relays, &[IpAddr::V4(at.into())], &overlay());
            let once = relays.clone();
            prop_assert!(once[0].endpoints.len() > MAX_RELAY_ENDPOINTS || check(&once, &overlay()).is_ok());
            resolve_relay_endpoints(&mut relays, &[], &overlay());
            prop_assert_eq!(once, relays);
        }
    }
}

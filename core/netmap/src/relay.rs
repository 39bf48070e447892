//! Relays as the map names them.
//!
//! A relay is known by its key: who answers at its endpoints under another key is not spoken to, so a wrong address costs a bind that
//! nobody answers, never traffic. Endpoints are still held against the same rules as those of peers, so that a hostile coordinator cannot
//! make nodes knock at services of their own host (protocol.md 5.6).
//!
//! The coordinator's own relay often does not know by which address it is reached. Such an endpoint stands in the map with an unspecified
//! address (`0.0.0.0`, `[::]`), which means *where this node reaches the coordinator*; [`settle`] puts that in its place. So does [`resolve_relay_urls`] with
//! a URL of the host `0.0.0.0`: its scheme, host and port are those of the URL by which the node reached the coordinator.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use taut_base::{Prefix, PublicKey, RelayId};
use taut_path::acceptable;

use crate::name::check_name;

/// Relays of one network: enough for one per region of the world and a second one beside each; a node measures all of them.
pub const MAX_RELAYS: usize = 32;

/// Endpoints of one relay: a few addresses of each family.
pub const MAX_RELAY_ENDPOINTS: usize = 8;

/// Relays that one node is bound to: the nearest and a second one, kept warm for the moment in which the first one fails.
pub const MAX_PEER_RELAYS: usize = 2;

/// Longest URL of a relay, in bytes: what a join token has room for, too.
const MAX_WEB: usize = 255;

/// Path of the coordinator's own relay, behind whatever its URL has in front of all paths.
pub const RELAY_PATH: &str = "/relay/v1";

/// How the URL of a relay begins that is reached where the coordinator is.
const OPEN_WEB: &str = "ws://0.0.0.0/";

/// A relay of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relay {
    /// Its number in the network.
    pub id: RelayId,
    /// Its name, for people.
    pub name: String,
    /// Its Noise static key (X25519); who has another one is not this relay.
    pub key: PublicKey,
    /// Where it takes frames and answers STUN, by UDP, best first. An unspecified address means where the node reaches the coordinator.
    #[serde(default)]
    pub endpoints: Vec<SocketAddr>,
    /// UDP port that answers STUN beside the endpoints' own, on the same addresses, so that a NAT's behaviour towards a second port can be
    /// asked for; 0 where there is none.
    #[serde(default)]
    pub stun_port: u16,
    /// `wss://` or `ws://` URL that takes the same frames where UDP is blocked. The host `0.0.0.0` means where the node reaches the coordinator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<String>,
}

impl Relay {
    /// Whether a node may use what stands here; `overlay` are the network's own prefixes.
    ///
    /// # Errors
    /// The first reason not to.
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

/// Whether a node may act on this list of relays.
pub(crate) fn check(relays: &[Relay], overlay: &[Prefix]) -> Result<(), RelayFault> {
    if relays.len() > MAX_RELAYS {
        return Err(RelayFault::TooMany { relays: relays.len() });
    }
    let (mut ids, mut keys) = (BTreeSet::new(), BTreeSet::new());
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

/// Puts the addresses of the coordinator where an endpoint leaves its address open: the first one, by which this node reaches the coordinator, into each of
/// these, the others into those of their own family. What stays open (no address is known, or none that may be sent to, such as a loopback one) is left out;
/// a spelling that is there twice stands once. No relay has more than [`MAX_RELAY_ENDPOINTS`] afterwards.
pub fn resolve_relay_endpoints(relays: &mut [Relay], coordinator: &[IpAddr], overlay: &[Prefix]) {
    for relay in relays {
        let mut settled: Vec<SocketAddr> = Vec::with_capacity(relay.endpoints.len());
        for endpoint in &relay.endpoints {
            let open = endpoint.ip().is_unspecified();
            let own = [endpoint.ip()];
            let addresses = if open { coordinator } else { &own };
            for (number, address) in addresses.iter().map(IpAddr::to_canonical).enumerate() {
                let known = SocketAddr::new(address, endpoint.port());
                let fits = number == 0 || address.is_ipv4() == endpoint.is_ipv4();
                let is_new = settled.len() < MAX_RELAY_ENDPOINTS && !settled.contains(&known);
                if fits && is_new && acceptable(known, overlay) {
                    settled.push(known);
                }
            }
        }
        relay.endpoints = settled;
    }
}

/// Puts the URL by which this node reached the coordinator (`http://` or `https://`) where a relay's URL leaves its place open. One that stays open, or
/// becomes none of a WebSocket by it, is left out.
pub fn resolve_relay_urls(relays: &mut [Relay], coordinator: Option<&str>) {
    for relay in relays {
        let Some(path) = relay.web.as_deref().and_then(|web| web.strip_prefix(OPEN_WEB)) else { continue };
        let secure = coordinator.and_then(|url| url.strip_prefix("https://")).map(|rest| ("wss", rest));
        let plain = coordinator.and_then(|url| url.strip_prefix("http://")).map(|rest| ("ws", rest));
        let settled =
            secure.or(plain).map(|(scheme, rest)| format!("{scheme}://{}/{path}", rest.trim_end_matches('/')));
        relay.web = settled.filter(|web| is_web(web) && !web.starts_with(OPEN_WEB));
    }
}

/// The URL of a relay that is reached where the coordinator is, at [`RELAY_PATH`].
pub fn coordinator_relay_url() -> String {
    format!("{OPEN_WEB}{}", RELAY_PATH.trim_start_matches('/'))
}

/// Whether the address is left open.
fn is_open(endpoint: SocketAddr) -> bool {
    endpoint.ip().is_unspecified() && endpoint.port() != 0
}

fn is_web(url: &str) -> bool {
    let host = url.strip_prefix("wss://").or_else(|| url.strip_prefix("ws://"));
    host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'))
        && url.len() <= MAX_WEB
        && url.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What is wrong with a relay or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelayFault {
    /// More relays than a node takes.
    TooMany {
        /// How many there are.
        relays: usize,
    },
    /// More endpoints than a relay can have.
    TooManyEndpoints(RelayId),
    /// An endpoint that nothing may ever be sent to.
    BadEndpoint(RelayId, SocketAddr),
    /// A URL that is none of a WebSocket.
    BadWeb(RelayId),
    /// A name that is no DNS label.
    BadName(RelayId),
    /// Two relays with one number.
    SameId(RelayId),
    /// Two relays with one key.
    SameKey(RelayId),
}

impl fmt::Display for RelayFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { relays } => write!(f, "{relays} relays are more than the {MAX_RELAYS} that a node takes"),
            Self::TooManyEndpoints(id) => write!(f, "relay {id} has more than {MAX_RELAY_ENDPOINTS} endpoints"),
            Self::BadEndpoint(id, endpoint) => {
                write!(f, "relay {id} is said to be at {endpoint}, where nothing may be sent to")
            }
            Self::BadWeb(id) => write!(f, "the URL of relay {id} is none of a WebSocket (`wss://HOST/PATH`)"),
            Self::BadName(id) => write!(f, "the name of relay {id} is no DNS label"),
            Self::SameId(id) => write!(f, "number {id} stands for two relays"),
            Self::SameKey(id) => write!(f, "the key of relay {id} is another relay's, too"),
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
        let settled = |texts: &[&str], coordinator: &[&str]| {
            let mut relays = [Relay { endpoints: endpoints(texts), ..relay(1) }];
            let coordinator: Vec<IpAddr> = coordinator.iter().map(|text| text.parse().unwrap()).collect();
            resolve_relay_endpoints(&mut relays, &coordinator, &overlay());
            relays[0].endpoints.clone()
        };
        let both = ["0.0.0.0:3478", "[::]:3478"];
        assert_eq!(settled(&both, &["203.0.113.7"]), endpoints(&["203.0.113.7:3478"]));
        assert_eq!(settled(&both, &["::ffff:203.0.113.7"]), endpoints(&["203.0.113.7:3478"]));
        assert_eq!(settled(&["[::]:5"], &["2001:db8::1"]), endpoints(&["[2001:db8::1]:5"]));
        assert_eq!(settled(&["[::]:5", "192.0.2.9:5"], &[]), endpoints(&["192.0.2.9:5"]));
        // Reached by IPv6, and known by IPv4, too.
        let two = ["2001:db8::1", "203.0.113.7", "2001:db8::1"];
        assert_eq!(settled(&["[::]:5", "0.0.0.0:5"], &two), endpoints(&["[2001:db8::1]:5", "203.0.113.7:5"]));
        assert_eq!(settled(&["[::]:5"], &two), endpoints(&["[2001:db8::1]:5"]), "it does not listen there");
        let many: Vec<String> = (1..20).map(|last| format!("203.0.113.{last}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(settled(&both, &many).len(), MAX_RELAY_ENDPOINTS);
        assert_eq!(settled(&both, &["127.0.0.1"]), [], "a relay at loopback is nobody's");
        assert_eq!(settled(&both, &["100.64.0.1"]), [], "a relay inside the overlay would carry itself");
    }

    #[test]
    fn an_open_url_is_where_the_coordinator_is() {
        let settled = |web: &str, coordinator: Option<&str>| {
            let mut relays = [Relay { web: Some(String::from(web)), ..relay(1) }];
            resolve_relay_urls(&mut relays, coordinator);
            relays[0].web.clone()
        };
        let open = coordinator_relay_url();
        assert_eq!(check(&[Relay { web: Some(open.clone()), ..relay(1) }], &overlay()), Ok(()));
        assert_eq!(settled(&open, Some("http://10.0.0.1:8288")).as_deref(), Some("ws://10.0.0.1:8288/relay/v1"));
        assert_eq!(settled(&open, Some("https://vpn.example/a/")).as_deref(), Some("wss://vpn.example/a/relay/v1"));
        assert_eq!(settled("wss://relay.example/r", Some("http://10.0.0.1")).as_deref(), Some("wss://relay.example/r"));
        for none in [None, Some("ftp://a"), Some("http:///"), Some("http://0.0.0.0")] {
            assert_eq!(settled(&open, none), None, "{none:?}");
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

//! The relay inside: a coordinator on one box is a relay for its networks, too (`taut_relay_server`, threads of its own beside the server's).
//!
//! It takes the tickets of this coordinator and no others, under a key that the database keeps. Maps name it as `coordinator`; where it is
//! reached is left open, so that each node takes the address by which it reaches the coordinator, unless the operator knows better.
//! Where UDP is blocked it is reached by WebSocket at the coordinator's own HTTP port, by whatever URL a node reaches that (`crate::api::relay`).
//! Without its ports the coordinator goes on without it, and says so.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use taut_netmap::{Relay as Named, coordinator_relay_url};
use taut_relay_server::{Admission, Config, DEFAULT_PORT, DEFAULT_STUN_PORT, Relay, WebConfig};

use crate::log;
use crate::state::{OWN, OWN_NAME, State, StateError};

/// What `serve` is told of it.
pub(crate) struct Wanted {
    /// UDP port of frames and STUN; STUN alone is answered on the next one.
    pub(crate) port: u16,
    /// Where nodes reach it; none for where they reach the coordinator.
    pub(crate) addresses: Vec<Place>,
    /// Most WebSockets of bound clients.
    pub(crate) streams: usize,
}

/// An address that the operator gave, with the port if it is another one outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) ip: IpAddr,
    pub(crate) port: Option<u16>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { port: DEFAULT_PORT, addresses: Vec::new(), streams: 0 }
    }
}

/// Starts the relay, or none, and names it in all maps. It ends when what is returned is dropped. Connections in `admission` may become clients'.
pub(crate) async fn start(
    state: &State,
    wanted: Option<&Wanted>,
    admission: &Arc<Admission>,
) -> Result<Option<Relay>, StateError> {
    let running = wanted.and_then(|wanted| Some((open(state, wanted, admission)?, wanted)));
    let named = running.as_ref().map(|(relay, wanted)| Named {
        id: OWN,
        name: String::from(OWN_NAME),
        key: relay.key(),
        endpoints: endpoints(&wanted.addresses, relay.port()),
        stun_port: relay.stun_port(),
        web: Some(coordinator_relay_url()),
    });
    state.set_own_relay(named.as_ref()).await?;
    let relay = running.map(|(relay, _)| relay);
    if let Some(relay) = &relay {
        state.watch_relay(relay.removals()).await?;
        log::event(
            "relay-started",
            &[("port", &relay.port()), ("stun-port", &relay.stun_port()), ("key", &relay.key())],
        );
    }
    Ok(relay)
}

/// `None` when its ports cannot be had: coordinating matters more.
fn open(state: &State, wanted: &Wanted, admission: &Arc<Admission>) -> Option<Relay> {
    let mut config = Config::new(state.relay_key().clone());
    config.port = wanted.port;
    config.stun_port = stun_port(wanted.port);
    config.trusted = vec![state.ticket_key()];
    let (admission, streams) = (Arc::clone(admission), wanted.streams);
    config.web = Some(WebConfig { address: None, certificate: None, admission, streams });
    match Relay::start(&config) {
        Ok(relay) => Some(relay),
        Err(error) => {
            let todo = "nodes that no direct path joins need a relay: free the ports, choose others with --relay-port, or say --no-relay";
            log::event(
                "relay-not-started",
                &[("port", &config.port), ("stun-port", &config.stun_port), ("error", &error), ("do", &todo)],
            );
            None
        }
    }
}

/// The port after that of frames; any free one for any free one.
fn stun_port(port: u16) -> u16 {
    match port {
        0 => 0,
        DEFAULT_PORT => DEFAULT_STUN_PORT,
        u16::MAX => port - 1,
        other => other + 1,
    }
}

fn endpoints(addresses: &[Place], port: u16) -> Vec<SocketAddr> {
    if addresses.is_empty() {
        let open: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
        return open.map(|ip| SocketAddr::new(ip, port)).to_vec();
    }
    addresses.iter().map(|place| SocketAddr::new(place.ip, place.port.unwrap_or(port))).collect()
}

/// Reads `IP`, `IP:PORT`, `[IPv6]:PORT`.
pub(crate) fn place(text: &str) -> Option<Place> {
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Some(Place { ip, port: None });
    }
    let endpoint: SocketAddr = text.parse().ok()?;
    Some(Place { ip: endpoint.ip(), port: Some(endpoint.port()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_a_port() {
        let read = |text: &str| place(text).map(|place| (place.ip.to_string(), place.port));
        assert_eq!(read("203.0.113.7"), Some((String::from("203.0.113.7"), None)));
        assert_eq!(read("203.0.113.7:5"), Some((String::from("203.0.113.7"), Some(5))));
        assert_eq!(read("2001:db8::7"), Some((String::from("2001:db8::7"), None)));
        assert_eq!(read("[2001:db8::7]"), Some((String::from("2001:db8::7"), None)));
        assert_eq!(read("[2001:db8::7]:5"), Some((String::from("2001:db8::7"), Some(5))));
        for text in ["", "relay.example", "203.0.113.7:", "203.0.113.7:65536", "[2001:db8::7]:x"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn where_it_is_stays_open_unless_somebody_knows() {
        assert_eq!(endpoints(&[], 3478), ["[::]:3478".parse().unwrap(), "0.0.0.0:3478".parse().unwrap()]);
        let known = ["203.0.113.7", "[2001:db8::7]:5"].map(|text| place(text).unwrap());
        assert_eq!(endpoints(&known, 3478), ["203.0.113.7:3478".parse().unwrap(), "[2001:db8::7]:5".parse().unwrap()]);
        assert_eq!([0, 3478, 5000, u16::MAX].map(stun_port), [0, 3479, 5001, u16::MAX - 1]);
    }
}

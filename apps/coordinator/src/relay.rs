//! The coordinator's own relay, for its networks (`taut_relay_server`, with threads of its own).
//!
//! It accepts only tickets of this coordinator. Its key is in the database. Network maps list it as `coordinator`, with unspecified addresses unless the
//! operator gives some: each node then uses the address at which it reaches the coordinator. A node whose UDP is blocked reaches it by WebSocket at the
//! coordinator's HTTP port (`crate::api::relay`). If its UDP ports are in use, the coordinator runs without a relay and logs why.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use taut_netmap::{Relay as NetmapRelay, coordinator_relay_url};
use taut_relay::ForwardRate;
use taut_relay_server::{ConnectionAdmission, DEFAULT_PORT, DEFAULT_STUN_PORT, RelayConfig, RelayServer, WebConfig};

use crate::log;
use crate::state::{OWN, OWN_NAME, State, StateError};

/// Options of the relay.
pub(crate) struct RelayOptions {
    /// UDP port of frames and STUN; STUN alone is answered on the next one.
    pub(crate) port: u16,
    /// Addresses at which nodes reach the relay; empty for those at which they reach the coordinator.
    pub(crate) addresses: Vec<RelayAddress>,
    /// Limit on the traffic that is forwarded for one node.
    pub(crate) rate: ForwardRate,
    /// Limit on WebSockets of bound clients.
    pub(crate) streams: usize,
}

/// An address of the relay that the operator gave, with a port if the port outside is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelayAddress {
    pub(crate) ip: IpAddr,
    pub(crate) port: Option<u16>,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self { port: DEFAULT_PORT, addresses: Vec::new(), rate: ForwardRate::DEFAULT, streams: 0 }
    }
}

/// Starts the relay if there are options for it, and lists it in all network maps. The relay ends when the returned value is dropped. It admits clients from
/// the connections in `admission`.
pub(crate) async fn start(
    state: &State,
    wanted: Option<&RelayOptions>,
    admission: &Arc<ConnectionAdmission>,
) -> Result<Option<RelayServer>, StateError> {
    let running = wanted.and_then(|wanted| Some((open(state, wanted, admission)?, wanted)));
    let named = running.as_ref().map(|(relay, wanted)| NetmapRelay {
        id: OWN,
        name: String::from(OWN_NAME),
        key: relay.key(),
        endpoints: endpoints(&wanted.addresses, relay.port()),
        stun_port: relay.stun_port(),
        web: Some(coordinator_relay_url()),
        busy: false,
    });
    state.set_own_relay(named.as_ref()).await?;
    let relay = running.map(|(relay, _)| relay);
    if let Some(relay) = &relay {
        state.watch_relay(relay.removals()).await?;
        let (port, stun_port, key) = (relay.port(), relay.stun_port(), relay.key());
        tracing::info!(target: log::RELAY, event = "relay-started", port, stun_port, %key);
    }
    Ok(relay)
}

/// Returns `None` if the ports are in use: the coordinator then runs without a relay.
fn open(state: &State, wanted: &RelayOptions, admission: &Arc<ConnectionAdmission>) -> Option<RelayServer> {
    let mut config = RelayConfig::new(state.relay_key().clone());
    config.port = wanted.port;
    config.stun_port = stun_port(wanted.port);
    config.trusted = vec![state.ticket_key()];
    config.share = wanted.rate;
    let (admission, streams) = (Arc::clone(admission), wanted.streams);
    config.web = Some(WebConfig { address: None, certificate: None, admission, streams });
    match RelayServer::start(&config) {
        Ok(relay) => Some(relay),
        Err(error) => {
            let hint = "nodes without a direct path need a relay: free the ports, choose others with --relay-port, or give --no-relay";
            let (port, stun_port) = (config.port, config.stun_port);
            tracing::error!(target: log::RELAY, event = "relay-not-started", port, stun_port, reason = %error, hint);
            None
        }
    }
}

/// Returns the STUN port: the one after the port of frames, or 0 (any free port) if that is 0.
fn stun_port(port: u16) -> u16 {
    match port {
        0 => 0,
        DEFAULT_PORT => DEFAULT_STUN_PORT,
        u16::MAX => port - 1,
        other => other + 1,
    }
}

fn endpoints(addresses: &[RelayAddress], port: u16) -> Vec<SocketAddr> {
    if addresses.is_empty() {
        let open: [IpAddr; 2] = [Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
        return open.map(|ip| SocketAddr::new(ip, port)).to_vec();
    }
    addresses.iter().map(|place| SocketAddr::new(place.ip, place.port.unwrap_or(port))).collect()
}

/// Parses `IP`, `IP:PORT` or `[IPv6]:PORT`.
pub(crate) fn parse_address(text: &str) -> Option<RelayAddress> {
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Some(RelayAddress { ip, port: None });
    }
    let endpoint: SocketAddr = text.parse().ok()?;
    Some(RelayAddress { ip: endpoint.ip(), port: Some(endpoint.port()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_a_port() {
        let read = |text: &str| parse_address(text).map(|place| (place.ip.to_string(), place.port));
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
    fn addresses_are_unspecified_unless_the_operator_gives_some() {
        assert_eq!(endpoints(&[], 3478), ["[::]:3478".parse().unwrap(), "0.0.0.0:3478".parse().unwrap()]);
        let known = ["203.0.113.7", "[2001:db8::7]:5"].map(|text| parse_address(text).unwrap());
        assert_eq!(endpoints(&known, 3478), ["203.0.113.7:3478".parse().unwrap(), "[2001:db8::7]:5".parse().unwrap()]);
        assert_eq!([0, 3478, 5000, u16::MAX].map(stun_port), [0, 3479, 5001, u16::MAX - 1]);
    }
}

//! Targets of `taut netcheck`: a STUN server, or a coordinator, which has a relay on the same host.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use taut_control::Url;

use super::{MAX_SERVERS, StunServer};
use crate::fault::Fault;

/// Default port of STUN servers (RFC 8489 section 18.6) and of relays.
const PORT: u16 = 3478;

/// A coordinator that was named by its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Coordinator {
    pub(super) url: String,
    /// The coordinator's addresses and TCP ports.
    pub(super) addresses: Vec<SocketAddr>,
}

/// A server to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) server: StunServer,
    /// The coordinator beside the STUN server, if a URL was given.
    pub(super) coordinator: Option<Coordinator>,
}

impl Target {
    /// Parses `http://HOST[:PORT]`, `https://HOST[:PORT]`, `stun:HOST[:PORT]` (RFC 7064), or `HOST[:PORT]`. Resolves names.
    pub(super) fn read(text: &str) -> Result<Self, Fault> {
        match text.contains("://") {
            true => Self::coordinator(text),
            false => {
                let server = resolve(text, text.strip_prefix("stun:").unwrap_or(text))?;
                Ok(Self { server, coordinator: None })
            }
        }
    }

    /// Parses a coordinator's URL. The coordinator's relay answers STUN at the default port, which does not depend on the URL's port.
    fn coordinator(text: &str) -> Result<Self, Fault> {
        let url: Url = text.parse().map_err(|error| Fault::usage(format!("{text}: {error}")))?;
        let addresses = addresses(text, &url.host, url.port)?;
        let mut endpoints = addresses.clone();
        endpoints.iter_mut().for_each(|endpoint| endpoint.set_port(PORT));
        let server = StunServer { name: url.host, endpoints };
        Ok(Self { server, coordinator: Some(Coordinator { url: String::from(text), addresses }) })
    }
}

/// Returns the server at a host's addresses, or at an address, with or without a port.
fn resolve(name: &str, text: &str) -> Result<StunServer, Fault> {
    let bare = text.parse::<IpAddr>().ok().or_else(|| text.trim_matches(['[', ']']).parse().ok());
    let endpoints = match (bare, text.parse::<SocketAddr>(), text.rsplit_once(':')) {
        (Some(address), ..) => vec![SocketAddr::new(address, PORT)],
        (None, Ok(endpoint), _) => vec![endpoint],
        (None, Err(_), Some((host, port))) => {
            let port =
                port.parse().map_err(|_| Fault::usage(format!("{name}: write a port from 1 to 65535 behind `:`")))?;
            addresses(name, host, port)?
        }
        (None, Err(_), None) => addresses(name, text, PORT)?,
    };
    Ok(StunServer { name: String::from(name), endpoints })
}

/// Returns the addresses of a host, each with this port.
fn addresses(text: &str, host: &str, port: u16) -> Result<Vec<SocketAddr>, Fault> {
    let unknown = |why: String| Fault::failed(format!("{text}: {why}"), "write a host's name or address");
    let found = (host, port).to_socket_addrs();
    let found: Vec<SocketAddr> =
        found.map_err(|error| unknown(format!("its name cannot be resolved: {error}")))?.take(MAX_SERVERS).collect();
    if found.is_empty() { Err(unknown(String::from("its name has no address"))) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stun_server_is_named_with_and_without_a_port() {
        for (text, endpoint) in [
            ("192.0.2.1", "192.0.2.1:3478"),
            ("192.0.2.1:9", "192.0.2.1:9"),
            ("2001:db8::1", "[2001:db8::1]:3478"),
            ("[2001:db8::1]", "[2001:db8::1]:3478"),
            ("[2001:db8::1]:9", "[2001:db8::1]:9"),
            ("stun:192.0.2.1", "192.0.2.1:3478"),
            ("stun:192.0.2.1:19302", "192.0.2.1:19302"),
        ] {
            let target = Target::read(text).unwrap();
            assert_eq!(target.server.endpoints, [endpoint.parse().unwrap()], "{text}");
            assert!(target.coordinator.is_none());
        }
        for text in ["host.invalid", "a b", "", "192.0.2.1:none", "ftp://192.0.2.1"] {
            assert!(Target::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_coordinator_is_a_relay_too() {
        for (text, tcp, udp) in [
            ("http://192.0.2.1:8288", "192.0.2.1:8288", "192.0.2.1:3478"),
            ("https://192.0.2.1/vpn", "192.0.2.1:443", "192.0.2.1:3478"),
            ("http://[2001:db8::1]", "[2001:db8::1]:80", "[2001:db8::1]:3478"),
        ] {
            let Target { server, coordinator } = Target::read(text).unwrap();
            let coordinator = coordinator.unwrap();
            assert_eq!(
                (server.endpoints, coordinator.addresses),
                (vec![udp.parse().unwrap()], vec![tcp.parse().unwrap()])
            );
            assert_eq!(coordinator.url, text);
        }
    }
}

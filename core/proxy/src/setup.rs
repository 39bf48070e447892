//! The messages between the daemon and `taut-userspace`: lines of JSON on a stream of their own, apart from the packets' socket.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;
use taut_base::Prefix;

use crate::{Forward, Publish};

/// Longest line, 256 KiB: 4,096 subnet routes of 40 bytes and all forwards fit.
pub const MAX_LINE: usize = 256 * 1024;

/// The network and the services that the user wants. The first line starts everything; a later one changes what packets may be sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Setup {
    /// Overlay addresses of this node.
    pub addresses: Vec<IpAddr>,
    /// Longest packet, in bytes.
    pub mtu: u16,
    /// The prefixes that clients of a proxy may reach: those of the overlay, and the subnet routes in use.
    pub reachable: Vec<Prefix>,
    /// Addresses at which the node answers questions for names.
    pub name_servers: Vec<IpAddr>,
    /// The domain of the network's names, which a bare name gets.
    pub zone: String,
    /// Where the SOCKS5 proxy listens.
    #[serde(default)]
    pub socks5: Option<SocketAddr>,
    /// Where the HTTP proxy listens.
    #[serde(default)]
    pub http: Option<SocketAddr>,
    /// Port forwards out.
    #[serde(default)]
    pub forwards: Vec<Forward>,
    /// Port forwards in.
    #[serde(default)]
    pub publish: Vec<Publish>,
}

/// The state of the program, for `taut status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct Report {
    /// The services, in the order of the setup.
    pub services: Vec<ServiceReport>,
    /// Connections that are open.
    pub connections: u32,
    /// Connections that were refused because too many were open, since the start.
    #[serde(default)]
    pub over_limit: u64,
}

/// The kind of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// The SOCKS5 proxy.
    Socks5,
    /// The HTTP proxy.
    HttpProxy,
    /// A port forward out.
    Forward,
    /// A port forward in.
    Publish,
    /// A service of a later release.
    #[serde(other)]
    Other,
}

/// A service, and whether it works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, taut_json::Deserialize)]
pub struct ServiceReport {
    /// Its kind.
    pub service: Service,
    /// Where it listens: an address of this host, or the port of the overlay addresses.
    pub listen: String,
    /// Where its connections lead; `None` for a proxy, whose clients say it.
    #[serde(default)]
    pub target: Option<String>,
    /// The reason why it does not work.
    #[serde(default)]
    pub problem: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_survives_its_line() {
        let setup = Setup {
            addresses: vec!["100.64.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            mtu: 1_420,
            reachable: vec!["100.64.0.0/10".parse().unwrap()],
            name_servers: vec!["100.64.0.53".parse().unwrap()],
            zone: String::from("home.taut.internal"),
            socks5: Some("127.0.0.1:1080".parse().unwrap()),
            http: None,
            forwards: vec!["2222=nas:22".parse().unwrap()],
            publish: vec!["80=8080".parse().unwrap()],
        };
        let line = serde_json::to_string(&setup).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Setup>(&line).unwrap(), setup);
        assert!(line.contains("\"127.0.0.1:2222=nas:22\""));
        assert!(serde_json::from_str::<Setup>(&line.replace("=nas:22", "=nas")).is_err());
    }

    #[test]
    fn a_service_of_a_later_release_is_read() {
        let report: ServiceReport = serde_json::from_str(r#"{"service":"quic","listen":"x"}"#).unwrap();
        assert_eq!(report.service, Service::Other);
    }
}

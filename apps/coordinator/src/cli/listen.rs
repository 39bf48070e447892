//! The address at which `serve` listens, and the URLs that follow from it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use taut_base::DEFAULT_PORT;
use tokio::net::TcpListener;

use super::CommandError;
use crate::log;

/// Binds to `listen`, by default to all addresses: with one IPv6 socket that also accepts IPv4, with a second socket if the system separates the two, or with
/// an IPv4 socket if there is no IPv6.
pub(super) async fn bind(listen: Option<SocketAddr>) -> Result<(Vec<Arc<TcpListener>>, SocketAddr), CommandError> {
    let failed = |address: SocketAddr| {
        move |error: io::Error| {
            CommandError::Run(format!(
                "{address} cannot be listened on: {error}; stop what uses it, or choose another --listen"
            ))
        }
    };
    let wanted = listen.unwrap_or(SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT)));
    let first = match TcpListener::bind(wanted).await {
        Err(error) if listen.is_none() && error.kind() != io::ErrorKind::AddrInUse => {
            let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
            let listener = TcpListener::bind(v4).await.map_err(failed(v4))?;
            // The bind fails for another reason than a port in use only on a host without IPv6 (fault J12).
            tracing::warn!(target: log::DAEMON, event = "ipv4-only", address = %v4, reason = %error);
            listener
        }
        other => other.map_err(failed(wanted))?,
    };
    let address = first.local_addr().map_err(failed(wanted))?;
    let mut listeners = vec![Arc::new(first)];
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        // This bind fails with "in use" if the first socket accepts IPv4 already.
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        listeners.extend(TcpListener::bind(v4).await.ok().map(Arc::new));
    }
    Ok((listeners, address))
}

/// Returns guessed URLs of this host, for join tokens, and logs that they are a guess.
pub(super) fn derived_urls(address: SocketAddr) -> Vec<String> {
    let mut urls = Vec::new();
    let own = if address.ip().is_unspecified() { outgoing_addresses() } else { vec![address.ip()] };
    for ip in own {
        urls.push(format!("http://{}", SocketAddr::new(ip, address.port())));
    }
    let note = "a guess that goes into join tokens; give --url where nodes reach this coordinator by another address";
    tracing::info!(target: log::DAEMON, event = "derived-urls", urls = urls.join(","), note);
    urls
}

/// Returns the addresses from which this host reaches the Internet. Connecting a UDP socket sends no packet.
fn outgoing_addresses() -> Vec<IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849). Any public address has the same route.
    let targets = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
    let outgoing = |(from, to): (&str, &str)| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        socket.local_addr().ok().map(|own| own.ip()).filter(|ip| !ip.is_unspecified())
    };
    let found: Vec<IpAddr> = targets.into_iter().filter_map(outgoing).collect();
    if found.is_empty() { vec![IpAddr::V4(Ipv4Addr::LOCALHOST)] } else { found }
}

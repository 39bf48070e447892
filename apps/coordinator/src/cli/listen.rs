//! The address at which `serve` listens, and the URLs that follow from it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use socket2::SockRef;
use taut_base::DEFAULT_PORT;
use taut_relay_server::BACKLOG;
use tokio::net::TcpListener;

use super::CommandError;
use crate::log;
use crate::tls::ServerTls;

/// Parses an address with a port.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an address and port; write 0.0.0.0:8288 or [::]:8288"))
}

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
    let first = match open(wanted).await {
        Err(error) if listen.is_none() && error.kind() != io::ErrorKind::AddrInUse => {
            let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
            let listener = open(v4).await.map_err(failed(v4))?;
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
        listeners.extend(open(v4).await.ok().map(Arc::new));
    }
    Ok((listeners, address))
}

async fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await?;
    // A second call of listen(2) only changes the length of the queue.
    SockRef::from(&listener).listen(BACKLOG.into())?;
    Ok(listener)
}

/// Returns what to do about plain HTTP at an address that other hosts reach; `None` if there is nothing to do.
pub(super) fn plain_http(address: SocketAddr, is_tls: bool, is_behind_proxy: bool) -> Option<&'static str> {
    let is_open = !is_tls && !is_behind_proxy && !address.ip().to_canonical().is_loopback();
    is_open.then_some(
        "every host between an operator and this port can read passwords, sessions and tokens (control channels of nodes are encrypted without TLS, too): give --tls-cert and \
         --tls-key, or --acme, or a proxy that ends TLS with --trusted-proxy, or a loopback address with --listen",
    )
}

/// Returns guessed URLs of this host, for join tokens, and logs that they are a guess. Over https they have the names of the certificate, if it has some.
pub(super) fn derived_urls(address: SocketAddr, tls: Option<&ServerTls>) -> Vec<String> {
    let port = address.port();
    let mut urls = tls.map_or_else(Vec::new, |tls| https_urls(&tls.facts().names, port));
    if urls.is_empty() {
        let own = if address.ip().is_unspecified() { outgoing_addresses() } else { vec![address.ip()] };
        let scheme = if tls.is_some() { "https" } else { "http" };
        urls = own.into_iter().map(|ip| format!("{scheme}://{}", SocketAddr::new(ip, port))).collect();
    }
    let note = "a guess that goes into join tokens; give --url where nodes reach this coordinator by another address";
    tracing::info!(target: log::DAEMON, event = "derived-urls", urls = urls.join(","), note);
    urls
}

/// Returns URLs with the DNS names of a certificate, without wildcards.
fn https_urls(names: &[String], port: u16) -> Vec<String> {
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    let is_host = |name: &&String| !name.contains('*') && name.parse::<IpAddr>().is_err() && *name != "localhost";
    names.iter().filter(is_host).map(|name| format!("https://{name}{port}")).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_reported_where_other_hosts_reach_it_and_nothing_ends_tls() {
        let open = |address: &str, is_tls, is_behind_proxy| {
            plain_http(address.parse().unwrap(), is_tls, is_behind_proxy).is_some()
        };
        for address in ["[::]:8288", "0.0.0.0:8288", "192.0.2.1:8288", "[2001:db8::1]:8288"] {
            let found = [open(address, false, false), open(address, true, false), open(address, false, true)];
            assert_eq!(found, [true, false, false], "{address}");
        }
        for address in ["127.0.0.1:8288", "[::1]:8288", "[::ffff:127.0.0.1]:8288"] {
            assert!(!open(address, false, false), "{address}");
        }
    }

    #[test]
    fn https_urls_have_the_names_of_the_certificate() {
        let names = ["taut.example", "*.taut.example", "192.0.2.1", "localhost"].map(String::from);
        assert_eq!(https_urls(&names, 443), ["https://taut.example"]);
        assert_eq!(https_urls(&names, 8288), ["https://taut.example:8288"]);
    }
}

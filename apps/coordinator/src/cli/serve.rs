//! `serve`.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use taut_base::{DEFAULT_PORT, Descriptors, Prefix, Uses, WhenFull};
use taut_relay_server::log::{Log, LogFormatError, LogLevels};
use taut_relay_server::{Admission, Metrics, Places, Relay, raise_open_files};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::arguments::Arguments;
use super::{Failed, announce, first};
use crate::api;
use crate::log;
use crate::relay::{self, Wanted};
use crate::state::{Options, State, TICKET_LIFE};

const DEFAULT_STATE: &str = "/var/lib/taut-coordinator";

/// `serve`: runs until a signal ends it.
pub(super) fn serve(mut arguments: Arguments) -> Result<(), Failed> {
    let directory = state_directory(&mut arguments)?;
    let listen = arguments.value("listen")?;
    let urls = arguments.values("url");
    let (network, ipv4) = (arguments.value("network")?, arguments.value("ipv4-prefix")?);
    let (relay_port, relay_addresses) = (arguments.value("relay-port")?, arguments.values("relay-address"));
    let (no_relay, metrics) = (arguments.switch("no-relay"), arguments.value("relay-metrics")?);
    let proxies = arguments.values("trusted-proxy");
    let (log_format, log_level) = (arguments.value("log-format")?, arguments.value("log-level")?);
    arguments.finish()?;
    let log = start_log(log_format.as_deref(), log_level.as_deref())?;
    let proxies: Vec<Prefix> =
        proxies.iter().map(|text| text.parse().map_err(|_| bad_proxy(text))).collect::<Result<_, _>>()?;
    let mut relay = if no_relay { None } else { Some(wanted_relay(relay_port.as_deref(), &relay_addresses)?) };
    let metrics = metrics.map(|text| text.parse::<SocketAddr>().map_err(|_| bad_metrics(&text))).transpose()?;
    let listen = listen.map(|text| text.parse::<SocketAddr>().map_err(|_| bad_listen(&text))).transpose()?;
    for url in &urls {
        check_url(url)?;
    }
    let prefix = ipv4.as_deref().unwrap_or(api::DEFAULT_IPV4);
    let prefix: Prefix =
        prefix.parse().map_err(|error| Failed::Usage(format!("--ipv4-prefix `{prefix}` is {error}")))?;
    let is_named = network.is_some() || ipv4.is_some();
    let network = network.unwrap_or_else(|| String::from("default"));

    let descriptors = Descriptors::divide(raise_open_files(), Uses { channels: true, streams: relay.is_some() });
    if let Some(relay) = &mut relay {
        relay.streams = descriptors.streams;
    }

    runtime()?.block_on(async {
        // Before anything is made: a port that is taken must not use up the first start's one printing of the tokens.
        let (listeners, address) = bind(listen).await?;
        let urls = if urls.is_empty() { derived_urls(address) } else { urls };
        let options = Options { directory: directory.clone(), urls, network, ipv4: prefix, ticket_life: TICKET_LIFE };
        let (state, first) = State::open(options).await.map_err(Failed::run)?;
        match &first {
            Some(first) => first::show_tokens(first)?,
            None => first::remind(&directory),
        }
        if is_named && first.is_none() {
            let (options, reason) = ("--network, --ipv4-prefix", "not the first start");
            tracing::warn!(target: log::DAEMON, event = "ignored", options, reason);
        }
        let admission = Admission::new(descriptors.unauthenticated, proxies);
        let relay = relay::start(&state, relay.as_ref(), &admission).await.map_err(Failed::run)?;
        let figures = relay.as_ref().zip(metrics).map(|(relay, address)| figures(relay, address)).transpose()?;
        raise_levels_on_signal(log).map_err(|error| Failed::Run(format!("signals cannot be waited for: {error}")))?;
        let stop = stop_on_signals().map_err(|error| Failed::Run(format!("signals cannot be waited for: {error}")))?;
        announce(&format!("listening on {address}\n"));
        tracing::info!(target: log::DAEMON, event = "started", version = env!("CARGO_PKG_VERSION"), %address);
        tell_descriptors(&descriptors);
        let channels = Places::new(descriptors.channels, WhenFull::Balance);
        let front = api::Front { relay: relay.as_ref().and_then(Relay::entrance), admission, channels };
        api::serve(Arc::new(state), front, listeners, stop).await;
        drop((figures, relay));
        tracing::info!(target: log::DAEMON, event = "stopped");
        Ok(())
    })
}

/// Logs how many connections there may be, and of whom.
fn tell_descriptors(descriptors: &Descriptors) {
    let Descriptors { unauthenticated, channels, streams: relay_streams, rest } = *descriptors;
    tracing::info!(target: log::DAEMON, event = "descriptors", unauthenticated, channels, relay_streams, rest);
}

pub(super) fn state_directory(arguments: &mut Arguments) -> Result<PathBuf, Failed> {
    Ok(arguments.value("state")?.map_or_else(|| PathBuf::from(DEFAULT_STATE), PathBuf::from))
}

pub(super) fn runtime() -> Result<Runtime, Failed> {
    Runtime::new().map_err(|error| Failed::Run(format!("the runtime does not start: {error}")))
}

/// Binds where it was told to. Unless told, to everything: one IPv6 socket that takes IPv4, too, and another one where the system keeps
/// the two apart, or IPv4 alone where there is no IPv6.
async fn bind(listen: Option<SocketAddr>) -> Result<(Vec<TcpListener>, SocketAddr), Failed> {
    let failed = |address: SocketAddr| {
        move |error: io::Error| {
            Failed::Run(format!(
                "{address} cannot be listened on: {error}; stop what uses it, or choose another --listen"
            ))
        }
    };
    let wanted = listen.unwrap_or(SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT)));
    let first = match TcpListener::bind(wanted).await {
        Err(error) if listen.is_none() && error.kind() != io::ErrorKind::AddrInUse => {
            let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
            let listener = TcpListener::bind(v4).await.map_err(failed(v4))?;
            // Only a host without IPv6 refuses the default address for another reason than that it is taken (fault J12).
            tracing::warn!(target: log::DAEMON, event = "ipv4-only", address = %v4, reason = %error);
            listener
        }
        other => other.map_err(failed(wanted))?,
    };
    let address = first.local_addr().map_err(failed(wanted))?;
    let mut listeners = vec![first];
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        // In use means that the first socket takes IPv4 already.
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        listeners.extend(TcpListener::bind(v4).await.ok());
    }
    Ok((listeners, address))
}

/// Where nodes may reach this host, for tokens: a guess, and said to be one.
fn derived_urls(address: SocketAddr) -> Vec<String> {
    let mut urls = Vec::new();
    let own = if address.ip().is_unspecified() { outgoing_addresses() } else { vec![address.ip()] };
    for ip in own {
        urls.push(format!("http://{}", SocketAddr::new(ip, address.port())));
    }
    let note = "a guess that goes into join tokens; give --url where nodes reach this coordinator by another address";
    tracing::info!(target: log::DAEMON, event = "derived-urls", urls = urls.join(","), note);
    urls
}

/// The addresses from which this host reaches the rest of the world. Connecting a UDP socket sends nothing.
fn outgoing_addresses() -> Vec<IpAddr> {
    // Addresses for documentation (RFC 5737, RFC 3849): any address of the world would do.
    let targets = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
    let outgoing = |(from, to): (&str, &str)| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        socket.local_addr().ok().map(|own| own.ip()).filter(|ip| !ip.is_unspecified())
    };
    let found: Vec<IpAddr> = targets.into_iter().filter_map(outgoing).collect();
    if found.is_empty() { vec![IpAddr::V4(Ipv4Addr::LOCALHOST)] } else { found }
}

fn wanted_relay(port: Option<&str>, addresses: &[String]) -> Result<Wanted, Failed> {
    let mut wanted = Wanted::default();
    if let Some(text) = port {
        let bad = |_| Failed::Usage(format!("--relay-port `{text}` is no port; write 3478"));
        wanted.port = text.parse().map_err(bad)?;
    }
    for text in addresses {
        let bad =
            || Failed::Usage(format!("--relay-address `{text}` is no address; write 203.0.113.7 or 203.0.113.7:3478"));
        wanted.addresses.push(relay::place(text).ok_or_else(bad)?);
    }
    Ok(wanted)
}

/// The relay's counters, for whoever can connect there.
fn figures(relay: &Relay, address: SocketAddr) -> Result<Metrics, Failed> {
    let failed = |error: io::Error| {
        Failed::Run(format!(
            "{address} cannot be listened on: {error}; choose another --relay-metrics, or leave it out"
        ))
    };
    Metrics::start(address, relay.observer()).map_err(failed)
}

fn bad_proxy(text: &str) -> Failed {
    Failed::Usage(format!("--trusted-proxy `{text}` is no prefix; write 10.0.0.0/8, or 192.0.2.7/32 for one address"))
}

fn bad_metrics(text: &str) -> Failed {
    Failed::Usage(format!("--relay-metrics `{text}` is no address and port; write 127.0.0.1:9478"))
}

fn bad_listen(text: &str) -> Failed {
    Failed::Usage(format!("--listen `{text}` is no address and port; write 0.0.0.0:8288 or [::]:8288"))
}

/// A token has room for 255 bytes per URL, and nodes speak http and https.
fn check_url(url: &str) -> Result<(), Failed> {
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    if host.is_none_or(str::is_empty) || url.len() > 255 || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Failed::Usage(format!("--url `{url}` is no URL; write http://HOST:PORT or https://HOST")));
    }
    Ok(())
}

/// Starts the log in the form and with the levels that the command line gives.
fn start_log(format: Option<&str>, levels: Option<&str>) -> Result<Log, Failed> {
    let usage = |option: &str, error: &dyn Display| Failed::Usage(format!("--{option}: {error}"));
    let format = format.map(str::parse).transpose().map_err(|error: LogFormatError| usage("log-format", &error))?;
    let levels = match levels {
        Some(text) => LogLevels::parse(text, log::AREAS).map_err(|error| usage("log-level", &error))?,
        None => LogLevels::new(log::AREAS),
    };
    taut_relay_server::log::start(format.unwrap_or_default(), levels)
        .ok_or_else(|| Failed::Run(String::from("this process has a log already")))
}

/// Records one level more at each SIGUSR1.
fn raise_levels_on_signal(log: Log) -> io::Result<()> {
    let mut raise = signal(SignalKind::user_defined1())?;
    tokio::spawn(async move {
        while raise.recv().await.is_some() {
            let levels = log.next_levels();
            tracing::info!(target: log::DAEMON, event = "levels-changed", %levels);
        }
    });
    Ok(())
}

fn stop_on_signals() -> io::Result<watch::Receiver<bool>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        sender.send_replace(true);
    });
    Ok(receiver)
}

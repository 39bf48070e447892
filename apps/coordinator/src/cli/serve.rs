//! `serve`.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use taut_base::{DEFAULT_PORT, Descriptors, Prefix, Uses, WhenFull};
use taut_relay_server::log::{LevelSwitch, Log, LogFormatError, LogLevels};
use taut_relay_server::{AdmissionTable, ConnectionAdmission, Metrics, RelayServer, raise_open_files};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use super::arguments::Arguments;
use super::{CommandError, announce, first};
use crate::api;
use crate::log;
use crate::relay::{self, RelayOptions};
use crate::state::{StartOptions, State, TICKET_LIFE};
use crate::store::Location;

const DEFAULT_STATE: &str = "/var/lib/taut-coordinator";

/// `serve`: runs until a signal ends it.
pub(super) fn serve(mut arguments: Arguments) -> Result<(), CommandError> {
    let directory = state_directory(&mut arguments)?;
    let database = database(&mut arguments, &directory)?;
    let listen = arguments.value("listen")?;
    let urls = arguments.values("url");
    let (network, ipv4) = (arguments.value("network")?, arguments.value("ipv4-prefix")?);
    let (relay_port, relay_addresses) = (arguments.value("relay-port")?, arguments.values("relay-address"));
    let relay_rate = arguments.value("relay-rate")?;
    let (no_relay, metrics) = (arguments.switch("no-relay"), arguments.value("relay-metrics")?);
    let own_metrics = arguments.value("metrics")?;
    let proxies = arguments.values("trusted-proxy");
    let (log_format, log_level) = (arguments.value("log-format")?, arguments.value("log-level")?);
    arguments.finish()?;
    // Dropped last, after the runtime's tasks: it writes the remaining lines.
    let log = start_log(log_format.as_deref(), log_level.as_deref())?;
    let runtime = runtime()?;
    // Before anything that takes time: without a handler SIGUSR1 ends the program.
    let signals = ServeSignals::new(&runtime)
        .map_err(|error| CommandError::Run(format!("signals cannot be waited for: {error}")))?;
    let proxies: Vec<Prefix> =
        proxies.iter().map(|text| text.parse().map_err(|_| bad_proxy(text))).collect::<Result<_, _>>()?;
    let relay = || relay_options(relay_port.as_deref(), &relay_addresses, relay_rate.as_deref());
    let is_alone = matches!(database, Location::Directory(_));
    if !is_alone && (relay_port.is_some() || relay_rate.is_some() || metrics.is_some() || !relay_addresses.is_empty()) {
        return Err(CommandError::Usage(String::from(
            "with --database the coordinator is no relay; leave out the options --relay-…, run `taut-relay serve`, and add it with `taut-coordinator relays add`",
        )));
    }
    let mut relay = if no_relay || !is_alone { None } else { Some(relay()?) };
    let address = |name, text: Option<String>| {
        text.map(|text| text.parse::<SocketAddr>().map_err(|_| bad_metrics(name, &text))).transpose()
    };
    let (metrics, own_metrics) = (address("relay-metrics", metrics)?, address("metrics", own_metrics)?);
    let listen = listen.map(|text| text.parse::<SocketAddr>().map_err(|_| bad_listen(&text))).transpose()?;
    for url in &urls {
        check_url(url)?;
    }
    let prefix = ipv4.as_deref().unwrap_or(api::DEFAULT_IPV4);
    let prefix: Prefix =
        prefix.parse().map_err(|error| CommandError::Usage(format!("--ipv4-prefix `{prefix}` is {error}")))?;
    let is_named = network.is_some() || ipv4.is_some();
    let network = network.unwrap_or_else(|| String::from("default"));

    let descriptors = Descriptors::divide(raise_open_files(), Uses { channels: true, streams: relay.is_some() });
    if let Some(relay) = &mut relay {
        relay.streams = descriptors.streams;
    }

    runtime.block_on(async {
        let stop = signals.handle(log.level_switch());
        // First, because the first start prints its tokens only once, and a port in use would end it.
        let (listeners, address) = bind(listen).await?;
        let urls = if urls.is_empty() { derived_urls(address) } else { urls };
        let ticket_life = TICKET_LIFE;
        let options = StartOptions { directory: directory.clone(), database, urls, network, ipv4: prefix, ticket_life };
        let (state, first) = tokio::select! {
            opened = State::open(options) => opened.map_err(CommandError::run)?,
            () = api::stopped(stop.clone()) => return Ok(()),
        };
        match &first {
            Some(first) => first::show_tokens(first)?,
            None => first::remind(&directory),
        }
        if is_named && first.is_none() {
            let (options, reason) = ("--network, --ipv4-prefix", "not the first start");
            tracing::warn!(target: log::DAEMON, event = "ignored", options, reason);
        }
        let admission = ConnectionAdmission::new(descriptors.unauthenticated, proxies);
        let relay = relay::start(&state, relay.as_ref(), &admission).await.map_err(CommandError::run)?;
        let own_figures = match own_metrics {
            Some(address) => {
                let failed = |error: io::Error| unusable(address, "metrics", &error);
                Some(TcpListener::bind(address).await.map_err(failed)?)
            }
            None => None,
        };
        let figures = relay.as_ref().zip(metrics).map(|(relay, address)| figures(relay, address)).transpose()?;
        announce(&format!("listening on {address}\n"));
        tracing::info!(target: log::DAEMON, event = "started", version = env!("CARGO_PKG_VERSION"), %address);
        tell_descriptors(&descriptors);
        let channels = AdmissionTable::new(descriptors.channels, WhenFull::Balance);
        let front = api::Front { relay: relay.as_ref().and_then(RelayServer::entrance), admission, channels };
        let state = Arc::new(state);
        if let Some(listener) = own_figures {
            tokio::spawn(api::serve_figures(Arc::clone(&state), listener, stop.clone()));
        }
        api::serve(state, front, listeners, stop).await;
        drop((figures, relay));
        tracing::info!(target: log::DAEMON, event = "stopped");
        Ok(())
    })
}

/// Logs the limits on connections.
fn tell_descriptors(descriptors: &Descriptors) {
    let Descriptors { unauthenticated, channels, streams: relay_streams, rest } = *descriptors;
    tracing::info!(target: log::DAEMON, event = "descriptors", unauthenticated, channels, relay_streams, rest);
}

pub(super) fn state_directory(arguments: &mut Arguments) -> Result<PathBuf, CommandError> {
    Ok(arguments.value("state")?.map_or_else(|| PathBuf::from(DEFAULT_STATE), PathBuf::from))
}

/// Returns where the database is: `--database`, or `TAUT_DATABASE`, which keeps a password out of the list of processes; by default the state directory.
pub(super) fn database(arguments: &mut Arguments, directory: &Path) -> Result<Location, CommandError> {
    let url = arguments.value("database")?.or_else(|| std::env::var("TAUT_DATABASE").ok());
    Location::parse(url, directory).ok_or_else(no_url)
}

/// Returns the error for a database that is none, without its text, which may contain a password.
pub(super) fn no_url() -> CommandError {
    CommandError::Usage(String::from(
        "--database (or TAUT_DATABASE) is not a URL of PostgreSQL; write postgres://USER:PASSWORD@HOST/DATABASE, or leave it out for SQLite",
    ))
}

pub(super) fn runtime() -> Result<Runtime, CommandError> {
    Runtime::new().map_err(|error| CommandError::Run(format!("the runtime does not start: {error}")))
}

/// Binds to `listen`, by default to all addresses: with one IPv6 socket that also accepts IPv4, with a second socket if the system separates the two, or with
/// an IPv4 socket if there is no IPv6.
async fn bind(listen: Option<SocketAddr>) -> Result<(Vec<TcpListener>, SocketAddr), CommandError> {
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
    let mut listeners = vec![first];
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        // This bind fails with "in use" if the first socket accepts IPv4 already.
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
        listeners.extend(TcpListener::bind(v4).await.ok());
    }
    Ok((listeners, address))
}

/// Returns guessed URLs of this host, for join tokens, and logs that they are a guess.
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

fn relay_options(port: Option<&str>, addresses: &[String], rate: Option<&str>) -> Result<RelayOptions, CommandError> {
    let mut wanted = RelayOptions::default();
    if let Some(text) = port {
        let bad = |_| CommandError::Usage(format!("--relay-port `{text}` is not a port; write 3478"));
        wanted.port = text.parse().map_err(bad)?;
    }
    if let Some(text) = rate {
        wanted.rate = text.parse().map_err(|error| CommandError::Usage(format!("--relay-rate `{text}`: {error}")))?;
    }
    for text in addresses {
        let bad = || {
            CommandError::Usage(format!(
                "--relay-address `{text}` is not an address; write 203.0.113.7 or 203.0.113.7:3478"
            ))
        };
        wanted.addresses.push(relay::parse_address(text).ok_or_else(bad)?);
    }
    Ok(wanted)
}

/// Serves the relay's counters on an address.
fn figures(relay: &RelayServer, address: SocketAddr) -> Result<Metrics, CommandError> {
    Metrics::start(address, relay.observer()).map_err(|error| unusable(address, "relay-metrics", &error))
}

fn unusable(address: SocketAddr, option: &str, error: &io::Error) -> CommandError {
    CommandError::Run(format!("{address} cannot be listened on: {error}; choose another --{option}, or leave it out"))
}

fn bad_proxy(text: &str) -> CommandError {
    CommandError::Usage(format!(
        "--trusted-proxy `{text}` is not a prefix; write 10.0.0.0/8, or 192.0.2.7/32 for one address"
    ))
}

fn bad_metrics(name: &str, text: &str) -> CommandError {
    CommandError::Usage(format!("--{name} `{text}` is not an address and port; write 127.0.0.1:9478"))
}

fn bad_listen(text: &str) -> CommandError {
    CommandError::Usage(format!("--listen `{text}` is not an address and port; write 0.0.0.0:8288 or [::]:8288"))
}

/// Returns a usage error unless the URL fits a join token (255 bytes) and is http or https.
fn check_url(url: &str) -> Result<(), CommandError> {
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    if host.is_none_or(str::is_empty) || url.len() > 255 || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(CommandError::Usage(format!("--url `{url}` is not a URL; write http://HOST:PORT or https://HOST")));
    }
    Ok(())
}

/// Starts the log in the form and with the levels that the command line gives.
fn start_log(format: Option<&str>, levels: Option<&str>) -> Result<Log, CommandError> {
    let usage = |option: &str, error: &dyn Display| CommandError::Usage(format!("--{option}: {error}"));
    let format = format.map(str::parse).transpose().map_err(|error: LogFormatError| usage("log-format", &error))?;
    let levels = match levels {
        Some(text) => LogLevels::parse(text, log::AREAS).map_err(|error| usage("log-level", &error))?,
        None => LogLevels::new(log::AREAS),
    };
    taut_relay_server::log::start(format.unwrap_or_default(), levels)
        .ok_or_else(|| CommandError::Run(String::from("the log does not start")))
}

/// The signals that `serve` acts on.
struct ServeSignals {
    terminate: Signal,
    interrupt: Signal,
    raise: Signal,
}

impl ServeSignals {
    fn new(runtime: &Runtime) -> io::Result<Self> {
        let _context = runtime.enter();
        let [terminate, interrupt, raise] =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::user_defined1()].map(signal);
        Ok(Self { terminate: terminate?, interrupt: interrupt?, raise: raise? })
    }

    /// Records one level more at each SIGUSR1. The result becomes true at SIGTERM or SIGINT.
    fn handle(self, levels: LevelSwitch) -> watch::Receiver<bool> {
        let Self { mut terminate, mut interrupt, mut raise } = self;
        tokio::spawn(async move {
            while raise.recv().await.is_some() {
                let levels = levels.next_levels();
                tracing::info!(target: log::DAEMON, event = "levels-changed", %levels);
            }
        });
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            sender.send_replace(true);
        });
        receiver
    }
}

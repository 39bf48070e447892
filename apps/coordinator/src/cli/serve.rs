//! `serve`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use taut_base::{Descriptors, Uses, WhenFull};
use taut_relay_server::log::Log;
use taut_relay_server::{
    AdmissionTable, ConnectionAdmission, Liveness, Metrics, RelayServer, Service, raise_open_files,
};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::arguments::Arguments;
use super::listen::{bind, derived_urls, plain_http};
use super::options::ServeOptions;
use super::settings::Settings;
use super::signals::{Ending, ServeSignals};
use super::tls_options::{RunningTls, TlsOptions};
use super::{CommandError, announce, first};
use crate::api;
use crate::log;
use crate::oidc::Provider;
use crate::relay;
use crate::state::{StartOptions, State, TICKET_LIFE};
use crate::tls::ServerTls;
use crate::webhooks::Sender;

/// `serve`: runs until a signal ends it.
pub(super) fn serve(mut arguments: Arguments) -> Result<(), CommandError> {
    let settings = Settings::read_all(&mut arguments)?;
    arguments.finish()?;
    let options = ServeOptions::new(&settings)?;
    // Dropped last, after the runtime's tasks: it writes the remaining lines.
    let log = taut_relay_server::log::start(options.log_format, options.log_levels.clone())
        .ok_or_else(|| CommandError::Run(String::from("the log does not start")))?;
    let runtime = runtime()?;
    // Before anything that takes time: without a handler SIGUSR1 ends the program.
    let signals = ServeSignals::new(&runtime)
        .map_err(|error| CommandError::Run(format!("signals cannot be waited for: {error}")))?;
    tell_settings(&settings);
    taut_relay_server::log::warn_of_clock();
    drop(settings);
    runtime.block_on(run(options, signals, &log))
}

async fn run(options: ServeOptions, signals: ServeSignals, log: &Log) -> Result<(), CommandError> {
    let service = Service::connect(|name| std::env::var_os(name));
    service.status("opens the database");
    let ServeOptions { directory, database, urls, network, ipv4, mut relay, proxies, .. } = options;
    let descriptors = Descriptors::divide(raise_open_files(), Uses { channels: true, streams: relay.is_some() });
    if let Some(relay) = &mut relay {
        relay.streams = descriptors.streams;
    }
    let reload = options.tls.is_some().then(Arc::<Notify>::default);
    let Ending { leaving, stop } = signals.handle(log.level_switch(), options.drain, reload.clone());
    // First, because the first start prints its tokens only once, and a port in use would end it.
    let (listeners, address) = bind(options.listen).await?;
    let https = options.tls.map(TlsOptions::start).transpose()?;
    if let Some(hint) = plain_http(address, https.is_some(), !proxies.is_empty()) {
        tracing::warn!(target: log::DAEMON, event = "plain-http", %address, hint);
    }
    let tls = https.as_ref().map(|https| Arc::clone(&https.tls));
    let checks = match https.as_ref().and_then(RunningTls::http) {
        Some((address, shown)) => {
            let failed = |error: io::Error| unusable(address, "acme-http", &error);
            Some((TcpListener::bind(address).await.map_err(failed)?, shown))
        }
        None => None,
    };
    let urls = if urls.is_empty() { derived_urls(address, tls.as_deref()) } else { urls };
    let acceptor = tls.as_ref().map(ServerTls::acceptor).transpose().map_err(CommandError::run)?;
    let (ticket_life, audit_days) = (TICKET_LIFE, options.audit_days);
    let provider = options.oidc.map(Provider::new).transpose().map_err(CommandError::Run)?.map(Arc::new);
    let start = StartOptions {
        directory: directory.clone(),
        database,
        urls,
        network,
        ipv4,
        ticket_life,
        audit_days,
        provider,
        sender: Sender::new(options.webhooks_allow_private),
    };
    let (state, first) = tokio::select! {
        opened = api::while_starting(&listeners, acceptor.clone(), State::open(start)) => opened.map_err(CommandError::run)?,
        () = api::stopped(stop.clone()) => return Ok(()),
    };
    match &first {
        Some(first) => first::show_tokens(first)?,
        None => first::remind(&directory),
    }
    if options.is_network_given && first.is_none() {
        let (options, reason) = ("--network, --ipv4-prefix", "not the first start");
        tracing::warn!(target: log::DAEMON, event = "ignored", options, reason);
    }
    let admission = ConnectionAdmission::new(descriptors.unauthenticated, proxies);
    let relay = relay::start(&state, relay.as_ref(), &admission).await.map_err(CommandError::run)?;
    let own_figures = match options.metrics {
        Some(address) => {
            let failed = |error: io::Error| unusable(address, "metrics", &error);
            Some(TcpListener::bind(address).await.map_err(failed)?)
        }
        None => None,
    };
    let figures =
        relay.as_ref().zip(options.relay_metrics).map(|(relay, address)| figures(relay, address)).transpose()?;
    announce(&format!("listening on {address}\n"));
    service.ready(&format!("listens on {address}"));
    tracing::info!(target: log::DAEMON, event = "started", version = env!("CARGO_PKG_VERSION"), %address);
    tell_descriptors(&descriptors);
    let channels = AdmissionTable::new(descriptors.channels, WhenFull::Balance);
    let connections = api::ConnectionFigures {
        admission: Arc::clone(&admission),
        unauthenticated: descriptors.unauthenticated,
        channels: descriptors.channels,
        tls: tls.clone(),
    };
    if let Some((listener, shown)) = checks {
        tokio::spawn(api::serve_checks(shown, listener, stop.clone()));
    }
    if let Some((https, reload)) = https.zip(reload) {
        https.keep(reload);
    }
    let entrance = relay.as_ref().and_then(RelayServer::entrance);
    let front = api::Front { relay: entrance, admission, channels, tls: acceptor, leaving };
    let state = Arc::new(state);
    tokio::spawn(keep_alive(service, Arc::clone(&state), relay.as_ref().map(RelayServer::liveness), stop.clone()));
    if let Some(listener) = own_figures {
        tokio::spawn(api::serve_figures(Arc::clone(&state), connections, listener, stop.clone()));
    }
    api::serve(state, front, listeners, stop).await;
    drop((figures, relay));
    tracing::info!(target: log::DAEMON, event = "stopped");
    Ok(())
}

/// Tells the service manager that the coordinator works, until it stops. The runtime that serves everybody has to take its turns for that, no lock of the state may
/// be held for good, and the relay's threads have to work. The database may be away: nodes keep their maps then, and a restart would take these from them.
async fn keep_alive(service: Service, state: Arc<State>, mut relay: Option<Liveness>, stop: watch::Receiver<bool>) {
    // Without a watchdog the task waits for the end alone.
    let interval = service.watchdog().unwrap_or(Duration::MAX);
    while timeout(interval, api::stopped(stop.clone())).await.is_err() {
        state.pass_locks();
        if relay.as_mut().is_none_or(Liveness::all_worked) {
            service.alive();
        }
    }
    service.stopping();
}

/// Logs which configuration file was read, and warns if others can read a password in it.
fn tell_settings(settings: &Settings) {
    let Some(file) = settings.file() else { return };
    let file = file.display();
    if let Some(hint) = settings.open_to_others() {
        tracing::warn!(target: log::DAEMON, event = "configuration-open-to-others", %file, hint);
    }
    tracing::info!(target: log::DAEMON, event = "configuration", %file);
}

/// Logs the limits on connections.
fn tell_descriptors(descriptors: &Descriptors) {
    let Descriptors { unauthenticated, channels, streams: relay_streams, rest } = *descriptors;
    tracing::info!(target: log::DAEMON, event = "descriptors", unauthenticated, channels, relay_streams, rest);
}

pub(super) fn runtime() -> Result<Runtime, CommandError> {
    Runtime::new().map_err(|error| CommandError::Run(format!("the runtime does not start: {error}")))
}

/// Serves the relay's counters on an address.
fn figures(relay: &RelayServer, address: SocketAddr) -> Result<Metrics, CommandError> {
    Metrics::start(address, relay.observer()).map_err(|error| unusable(address, "relay-metrics", &error))
}

fn unusable(address: SocketAddr, option: &str, error: &io::Error) -> CommandError {
    CommandError::Run(format!("{address} cannot be listened on: {error}; choose another --{option}, or leave it out"))
}

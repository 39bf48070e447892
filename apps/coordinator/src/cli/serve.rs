//! `serve`.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use taut_base::{Descriptors, Uses, WhenFull};
use taut_relay_server::log::Log;
use taut_relay_server::{AdmissionTable, ConnectionAdmission, Metrics, RelayServer, raise_open_files};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::arguments::Arguments;
use super::listen::{bind, derived_urls};
use super::options::ServeOptions;
use super::settings::Settings;
use super::signals::{Ending, ServeSignals};
use super::{CommandError, announce, first};
use crate::api;
use crate::log;
use crate::oidc::Provider;
use crate::relay;
use crate::state::{StartOptions, State, TICKET_LIFE};
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
    drop(settings);
    runtime.block_on(run(options, signals, &log))
}

async fn run(options: ServeOptions, signals: ServeSignals, log: &Log) -> Result<(), CommandError> {
    let ServeOptions { directory, database, urls, network, ipv4, mut relay, proxies, .. } = options;
    let descriptors = Descriptors::divide(raise_open_files(), Uses { channels: true, streams: relay.is_some() });
    if let Some(relay) = &mut relay {
        relay.streams = descriptors.streams;
    }
    let Ending { leaving, stop } = signals.handle(log.level_switch(), options.drain);
    // First, because the first start prints its tokens only once, and a port in use would end it.
    let (listeners, address) = bind(options.listen).await?;
    let urls = if urls.is_empty() { derived_urls(address) } else { urls };
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
        opened = api::while_starting(&listeners, State::open(start)) => opened.map_err(CommandError::run)?,
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
    tracing::info!(target: log::DAEMON, event = "started", version = env!("CARGO_PKG_VERSION"), %address);
    tell_descriptors(&descriptors);
    let channels = AdmissionTable::new(descriptors.channels, WhenFull::Balance);
    let connections = api::ConnectionFigures {
        admission: Arc::clone(&admission),
        unauthenticated: descriptors.unauthenticated,
        channels: descriptors.channels,
    };
    let front = api::Front { relay: relay.as_ref().and_then(RelayServer::entrance), admission, channels, leaving };
    let state = Arc::new(state);
    if let Some(listener) = own_figures {
        tokio::spawn(api::serve_figures(Arc::clone(&state), connections, listener, stop.clone()));
    }
    api::serve(state, front, listeners, stop).await;
    drop((figures, relay));
    tracing::info!(target: log::DAEMON, event = "stopped");
    Ok(())
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

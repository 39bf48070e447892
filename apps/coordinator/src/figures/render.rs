//! All figures as one text.

use std::time::Duration;

use super::process::ProcessFigures;
use super::text::Text;
use super::{CLASSES, Counter, DatabaseFigures, Figures, REFUSALS};
use crate::contract::ErrorCode;

/// Gauges: the values at the moment of the request.
#[derive(Default)]
pub(crate) struct Present {
    pub(crate) channels: u64,
    pub(crate) channels_limit: u64,
    /// Connections that are not a member's.
    pub(crate) unauthenticated: u64,
    pub(crate) unauthenticated_limit: u64,
    pub(crate) online: u64,
    pub(crate) networks: u64,
    /// Relays with a channel here.
    pub(crate) relays: u64,
    /// Transactions that wait for their turn to read and to write.
    pub(crate) waiting: (u64, u64),
    /// For how long the database has not answered.
    pub(crate) silence: Duration,
    /// Changes are stored, and other coordinators on the same database are heard, if there can be any.
    pub(crate) is_well: bool,
    /// End of the certificate of https, in seconds since 1970; 0 for plain HTTP.
    pub(crate) certificate_end: u64,
}

/// Returns the text for Prometheus (text format 0.0.4).
pub(crate) fn render(figures: &Figures, database: &DatabaseFigures, present: &Present) -> String {
    let mut text = Text(String::with_capacity(12_288));
    gauges(&mut text, present);
    counters(&mut text, figures);
    requests(&mut text, figures);
    transactions(&mut text, database, present);
    if let Some(process) = ProcessFigures::read() {
        process.render(&mut text);
    }
    text.0
}

fn gauges(text: &mut Text, present: &Present) {
    let version = env!("CARGO_PKG_VERSION");
    text.labelled(
        "taut_coordinator_build_info",
        "gauge",
        "version of the program",
        "version",
        [(version, 1)].into_iter(),
    );
    text.gauge("taut_coordinator_channels", "open control channels", present.channels);
    text.gauge("taut_coordinator_channels_limit", "most control channels", present.channels_limit);
    let name = "taut_coordinator_unauthenticated_connections";
    text.gauge(name, "connections that are not a member's", present.unauthenticated);
    let name = "taut_coordinator_unauthenticated_connections_limit";
    text.gauge(name, "most connections that are not a member's", present.unauthenticated_limit);
    let help = "nodes that are online, here or at another coordinator";
    text.gauge("taut_coordinator_nodes_online", help, present.online);
    text.gauge("taut_coordinator_networks", "networks", present.networks);
    text.gauge("taut_coordinator_relays", "relays with a channel", present.relays);
    let help = "1 if changes are stored and other coordinators are heard";
    text.gauge("taut_coordinator_well", help, present.is_well.into());
    let help = "end of the certificate of https, in seconds since 1970; 0 for plain HTTP";
    text.gauge("taut_coordinator_certificate_end_timestamp_seconds", help, present.certificate_end);
}

fn counters(text: &mut Text, figures: &Figures) {
    text.counter("taut_coordinator_channels_opened_total", "control channels that were opened", &figures.channels);
    text.counter("taut_coordinator_joined_total", "nodes that joined here", &figures.joined);
    let refused = REFUSALS.iter().zip(&figures.refused.0).map(|((_, name), counter)| (*name, counter.get()));
    let help = "nodes that were not admitted to a channel, by the code of the refusal";
    text.labelled("taut_coordinator_refused_total", "counter", help, "code", refused);
    text.counter("taut_coordinator_maps_total", "whole maps that were sent", &figures.maps);
    text.counter("taut_coordinator_deltas_total", "changes of maps that were sent", &figures.deltas);
    text.counter("taut_coordinator_map_bytes_total", "bytes of maps and of their changes", &figures.map_bytes);
    text.head("taut_coordinator_update_seconds", "histogram", "time from a change until a channel has it");
    text.histogram("taut_coordinator_update_seconds", "", &figures.update);
}

fn requests(text: &mut Text, figures: &Figures) {
    let requests = &figures.requests;
    let classes = CLASSES.into_iter().zip(requests.classes.iter().map(Counter::get));
    let help = "answered requests, by the class of their status";
    text.labelled("taut_coordinator_http_requests_total", "counter", help, "class", classes);
    let failures = ErrorCode::ALL.iter().map(|code| code.name()).zip(requests.failures.iter().map(Counter::get));
    let help = "requests that failed, by the code of their answer";
    text.labelled("taut_coordinator_request_failures_total", "counter", help, "code", failures);
    let help = "connections that were closed at once, because they were beyond the limits";
    text.counter("taut_coordinator_connections_turned_away_total", help, &requests.turned_away);
}

fn transactions(text: &mut Text, database: &DatabaseFigures, present: &Present) {
    let (readers, writers) = present.waiting;
    let waiting = [("read", readers), ("write", writers)].into_iter();
    let help = "transactions that wait for their turn";
    text.labelled("taut_coordinator_database_waiting", "gauge", help, "step", waiting);
    let name = "taut_coordinator_database_silence_seconds";
    text.head(name, "gauge", "time since the database answered last; 0 for a file");
    text.line(&format!("{name} {:.3}", present.silence.as_secs_f64()));
    let name = "taut_coordinator_database_seconds";
    text.head(name, "histogram", "time until a transaction began, and of its commit");
    for (what, histogram) in [("read", &database.read), ("write", &database.write), ("commit", &database.commit)] {
        text.histogram(name, &format!("step=\"{what}\","), histogram);
    }
    let errors = [("busy", &database.busy), ("silent", &database.silent), ("other", &database.failed)];
    let errors = errors.into_iter().map(|(kind, counter)| (kind, counter.get()));
    text.labelled("taut_coordinator_database_errors_total", "counter", "transactions that failed", "kind", errors);
}

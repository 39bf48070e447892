//! Figures of the coordinator for Prometheus: counters and histograms that any task may change, and their text format.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the buckets of a histogram, in seconds: from what memory takes to what a client no longer waits for.
const BOUNDS: [f64; 12] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long something took, counted in buckets.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    microseconds: AtomicU64,
}

impl Histogram {
    pub(crate) fn note(&self, took: Duration) {
        let place = BOUNDS.iter().position(|bound| took.as_secs_f64() <= *bound);
        if let Some(bucket) = place.and_then(|place| self.buckets.get(place)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Durations and failures of database transactions since the start of the program.
#[derive(Debug, Default)]
pub(crate) struct DatabaseFigures {
    /// Time until a read transaction began: for its turn, and for the database.
    pub(crate) read: Histogram,
    /// The same of a write transaction.
    pub(crate) write: Histogram,
    /// Time of a commit.
    pub(crate) commit: Histogram,
    /// Transactions that had no turn in time.
    pub(crate) busy: Counter,
    /// Transactions for which the database did not answer.
    pub(crate) silent: Counter,
    /// Transactions that failed in another way.
    pub(crate) failed: Counter,
}

/// Counters and durations of the control channels since the start of the program.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Time from the moment when a change was known here until a channel had it.
    pub(crate) update: Histogram,
    /// Whole maps that were sent, and bytes of maps and deltas.
    pub(crate) maps: Counter,
    pub(crate) deltas: Counter,
    pub(crate) map_bytes: Counter,
    /// Nodes that joined, and hellos that were refused.
    pub(crate) joined: Counter,
    pub(crate) refused: Counter,
    /// Channels that were opened.
    pub(crate) channels: Counter,
}

/// Gauges: the values at the moment of the request.
pub(crate) struct Present {
    pub(crate) channels: u64,
    pub(crate) online: u64,
    pub(crate) networks: u64,
    /// Relays with a channel here.
    pub(crate) relays: u64,
    /// For how long the database has not answered.
    pub(crate) silence: Duration,
    /// Changes are stored, and other coordinators on the same database are heard, if there can be any.
    pub(crate) is_well: bool,
}

/// Returns the text for Prometheus (text format 0.0.4).
pub(crate) fn render(figures: &Figures, database: &DatabaseFigures, present: &Present) -> String {
    let mut text = Text(String::with_capacity(8_192));
    let version = env!("CARGO_PKG_VERSION");
    text.head("taut_coordinator_info", "gauge", "version of the program");
    text.line(&format!("taut_coordinator_info{{version=\"{version}\"}} 1"));
    text.gauge("taut_coordinator_channels", "open control channels", present.channels);
    text.gauge(
        "taut_coordinator_nodes_online",
        "nodes that are online, here or at another coordinator",
        present.online,
    );
    text.gauge("taut_coordinator_networks", "networks", present.networks);
    text.gauge("taut_coordinator_relays", "relays with a channel", present.relays);
    text.gauge(
        "taut_coordinator_well",
        "1 if changes are stored and other coordinators are heard",
        present.is_well.into(),
    );
    text.head(
        "taut_coordinator_database_silence_seconds",
        "gauge",
        "time since the database answered last; 0 for a file",
    );
    text.line(&format!("taut_coordinator_database_silence_seconds {:.3}", present.silence.as_secs_f64()));
    text.counter("taut_coordinator_channels_opened_total", "control channels that were opened", &figures.channels);
    text.counter("taut_coordinator_joined_total", "nodes that joined here", &figures.joined);
    text.counter("taut_coordinator_refused_total", "nodes that were not admitted to a channel", &figures.refused);
    text.counter("taut_coordinator_maps_total", "whole maps that were sent", &figures.maps);
    text.counter("taut_coordinator_deltas_total", "changes of maps that were sent", &figures.deltas);
    text.counter("taut_coordinator_map_bytes_total", "bytes of maps and of their changes", &figures.map_bytes);
    text.head("taut_coordinator_update_seconds", "histogram", "time from a change until a channel has it");
    text.histogram("taut_coordinator_update_seconds", "", &figures.update);
    let name = "taut_coordinator_database_seconds";
    text.head(name, "histogram", "time until a transaction began, and of its commit");
    for (what, histogram) in [("read", &database.read), ("write", &database.write), ("commit", &database.commit)] {
        text.histogram(name, &format!("step=\"{what}\","), histogram);
    }
    let name = "taut_coordinator_database_errors_total";
    text.head(name, "counter", "transactions that failed");
    for (kind, counter) in [("busy", &database.busy), ("silent", &database.silent), ("other", &database.failed)] {
        text.line(&format!("{name}{{kind=\"{kind}\"}} {}", counter.get()));
    }
    text.0
}

struct Text(String);

impl Text {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "gauge", help);
        self.line(&format!("{name} {value}"));
    }

    fn counter(&mut self, name: &str, help: &str, counter: &Counter) {
        self.head(name, "counter", help);
        self.line(&format!("{name} {}", counter.get()));
    }

    /// Writes the lines of a histogram. `labels` ends with a comma unless it is empty.
    fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let mut sum = 0;
        for (bound, bucket) in BOUNDS.iter().zip(&histogram.buckets) {
            sum += bucket.load(Ordering::Relaxed);
            self.line(&format!("{name}_bucket{{{labels}le=\"{bound}\"}} {sum}"));
        }
        let count = histogram.count.load(Ordering::Relaxed);
        let seconds = histogram.microseconds.load(Ordering::Relaxed) as f64 / 1e6;
        self.line(&format!("{name}_bucket{{{labels}le=\"+Inf\"}} {count}"));
        let labels = match labels.trim_end_matches(',') {
            "" => String::new(),
            labels => format!("{{{labels}}}"),
        };
        self.line(&format!("{name}_sum{labels} {seconds:.6}"));
        self.line(&format!("{name}_count{labels} {count}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_into_all_buckets_from_its_own_on() {
        let figures = Figures::default();
        for milliseconds in [0, 5, 6, 300, 60_000] {
            figures.update.note(Duration::from_millis(milliseconds));
        }
        let present =
            Present { channels: 3, online: 4, networks: 1, relays: 2, silence: Duration::ZERO, is_well: true };
        let text = render(&figures, &DatabaseFigures::default(), &present);
        for line in [
            "taut_coordinator_update_seconds_bucket{le=\"0.001\"} 1",
            "taut_coordinator_update_seconds_bucket{le=\"0.005\"} 2",
            "taut_coordinator_update_seconds_bucket{le=\"10\"} 4",
            "taut_coordinator_update_seconds_bucket{le=\"+Inf\"} 5",
            "taut_coordinator_update_seconds_sum 60.311000",
            "taut_coordinator_database_seconds_bucket{step=\"commit\",le=\"+Inf\"} 0",
            "taut_coordinator_database_seconds_count{step=\"read\"} 0",
            "taut_coordinator_nodes_online 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        // Each name is explained before its first line, and once.
        let explained: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let mut names: Vec<&str> = explained.iter().filter_map(|line| line.split(' ').next()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), explained.len());
    }
}

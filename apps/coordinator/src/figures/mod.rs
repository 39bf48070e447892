//! Figures of the coordinator for Prometheus: counters and histograms that any task may change, and their text format (docs/monitoring.md).

mod process;
mod render;
mod text;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use taut_netmap::ProblemCode;

use crate::contract::ErrorCode;
pub(crate) use render::{Present, render};

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
    /// Nodes that joined.
    pub(crate) joined: Counter,
    /// Nodes that were refused, by the code of the refusal.
    pub(crate) refused: Refusals,
    /// Answered requests, and connections beyond the limits.
    pub(crate) requests: RequestFigures,
    /// Channels that were opened.
    pub(crate) channels: Counter,
}

/// Codes of refusals, as nodes get them.
const REFUSALS: [(ProblemCode, &str); 10] = [
    (ProblemCode::Enrolment, "enrolment"),
    (ProblemCode::NotAMember, "not-a-member"),
    (ProblemCode::KeyConflict, "key-conflict"),
    (ProblemCode::Twin, "twin"),
    (ProblemCode::Denied, "denied"),
    (ProblemCode::TooOften, "too-often"),
    (ProblemCode::Version, "version"),
    (ProblemCode::BadRequest, "bad-request"),
    (ProblemCode::Unavailable, "unavailable"),
    (ProblemCode::Unknown, "unknown"),
];

/// Nodes that were not admitted to a channel.
#[derive(Debug, Default)]
pub(crate) struct Refusals([Counter; REFUSALS.len()]);

impl Refusals {
    pub(crate) fn note(&self, code: ProblemCode) {
        let place = REFUSALS.iter().position(|(known, _)| *known == code);
        if let Some(counter) = place.and_then(|place| self.0.get(place)) {
            counter.add(1);
        }
    }
}

/// Classes of statuses.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Requests at the port for nodes and operators.
#[derive(Debug)]
pub(crate) struct RequestFigures {
    /// Answers by the class of their status, 100 to 599.
    classes: [Counter; CLASSES.len()],
    /// Failures by their code.
    failures: [Counter; ErrorCode::ALL.len()],
    /// Connections that were closed at once, because they were beyond the limits.
    pub(crate) turned_away: Counter,
}

/// Arrays of more than 32 elements have no default of their own.
impl Default for RequestFigures {
    fn default() -> Self {
        let failures = std::array::from_fn(|_| Counter::default());
        Self { classes: Default::default(), failures, turned_away: Counter::default() }
    }
}

impl RequestFigures {
    /// Counts an answer, and its failure.
    pub(crate) fn note(&self, status: u16, failure: Option<ErrorCode>) {
        let class = usize::from(status / 100).checked_sub(1).and_then(|class| self.classes.get(class));
        let place = failure.and_then(|code| ErrorCode::ALL.iter().position(|known| *known == code));
        let failure = place.and_then(|place| self.failures.get(place));
        class.into_iter().chain(failure).for_each(|counter| counter.add(1));
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
        figures.refused.note(ProblemCode::Twin);
        figures.requests.note(204, None);
        figures.requests.note(400, Some(ErrorCode::BadName));
        // No status, but no failure of the program either.
        figures.requests.note(0, None);
        let present = Present { channels: 3, online: 4, ..Present::default() };
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
            "taut_coordinator_refused_total{code=\"twin\"} 1",
            "taut_coordinator_refused_total{code=\"version\"} 0",
            "taut_coordinator_http_requests_total{class=\"2xx\"} 1",
            "taut_coordinator_http_requests_total{class=\"4xx\"} 1",
            "taut_coordinator_request_failures_total{code=\"bad-name\"} 1",
            "taut_coordinator_request_failures_total{code=\"internal\"} 0",
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

//! Events of `tracing` to lines of the log.

use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use ring::rand::SystemRandom;
use serde_json::Value;
use taut_base::{Entropy, Time};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::levels::LogLevels;
use super::limits::{Cause, LineKind, LineLimits, Suppressed};
use super::line::{Line, LogFormat};
use super::queue::LineQueue;
use super::{MEMBERSHIP, UNAUTHENTICATED, timestamp};
use crate::system::OsEntropy;

/// Time between two checks for suppressed lines to report, 10 s: they are reported a minute after the first one, and this much later at most.
const REPORT_CHECK: Duration = Duration::from_secs(10);

/// State that the layer shares with the handle on the log and with the thread that writes.
pub(super) struct Shared {
    format: LogFormat,
    levels: RwLock<LogLevels>,
    limits: Mutex<LineLimits>,
    queue: LineQueue,
    start: Instant,
}

impl Shared {
    pub(super) fn new(format: LogFormat, levels: LogLevels) -> Self {
        let mut key = [0; 16];
        OsEntropy(SystemRandom::new()).fill(&mut key);
        let limits = Mutex::new(LineLimits::new(key));
        Self { format, levels: RwLock::new(levels), limits, queue: LineQueue::new(format), start: Instant::now() }
    }

    pub(super) fn levels(&self) -> LogLevels {
        self.levels.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_levels(&self, levels: LogLevels) {
        *self.levels.write().unwrap_or_else(PoisonError::into_inner) = levels;
    }

    /// Writes lines to `out`, and reports suppressed lines. Never returns.
    pub(super) fn run(&self, out: &mut impl Write) -> ! {
        loop {
            self.queue.write_to(out, REPORT_CHECK);
            let due = self.limits().due(self.now());
            self.report(due);
        }
    }

    /// Reports all suppressed lines, and waits until the queue is written, at most for `patience`.
    pub(super) fn finish(&self, patience: Duration) {
        let rest = self.limits().rest();
        self.report(rest);
        self.queue.flush(patience);
    }

    fn report(&self, suppressed: Vec<Suppressed>) {
        for Suppressed { kind, count } in suppressed {
            let mut fields = vec![("of", Value::from(kind.event))];
            if !kind.reason.is_empty() {
                fields.push(("cause", Value::from(kind.reason)));
            }
            fields.push(("count", Value::from(count)));
            self.write(Level::WARN, kind.area, "events-suppressed", &fields);
        }
    }

    fn limits(&self) -> MutexGuard<'_, LineLimits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::from_duration(self.start.elapsed())
    }

    fn write(&self, level: Level, area: &str, event: &str, fields: &[(&'static str, Value)]) {
        self.queue.push(Line { time: timestamp::now(), level, area, event, fields }.render(self.format));
    }
}

/// The layer of the subscriber that writes lines.
pub(super) struct LogLayer {
    shared: Arc<Shared>,
}

impl LogLayer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLayer {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        let levels = self.shared.levels.read().unwrap_or_else(PoisonError::into_inner);
        if levels.knows(metadata.target()) { Interest::sometimes() } else { Interest::never() }
    }

    /// Spans of the program's areas are recorded at every level: their fields belong to lines of other levels, too.
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        let levels = self.shared.levels.read().unwrap_or_else(PoisonError::into_inner);
        if metadata.is_span() {
            return levels.knows(metadata.target());
        }
        levels.allow(metadata.target(), *metadata.level())
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.list.extend(of_span.list.iter().cloned());
            }
        }
        let metadata = event.metadata();
        let is_within = fields.cause().is_none_or(|cause| {
            let kind = LineKind {
                area: metadata.target(),
                event: fields.event.clone(),
                reason: String::from(fields.text("reason")),
            };
            self.shared.limits().take(&cause, &kind, self.shared.now())
        });
        if is_within {
            self.shared.write(*metadata.level(), metadata.target(), &fields.event, &fields.list);
        }
    }
}

/// Fields of an event or a span.
#[derive(Default)]
struct Fields {
    event: String,
    limit: Option<Limit>,
    list: Vec<(&'static str, Value)>,
}

/// Value of the field `limited`.
#[derive(Clone, Copy)]
enum Limit {
    Unauthenticated,
    Membership,
    Member(u64),
}

impl Fields {
    /// Returns the value of a field that is a text; an empty text if there is no such field.
    fn text(&self, name: &str) -> &str {
        self.list.iter().find(|(key, _)| *key == name).and_then(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// Returns the party that the line counts for; `None` if the line is not limited.
    fn cause(&self) -> Option<Cause> {
        let address = || client(self.text("address"));
        Some(match self.limit? {
            Limit::Unauthenticated => Cause::Unauthenticated(address()),
            Limit::Membership => Cause::Membership { network: String::from(self.text("network")), address: address() },
            Limit::Member(number) => Cause::Member(number),
        })
    }

    fn push(&mut self, field: &Field, value: impl Into<Value>) {
        self.list.push((field.name(), value.into()));
    }
}

/// Returns the client's address in a field `address`, which may also name a proxy (`192.0.2.7 via 10.0.0.1`).
fn client(text: &str) -> Option<IpAddr> {
    text.split(' ').next()?.parse().ok()
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "event" => self.event = String::from(value),
            "limited" if value == UNAUTHENTICATED => self.limit = Some(Limit::Unauthenticated),
            "limited" if value == MEMBERSHIP => self.limit = Some(Limit::Membership),
            _ => self.push(field, value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "limited" => self.limit = Some(Limit::Member(value)),
            _ => self.push(field, value),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push(field, value);
    }

    /// Values that are given with `%` come here, too.
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.push(field, format!("{value:?}"));
    }
}

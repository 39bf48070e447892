//! Events of `tracing` to lines of the log.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

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
use super::limits::{Cause, LineLimits};
use super::line::{Line, LogFormat};
use super::{UNAUTHENTICATED, timestamp};
use crate::system::OsEntropy;

/// State that the layer shares with the handle on the log.
pub(super) struct Shared {
    format: LogFormat,
    levels: RwLock<LogLevels>,
    limits: Mutex<LineLimits>,
    start: Instant,
}

impl Shared {
    pub(super) fn new(format: LogFormat, levels: LogLevels) -> Self {
        let mut key = [0; 16];
        OsEntropy(SystemRandom::new()).fill(&mut key);
        let limits = Mutex::new(LineLimits::new(key));
        Self { format, levels: RwLock::new(levels), limits, start: Instant::now() }
    }

    pub(super) fn levels(&self) -> LogLevels {
        self.levels.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_levels(&self, levels: LogLevels) {
        *self.levels.write().unwrap_or_else(PoisonError::into_inner) = levels;
    }

    fn write(&self, level: Level, area: &str, event: &str, fields: &[(&'static str, Value)]) {
        let line = Line { time: timestamp::now(), level, area, event, fields }.render(self.format);
        // A log that cannot be written is no reason to stop serving.
        let _ = std::io::stderr().write_all(line.as_bytes());
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
        let now = Time::from_duration(self.shared.start.elapsed());
        let mut limits = self.shared.limits.lock().unwrap_or_else(PoisonError::into_inner);
        let is_within = fields.cause.is_none_or(|cause| limits.take(cause, &fields.event, fields.reason(), now));
        let suppressed = limits.tell(now);
        drop(limits);
        if let Some(count) = suppressed {
            let area = event.metadata().target();
            self.shared.write(Level::WARN, area, "events-suppressed", &[("count", Value::from(count))]);
        }
        if is_within {
            let metadata = event.metadata();
            self.shared.write(*metadata.level(), metadata.target(), &fields.event, &fields.list);
        }
    }
}

/// Fields of an event or a span.
#[derive(Default)]
struct Fields {
    event: String,
    cause: Option<Cause>,
    list: Vec<(&'static str, Value)>,
}

impl Fields {
    fn reason(&self) -> &str {
        self.list.iter().find(|(key, _)| *key == "reason").and_then(|(_, value)| value.as_str()).unwrap_or_default()
    }

    fn push(&mut self, field: &Field, value: impl Into<Value>) {
        self.list.push((field.name(), value.into()));
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "event" => self.event = String::from(value),
            "limited" => self.cause = (value == UNAUTHENTICATED).then_some(Cause::Unauthenticated),
            _ => self.push(field, value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "limited" => self.cause = Some(Cause::Member(value)),
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

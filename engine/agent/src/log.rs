//! The event log: events become lines, for standard error, a ring in memory and a file on the disk ([docs/log.md](../../../docs/log.md)).
//!
//! ```text
//! core/node: NodeEvent ──render──▶ ┌─────┐ ─▶ standard error      stderr
//! the daemon, its host ──kind────▶ │ Log │ ─▶ the latest 1,000    ring      `taut log` requests them by number
//!                                  └─────┘ ─▶ poll_line ──▶ control thread ──▶ events.jsonl
//! ```
//! - `kind`: every event with its area, level, message and fields;
//! - `level`: levels and areas, `--log-level`;
//! - `limiter`: limits on the lines of each party; `refusals`: the schedule of lines about refused packets;
//! - `line`: an event as JSON and as text, and the parser of JSON lines;
//! - `changes`: the differences between two network maps.
//!
//! Guarantees: no call blocks; memory is limited; no event has a secret as a field; all readers get the same lines.

mod changes;
pub(crate) mod kind;
mod level;
mod limiter;
mod line;
mod refusals;
mod render;
mod ring;
mod stderr;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use taut_base::Time;
use taut_node::Clocks;

pub use level::{Area, BadLevels, Level, Levels};
pub use line::{Entry, LOG_SCHEMA};
pub use stderr::StderrFormat;

pub(crate) use changes::{listed, note_map};
pub(crate) use kind::Kind;
pub(crate) use limiter::EventSource;
pub use line::MAX_LINE;
pub(crate) use line::{Value, write as write_line};
pub(crate) use render::{Names, note_node_event};
pub(crate) use ring::MAX_EVENTS;

use limiter::Limiter;
use refusals::Refusals;
use ring::{LineBatch, Ring};
use stderr::Stderr;

/// Limit on the lines that wait for the control thread, 64. The agent passes them on at the end of each turn.
const MAX_WAITING: usize = 64;

/// Limit on the bytes of lines in one answer of the local API, 64 KiB. A reader requests the rest separately.
const MAX_ANSWER: usize = 64 * 1024;

/// Change of the difference between wall clock and time since boot that counts as a clock jump, 2 s: on a busy host it changes by less between two readings.
const JUMP: Duration = Duration::from_secs(2);

/// The settings of the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOptions {
    /// The recorded events, until a user changes the choice. A restart begins with this choice.
    pub levels: Levels,
    /// The format on standard error.
    pub stderr: StderrFormat,
}

/// The log.
pub(crate) struct Log {
    levels: Levels,
    stderr: Option<Stderr>,
    ring: Ring,
    limiter: Limiter,
    refusals: Refusals,
    /// Lines for the disk.
    waiting: VecDeque<String>,
    /// The wall clock's time at `Time` 0, by the last reading of both clocks.
    wall_at_zero: Option<Duration>,
}

impl Log {
    pub(crate) fn new(options: LogOptions) -> Self {
        Self {
            levels: options.levels,
            stderr: Stderr::new(options.stderr),
            ring: Ring::default(),
            limiter: Limiter::default(),
            refusals: Refusals::default(),
            waiting: VecDeque::new(),
            wall_at_zero: None,
        }
    }

    /// Adds the lines of the earlier run. Returns how that run ended: `stopped` if its last event says so, `cut-off` otherwise, `None` without an earlier run.
    pub(crate) fn resume(&mut self, lines: &[String]) -> Option<&'static str> {
        let events = lines.iter().filter_map(|line| Entry::parse(line).map(|entry| (line, entry.event)));
        let mut last = None;
        for (line, event) in events {
            self.ring.push(EventSource::Earlier, line);
            last = Some(event);
        }
        last.map(|event| if event == kind::DAEMON_STOPPING.event { "stopped" } else { "cut-off" })
    }

    /// Records an event that `party` caused. `values` has one value per field of the kind, in their order.
    pub(crate) fn record(&mut self, kind: &'static Kind, party: EventSource, values: &[Value], clocks: Clocks) {
        debug_assert_eq!(values.len(), kind.fields.len(), "{}", kind.event);
        self.expire(clocks);
        if !self.levels.allow(kind.area, kind.level) {
            return;
        }
        let reason = kind.fields.iter().zip(values).find_map(|(field, value)| match value {
            Value::Word(word) if *field == "reason" => Some(*word),
            _ => None,
        });
        let peer = kind.fields.iter().zip(values).find_map(|(field, value)| match value {
            Value::Text(name) if *field == "peer" => Some(&name[..]),
            _ => None,
        });
        if self.limiter.admit(kind.event, reason.unwrap_or_default(), party, peer.unwrap_or_default()) {
            self.write(kind, party, values, clocks);
        }
    }

    fn write(&mut self, kind: &Kind, party: EventSource, values: &[Value], clocks: Clocks) {
        let line = line::write(kind, kind.level, clocks.wall, values);
        self.ring.push(party, &line);
        if let Some(stderr) = &mut self.stderr {
            stderr.write(&line);
        }
        let goes_to_disk = kind.level <= Level::Info && self.limiter.admit_to_disk(party, clocks.now);
        if goes_to_disk && self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(line);
        }
    }

    /// Writes a line for the suppressed lines of a minute that is over.
    fn expire(&mut self, clocks: Clocks) {
        for suppressed in self.limiter.expire(clocks.now) {
            let limiter::Suppressed { event, reason, count, peer } = suppressed;
            let cause = Some(reason).filter(|reason| !reason.is_empty()).map_or(Value::None, Value::Word);
            let peer = Value::maybe(Some(peer).filter(|peer| !peer.is_empty()));
            let values = [Value::Word(event), cause, Value::Number(count.into()), peer];
            if self.levels.allow(kind::EVENTS_SUPPRESSED.area, kind::EVENTS_SUPPRESSED.level) {
                self.write(&kind::EVENTS_SUPPRESSED, EventSource::Node, &values, clocks);
            }
        }
    }

    /// Compares the clocks. Records an event if the wall clock was set.
    pub(crate) fn check_clocks(&mut self, clocks: Clocks) {
        let at_zero = clocks.wall.saturating_sub(clocks.now.since(Time::ZERO));
        let Some(before) = self.wall_at_zero.replace(at_zero) else { return };
        let by = at_zero.abs_diff(before);
        if by >= JUMP {
            let direction = if at_zero > before { "forward" } else { "back" };
            self.record(&kind::CLOCK_JUMPED, EventSource::Node, &[Value::Word(direction), Value::ms(by)], clocks);
        }
    }

    /// Notes that a network came up, whose counters of refused packets begin at 0.
    pub(crate) fn begin_refusals(&mut self, now: Time) {
        self.refusals.start(now);
    }

    /// Returns true if [`Self::note_refusals`] is due.
    pub(crate) fn are_refusals_due(&self, now: Time) -> bool {
        self.refusals.due() <= now
    }

    /// Records the refused packets of the drop counters.
    pub(crate) fn note_refusals(&mut self, counts: &BTreeMap<&'static str, u64>, clocks: Clocks) {
        for refused in self.refusals.read(counts, clocks.now) {
            let kind = if refused.is_flood { &kind::INPUT_FLOOD } else { &kind::INPUT_REFUSED };
            let values = [Value::Word(refused.reason), Value::Number(refused.count), Value::s(refused.within)];
            self.record(kind, EventSource::Unauthenticated, &values, clocks);
        }
    }

    /// Returns the time at which [`Self::handle_timeout`] or, while a network is up, [`Self::note_refusals`] is due.
    pub(crate) fn poll_timeout(&self, is_up: bool) -> Option<Time> {
        self.limiter.poll_timeout().into_iter().chain(is_up.then_some(self.refusals.due())).min()
    }

    /// Does the work that is due.
    pub(crate) fn handle_timeout(&mut self, clocks: Clocks) {
        if self.limiter.poll_timeout().is_some_and(|due| due <= clocks.now) {
            self.expire(clocks);
        }
    }

    /// Returns the next line for the disk.
    pub(crate) fn poll_line(&mut self) -> Option<String> {
        self.waiting.pop_front()
    }

    /// Returns lines from this number on, or from the oldest line in memory if no number is given.
    pub(crate) fn read(&self, from: Option<u64>) -> LineBatch {
        self.ring.read(from, MAX_ANSWER)
    }

    pub(crate) fn levels(&self) -> Levels {
        self.levels
    }

    /// Changes the choice of recorded events until the daemon ends.
    pub(crate) fn set_levels(&mut self, levels: Levels, clocks: Clocks) {
        self.levels = levels;
        self.record(&kind::LEVELS_CHANGED, EventSource::Node, &[Value::text(levels)], clocks);
    }
}

#[cfg(test)]
mod tests;

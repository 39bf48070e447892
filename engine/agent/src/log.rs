//! The node tells its story: events become lines, for standard error, a ring in memory and a file on the disk ([docs/log.md](../../../docs/log.md)).
//!
//! ```text
//! core/node: NodeEvent ──render──▶ ┌─────┐ ─▶ standard error      stderr
//! the daemon, its host ──kind────▶ │ Log │ ─▶ the latest 1,000    ring      taut log asks for them by number
//!                                  └─────┘ ─▶ poll_line ──▶ control thread ──▶ events.jsonl
//! ```
//! - `kind`: every event with its area, level, words and fields;
//! - `level`: levels and areas, `--log-level`;
//! - `limiter`: how many lines each party may cause; `refusals`: refused packets, sampled;
//! - `line`: an event as JSON and as text, and the reader of both;
//! - `changes`: what another network map changed.
//!
//! It promises: nothing here blocks or grows; no secret is a field of an event; a line is the same wherever it is read.

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
pub(crate) use limiter::Party;
pub use line::MAX_LINE;
pub(crate) use line::{Value, write as write_line};
pub(crate) use render::{Names, note_node_event};
pub(crate) use ring::MAX_EVENTS;

use limiter::Limiter;
use refusals::Refusals;
use ring::{Batch, Ring};
use stderr::Stderr;

/// Lines that wait for the control thread at most, 64: they are passed on at the end of each turn.
const MAX_WAITING: usize = 64;

/// Bytes of lines in one answer of the local API, 64 KiB; a reader asks again for the rest.
const MAX_ANSWER: usize = 64 * 1024;

/// A difference between wall clock and time since boot that makes a jump, 2 s: two readings on a busy host differ by less.
const JUMP: Duration = Duration::from_secs(2);

/// How the log works.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogOptions {
    /// Which events are recorded, until a user says otherwise. A restart begins with these again.
    pub levels: Levels,
    /// Where they are printed.
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
    /// Wall clock at `Time` 0, as it was last.
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

    /// Begins with the lines of an earlier run. Returns how that one ended: `stopped` if it said so, `cut-off` if it did not.
    pub(crate) fn resume(&mut self, lines: &[String]) -> Option<&'static str> {
        let events = lines.iter().filter_map(|line| Entry::parse(line).map(|entry| (line, entry.event)));
        let mut last = None;
        for (line, event) in events {
            self.ring.push(Party::Earlier, line);
            last = Some(event);
        }
        last.map(|event| if event == kind::DAEMON_STOPPING.event { "stopped" } else { "cut-off" })
    }

    /// Records an event that this party caused. `values` are those of the kind's fields, in their order.
    pub(crate) fn record(&mut self, kind: &'static Kind, party: Party, values: &[Value], clocks: Clocks) {
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

    fn write(&mut self, kind: &Kind, party: Party, values: &[Value], clocks: Clocks) {
        let line = line::write(kind, kind.level, clocks.wall, values);
        self.ring.push(party, &line);
        if let Some(stderr) = &mut self.stderr {
            stderr.write(&line);
        }
        let is_kept = kind.level <= Level::Info && self.limiter.admit_to_disk(party, clocks.now);
        if is_kept && self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(line);
        }
    }

    /// Says what was left out in a minute that is over.
    fn expire(&mut self, clocks: Clocks) {
        for suppressed in self.limiter.expire(clocks.now) {
            let limiter::Suppressed { event, reason, count, peer } = suppressed;
            let cause = Some(reason).filter(|reason| !reason.is_empty()).map_or(Value::None, Value::Word);
            let peer = Value::maybe(Some(peer).filter(|peer| !peer.is_empty()));
            let values = [Value::Word(event), cause, Value::Number(count.into()), peer];
            if self.levels.allow(kind::EVENTS_SUPPRESSED.area, kind::EVENTS_SUPPRESSED.level) {
                self.write(&kind::EVENTS_SUPPRESSED, Party::Node, &values, clocks);
            }
        }
    }

    /// Looks at the clocks: a wall clock that was set is an event.
    pub(crate) fn look_at_clocks(&mut self, clocks: Clocks) {
        let at_zero = clocks.wall.saturating_sub(clocks.now.since(Time::ZERO));
        let Some(before) = self.wall_at_zero.replace(at_zero) else { return };
        let by = at_zero.abs_diff(before);
        if by >= JUMP {
            let direction = if at_zero > before { "forward" } else { "back" };
            self.record(&kind::CLOCK_JUMPED, Party::Node, &[Value::Word(direction), Value::ms(by)], clocks);
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

    /// Records which packets were refused, by the counters.
    pub(crate) fn note_refusals(&mut self, counts: &BTreeMap<&'static str, u64>, clocks: Clocks) {
        for refused in self.refusals.look(counts, clocks.now) {
            let kind = if refused.many { &kind::INPUT_FLOOD } else { &kind::INPUT_REFUSED };
            let values = [Value::Word(refused.reason), Value::Number(refused.count), Value::s(refused.within)];
            self.record(kind, Party::Unauthenticated, &values, clocks);
        }
    }

    /// Returns when [`Self::handle_timeout`] or, while a network is up, [`Self::note_refusals`] is due.
    pub(crate) fn poll_timeout(&self, is_up: bool) -> Option<Time> {
        self.limiter.poll_timeout().into_iter().chain(is_up.then_some(self.refusals.due())).min()
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, clocks: Clocks) {
        if self.limiter.poll_timeout().is_some_and(|due| due <= clocks.now) {
            self.expire(clocks);
        }
    }

    /// Returns the next line for the disk.
    pub(crate) fn poll_line(&mut self) -> Option<String> {
        self.waiting.pop_front()
    }

    /// Returns lines from this number on; without one from the oldest that is kept.
    pub(crate) fn read(&self, from: Option<u64>) -> Batch {
        self.ring.read(from, MAX_ANSWER)
    }

    pub(crate) fn levels(&self) -> Levels {
        self.levels
    }

    /// Has other events recorded, until the daemon ends.
    pub(crate) fn set_levels(&mut self, levels: Levels, clocks: Clocks) {
        self.levels = levels;
        self.record(&kind::LEVELS_CHANGED, Party::Node, &[Value::text(levels)], clocks);
    }
}

#[cfg(test)]
mod tests;

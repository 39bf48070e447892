//! The event log: events become lines, for standard error, a ring in memory and a file on the disk ([docs/log.md](../../../docs/log.md)).
//!
//! ```text
//! core/node: NodeEvent ──render──▶ ┌─────┐ ─▶ standard error      stderr
//! the daemon, its host ──kind────▶ │ Log │ ─▶ the latest 1,000    ring      `taut log` requests them by number
//!                                  └─────┘ ─▶ poll_line ──▶ control thread ──▶ events.jsonl
//! ```
//! - `kind`: every event with its area, level, message and fields;
//! - `level`: levels and areas, `--log-level`;
//! - `limiter`: limits on the lines of each source; `refusals`: the schedule of lines about refused packets;
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

use std::collections::VecDeque;
use std::time::Duration;

use taut_base::{SortedMap, Time};
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

/// Limit on the lines that wait for the control thread, 256, as many as its queue takes. The agent passes them on at the end of each turn.
const MAX_WAITING: usize = 256;

/// Time in the network map from which a peer is a source of its own, one hour. Until then it shares the limits of all new peers, so that a member that joins and leaves
/// under changing identities gets no further places.
const SETTLED: Duration = Duration::from_secs(3600);

/// Number of new peers beyond which those that left the map are forgotten, 1,024: about 40 KiB.
const MAX_NEW_PEERS: usize = 1_024;

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

/// A line for the disk, with its source and the peer's name.
pub(crate) struct WaitingLine {
    pub(crate) line: String,
    source: EventSource,
    peer: String,
}

/// The log.
pub(crate) struct Log {
    levels: Levels,
    stderr: Option<Stderr>,
    ring: Ring,
    limiter: Limiter,
    refusals: Refusals,
    /// Lines for the disk.
    waiting: VecDeque<WaitingLine>,
    /// The peers that joined this run's network map less than [`SETTLED`] ago, by their number, with the time.
    new_peers: SortedMap<u64, Time>,
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
            new_peers: SortedMap::new(),
            wall_at_zero: None,
        }
    }

    /// Adds the lines of the earlier run. Returns how that run ended: `stopped` if an event after its start says so, `cut-off` otherwise, `None` without an earlier run.
    pub(crate) fn resume(&mut self, lines: &[String]) -> Option<&'static str> {
        let mut end = None;
        for line in lines {
            let Some(entry) = Entry::parse(line) else { continue };
            self.ring.push(EventSource::Earlier, line);
            if entry.event == kind::DAEMON_STOPPING.event {
                end = Some("stopped");
            } else if end.is_none() || entry.event == kind::DAEMON_STARTED.event {
                end = Some("cut-off");
            }
        }
        end
    }

    /// Records an event that `source` caused. `values` has one value per field of the kind, in their order.
    pub(crate) fn record(&mut self, kind: &'static Kind, source: EventSource, values: &[Value], clocks: Clocks) {
        debug_assert_eq!(values.len(), kind.fields.len(), "{}", kind.event);
        self.expire(clocks, false);
        if !self.levels.allow(kind.area, kind.level) {
            return;
        }
        let source = self.settled(source, clocks.now);
        let reason = kind.fields.iter().zip(values).find_map(|(field, value)| match value {
            Value::Word(word) if *field == "reason" => Some(*word),
            _ => None,
        });
        let peer = kind.fields.iter().zip(values).find_map(|(field, value)| match value {
            Value::Text(name) if *field == "peer" => Some(&name[..]),
            _ => None,
        });
        let peer = peer.unwrap_or_default();
        if self.limiter.admit(kind.event, reason.unwrap_or_default(), source, peer) {
            self.write(kind, source, values, peer, clocks);
        }
    }

    /// Returns the source whose limits apply.
    fn settled(&mut self, source: EventSource, now: Time) -> EventSource {
        let EventSource::Peer(number) = source else { return source };
        let is_new = self.new_peers.get(&number).is_some_and(|since| now.since(*since) < SETTLED);
        // A peer without a number was just removed from the map.
        if is_new || number == u64::MAX { EventSource::NewPeers } else { source }
    }

    /// Notes the peers that were added to the network map of this run. Beyond [`MAX_NEW_PEERS`], forgets those that the map does not list any more, so that peers that
    /// come and go take no memory.
    fn note_new_peers(&mut self, added: impl Iterator<Item = u64>, is_listed: impl Fn(u64) -> bool, now: Time) {
        self.new_peers.extend(added.map(|number| (number, now)));
        let is_full = self.new_peers.len() > MAX_NEW_PEERS;
        self.new_peers.retain(|number, since| now.since(*since) < SETTLED && (!is_full || is_listed(*number)));
    }

    fn write(&mut self, kind: &Kind, source: EventSource, values: &[Value], peer: &str, clocks: Clocks) {
        let line = line::write(kind, kind.level, clocks.wall, values);
        self.ring.push(source, &line);
        if let Some(stderr) = &mut self.stderr {
            stderr.write(&line);
        }
        // The next start looks for this event, whatever happened before it.
        let is_last = kind.event == kind::DAEMON_STOPPING.event;
        if kind.level > Level::Info || !is_last && !self.limiter.admit_to_disk(source, peer) {
            return;
        }
        if self.waiting.len() >= MAX_WAITING && !is_last {
            return self.limiter.count_lost(source, peer);
        }
        self.waiting.push_back(WaitingLine { line, source, peer: String::from(peer) });
    }

    /// Writes a line for the suppressed lines of a minute that is over, and one for the lines of an hour that did not reach the disk. If the daemon `ends`, both are due.
    fn expire(&mut self, clocks: Clocks, ends: bool) {
        if let Some((count, sources)) = self.limiter.take_lost(clocks.now, ends) {
            self.report(
                &kind::EVENTS_NOT_ON_DISK,
                EventSource::Node,
                &[Value::Number(count), Value::Text(sources)],
                clocks,
            );
        }
        for suppressed in self.limiter.expire(clocks.now, ends) {
            let limiter::Suppressed { event, reason, count, source, peer } = suppressed;
            let cause = Some(reason).filter(|reason| !reason.is_empty()).map_or(Value::None, Value::Word);
            let peer = Value::maybe(Some(peer).filter(|peer| !peer.is_empty()));
            // The line counts for the source that caused it, so that no source uses up the places of this node.
            self.report(
                &kind::EVENTS_SUPPRESSED,
                source,
                &[Value::Word(event), cause, Value::Number(count.into()), peer],
                clocks,
            );
        }
    }

    /// Writes a line about other lines, to which the limits of a minute do not apply.
    fn report(&mut self, kind: &'static Kind, source: EventSource, values: &[Value], clocks: Clocks) {
        if self.levels.allow(kind.area, kind.level) {
            self.write(kind, source, values, "", clocks);
        }
    }

    /// Records the last event of this run, behind what is still to be reported.
    pub(crate) fn finish(&mut self, reason: &'static str, clocks: Clocks) {
        self.expire(clocks, true);
        self.record(&kind::DAEMON_STOPPING, EventSource::Node, &[Value::Word(reason)], clocks);
    }

    /// Compares the clocks. Records an event if the wall clock was set.
    pub(crate) fn check_clocks(&mut self, clocks: Clocks) {
        let at_zero = clocks.wall.saturating_sub(clocks.now.since(Time::ZERO));
        let Some(before) = self.wall_at_zero.replace(at_zero) else { return };
        let by = at_zero.abs_diff(before);
        if by >= JUMP {
            let direction = if at_zero > before { "forward" } else { "back" };
            self.record(
                &kind::CLOCK_JUMPED,
                EventSource::Node,
                &[Value::Word(direction), Value::Number((by.as_millis() as u64 + 500) / 1_000)],
                clocks,
            );
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
    pub(crate) fn note_refusals(&mut self, counts: &SortedMap<&'static str, u64>, clocks: Clocks) {
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
            self.expire(clocks, false);
        }
    }

    /// Returns the next line for the disk.
    pub(crate) fn poll_line(&mut self) -> Option<WaitingLine> {
        self.waiting.pop_front()
    }

    /// Counts a line that the thread that writes to the disk did not accept.
    pub(crate) fn count_lost(&mut self, line: &WaitingLine) {
        self.limiter.count_lost(line.source, &line.peer);
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

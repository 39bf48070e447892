//! What happened, as JSON: what was asked for, what came of it, how late and how busy the program was. `docs/linkbox.md` says what each key means.

use std::time::Duration;

use serde::Serialize;
use taut_base::Time;

use crate::arguments::Arguments;
use crate::bridge::Bridge;
use crate::chance::Memory;
use crate::direction::Direction;
use crate::link::{Event, Link, Rate};
use crate::measure::{Counts, Times};
use crate::packet::Packet;

/// Changes when a key changes its meaning or goes.
const SCHEMA: u32 = 1;
/// Above this share of a window's time, the next packet more might have been one too many.
const BUSY: f64 = 0.9;
/// One frame in a hundred may leave late by more than this share of the time that frames are under way on average: a quarter, about half of what jitter
/// moves each frame by on the mildest link of the lab that has any (2 ± 2 ms).
const LATE_SHARE: f64 = 0.25;
/// And by so much anyway: a machine that is shared gives a program its core back within that, whatever the link.
const LATE: Duration = Duration::from_micros(200);

/// The whole of it.
#[derive(Serialize)]
pub(crate) struct Report<'a> {
    schema: u32,
    program: &'static str,
    version: &'static str,
    left: &'a str,
    right: &'a str,
    seed: u64,
    superpackets: bool,
    netem_compat: bool,
    /// It ran before ordinary programs.
    first: bool,
    seconds: f64,
    to_right: Way,
    /// Null where nothing goes back.
    to_left: Option<Way>,
    load: Work,
    /// Why the run is not to be trusted; empty if it is.
    doubts: Vec<String>,
}

/// One direction.
#[derive(Serialize)]
struct Way {
    asked: Asked,
    counts: Counts,
    /// Frames that were neither lost nor sent when it ended.
    under_way: usize,
    realised: Realised,
    lateness_us: Spread,
}

/// What was asked for.
#[derive(Serialize)]
struct Asked {
    base_ms: f64,
    delay_ms: f64,
    jitter_ms: f64,
    jitter_correlation: f64,
    loss: [f64; 2],
    duplicate: [f64; 2],
    reorder: [f64; 2],
    rate: Option<Rate>,
    keep_order: bool,
}

/// What came of it, as shares of what was drawn for; of nothing, null.
#[derive(Serialize)]
struct Realised {
    loss: Option<f64>,
    duplicate: Option<f64>,
    reorder: Option<f64>,
    /// Of what was sent, after a frame that came later.
    overtaken: Option<f64>,
    delay_us: Spread,
}

#[derive(Serialize)]
struct Spread {
    count: u64,
    mean: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

#[derive(Serialize)]
struct Work {
    /// Share of one core.
    mean: f64,
    /// Of the busiest tenth of a second.
    busiest: f64,
    /// How often it woke and worked.
    turns: u64,
}

impl<'a> Report<'a> {
    /// Of a run, until `now`; whether it ran `first`.
    pub(crate) fn new(arguments: &'a Arguments, bridge: &Bridge, first: bool, now: Time) -> Self {
        let [right, left] = &bridge.directions;
        Self {
            schema: SCHEMA,
            program: "linkbox",
            version: env!("CARGO_PKG_VERSION"),
            left: &arguments.left,
            right: &arguments.right,
            seed: arguments.seed,
            superpackets: arguments.superpackets,
            netem_compat: arguments.memory == Memory::Netem,
            first,
            seconds: bridge.load.lasted(now).as_secs_f64(),
            to_right: Way::of(&arguments.to_right, right),
            to_left: (!arguments.one_way).then(|| Way::of(&arguments.to_left, left)),
            load: Work { mean: bridge.load.mean(now), busiest: bridge.load.busiest(), turns: bridge.load.turns() },
            doubts: doubts(bridge.load.busiest(), &bridge.directions),
        }
    }
}

/// Everything that makes a run one of this program instead of one of the link.
fn doubts(busiest: f64, directions: &[Direction<Packet>; 2]) -> Vec<String> {
    let mut doubts = Vec::new();
    if busiest > BUSY {
        doubts.push(format!("for a tenth of a second it was busy for {:.0} %", 100.0 * busiest));
    }
    for (name, direction) in ["to the right", "to the left"].into_iter().zip(directions) {
        let Counts { missed, oversize, unfinished, too_many, refused, .. } = direction.counts;
        for (count, what) in [
            (missed, "were lost before it saw them"),
            (oversize, "were longer than a wire packet: an offload is on"),
            (unfinished, "had no checksum yet: an offload is on"),
            (too_many, "were more than may be under way"),
            (refused, "were not taken by the other end"),
        ] {
            if count > 0 {
                doubts.push(format!("{name}: {count} frames {what}"));
            }
        }
        let (late, usual) = (direction.lateness.quantile(0.99), direction.delays.mean());
        if late > LATE.max(usual.mul_f64(LATE_SHARE)) {
            let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
            doubts.push(format!(
                "{name}: one frame in a hundred left {:.1} ms late or more, where {:.1} ms are usual",
                milliseconds(late),
                milliseconds(usual)
            ));
        }
    }
    doubts
}

impl Way {
    fn of(link: &Link, direction: &Direction<Packet>) -> Self {
        let counts = direction.counts;
        // What CoDel drops may have come before this report's time.
        let drawn = counts.received.saturating_sub(counts.queue_full).saturating_sub(counts.codel);
        let share = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
        let delayed = (drawn + counts.duplicated).saturating_sub(counts.lost);
        let realised = Realised {
            loss: share(counts.lost, drawn),
            duplicate: share(counts.duplicated, drawn),
            reorder: share(counts.hurried, delayed),
            overtaken: share(counts.overtaken, counts.sent),
            delay_us: Spread::of(&direction.delays),
        };
        Self {
            asked: Asked::of(link),
            counts,
            under_way: direction.under_way(),
            realised,
            lateness_us: Spread::of(&direction.lateness),
        }
    }
}

impl Asked {
    fn of(link: &Link) -> Self {
        let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
        let event = |event: Event| [event.share.get(), event.correlation.get()];
        Self {
            base_ms: milliseconds(link.base),
            delay_ms: milliseconds(link.delay),
            jitter_ms: milliseconds(link.jitter),
            jitter_correlation: link.jitter_correlation.get(),
            loss: event(link.loss),
            duplicate: event(link.duplicate),
            reorder: event(link.reorder),
            rate: link.rate,
            keep_order: link.keep_order,
        }
    }
}

impl Spread {
    fn of(times: &Times) -> Self {
        let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
        let [p50, p99] = [0.5, 0.99].map(|share| microseconds(times.quantile(share)));
        Self { count: times.count(), mean: microseconds(times.mean()), p50, p99, max: microseconds(times.most()) }
    }
}

#[cfg(test)]
mod tests;

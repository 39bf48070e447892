//! The JSON report: the configuration, what happened, and how late and how busy the program was. `docs/linkbox.md` explains each key.

use std::time::Duration;

use serde::Serialize;
use taut_base::Time;

use crate::arguments::Arguments;
use crate::bridge::Bridge;
use crate::chance::Memory;
use crate::direction::Direction;
use crate::link::{Link, PacketEvent, RateLimit};
use crate::measure::{Counts, Times};
use crate::packet::Packet;

/// Version of the report; changes if a key changes its meaning or is removed.
const SCHEMA: u32 = 1;
/// Share of working time in a window above which the program may have been too slow.
const BUSY: f64 = 0.9;
/// One frame in a hundred may leave late by more than this share of the time that frames are under way on average: a quarter, about half of what jitter
/// moves each frame by on the mildest link of the lab that has any (2 ± 2 ms).
const LATE_SHARE: f64 = 0.25;
/// Lateness that is accepted on any link: a shared machine gives a program its core back within this time.
const LATE: Duration = Duration::from_micros(200);

/// The whole report.
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
    /// True if the program ran with real-time priority.
    first: bool,
    seconds: f64,
    to_right: Way,
    /// Null if nothing is carried back.
    to_left: Option<Way>,
    load: Work,
    /// Reasons not to trust the run; empty if there are none.
    doubts: Vec<String>,
}

/// One direction.
#[derive(Serialize)]
struct Way {
    asked: Asked,
    counts: Counts,
    /// Frames under way at the end.
    under_way: usize,
    realised: Realised,
    lateness_us: Spread,
}

/// The configuration.
#[derive(Serialize)]
struct Asked {
    base_ms: f64,
    delay_ms: f64,
    jitter_ms: f64,
    jitter_correlation: f64,
    loss: [f64; 2],
    duplicate: [f64; 2],
    reorder: [f64; 2],
    rate: Option<RateLimit>,
    keep_order: bool,
}

/// The results, as shares of the frames that were drawn for; null without frames.
#[derive(Serialize)]
struct Realised {
    loss: Option<f64>,
    duplicate: Option<f64>,
    reorder: Option<f64>,
    /// Share of sent frames that left after a frame that arrived later.
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
    /// Working time as a share of one core.
    mean: f64,
    /// The same in the busiest tenth of a second.
    busiest: f64,
    /// Number of wake-ups with work.
    turns: u64,
}

impl<'a> Report<'a> {
    /// Returns the report of a run until `now`. `first` is true if it ran with real-time priority.
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

/// Returns the reasons for which a run measures this program instead of the link.
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
        // A frame that CoDel drops may have arrived before this report's time.
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
        let event = |event: PacketEvent| [event.share.get(), event.correlation.get()];
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

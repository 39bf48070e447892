//! What a lane works, for the decision whether more lanes would help (docs/internals/lanes.md).
//!
//! A lane is busy while its thread runs or wants to run: where cores are scarce, a lane that has work waits for a core for a good part of the time. The kernel counts
//! both ([`taut_event::ThreadTime`]). Of the time that it waited, at most [`WAITS`] times that in which it ran counts: beside many other programs, a lane with little
//! to do also waits most of the time, and more lanes would wait as well. Time in which the lane polled instead of waiting is subtracted. Where the kernel does not count it, the lane is busy while it is in a
//! turn. Every [`INTERVAL`] a lane that was busy reports; a lane that waits is not woken for it.
//!
//! Which flows have most datagrams is estimated without an allocation, in [`SETS`] sets of [`WAYS`] places. A flow that finds its set full takes from the lightest
//! flow there, and replaces it when nothing is left: heavy flows stay.

use std::time::Duration;

use taut_base::{PeerId, Time};
use taut_node::{FlowLoad, LaneLoad};

/// The time that a report is about, 100 ms: hundreds of turns of a busy lane, and ten reports a second.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time of waiting for a core that counts for each time of running, 2: as on two cores that six programs want. A lane is then busy for 60 % of its time if it ran
/// for 20 %.
const WAITS: u32 = 2;
/// Share of the time, in thousandths, below which a lane reports nothing.
const BUSY: u128 = 100;
/// Sets of places for flows, 16.
const SETS: usize = 16;
/// Places of a set, 4: of the 16 flows that can matter for 16 lanes, five in one set are rare.
const WAYS: usize = 4;
/// One of so many received packets is attributed to its flow, 16: a thousand of them within [`INTERVAL`] at 2 Gbit/s.
const SAMPLE: u32 = 16;
/// A flow is reported if it has at least one of so many datagrams, 64.
const REPORTED: u64 = 64;

/// Measures the work of one lane.
pub(crate) struct LoadMeter {
    /// Start of the interval.
    start: Time,
    /// When the present turn or the present wait began.
    since: Time,
    /// Time in turns within the interval.
    busy: Duration,
    /// Time of polling within the interval.
    polled: Duration,
    /// What the kernel had counted when the interval began: running and waiting for a core.
    counted: Option<(Duration, Duration)>,
    /// The part of the time that the lane wanted a core and had none, in thousandths, in the last interval.
    waited: u16,
    datagrams: u64,
    /// Received packets since the last one that was attributed.
    unattributed: u32,
    sets: [[Slot; WAYS]; SETS],
}

/// The heaviest flow of those that share a place.
#[derive(Clone, Copy, Default)]
struct Slot {
    flow: Option<(PeerId, u16)>,
    datagrams: u32,
}

impl LoadMeter {
    pub(crate) fn new() -> Self {
        Self {
            start: Time::ZERO,
            since: Time::ZERO,
            busy: Duration::ZERO,
            polled: Duration::ZERO,
            counted: None,
            waited: 0,
            datagrams: 0,
            unattributed: 0,
            sets: [[Slot::default(); WAYS]; SETS],
        }
    }

    /// Notes that a turn begins, after a wait. Returns a report if it is time for one. `counted` returns the time for which the thread has run since it began, and the
    /// time for which it waited for a core; `None` if the kernel does not count them.
    pub(crate) fn turn_begins(
        &mut self,
        now: Time,
        counted: impl FnOnce() -> Option<(Duration, Duration)>,
    ) -> Option<LaneLoad> {
        let waited = now.since(self.since);
        self.since = now;
        let span = now.since(self.start);
        if span < INTERVAL {
            return None;
        }
        let counted = counted();
        self.waited = counted.zip(self.counted).map_or(0, |((ran, waited), before)| {
            let (ran, waited) = (ran.saturating_sub(before.0), waited.saturating_sub(before.1));
            (1000 * waited.as_micros() / (ran + waited).as_micros().max(1)) as u16
        });
        let wanted = counted.zip(self.counted).map(|((ran, waited), before)| {
            let ran = ran.saturating_sub(before.0 + self.polled);
            ran + waited.saturating_sub(before.1).min(WAITS * ran)
        });
        let busy = 1000 * wanted.unwrap_or(self.busy).as_micros() / span.as_micros().max(1);
        // After a longer wait the interval is over without a report: there was little to do.
        let report = (waited < INTERVAL && busy >= BUSY).then(|| self.report(busy.min(1000) as u16, span));
        (self.start, self.counted, self.datagrams) = (now, counted, 0);
        (self.busy, self.polled) = (Duration::ZERO, Duration::ZERO);
        self.sets = [[Slot::default(); WAYS]; SETS];
        report
    }

    /// Returns the part of the time that the lane wanted a core and had none, in thousandths; 0 if the kernel does not count it.
    pub(crate) fn waited(&self) -> u16 {
        self.waited
    }

    /// Notes that the turn ended, and a wait begins.
    pub(crate) fn turn_ends(&mut self, now: Time) {
        self.busy += now.since(self.since);
        self.since = now;
    }

    /// Notes that the lane polled for this time instead of waiting.
    pub(crate) fn polled(&mut self, time: Duration) {
        self.polled += time;
    }

    /// Counts datagrams that came or were sent, of whatever kind: the lane's time is divided among flows by their shares of all of them, so that the work for one peer's
    /// messages is not taken for another one's (law 15).
    pub(crate) fn passed(&mut self, datagrams: usize) {
        self.datagrams += datagrams as u64;
    }

    /// Returns true if the flow of the present authentic packet is wanted ([`Self::sampled`]).
    #[inline]
    pub(crate) fn wants_flow(&mut self) -> bool {
        self.unattributed += 1;
        self.unattributed >= SAMPLE
    }

    /// Attributes the packets since the last such call to this flow.
    pub(crate) fn sampled(&mut self, peer: PeerId, flow: u16) {
        let datagrams = std::mem::take(&mut self.unattributed);
        self.vote(peer, flow, datagrams);
    }

    /// Attributes datagrams that are sent for a packet to this flow.
    pub(crate) fn sent(&mut self, peer: PeerId, flow: u16, datagrams: usize) {
        self.vote(peer, flow, u32::try_from(datagrams).unwrap_or(u32::MAX));
    }

    fn vote(&mut self, peer: PeerId, flow: u16, datagrams: u32) {
        let place = (u32::from(flow) ^ peer.0.wrapping_mul(0x9e37_79b1) >> 16) as usize % SETS;
        let Some(set) = self.sets.get_mut(place) else { return };
        if let Some(slot) = set.iter_mut().find(|slot| slot.flow == Some((peer, flow))) {
            slot.datagrams = slot.datagrams.saturating_add(datagrams);
            return;
        }
        let Some(lightest) = set.iter_mut().min_by_key(|slot| slot.datagrams) else { return };
        match lightest.datagrams.checked_sub(datagrams) {
            Some(left) if lightest.flow.is_some() => lightest.datagrams = left,
            _ => *lightest = Slot { flow: Some((peer, flow)), datagrams: datagrams - lightest.datagrams },
        }
    }

    #[cold]
    fn report(&self, busy: u16, span: Duration) -> LaneLoad {
        let heavy = self
            .sets
            .as_flattened()
            .iter()
            .filter(|slot| u64::from(slot.datagrams) * REPORTED >= self.datagrams.max(1));
        let load = |slot: &Slot| slot.flow.map(|(peer, flow)| FlowLoad { peer, flow, datagrams: slot.datagrams });
        LaneLoad { busy, span, datagrams: self.datagrams, flows: heavy.filter_map(load).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(1_000_000 + milliseconds)
    }

    /// Lets a lane be busy for the first `busy` of every ten milliseconds until `end`, and returns its reports.
    fn work(meter: &mut LoadMeter, busy: u64, end: u64, mut during: impl FnMut(&mut LoadMeter)) -> Vec<LaneLoad> {
        let mut reports = Vec::new();
        for turn in (0..end).step_by(10) {
            reports.extend(meter.turn_begins(at(turn), || None));
            during(meter);
            meter.turn_ends(at(turn + busy));
        }
        reports
    }

    #[test]
    fn a_busy_lane_reports_its_share_and_its_heavy_flows() {
        let mut meter = LoadMeter::new();
        let mut light = 0;
        let reports = work(&mut meter, 9, 400, |meter| {
            light += 1;
            meter.sent(PeerId(1), 5, 45);
            meter.sent(PeerId(1), 1_000 + light, 1);
            meter.passed(45 + 1 + 320);
            for _ in 0..320 {
                if meter.wants_flow() {
                    meter.sampled(PeerId(2), 70);
                }
            }
        });
        let [_, report, ..] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((report.busy, report.span, report.datagrams), (900, INTERVAL, 10 * (45 + 1 + 320)));
        let mut flows: Vec<_> = report.flows.iter().map(|load| (load.peer.0, load.flow, load.datagrams)).collect();
        flows.sort_unstable();
        assert_eq!(flows.len(), 2, "flows with little are left out: {flows:?}");
        assert!((440..=450).contains(&flows[0].2) && flows[0].1 == 5, "{flows:?}");
        assert!((3_190..=3_200).contains(&flows[1].2) && flows[1].1 == 70, "{flows:?}");
    }

    #[test]
    fn a_lane_with_little_to_do_reports_nothing() {
        let mut meter = LoadMeter::new();
        let idle = work(&mut meter, 0, 1_000, |meter| {
            meter.sent(PeerId(1), 5, 1);
            meter.passed(1);
        });
        assert!(idle.is_empty());
        // A burst after a pause is not thinned out by the pause.
        meter.turn_begins(at(5_000), || None);
        meter.turn_ends(at(5_099));
        let report = meter.turn_begins(at(5_100), || None).expect("a report");
        assert_eq!((report.busy, report.span), (990, INTERVAL));
        // What was busy before a long wait is not reported late.
        meter.turn_ends(at(5_190));
        assert_eq!(meter.turn_begins(at(9_000), || None), None);
    }

    #[test]
    fn flows_that_share_a_set_keep_their_counts_and_heavier_ones_stay() {
        let flow = |number: u16| 3 + number * SETS as u16;
        let mut meter = LoadMeter::new();
        let reports = work(&mut meter, 9, 400, |meter| {
            (0..4).for_each(|number| meter.sent(PeerId(1), flow(number), 40));
            meter.sent(PeerId(1), flow(4), 10);
            meter.passed(170);
        });
        let flows: Vec<_> = reports[1].flows.iter().map(|load| (load.flow, load.datagrams)).collect();
        assert_eq!(flows.len(), 4);
        assert!((0..4).all(|number| flows.iter().any(|(known, count)| *known == flow(number) && *count >= 300)));
    }

    /// Returns the share of a lane that runs and waits for a core for so many of every ten milliseconds, and polls for some of the time that it runs.
    fn share(ran: u64, waited: u64, polled: u64) -> u16 {
        let mut meter = LoadMeter::new();
        let mut counted = (Duration::ZERO, Duration::ZERO);
        let mut reports = Vec::new();
        for turn in (0..400).step_by(10) {
            counted = (counted.0 + Duration::from_millis(ran), counted.1 + Duration::from_millis(waited));
            reports.extend(meter.turn_begins(at(turn), || Some(counted)));
            meter.turn_ends(at(turn + 1));
            meter.polled(Duration::from_millis(polled));
        }
        reports[1].busy
    }

    #[test]
    fn a_lane_that_waits_for_a_core_is_busy_and_one_that_polls_is_not() {
        assert_eq!(share(5, 4, 0), 900);
        assert_eq!(share(9, 0, 2), 700, "9 ms of ten it ran, 2 of them polling");
        assert_eq!(share(1, 9, 0), 300, "with little to do, it waits because of other programs");
    }
}

//! Which lanes read what the host sends, and how that changes without a packet overtaking another.
//!
//! While no session has lanes beyond the first, everything waits on the first queue and the first lane reads it: whatever another read would be the
//! first's to seal. Once there are sessions with more lanes, packets wait on the queue of their flow, and each lane reads its own. Where the kernel takes
//! no steering program there is one queue, and the first lane deals out what it reads.
//!
//! A flow that changes its queue must not be read from the new one before everything is read from the old:
//!
//! ```text
//! First ── steer to all ──▶ Settling ── a moment ──▶ Draining: the first reads what waits ──▶ the others begin to read      Spread
//! Spread ── the first stops ─▶ Pausing ── it stopped, steer to the first ──▶ Settling ─▶ Draining: the others read and hand
//!                                                                                over what waits ──▶ the first begins       First
//! ```

use std::time::Duration;

use taut_base::{LaneId, Time};
use taut_node::{Reading, ToLane};
use taut_tun::Tun;

/// A packet whose queue was chosen before the change is on it by then: between the two the kernel does not even let itself be interrupted.
const SETTLE: Duration = Duration::from_millis(1);

/// Who reads, and what is changing.
pub(crate) struct Steering {
    /// A handle of the device, if the kernel steers.
    kernel: Option<Tun>,
    lanes: u8,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    First,
    Spread,
    Pausing,
    Settling {
        until: Time,
        spread: bool,
    },
    Draining {
        /// Lanes that have not said yet that they are done, one bit each.
        lanes: u16,
        spread: bool,
    },
}

impl Steering {
    /// Everything waits on the first queue of so many lanes. `kernel` is a handle of the device, if the kernel takes a program.
    pub(crate) fn new(kernel: Option<Tun>, lanes: u8) -> Self {
        Self { kernel, lanes, step: Step::First }
    }

    /// Whether the kernel steers, or the first lane does it in its place.
    pub(crate) fn is_by_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// Does what is next on the way to what is wanted: all lanes read, or the first alone.
    pub(crate) fn turn(&mut self, spread: bool, now: Time, mut tell: impl FnMut(LaneId, ToLane)) {
        if self.lanes < 2 {
            return;
        }
        match self.step {
            Step::First if spread => {
                if self.steer(self.lanes) {
                    self.step = Step::Settling { until: now + SETTLE, spread };
                } else {
                    tell(LaneId::FIRST, ToLane::Read(Reading::Spread));
                    self.step = Step::Spread;
                }
            }
            Step::Spread if !spread => {
                tell(LaneId::FIRST, ToLane::Read(Reading::Nothing));
                tell(LaneId::FIRST, ToLane::Drain);
                self.step = Step::Pausing;
            }
            Step::Settling { until, spread } if now >= until => self.drain(spread, tell),
            _ => {}
        }
    }

    /// A lane did what [`ToLane::Drain`] asked for.
    pub(crate) fn drained(&mut self, lane: LaneId, now: Time, mut tell: impl FnMut(LaneId, ToLane)) {
        match &mut self.step {
            Step::Pausing => {
                if self.steer(1) {
                    self.step = Step::Settling { until: now + SETTLE, spread: false };
                } else {
                    self.drain(false, tell);
                }
            }
            Step::Draining { lanes, spread } => {
                *lanes &= !(1 << lane.0);
                if *lanes != 0 {
                    return;
                }
                let (others, first) =
                    if *spread { (Reading::Own, None) } else { (Reading::Nothing, Some(Reading::Own)) };
                self.step = if *spread { Step::Spread } else { Step::First };
                (1..self.lanes).for_each(|lane| tell(LaneId(lane), ToLane::Read(others)));
                if let Some(reading) = first {
                    tell(LaneId::FIRST, ToLane::Read(reading));
                }
            }
            Step::First | Step::Spread | Step::Settling { .. } => {}
        }
    }

    /// When [`Self::turn`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        match self.step {
            Step::Settling { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Has those read what waits whose flows went to others.
    fn drain(&mut self, spread: bool, mut tell: impl FnMut(LaneId, ToLane)) {
        let losing = if spread { 0..1 } else { 1..self.lanes };
        let mut lanes = 0;
        for lane in losing {
            lanes |= 1 << lane;
            tell(LaneId(lane), ToLane::Drain);
        }
        self.step = Step::Draining { lanes, spread };
    }

    /// Has packets wait on so many queues. A kernel that took the program once and now does not leaves them all on the first, where they are dealt out.
    fn steer(&mut self, queues: u8) -> bool {
        let steered = self.kernel.as_ref().is_some_and(|tun| tun.steer(queues).is_ok());
        if !steered {
            self.kernel = None;
        }
        steered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(microseconds: u64) -> Time {
        Time::ZERO + Duration::from_micros(1_000_000 + microseconds)
    }

    fn described((lane, command): (LaneId, ToLane)) -> (u8, String) {
        let what = match command {
            ToLane::Read(reading) => format!("{reading:?}"),
            ToLane::Drain => String::from("Drain"),
            _ => String::from("?"),
        };
        (lane.0, what)
    }

    #[test]
    fn the_first_lane_deals_out_what_the_kernel_does_not() {
        let mut steering = Steering::new(None, 3);
        let mut told = Vec::new();
        let all = |told: &mut Vec<(LaneId, ToLane)>| told.drain(..).map(described).collect::<Vec<_>>();
        let said = |lane, what: &str| (lane, String::from(what));
        steering.turn(false, at(0), |lane, command| told.push((lane, command)));
        assert!(told.is_empty());
        steering.turn(true, at(0), |lane, command| told.push((lane, command)));
        assert_eq!(all(&mut told), [said(0, "Spread")]);
        steering.turn(true, at(0), |lane, command| told.push((lane, command)));
        assert!(told.is_empty() && !steering.is_by_kernel());

        steering.turn(false, at(10), |lane, command| told.push((lane, command)));
        assert_eq!(all(&mut told), [said(0, "Nothing"), said(0, "Drain")]);
        steering.turn(true, at(10), |lane, command| told.push((lane, command)));
        assert!(told.is_empty(), "one change after the other");
        steering.drained(LaneId(0), at(20), |lane, command| told.push((lane, command)));
        assert_eq!(all(&mut told), [said(1, "Drain"), said(2, "Drain")]);
        steering.drained(LaneId(2), at(20), |lane, command| told.push((lane, command)));
        assert!(told.is_empty());
        steering.drained(LaneId(1), at(20), |lane, command| told.push((lane, command)));
        assert_eq!(all(&mut told), [said(1, "Nothing"), said(2, "Nothing"), said(0, "Own")]);
        assert_eq!(steering.step, Step::First);
    }

    #[test]
    fn others_read_only_after_the_first_has_read_what_waited() {
        let mut steering = Steering::new(None, 3);
        steering.step = Step::Settling { until: at(1_000), spread: true };
        let mut told = Vec::new();
        steering.turn(true, at(999), |lane, command| told.push((lane, command)));
        assert!(told.is_empty());
        assert_eq!(steering.poll_timeout(), Some(at(1_000)));
        steering.turn(true, at(1_000), |lane, command| told.push((lane, command)));
        assert_eq!(told.drain(..).map(described).collect::<Vec<_>>(), [(0, String::from("Drain"))]);
        steering.drained(LaneId(0), at(1_100), |lane, command| told.push((lane, command)));
        let own = String::from("Own");
        assert_eq!(told.drain(..).map(described).collect::<Vec<_>>(), [(1, own.clone()), (2, own)]);
        assert_eq!((steering.step, steering.poll_timeout()), (Step::Spread, None));
    }
}

//! Steering: which lanes read the host's packets, and how this changes without reordering.
//!
//! While no session has extra lanes, all packets wait on the first queue and the first lane reads them, because the first lane would have to seal the packets that
//! other lanes read. Once sessions have extra lanes, packets wait on the queue of their flow, and each lane reads its own queue. Where the kernel accepts no
//! steering program there is one queue, and the first lane distributes the packets.
//!
//! A flow that moves to another queue must not be read from there before all its packets on the former queue were read:
//!
//! ```text
//! First ── steer to all ──▶ Settling ── 1 ms ──▶ Draining: the first lane empties its queue ──▶ the others begin to read    Spread
//! Spread ── the first stops ─▶ Pausing ── it stopped, steer to the first ──▶ Settling ─▶ Draining: the others empty their
//!                                                                        queues and hand off ──▶ the first begins to read   First
//! ```

use std::time::Duration;

use taut_base::{LaneId, Placement, Time};
use taut_node::{Reading, ToLane};
use taut_tun::Tun;

/// Time until a packet whose queue was chosen before a change is on that queue, 1 ms: the kernel disables preemption between the two steps.
const SETTLE: Duration = Duration::from_millis(1);

/// A device with several queues, whose kernel chooses the queue of each packet by its flow.
pub trait Steer {
    /// Has packets wait on the queues of this placement. Returns false if the kernel refuses.
    fn steer(&self, placement: Placement) -> bool;
}

impl Steer for Tun {
    fn steer(&self, placement: Placement) -> bool {
        Tun::steer(self, placement).is_ok()
    }
}

/// The state of the steering of a TUN device, or of the simulator's model of one.
pub struct Steering<D = Tun> {
    /// A handle of the device, if the kernel steers.
    kernel: Option<D>,
    placement: Placement,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    First,
    Spread,
    Pausing,
    Settling {
        until: Time,
        spread: bool,
    },
    Draining {
        /// Lanes that have not reported [`FromLane::Drained`](taut_node::FromLane::Drained) yet, one bit each.
        lanes: u16,
        spread: bool,
    },
}

impl<D: Steer> Steering<D> {
    /// Starts with all packets on the first lane's queue. `kernel` is a handle of the device, if the kernel accepts the steering program.
    pub fn new(kernel: Option<D>, placement: Placement) -> Self {
        Self { kernel, placement, phase: Phase::First }
    }

    /// Continues with another placement, as after [`Self::new`]. Call it only if [`Self::is_at_first`].
    pub fn restart(&mut self, kernel: Option<D>, placement: Placement) {
        *self = Self::new(kernel, placement);
    }

    /// Returns true if all packets wait on the first queue, and the other queues and rings are empty.
    pub fn is_at_first(&self) -> bool {
        self.phase == Phase::First
    }

    /// Returns true if the kernel steers, and false if the first lane distributes the packets.
    pub fn is_by_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// Takes the next step towards the wanted state: all lanes read (`spread`), or only the first one.
    pub fn turn(&mut self, spread: bool, now: Time, mut tell: impl FnMut(LaneId, ToLane)) {
        if self.placement.lanes() < 2 {
            return;
        }
        match self.phase {
            Phase::First if spread => {
                if self.steer(self.placement) {
                    self.phase = Phase::Settling { until: now + SETTLE, spread };
                } else {
                    tell(LaneId::FIRST, ToLane::Read(Reading::Spread));
                    self.phase = Phase::Spread;
                }
            }
            Phase::Spread if !spread => {
                tell(LaneId::FIRST, ToLane::Read(Reading::Nothing));
                tell(LaneId::FIRST, ToLane::Drain);
                self.phase = Phase::Pausing;
            }
            Phase::Settling { until, spread } if now >= until => self.drain(spread, tell),
            _ => {}
        }
    }

    /// Notes that a lane has carried out [`ToLane::Drain`].
    pub fn drained(&mut self, lane: LaneId, now: Time, mut tell: impl FnMut(LaneId, ToLane)) {
        match &mut self.phase {
            Phase::Pausing => {
                if self.steer(Placement::FIRST) {
                    self.phase = Phase::Settling { until: now + SETTLE, spread: false };
                } else {
                    self.drain(false, tell);
                }
            }
            Phase::Draining { lanes, spread } => {
                *lanes &= !(1 << lane.0);
                if *lanes != 0 {
                    return;
                }
                let (others, first) =
                    if *spread { (Reading::Own, None) } else { (Reading::Nothing, Some(Reading::Own)) };
                self.phase = if *spread { Phase::Spread } else { Phase::First };
                (1..self.placement.lanes()).for_each(|lane| tell(LaneId(lane), ToLane::Read(others)));
                if let Some(reading) = first {
                    tell(LaneId::FIRST, ToLane::Read(reading));
                }
            }
            Phase::First | Phase::Spread | Phase::Settling { .. } => {}
        }
    }

    /// Returns the time at which [`Self::turn`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.phase {
            Phase::Settling { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Has the lanes whose flows moved away empty their queues.
    fn drain(&mut self, spread: bool, mut tell: impl FnMut(LaneId, ToLane)) {
        let losing = if spread { 0..1 } else { 1..self.placement.lanes() };
        let mut lanes = 0;
        for lane in losing {
            lanes |= 1 << lane;
            tell(LaneId(lane), ToLane::Drain);
        }
        self.phase = Phase::Draining { lanes, spread };
    }

    /// Has packets wait on the queues of this placement. If the kernel, which accepted the program before, refuses now, all packets stay on the first queue, and the first
    /// lane distributes them. Returns true if the kernel steers.
    fn steer(&mut self, placement: Placement) -> bool {
        let steered = self.kernel.as_ref().is_some_and(|device| device.steer(placement));
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
    fn the_first_lane_distributes_packets_where_the_kernel_does_not() {
        let mut steering = Steering::<Tun>::new(None, Placement::new(3));
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
        assert!(told.is_empty(), "a change starts only after the former one is complete");
        steering.drained(LaneId(0), at(20), |lane, command| told.push((lane, command)));
        assert_eq!(all(&mut told), [said(1, "Drain"), said(2, "Drain")]);
        steering.drained(LaneId(2), at(20), |lane, command| told.push((lane, command)));
        assert!(told.is_empty());
        steering.drained(LaneId(1), at(20), |lane, command| told.push((lane, command)));
        assert_eq!(all(&mut told), [said(1, "Nothing"), said(2, "Nothing"), said(0, "Own")]);
        assert_eq!(steering.phase, Phase::First);
    }

    #[test]
    fn the_others_read_only_after_the_first_has_emptied_its_queue() {
        let mut steering = Steering::<Tun>::new(None, Placement::new(3));
        steering.phase = Phase::Settling { until: at(1_000), spread: true };
        let mut told = Vec::new();
        steering.turn(true, at(999), |lane, command| told.push((lane, command)));
        assert!(told.is_empty());
        assert_eq!(steering.poll_timeout(), Some(at(1_000)));
        steering.turn(true, at(1_000), |lane, command| told.push((lane, command)));
        assert_eq!(told.drain(..).map(described).collect::<Vec<_>>(), [(0, String::from("Drain"))]);
        steering.drained(LaneId(0), at(1_100), |lane, command| told.push((lane, command)));
        let own = String::from("Own");
        assert_eq!(told.drain(..).map(described).collect::<Vec<_>>(), [(1, own.clone()), (2, own)]);
        assert_eq!((steering.phase, steering.poll_timeout()), (Phase::Spread, None));
    }
}

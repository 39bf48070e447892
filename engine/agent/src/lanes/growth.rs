//! Lanes that are started while the first one runs, and ended again (`--lanes auto`).
//!
//! ```text
//! grow    threads start with rings to each other ──▶ lane 0 is told of its rings (`ToLane::Lanes`)
//! shrink  wait until all packets wait on the first queue ──▶ `ToLane::End` ──▶ every lane: `FromLane::Ended` ──▶ join ──▶ lane 0: `ToLane::Lanes`
//! ```
//! Lane 0 itself never stops, and its sessions stay.

use std::sync::Arc;
use std::time::Duration;

use taut_base::{LaneId, Placement, Time};
use taut_event::Waker;
use taut_lane::{Lane, LaneShared, LaneStartError, queues, rings};
use taut_node::ToLane;
use taut_tun::Tun;

use super::{LaneHandles, LaneOptions, LaneThreads, ReturnRoutes, RunningLane};

/// Time after which a lane is ended although it has not reported that its sessions are, 2 s. Its receiver indices then stay in use.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The end of all lanes but the first.
#[derive(Clone, Copy)]
pub(super) enum Shrinking {
    /// Packets of the host may still wait on queues of the lanes.
    Emptying,
    /// These lanes, one bit each, have not reported yet.
    Ending { lanes: u16, since: Time },
}

impl LaneThreads {
    /// Starts a lane on each of these handles, beside the only one that runs. `kernel` is a handle of the TUN device, if the kernel accepts the steering program.
    /// After an error there is still one lane.
    pub(crate) fn grow(
        &mut self,
        handles: Vec<LaneHandles>,
        kernel: Option<Tun>,
        placement: Placement,
        options: LaneOptions,
        agent: &Waker,
    ) -> Result<(), LaneStartError> {
        let Some(first) = self.lanes.first() else { return Ok(()) };
        let new = handles.iter().map(|_| Waker::new()).collect::<Result<Vec<_>, _>>()?;
        let wakers: Vec<Waker> = std::iter::once(first.waker.clone()).chain(new).collect();
        let count = u8::try_from(wakers.len()).unwrap_or(u8::MAX);
        let mut all = rings(&wakers).into_iter();
        let of_first = all.next();
        for (((own, handles), waker), rings) in (1..).zip(handles).zip(wakers.iter().skip(1)).zip(all) {
            let (queue, lane_end) = queues(agent.clone(), waker.clone());
            let config = options.of_lane(LaneId(own), count, rings, handles, lane_end, waker.clone());
            let place = usize::from(own) - 1;
            let shared = self.former.get(place).map_or_else(LaneShared::default, |former| former.successor());
            match Lane::start_with(config, shared) {
                Ok(lane) => {
                    let (waker, routes) = (waker.clone(), ReturnRoutes::default());
                    self.lanes.push(RunningLane { lane, queue, waker, routes });
                }
                Err(error) => {
                    self.lanes.drain(1..).for_each(|running| running.lane.stop());
                    return Err(error);
                }
            }
        }
        let kept = self.former.len().min(usize::from(count) - 1);
        self.former.drain(..kept);
        if let (Some(first), Some(rings)) = (self.lanes.first(), of_first) {
            first.lane.shared().leave_rings(rings);
        }
        self.push(LaneId::FIRST, ToLane::Lanes(placement));
        self.steering.restart(kernel, placement);
        Ok(())
    }

    /// Begins to end all lanes but the first. The node has told the peers, and gives these lanes no more sessions.
    pub(crate) fn shrink(&mut self) {
        if self.lanes.len() > 1 {
            self.shrinking.get_or_insert(Shrinking::Emptying);
        }
    }

    /// Takes the next step towards one lane. Returns true when only the first lane is left.
    pub(super) fn shrink_further(&mut self, now: Time) -> bool {
        match self.shrinking {
            Some(Shrinking::Emptying) if self.steering.is_at_first() => {
                let mut lanes = 0;
                for place in (1..).take(self.lanes.len().saturating_sub(1)) {
                    lanes |= 1 << place;
                    self.push(LaneId(place), ToLane::End);
                }
                self.shrinking = Some(Shrinking::Ending { lanes, since: now });
                false
            }
            Some(Shrinking::Ending { lanes, since }) if lanes == 0 || now >= since + END_TIMEOUT => {
                self.end_all_but_first();
                true
            }
            _ => false,
        }
    }

    /// Notes that a lane has ended its sessions.
    pub(super) fn ended(&mut self, lane: LaneId) {
        if let Some(Shrinking::Ending { lanes, .. }) = &mut self.shrinking {
            *lanes &= !(1 << lane.0);
        }
    }

    fn end_all_but_first(&mut self) {
        self.shrinking = None;
        self.commands.retain(|(lane, _)| *lane == LaneId::FIRST);
        // From the last lane to the second: if any other queue than the last is closed, the kernel gives the queues behind it other numbers.
        while self.lanes.len() > 1 {
            let Some(running) = self.lanes.pop() else { break };
            self.former.insert(0, Arc::clone(running.lane.shared()));
            running.lane.stop();
        }
        self.push(LaneId::FIRST, ToLane::Lanes(Placement::FIRST));
        self.steering.restart(None, Placement::FIRST);
    }
}

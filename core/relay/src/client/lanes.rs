//! The lanes of a client beyond the first at its relay: each has a socket of its own, whose address the relay has to know.
//!
//! ```text
//!            lane ──▶ … ◀── prove, proof ──▶ … ◀── lane bound
//!   asking ─────────────────────────────────────────────────────▶ bound ── lane, every 20 to 25 s ──▶ … ◀── lane bound
//!     ▲                                                             │
//!     └────────────── three unanswered, or the binding ends ────────┘
//! ```
//! All messages of a lane leave from the lane's socket. Nothing is sent for lanes to a relay that has not said that it has them: release 0.1.0 would
//! take the lane's address for the client's.

use std::time::Duration;

use taut_base::{Entropy, Time};

use super::{Client, KEEPALIVE, Outgoing, RelayEvent, between};
use crate::control::{ControlMessage, MAX_LANES, NONCE_LEN};

/// Pause before an unanswered message is sent again, 250 ms. It doubles.
const RETRY: Duration = Duration::from_millis(250);
/// Longest pause between two messages of a lane that is not bound, 32 s: as rare as keepalives, because a filter in front of the socket may never open.
const RETRY_MAX: Duration = Duration::from_secs(32);
/// Shortest time between two messages that a relay's `again` causes on one lane, 1 s: anyone who knows the relay's address can forge that frame.
const AFTER_AGAIN: Duration = Duration::from_secs(1);
/// Number of unanswered messages after which a bound lane counts as lost. With the pauses above that takes 1.75 s.
const TRIES: u32 = 3;

/// One lane.
struct WantedLane {
    is_bound: bool,
    /// Messages since the last answer.
    tries: u32,
    /// Time of the next message.
    due: Time,
    /// Time from which `again` may cause a message.
    heeds_again: Time,
}

/// The lanes beyond the first, from lane 1 on.
#[derive(Default)]
pub(super) struct ClientLanes {
    wanted: Vec<WantedLane>,
    /// Number of lanes that the relay allows; 0 from a relay without lanes, and before the first `bound`.
    most: u8,
}

impl ClientLanes {
    /// Returns the time of the next message.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.usable().iter().map(|lane| lane.due).min()
    }

    /// Returns the number of lanes that the relay allows.
    pub(super) fn most(&self) -> u8 {
        self.most
    }

    /// Returns the wanted lanes that the relay allows.
    fn usable(&self) -> &[WantedLane] {
        let count = usize::from(self.most).saturating_sub(1).min(self.wanted.len());
        &self.wanted[..count]
    }

    fn get_mut(&mut self, lane: u8) -> Option<&mut WantedLane> {
        self.wanted.get_mut(usize::from(lane).checked_sub(1)?)
    }

    /// Forgets that lanes are bound. Returns true if any was.
    pub(super) fn unbind(&mut self) -> bool {
        let was_bound = self.wanted.iter().any(|lane| lane.is_bound);
        self.wanted.iter_mut().for_each(|lane| (lane.is_bound, lane.tries) = (false, 0));
        was_bound
    }

    /// Names all lanes at once, at a relay that allows `most`. Those that are bound stay so until they are not answered.
    pub(super) fn announce(&mut self, most: u8, now: Time) {
        self.most = most.min(MAX_LANES);
        self.wanted.iter_mut().for_each(|lane| (lane.tries, lane.due) = (0, now));
    }
}

impl Client {
    /// Sets the number of lanes that this node uses at the relay, the first included; 1 before the first call.
    pub fn set_lanes(&mut self, count: u8, now: Time, entropy: &mut impl Entropy) {
        let count = count.clamp(1, MAX_LANES);
        let (wanted, extra) = (&mut self.lanes.wanted, usize::from(count) - 1);
        if self.bound.is_some() && wanted.len() > extra {
            let ended = (count..MAX_LANES).zip(wanted.drain(extra..)).filter(|(_, lane)| lane.is_bound);
            self.out.extend(ended.map(|(lane, _)| Outgoing::Control(0, ControlMessage::LaneEnd { lane })));
        }
        wanted.resize_with(extra, || WantedLane { is_bound: false, tries: 0, due: now, heeds_again: now });
        self.lane_timeout(now, entropy);
    }

    /// Returns true if the relay allows more than one lane.
    pub fn allows_lanes(&self) -> bool {
        self.bound.is_some() && self.lanes.most > 1
    }

    /// Returns true if frames that leave from the socket of this lane are forwarded.
    pub fn has_lane(&self, lane: u8) -> bool {
        let extra = usize::from(lane).checked_sub(1);
        self.bound.is_some() && extra.is_none_or(|place| self.lanes.wanted.get(place).is_some_and(|lane| lane.is_bound))
    }

    /// Names a lane again at once, because the relay does not know the lane's address.
    pub(super) fn doubt_lane(&mut self, lane: u8, now: Time) {
        // Data frames cause this, and many of them may be answered: a message is already on its way.
        let known = self.lanes.get_mut(lane).filter(|known| known.tries == 0 && now >= known.heeds_again);
        if let Some(known) = known {
            (known.due, known.heeds_again) = (now, now + AFTER_AGAIN);
        }
    }

    /// Sends the messages of lanes that are due.
    pub(super) fn lane_timeout(&mut self, now: Time, entropy: &mut impl Entropy) {
        if self.bound.is_none() {
            return;
        }
        let count = self.lanes.usable().len();
        let mut lost = false;
        for (lane, known) in (1..).zip(self.lanes.wanted.iter_mut().take(count)).filter(|(_, known)| known.due <= now) {
            if known.tries >= TRIES {
                lost |= std::mem::take(&mut known.is_bound);
            }
            // A random quarter keeps the lanes of many clients from being named in step.
            let pause = (RETRY * 2_u32.pow(known.tries.min(7))).min(RETRY_MAX);
            known.due = now + between((pause, pause + pause / 4), entropy);
            known.tries += 1;
            self.out.push_back(Outgoing::Control(lane, ControlMessage::Lane { lane }));
        }
        if lost {
            self.events.push_back(RelayEvent::Lanes);
        }
    }

    /// Answers the relay's challenge of a lane's address, from the lane's socket.
    pub(super) fn handle_prove(&mut self, lane: u8, nonce: [u8; NONCE_LEN]) {
        if self.lanes.get_mut(lane).is_some() {
            self.out.push_back(Outgoing::Control(lane, ControlMessage::Proof { lane, nonce }));
        }
    }

    /// Notes that the relay has bound a lane. Returns the event, if it was not bound.
    pub(super) fn handle_lane_bound(&mut self, lane: u8, now: Time, entropy: &mut impl Entropy) -> Option<RelayEvent> {
        let known = self.lanes.get_mut(lane)?;
        (known.tries, known.due) = (0, now + between(KEEPALIVE, entropy));
        let was_bound = std::mem::replace(&mut known.is_bound, true);
        (!was_bound).then_some(RelayEvent::Lanes)
    }
}

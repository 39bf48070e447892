//! The further lanes of one peer's sessions, seen from the keeper: which there are, and which were proven.
//!
//! ```text
//! an offer or an accept names the peer's lanes ──▶ a probe on each further lane ───▶ … ◀─── answer: it leads there
//! all that one lane of ours serves lead there  ──▶ ToLane::OpenLanes
//! silence, other ports                         ──▶ closed, and probed again;     no session left ──▶ forgotten
//! ```
//! What was proven holds over renewals of the session: sockets and endpoints stay, and a lane that is in use is judged by what comes back on it.
//! Lanes that one lane of ours serves open together, because flows are spread over all of them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, LaneId, Time};
use taut_wire::control::Lanes;

use crate::talk::Ask;

/// How soon a lane that fell silent is probed again.
const AFTER_SILENCE: Duration = Duration::from_secs(2);

/// Probes of one lane whose answers are waited for: an answer to an older one says nothing that the newer will not.
const WAITING: usize = 4;

/// Ids that a barrier has: of one try a second, for longer than anything stays as it is.
const TRIES: u64 = 1 << 32;

/// The further lanes of one peer.
#[derive(Default)]
pub(crate) struct Further {
    /// Lanes of ours and of the peer's, once the peer said so.
    lanes: Option<(u8, Lanes)>,
    sides: Vec<Side>,
    /// Lanes of ours that were opened, each with the id of the probe that they wait for before they use it.
    open: Vec<(LaneId, u64)>,
}

/// One further lane.
struct Side {
    lane: LaneId,
    /// Asked until it is answered.
    ask: Option<Ask>,
    sent: VecDeque<u64>,
    /// Where it was answered from.
    proven: Option<SocketAddr>,
}

/// Lanes that were proven, see [`crate::ToLane::OpenLanes`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    /// The lane of ours that serves them.
    pub(crate) own: LaneId,
    pub(crate) lanes: Vec<(LaneId, SocketAddr)>,
    pub(crate) barrier: u64,
}

impl Further {
    /// We have `own` lanes, the peer has these. True when that is news: what was proven before counts no more. Otherwise what is not proven is asked
    /// about at once again: it may have been the former session that nobody answered on.
    pub(crate) fn learn(&mut self, own: u8, theirs: Lanes, now: Time) -> bool {
        if self.lanes == Some((own, theirs)) {
            self.sides.iter_mut().filter_map(|side| side.ask.as_mut()).for_each(|ask| *ask = Ask::new(now));
            return false;
        }
        let side = |lane| Side { lane: LaneId(lane), ask: Some(Ask::new(now)), sent: VecDeque::new(), proven: None };
        let sides = (1..own.max(theirs.count())).map(side).collect();
        *self = Self { lanes: Some((own, theirs)), sides, open: Vec::new() };
        true
    }

    /// Lanes of the peer's sessions, as far as is known.
    pub(crate) fn count(&self) -> u8 {
        self.lanes.map_or(1, |(own, theirs)| own.max(theirs.count()))
    }

    /// How many of them carry data, the first included.
    pub(crate) fn in_use(&self) -> u8 {
        let used = |side: &&Side| self.open.iter().any(|(own, _)| *own == self.owner(side.lane));
        1 + u8::try_from(self.sides.iter().filter(used).count()).unwrap_or(0)
    }

    /// The port to probe a lane at, where that is not the first lane's.
    pub(crate) fn port(&self, lane: LaneId) -> Option<u16> {
        self.lanes.and_then(|(_, theirs)| theirs.port(lane.0))
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        self.sides.iter().filter_map(|side| side.ask.as_ref().map(Ask::next)).min()
    }

    /// Which lanes are to be probed now, each with the probe's id.
    pub(crate) fn handle_timeout(&mut self, entropy: &mut impl Entropy, now: Time) -> Vec<(LaneId, u64)> {
        let mut probes = Vec::new();
        for side in &mut self.sides {
            if !side.ask.as_mut().is_some_and(|ask| ask.due(entropy, now)) {
                continue;
            }
            let id = draw(entropy);
            if side.sent.len() == WAITING {
                side.sent.pop_front();
            }
            side.sent.push_back(id);
            probes.push((side.lane, id));
        }
        probes
    }

    /// A probe was answered. Tells what is open now, if this was the last that was missing.
    pub(crate) fn answered(
        &mut self,
        lane: LaneId,
        id: u64,
        source: SocketAddr,
        entropy: &mut impl Entropy,
    ) -> Option<Opened> {
        let side = self.sides.iter_mut().find(|side| side.lane == lane && side.sent.contains(&id))?;
        side.ask = None;
        side.sent.clear();
        side.proven = Some(source);
        let own = self.owner(lane);
        let served = self.sides.iter().filter(|side| self.owner(side.lane) == own);
        let lanes = served.map(|side| Some((side.lane, side.proven?))).collect::<Option<Vec<_>>>()?;
        let barrier = draw(entropy);
        self.open.push((own, barrier));
        Some(Opened { own, lanes, barrier })
    }

    /// Which lane of ours waits for the answer to this probe. It asks under the ids that follow the barrier's, one for each try.
    pub(crate) fn waits_for(&self, id: u64) -> Option<LaneId> {
        self.open.iter().find(|(_, barrier)| id.wrapping_sub(*barrier) <= TRIES).map(|(own, _)| *own)
    }

    /// A lane of ours hears nothing on what it serves, and does without.
    pub(crate) fn silent(&mut self, own: LaneId, now: Time) {
        self.open.retain(|(open, _)| *open != own);
        let count = self.lanes.map_or(1, |(own, _)| own);
        for side in self.sides.iter_mut().filter(|side| side.lane.served_by(count) == own) {
            *side =
                Side { lane: side.lane, ask: Some(Ask::new(now + AFTER_SILENCE)), sent: VecDeque::new(), proven: None };
        }
    }

    /// The peer's host is elsewhere, or is reached by a relay: nothing is proven any more.
    pub(crate) fn prove_anew(&mut self, now: Time) {
        self.open.clear();
        for side in &mut self.sides {
            *side = Side { lane: side.lane, ask: Some(Ask::new(now)), sent: VecDeque::new(), proven: None };
        }
    }

    /// Which lane of ours serves a lane of the session.
    fn owner(&self, lane: LaneId) -> LaneId {
        lane.served_by(self.lanes.map_or(1, |(own, _)| own))
    }
}

fn draw(entropy: &mut impl Entropy) -> u64 {
    u64::from(entropy.next_u32()) << 32 | u64::from(entropy.next_u32())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    fn place(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    /// Each draw is another number.
    fn counting() -> impl Entropy {
        let mut draws = 0_u32;
        move |bytes: &mut [u8]| {
            draws += 1;
            bytes.copy_from_slice(&draws.to_le_bytes()[..bytes.len()]);
        }
    }

    #[test]
    fn lanes_that_one_of_ours_serves_open_together() {
        let mut entropy = counting();
        let mut further = Further::default();
        assert_eq!((further.count(), further.poll_timeout()), (1, None));
        assert!(further.learn(2, Lanes::with_ports(&[11, 12, 13]), at(0)));
        assert_eq!((further.count(), further.in_use()), (4, 1));
        assert_eq!([1, 2, 3].map(|lane| further.port(LaneId(lane))), [Some(11), Some(12), Some(13)]);
        let probes = further.handle_timeout(&mut entropy, at(0));
        let [one, two, three] = probes[..] else { panic!("{probes:?}") };
        assert_eq!([one.0, two.0, three.0], [LaneId(1), LaneId(2), LaneId(3)]);
        assert_eq!(further.answered(one.0, one.1, place(11), &mut entropy), None, "lane 3 is missing");
        assert_eq!(further.answered(one.0, two.1, place(11), &mut entropy), None, "another lane's");
        let opened = further.answered(two.0, two.1, place(12), &mut entropy).unwrap();
        assert_eq!((opened.own, &opened.lanes[..]), (LaneId(0), &[(LaneId(2), place(12))][..]));
        assert_eq!(further.in_use(), 2);
        let opened = further.answered(three.0, three.1, place(40), &mut entropy).unwrap();
        assert_eq!((opened.own, &opened.lanes[..]), (LaneId(1), &[(LaneId(1), place(11)), (LaneId(3), place(40))][..]));
        assert_eq!((further.in_use(), further.poll_timeout()), (4, None));
        assert_eq!(further.waits_for(opened.barrier), Some(LaneId(1)));
        assert_eq!(further.waits_for(opened.barrier + 3), Some(LaneId(1)), "its third try");
        assert_eq!(further.waits_for(opened.barrier - 1), None);
    }

    #[test]
    fn a_lane_that_nobody_answers_on_stays_closed_and_is_asked_ever_more_rarely() {
        let mut entropy = |bytes: &mut [u8]| bytes.fill(0);
        let mut further = Further::default();
        further.learn(2, Lanes::ONE, at(0));
        let mut asked = Vec::new();
        while let Some(due) = further.poll_timeout().filter(|due| *due < at(200_000)) {
            assert_eq!(further.handle_timeout(&mut entropy, due).len(), 1);
            asked.push(due.since(Time::ZERO).as_millis());
        }
        assert_eq!(asked[..8], [0, 250, 750, 1_750, 3_750, 7_750, 15_750, 31_750]);
        assert_eq!(asked[8..], [61_750, 91_750, 121_750, 151_750, 181_750]);
        assert_eq!(further.in_use(), 1);
    }

    #[test]
    fn what_was_proven_holds_until_silence_or_other_ports() {
        let mut entropy = counting();
        let mut further = Further::default();
        let theirs = Lanes::with_ports(&[11]);
        further.learn(2, theirs, at(0));
        let open = |further: &mut Further, entropy: &mut _, now| {
            let probes = further.handle_timeout(entropy, now);
            further.answered(probes[0].0, probes[0].1, place(11), entropy).unwrap().barrier
        };
        let barrier = open(&mut further, &mut entropy, at(0));
        assert!(!further.learn(2, theirs, at(1)), "said again in the next session");
        assert_eq!((further.in_use(), further.poll_timeout()), (2, None));
        further.silent(LaneId(1), at(10));
        assert_eq!((further.in_use(), further.waits_for(barrier)), (1, None));
        assert_eq!(further.poll_timeout(), Some(at(2_010)));
        while further.poll_timeout().is_some_and(|due| due < at(2_500)) {
            further.handle_timeout(&mut entropy, at(2_500));
        }
        assert!(!further.learn(2, theirs, at(2_600)));
        assert_eq!(further.poll_timeout(), Some(at(2_600)), "in another session, nothing is late");
        open(&mut further, &mut entropy, at(2_600));
        assert!(further.learn(2, Lanes::with_ports(&[12]), at(3_000)));
        assert_eq!((further.in_use(), further.poll_timeout()), (1, Some(at(3_000))));
    }
}

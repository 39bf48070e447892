//! Which ways a peer's packets go and come, seen from its lane.
//!
//! ```text
//!                 roams (stock WireGuard)                 does not (between Taut nodes)
//! no way yet      where its first authentic packet came from
//! goes            where its last one came from            as ToLane::SetPath says, and no other way (law 3)
//! comes otherwise FromLane::Moved                         FromLane::Arrived
//! ```
//! **Nothing is overtaken** when packets take another way that is faster (protocol.md 5.4). The agent says by how much what went the former way may be
//! behind what goes the new one. Packets go the former way until nothing was sent for so long: a gap of the traffic by itself, or one that is made, by
//! holding the peer's packets (`held`). Then nothing is on its way that could be overtaken.
//!
//! ```text
//!          SetPath, behind > 0                   after WAIT                      after `behind`
//!  goes ───────────────────────▶ waits for a gap ───────────▶ holds its packets ───────────────▶ goes the new way
//!                                  ▲   └──────────── a gap as long as `behind` ────────────────────▲
//!                                  └── more than may be held: by the former way, and again later ──┘ the third time: at once
//! ```
//! A peer that sends more within the gap than may be held would otherwise stay on the slower way for as long as it sends. So after [`GAPS`] gaps that were
//! given up, it takes the new way without one: its flows are reordered once, by `behind`, and its own flows only.
//! **Copies** of data take a second way while the first is judged, or by themselves as soon as it is suspected (protocol.md 5.3): the same ciphertext, so
//! that the receiver's window drops whichever comes later. It is the second stated exception to law 8, and counted ([`Traffic::copied`]).
//!
//! [`Traffic::copied`]: crate::Traffic::copied

use std::time::Duration;

use taut_base::{LaneId, PeerId, SessionId, Time};
use taut_node::FromLane;
use taut_path::{Choice, LivenessDetector, Way};
use taut_tunnel::{Bucket, Rate};
use taut_wire::control::Suite;

use crate::batch::SendBatch;
use crate::ingress::Ingress;
use crate::lane_core::LaneCore;
use crate::tables::{LanePeer, Side};

/// How often the agent is told that a peer is heard from the same way.
const TELL_AGAIN: Duration = Duration::from_secs(1);

/// Ways of one peer that the agent is told of within [`TELL_AGAIN`]: each lane of a peer has one or two, and a wire that copies packets from everywhere
/// must not keep the agent busy.
const TOLD: usize = 8;

/// How often the agent is told that a peer is talked with.
const ACTIVE: Duration = Duration::from_secs(5);

/// How long a gap is waited for before one is made. Connections of people have one within this; a bulk transfer has none.
const WAIT: Duration = Duration::from_millis(250);

/// Gaps that are tried to be made for one change before the new way is taken without one, and the time between two of them.
const GAPS: u8 = 3;
const NEXT_GAP: Duration = Duration::from_secs(1);

/// The longest gap that is waited for or made (protocol.md 5.4).
const LONGEST_GAP: Duration = Duration::from_millis(50);

/// Datagrams that are sent twice: 100 Mbit/s of full ones, which no relay should be asked for more of, and at once as many as a few superpackets are.
const COPIES: Rate = Rate::new(10_000, 256);

/// After a packet came by another way, for so long copies of others may come by the way that is in use.
const DOUBLED: Duration = Duration::from_secs(2);

/// How a peer is reached.
#[derive(Default)]
pub(crate) struct Path {
    /// Whether it is where its last authentic packet came from.
    pub(crate) roams: bool,
    /// None of its further lanes opens: it is relayed, or its way is judged.
    pub(crate) alone: bool,
    /// Where copies of its packets go.
    copies: Option<Way>,
    /// Copies that may still be made.
    copied: Bucket,
    /// What the agent chose last.
    choice: Option<Choice>,
    change: Option<Change>,
    watch: LivenessDetector,
    /// Something may be due sooner than was said.
    sooner: bool,
    /// The last data that was sent, and when.
    newest: Option<(SessionId, Suite, u64)>,
    last_sent: Time,
    /// When the agent is told again that there is traffic.
    tells_active: Time,
    /// Ways that the agent was told of, and when.
    told: Vec<(Way, Time)>,
    /// When a packet last came by another way than packets go.
    elsewhere: Option<Time>,
}

/// A new way that waits for a gap.
struct Change {
    to: Way,
    gap: Duration,
    /// From then on a gap is made.
    holds: Time,
    /// Gaps that were given up because more would have had to be held than may be.
    given_up: u8,
}

impl Path {
    /// The path of a peer that moves by itself, or does not.
    pub(crate) fn new(roams: bool) -> Self {
        Self { roams, ..Self::default() }
    }

    /// All ways of the choice.
    fn ways(&self) -> impl Iterator<Item = Way> + use<> {
        let choice = self.choice.map(|choice| [Some(choice.way), choice.also, choice.spare]);
        choice.into_iter().flatten().flatten()
    }

    /// Whether packets wait for a gap to take their new way.
    pub(crate) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Where a second copy of what goes `way` is sent.
    pub(crate) fn copies(&self, way: Way) -> Option<Way> {
        self.copies.filter(|copies| *copies != way)
    }

    /// Whether one more datagram may be sent twice.
    pub(crate) fn may_copy(&mut self, now: Time) -> bool {
        self.copied.take(&COPIES, now)
    }

    /// Data was sealed on the first lane of a session, the last of it under this counter, and is sent.
    pub(crate) fn sent(&mut self, session: SessionId, newest: Option<(Suite, u64)>, now: Time) {
        self.last_sent = now;
        if let Some((suite, counter)) = newest {
            self.newest = Some((session, suite, counter));
            // Mostly something is waited for already.
            if !self.watch.is_waiting() {
                self.watch.sent(now);
                self.sooner = true;
            }
        }
    }

    /// Data of the peer came on the first lane.
    pub(crate) fn heard(&mut self, now: Time) {
        self.watch.heard(now);
    }

    /// The peer has this of our data.
    pub(crate) fn receipted(&mut self, session: SessionId, suite: Suite, counter: u64, now: Time) {
        let all = self.newest.is_none_or(|(of, under, newest)| (of, under) == (session, suite) && counter >= newest);
        self.watch.receipted(all, now);
    }

    /// Whether the agent is to be told that there is traffic.
    pub(crate) fn is_news(&mut self, now: Time) -> bool {
        let news = now >= self.tells_active && !self.roams;
        if news {
            self.tells_active = now + ACTIVE;
        }
        news
    }

    /// Whether the agent is to be told that a packet came this way.
    fn tells(&mut self, way: Way, now: Time) -> bool {
        self.told.retain(|(_, told)| now < *told + TELL_AGAIN);
        let news = self.told.len() < TOLD && self.told.iter().all(|(known, _)| *known != way);
        if news {
            self.told.push((way, now));
        }
        news
    }

    /// Whether a packet that was seen before came this way because the peer sends by two.
    pub(crate) fn is_copy(&self, source: Way, goes: Option<Way>, now: Time) -> bool {
        if goes == Some(source) {
            return self.elsewhere.is_some_and(|last| now < last + DOUBLED);
        }
        self.ways().any(|way| way == source) || self.told.iter().any(|(way, _)| *way == source)
    }

    /// When [`Self::handle_timeout`] has something to do, if that may be sooner than was said last. It mostly moves away, and is looked at too early then.
    #[inline]
    pub(crate) fn poll_earlier_timeout(&mut self) -> Option<Time> {
        if std::mem::take(&mut self.sooner) { self.poll_timeout() } else { None }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let change = self.change.as_ref().map(|change| self.last_sent + change.gap);
        change.into_iter().chain(self.watch.poll_timeout()).min()
    }

    /// Does what is due for a peer that goes `way`. True when the way became suspect.
    pub(crate) fn handle_timeout(&mut self, way: &mut Option<Way>, out: &SendBatch, now: Time) -> bool {
        self.sooner = true;
        self.change_over(way, out, now);
        let suspect = self.watch.handle_timeout(now);
        if suspect {
            let spare = self.choice.and_then(|choice| choice.spare);
            self.copies = self.copies.or(spare);
        }
        suspect
    }

    /// Takes the new way if nothing can be overtaken. Otherwise says whether the next packet has to wait for that.
    pub(crate) fn change_over(&mut self, way: &mut Option<Way>, out: &SendBatch, now: Time) -> bool {
        let Some(change) = &self.change else { return false };
        // What the socket had no room for goes later than it was sealed.
        if way.is_some_and(|way| out.waits_for(way)) {
            self.last_sent = now;
        }
        if now < self.last_sent + change.gap {
            return now >= change.holds;
        }
        *way = Some(change.to);
        self.change = None;
        false
    }

    /// Until when packets are held for a gap; `None` while none is made.
    pub(crate) fn holds_until(&self) -> Option<Time> {
        self.change.as_ref().map(|change| self.last_sent + change.gap)
    }

    /// More packets would have to be held than may be: they go the former way, and a gap is made later; or the new way at once, if that was tried often
    /// enough. True if that changed anything.
    pub(crate) fn give_up(&mut self, way: &mut Option<Way>, now: Time) -> bool {
        let Some(change) = self.change.as_mut().filter(|change| now >= change.holds) else { return false };
        change.given_up += 1;
        change.holds = now + NEXT_GAP;
        if change.given_up == GAPS {
            *way = Some(change.to);
            self.change = None;
        }
        true
    }

    /// The agent chose; packets go `way` until now.
    fn choose(&mut self, choice: Choice, way: &mut Option<Way>, now: Time) {
        self.choice = Some(choice);
        self.sooner = true;
        self.copies = choice.also;
        self.watch.judged();
        if let Some(round_trip) = choice.round_trip {
            self.watch.set_round_trip(round_trip);
        }
        let gap = choice.behind.min(LONGEST_GAP);
        let overtakes = way.is_some_and(|way| way != choice.way) && now < self.last_sent + gap;
        if overtakes {
            let begun = self.change.take().filter(|change| change.to == choice.way);
            let (holds, given_up) = begun.map_or((now + WAIT, 0), |change| (change.holds, change.given_up));
            self.change = Some(Change { to: choice.way, gap, holds, given_up });
        } else {
            self.change = None;
            *way = Some(choice.way);
        }
    }
}

impl LanePeer {
    /// How long a packet takes to the peer and back.
    pub(crate) fn set_round_trip(&mut self, round_trip: Duration) {
        self.selector.set_round_trip(round_trip);
        self.sides().for_each(|side| side.keyring.set_round_trip(round_trip));
    }

    /// An authentic packet came this way to a lane of the peer's session, and packets do not go there. Returns what the agent should know.
    fn hears_from(&mut self, id: PeerId, lane: LaneId, way: Way, ingress: &mut Ingress, now: Time) -> Option<FromLane> {
        let roams = self.path.roams;
        let side = self.side(lane)?;
        if roams || side.way.is_none() {
            let former = side.way.replace(way);
            // Where the peer is, is where its first lane is.
            if lane != LaneId::FIRST {
                return None;
            }
            ingress.peer_moved(id, former, Some(way));
            if roams {
                return Some(FromLane::Moved { peer: id, way });
            }
        } else if lane != LaneId::FIRST {
            return None;
        } else {
            self.path.elsewhere = Some(now);
        }
        self.path.tells(way, now).then_some(FromLane::Arrived { peer: id, way })
    }
}

impl LaneCore {
    /// An authentic packet of a peer came another way than packets go to it.
    #[cold]
    pub(crate) fn hears_elsewhere(&mut self, id: PeerId, lane: LaneId, way: Way, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let Some(news) = peer.hears_from(id, lane, way, &mut self.ingress, now) {
            self.say(news);
        }
    }

    /// Closes the further lanes of a peer, and has the agent look for them again later.
    pub(crate) fn do_without(&mut self, id: PeerId, now: Time) {
        if self.peers.get(&id).is_some_and(|peer| peer.selector.are_open()) {
            self.close_lanes(id, now);
            self.say(FromLane::Silent { peer: id });
        }
    }

    /// The agent chose how packets go to a peer. On a lane of ours that is not the first, that says only whether there are further lanes at all.
    pub(crate) fn set_path(&mut self, id: PeerId, choice: Choice, out: &mut SendBatch, now: Time) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let Some(round_trip) = choice.round_trip {
            peer.set_round_trip(round_trip);
        }
        // By a relay there is one lane. While a way is judged nothing opens and nothing closes: a host that was busy for a moment would else have flows
        // change their lane twice, and if the way is dead, that is known a few round trips later.
        let relayed = choice.way.is_relayed();
        if peer.first.lane == LaneId::FIRST {
            let Side { way, .. } = &mut peer.first;
            for former in peer.path.ways().chain(*way) {
                self.ingress.peer_moved(id, Some(former), None);
            }
            peer.path.choose(choice, way, now);
            for way in peer.path.ways().chain(*way) {
                self.ingress.peer_moved(id, None, Some(way));
            }
        }
        peer.path.alone = relayed || choice.also.is_some();
        if relayed {
            self.do_without(id, now);
        }
        if let Some(peer) = self.peers.get(&id) {
            self.holds.try_again(id, &peer.held);
        }
        self.send_staged(id, out, now);
        self.schedule(id);
    }
}

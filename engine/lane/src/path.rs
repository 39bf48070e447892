//! The paths on which a peer's packets go and come, as its lane sees them.
//!
//! ```text
//!                      roams (stock WireGuard)                  does not roam (between Taut nodes)
//! no path yet          the source of its first authentic packet
//! packets go           to the source of its last packet         as ToLane::SetPath says, and on no other path (law 3)
//! packets come from
//! elsewhere            FromLane::Moved                          FromLane::Arrived
//! ```
//! **No packet is overtaken** when the peer's packets change to a faster path (protocol.md 5.4). The agent says by how much packets on the former path may
//! be behind packets on the new path: the gap. Packets stay on the former path until none was sent for that time. Either the traffic pauses for that long,
//! or the lane makes a gap by holding the peer's packets (`held`). After the gap, no packet is on its way that could be overtaken.
//!
//! ```text
//!             SetPath, behind > 0                    after GAP_WAIT                    after `behind`
//! former path ────────────────────▶ waits for a gap ─────────────▶ holds its packets ────────────────▶ new path
//!                                     ▲   └─────────────── a pause as long as `behind` ───────────────────▲
//!                                     └──── a bound is reached: former path, next gap after GAP_RETRY ───┘ the third time: at once
//! ```
//! A peer that is sent more within the gap than may be held would otherwise stay on the slower path for as long as it is sent data. So after [`GAPS`] gaps
//! that were given up, it takes the new path without a gap: its flows, and no others, are reordered once, by at most `behind`.
//!
//! **The packet limit** is the length of the longest packet that one datagram on the path carries ([`Choice::limit`]). While a change waits, the lower of
//! both limits applies, because nothing says which path the next packet takes. Before the first choice the limit is [`SAFE_PACKET`]. Peers that roam have no
//! limit: the network may fragment.
//!
//! **Copies** of data take a second path while the agent judges the first one, and as soon as the lane suspects it (protocol.md 5.3). A copy is the same
//! ciphertext, so the receiver's replay window drops whichever comes later. It is the second stated exception to law 8, and counted
//! ([`PeerTraffic::copied`]).
//!
//! [`PeerTraffic::copied`]: crate::PeerTraffic::copied

use std::time::Duration;

use taut_base::{SAFE_PACKET, SessionId, Time};
use taut_path::{Choice, LivenessDetector, Way};
use taut_tunnel::{Bucket, Rate};
use taut_wire::control::Suite;

use crate::batch::SendBatch;

/// Interval at which the agent is told again that a peer's packets come on the same path, 1 s.
const ARRIVAL_INTERVAL: Duration = Duration::from_secs(1);

/// Paths of one peer that the agent is told of within [`ARRIVAL_INTERVAL`], 8: each lane of a peer has one or two, and a network that copies packets from
/// everywhere must not keep the agent busy.
const ARRIVALS: usize = 8;

/// Interval at which the agent is told that there is traffic with a peer, 5 s.
const ACTIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Time for which a pause of the traffic is waited for before a gap is made, 250 ms. Interactive connections pause within this time; a bulk transfer does
/// not.
const GAP_WAIT: Duration = Duration::from_millis(250);

/// Gaps that are given up for one change before the new path is taken without a gap, 3.
const GAPS: u8 = 3;

/// Time after a gap was given up before the next one is made, 1 s.
const GAP_RETRY: Duration = Duration::from_secs(1);

/// The longest gap that is waited for or made, 50 ms (protocol.md 5.4).
const LONGEST_GAP: Duration = Duration::from_millis(50);

/// Datagrams that are sent twice: 10,000 per second, burst 256. That is 100 Mbit/s of full datagrams, the most that a relay should be asked for, and a
/// burst of a few superpackets.
const COPIES: Rate = Rate::new(10_000, 256);

/// Time after a packet came on another path, 2 s, in which packets that arrive again on the path in use count as copies and not as replays.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(2);

/// Interval at which the agent is told again that long packets do not arrive, 1 s: each report starts a search.
const LONG_LOST_INTERVAL: Duration = Duration::from_secs(1);

/// How a peer is reached.
#[derive(Default)]
pub(crate) struct Path {
    /// True if packets go to the source of the peer's last authentic packet.
    roams: bool,
    /// True if no extra lane may be opened, because the path is being judged.
    single_lane: bool,
    /// The path that copies of its packets take.
    copy_way: Option<Way>,
    /// Copies that may still be made.
    copies: Bucket,
    /// The agent's last choice.
    choice: Option<Choice>,
    change: Option<PathChange>,
    /// The packet limit of the path in use, once the agent has chosen one.
    limit_in_use: Option<u16>,
    /// When the agent was last told that long packets do not arrive.
    long_lost: Option<Time>,
    liveness: LivenessDetector,
    /// True if a timer may be due sooner than [`Self::poll_earlier_timeout`] said last.
    sooner: bool,
    /// Session, suite and counter of the last data that was sent.
    newest: Option<(SessionId, Suite, u64)>,
    last_sent: Time,
    /// From this time on the agent is told again that there is traffic.
    active_due: Time,
    /// Paths of arrivals that the agent was told of, and when.
    arrivals: Vec<(Way, Time)>,
    /// When a packet last came on another path than packets go.
    elsewhere: Option<Time>,
}

/// A change to a new path that waits for a gap.
struct PathChange {
    to: Way,
    gap: Duration,
    /// From this time on packets are held to make a gap.
    holds_from: Time,
    /// Gaps that were given up because a bound on held packets was reached.
    given_up: u8,
}

impl Path {
    /// Returns the path of a peer that roams, or does not.
    pub(crate) fn new(roams: bool) -> Self {
        Self { roams, ..Self::default() }
    }

    /// Returns true if packets go to the source of the peer's last authentic packet.
    pub(crate) fn roams(&self) -> bool {
        self.roams
    }

    /// Returns true if no extra lane may be opened.
    pub(crate) fn is_single_lane(&self) -> bool {
        self.single_lane
    }

    /// Forbids or allows that extra lanes are opened.
    pub(crate) fn set_single_lane(&mut self, single: bool) {
        self.single_lane = single;
    }

    /// Returns all paths of the agent's choice.
    pub(crate) fn ways(&self) -> impl Iterator<Item = Way> + use<> {
        let choice = self.choice.map(|choice| [Some(choice.way), choice.also, choice.spare]);
        choice.into_iter().flatten().flatten()
    }

    /// Returns the length of the longest packet that one datagram to the peer carries; `None` if the network may fragment.
    #[inline]
    pub(crate) fn limit(&self) -> Option<u16> {
        let Some(choice) = &self.choice else {
            // The first packets leave before the agent has chosen a path.
            return (!self.roams).then_some(SAFE_PACKET);
        };
        let chosen = choice.limit;
        let in_use = self.limit_in_use.unwrap_or(chosen);
        Some(if self.change.is_some() { chosen.min(in_use) } else { chosen })
    }

    /// Returns the path that the agent chose last.
    pub(crate) fn chosen(&self) -> Option<Way> {
        self.choice.map(|choice| choice.way)
    }

    /// Follows a choice that differs from the last one in the limit only. It ends a suspicion if the limit rises, because a higher limit was proven on the
    /// path; and if there are no copies on another path, because the next receipts then tell whether shorter packets arrive.
    fn set_limit(&mut self, limit: u16) {
        if let Some(choice) = &mut self.choice {
            let rises = choice.limit < limit;
            choice.limit = limit;
            if self.liveness.is_suspected() && (rises || self.copy_way.is_none()) {
                self.copy_way = choice.also;
                self.liveness.judged();
                self.sooner = true;
            }
        }
        if self.change.is_none() {
            self.limit_in_use = Some(limit);
        }
    }

    /// Follows the agent's choice on a lane other than the first, where packets do not change their path.
    pub(crate) fn choose_on_extra_lane(&mut self, choice: Choice) {
        self.choice = Some(choice);
    }

    /// Returns true if the agent should be told that long packets do not arrive, and notes that.
    pub(crate) fn reports_long_lost(&mut self, now: Time) -> bool {
        let due = self.long_lost.is_none_or(|last| now >= last + LONG_LOST_INTERVAL);
        if due {
            self.long_lost = Some(now);
        }
        due
    }

    /// Returns true if a change to a new path waits for a gap.
    pub(crate) fn is_changing(&self) -> bool {
        self.change.is_some()
    }

    /// Returns the path that a copy of a datagram on `way` takes, if it is to be copied.
    pub(crate) fn copy_way(&self, way: Way) -> Option<Way> {
        self.copy_way.filter(|copy| *copy != way)
    }

    /// Returns true if one more datagram may be sent twice, and counts it.
    pub(crate) fn may_copy(&mut self, now: Time) -> bool {
        self.copies.take(&COPIES, now)
    }

    /// Notes that data is sent on the first lane of a session; `newest` are suite and counter of its last message, if the peer acknowledges data.
    pub(crate) fn sent(&mut self, session: SessionId, newest: Option<(Suite, u64)>, now: Time) {
        self.last_sent = now;
        if let Some((suite, counter)) = newest {
            self.newest = Some((session, suite, counter));
            // Mostly a receipt is waited for already.
            if !self.liveness.is_waiting() {
                self.liveness.sent(now);
                self.sooner = true;
            }
        }
    }

    /// Notes that data of the peer came on the first lane.
    pub(crate) fn heard(&mut self, now: Time) {
        self.liveness.heard(now);
    }

    /// Notes that an authentic packet came on another path than packets go.
    pub(crate) fn heard_elsewhere(&mut self, now: Time) {
        self.elsewhere = Some(now);
    }

    /// Notes that the peer acknowledged our data up to this counter.
    pub(crate) fn acknowledged(&mut self, session: SessionId, suite: Suite, counter: u64, now: Time) {
        let all = self.newest.is_none_or(|(of, under, newest)| (of, under) == (session, suite) && counter >= newest);
        self.liveness.receipted(all, now);
    }

    /// Returns true if the agent should be told now that there is traffic, and counts that.
    pub(crate) fn reports_active(&mut self, now: Time) -> bool {
        let due = now >= self.active_due && !self.roams;
        if due {
            self.active_due = now + ACTIVE_INTERVAL;
        }
        due
    }

    /// Returns true if the agent should be told that a packet came on this path, and counts that.
    pub(crate) fn reports_arrival(&mut self, way: Way, now: Time) -> bool {
        self.arrivals.retain(|(_, told)| now < *told + ARRIVAL_INTERVAL);
        let news = self.arrivals.len() < ARRIVALS && self.arrivals.iter().all(|(known, _)| *known != way);
        if news {
            self.arrivals.push((way, now));
        }
        news
    }

    /// Returns true if a packet that came on `source` a second time is a copy, because the peer sends on two paths. `way` is the path that packets go.
    pub(crate) fn is_copy(&self, source: Way, way: Option<Way>, now: Time) -> bool {
        if way == Some(source) {
            return self.elsewhere.is_some_and(|last| now < last + DUPLICATE_WINDOW);
        }
        self.ways().any(|way| way == source) || self.arrivals.iter().any(|(way, _)| *way == source)
    }

    /// Returns when [`Self::handle_timeout`] is due, if that may be sooner than the last return value. The time mostly moves away; the caller is then early.
    #[inline]
    pub(crate) fn poll_earlier_timeout(&mut self) -> Option<Time> {
        if std::mem::take(&mut self.sooner) { self.poll_timeout() } else { None }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let change = self.change.as_ref().map(|change| self.last_sent + change.gap);
        change.into_iter().chain(self.liveness.poll_timeout()).min()
    }

    /// Does what is due for a peer whose packets go on `way`. Returns true if that path became suspect.
    pub(crate) fn handle_timeout(&mut self, way: &mut Option<Way>, out: &SendBatch, now: Time) -> bool {
        self.sooner = true;
        self.try_change(way, out, now);
        let suspect = self.liveness.handle_timeout(now);
        if suspect {
            let spare = self.choice.and_then(|choice| choice.spare);
            self.copy_way = self.copy_way.or(spare);
        }
        suspect
    }

    /// Takes the new path if no packet can be overtaken now. Otherwise returns true if the next packet has to wait.
    pub(crate) fn try_change(&mut self, way: &mut Option<Way>, out: &SendBatch, now: Time) -> bool {
        let Some(change) = &self.change else { return false };
        // Datagrams that the socket had no room for leave later than they were sealed.
        if way.is_some_and(|way| out.waits_for(way)) {
            self.last_sent = now;
        }
        if now < self.last_sent + change.gap {
            return now >= change.holds_from;
        }
        self.take(way);
        false
    }

    /// Takes the new path.
    fn take(&mut self, way: &mut Option<Way>) {
        if let Some(change) = self.change.take() {
            *way = Some(change.to);
        }
        self.limit_in_use = self.choice.as_ref().map(|choice| choice.limit);
    }

    /// Returns the time until which packets are held for a gap; `None` if no change waits.
    pub(crate) fn holds_until(&self) -> Option<Time> {
        self.change.as_ref().map(|change| self.last_sent + change.gap)
    }

    /// Ends the gap that is being made, because a bound on held packets was reached: packets go on the former path and the next gap is made later, or the
    /// new path is taken at once if that was the last try. Returns true if a gap was being made.
    pub(crate) fn give_up(&mut self, way: &mut Option<Way>, now: Time) -> bool {
        let Some(change) = self.change.as_mut().filter(|change| now >= change.holds_from) else { return false };
        change.given_up += 1;
        change.holds_from = now + GAP_RETRY;
        if change.given_up == GAPS {
            self.take(way);
        }
        true
    }

    /// Follows the agent's choice; packets go on `way` until now.
    pub(crate) fn choose(&mut self, choice: Choice, way: &mut Option<Way>, now: Time) {
        let limit = choice.limit;
        if self.choice.is_some_and(|former| former.limit != limit && Choice { limit, ..former } == choice) {
            return self.set_limit(limit);
        }
        self.choice = Some(choice);
        self.sooner = true;
        self.copy_way = choice.also;
        self.liveness.judged();
        if let Some(round_trip) = choice.round_trip {
            self.liveness.set_round_trip(round_trip);
        }
        let gap = choice.behind.min(LONGEST_GAP);
        let overtakes = way.is_some_and(|way| way != choice.way) && now < self.last_sent + gap;
        if overtakes {
            let begun = self.change.take().filter(|change| change.to == choice.way);
            let (holds_from, given_up) =
                begun.map_or((now + GAP_WAIT, 0), |change| (change.holds_from, change.given_up));
            self.change = Some(PathChange { to: choice.way, gap, holds_from, given_up });
        } else {
            self.change = None;
            self.limit_in_use = Some(choice.limit);
            *way = Some(choice.way);
        }
    }
}

//! The choice of the path among all candidates.
//!
//! The grade decides first, then the cost; within a grade the path changes only for a clear gain:
//!
//! ```text
//! grade 0   direct, proven                       cost = shortest of the last round-trip times
//!       1   through a relay that has the peer           + 1 ms per per cent of lost probes
//!       2   through a relay that answers nothing        + 3 ms unless both ends are private
//!       3   direct, down, but answered again            + 1 ms for IPv4
//!       -   any other candidate carries nothing         + 50 ms by WebSocket
//! ```
//! Within a grade users feel the round-trip time. 3 ms is less than any detour that matters and more than a local network takes, so that two hosts of
//! one network use it and not their router's outer side. 1 ms makes equal paths use IPv6, which has no mappings that expire. A per cent of loss costs
//! a millisecond: below that nobody would change paths for it, and thirty per cent outweigh a continent. By WebSocket all packets wait for a lost one, at
//! least a round trip, and they share one TCP connection: another relay by UDP may be a good part of a continent farther away.
//!
//! A *clear gain* is more than a tenth of the present cost and more than 2 ms, over at least three samples each, and five seconds after the last
//! change. The shortest of four round-trip times varies by less on all links of the lab, so two similar paths do not alternate.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use taut_base::Time;

use crate::candidate_state::{CandidateState, State};
use crate::reasons::Suspicion;
use crate::way::Way;

/// Assumed round-trip time of a relay that was not measured, 100 ms; the order in which relays are given decides among such relays.
const UNMEASURED: Duration = Duration::from_millis(100);

const PUBLIC_PENALTY: Duration = Duration::from_millis(3);
const IPV4_PENALTY: Duration = Duration::from_millis(1);
const LOSS_PENALTY: Duration = Duration::from_millis(1);
const BRIDGE_PENALTY: Duration = Duration::from_millis(50);

/// Least gain of another path of the same grade: in time, and as a part of the present cost.
const MIN_GAIN: Duration = Duration::from_millis(2);
const GAIN_PART: u32 = 10;

/// Least time on a path before another one of its grade replaces it, 5 s.
pub(crate) const MIN_STAY: Duration = Duration::from_secs(5);

/// Longest time that data is held back when the path changes, 50 ms (protocol.md 5.4).
const MAX_BEHIND: Duration = Duration::from_millis(50);

/// Lost probes in a row after which a relay that never answered counts as silent. At 20 % loss this happens by chance once in six hundred times.
const RELAY_SILENT_LOSSES: u32 = 4;

/// Age up to which an answer shows that data arrives now, also on a path that is down.
const FRESH_ANSWER: Duration = Duration::from_secs(2);

/// Time for which the previous path gets copies while a new relay has not answered: as long as a client that lost a relay may wait before it asks
/// there again. Copies last that long only if the new path carries nothing, and lanes limit their number.
const PREVIOUS_WAY_COPIES: Duration = Duration::from_secs(10);

/// The path that data takes to a peer, with what a lane needs to use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The path.
    pub way: Way,
    /// A second path for copies of the same data while `way` is suspected, or is a relay that has not answered yet.
    pub also: Option<Way>,
    /// A second path that a lane may use for copies on its own as soon as it suspects `way`, before the agent has judged it.
    pub spare: Option<Way>,
    /// How much later packets on the former path may arrive than packets on this one; at most 50 ms, and zero if the former path is dead.
    pub behind: Duration,
    /// The round-trip time of the path, once it was measured.
    pub round_trip: Option<Duration>,
    /// The packet limit of the path: bytes of the longest inner packet that one datagram carries (docs/internals/mtu.md).
    pub limit: u16,
}

/// Returns the grade and cost of a candidate, lower is better; `None` if it carries nothing.
pub(crate) fn rank(candidate: &CandidateState, place: usize) -> Option<(u8, Duration)> {
    match candidate.way {
        Way::Direct(endpoint) => {
            let grade = if candidate.is_proven() { 0 } else { 3 };
            (grade == 0 || candidate.is_returning()).then(|| (grade, cost(candidate, endpoint)))
        }
        Way::Relayed { .. } => {
            let nothing_back = match candidate.state {
                State::Proven { .. } | State::Suspected { .. } => false,
                State::Down { .. } => !candidate.is_returning(),
                State::Unproven => is_silent(candidate),
            };
            let grade = if nothing_back { 2 } else { 1 };
            let order = Duration::from_millis(u64::try_from(place).unwrap_or(0));
            let base = candidate.probes.shortest_yet().unwrap_or(UNMEASURED + order);
            let bridge = if candidate.way.is_bridged() { BRIDGE_PENALTY } else { Duration::ZERO };
            Some((grade, base + loss(candidate) + bridge))
        }
    }
}

/// Returns true if the latest probes were all lost.
pub(crate) fn is_silent(candidate: &CandidateState) -> bool {
    candidate.probes.losses_in_row >= RELAY_SILENT_LOSSES
}

fn cost(candidate: &CandidateState, endpoint: SocketAddr) -> Duration {
    let public = !is_private(endpoint.ip()) || candidate.seen.is_some_and(|seen| !is_private(seen.ip()));
    let family = if endpoint.is_ipv4() { IPV4_PENALTY } else { Duration::ZERO };
    let base = candidate.probes.shortest_yet().unwrap_or(UNMEASURED);
    base + loss(candidate) + family + if public { PUBLIC_PENALTY } else { Duration::ZERO }
}

fn loss(candidate: &CandidateState) -> Duration {
    LOSS_PENALTY * candidate.probes.loss().unwrap_or(0)
}

/// Returns true if an address is valid only inside some network: RFC 1918, RFC 6598, RFC 4193, link-local.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, ..] = address.octets();
            address.is_private() || address.is_link_local() || a == 100 && (64..128).contains(&b)
        }
        IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
    }
}

/// Returns the candidate of lowest rank, without one.
fn best(
    candidates: &[CandidateState],
    except: Option<Way>,
    fits: impl Fn(&CandidateState) -> bool,
) -> Option<(&CandidateState, u8, Duration)> {
    let others =
        candidates.iter().enumerate().filter(|(_, candidate)| Some(candidate.way) != except && fits(candidate));
    let ranked =
        others.filter_map(|(place, candidate)| rank(candidate, place).map(|(grade, cost)| (candidate, grade, cost)));
    ranked.min_by_key(|(_, grade, cost)| (*grade, *cost))
}

/// Returns the path to take, given the present one and when it was taken; `None` if there is none.
pub(crate) fn choose(candidates: &[CandidateState], present: Option<(Way, Time)>, now: Time) -> Option<Way> {
    let Some((way, since)) = present else {
        return best(candidates, None, |_| true).map(|(candidate, ..)| candidate.way);
    };
    let place = candidates.iter().position(|candidate| candidate.way == way);
    let own =
        place.and_then(|place| rank(&candidates[place], place).map(|(grade, cost)| (grade, cost, &candidates[place])));
    let Some((other, grade, cost)) = best(candidates, Some(way), |_| true) else { return Some(way) };
    let Some((own_grade, own_cost, own)) = own else { return Some(other.way) };
    let measured =
        [own, other].into_iter().all(|candidate| candidate.probes.shortest().is_some() && candidate.is_unsuspected());
    let gain = own_cost.saturating_sub(cost);
    let clear = gain > MIN_GAIN && gain > own_cost / GAIN_PART && measured && now.since(since) >= MIN_STAY;
    Some(if grade < own_grade || grade == own_grade && clear { other.way } else { way })
}

/// Returns the path for copies: while `way` is suspected for a reason that affects data, a direct path that answered recently, or else a relay; while
/// `way` is a relay that has answered nothing since it was taken, any path that answers, or the previous one. Neither end may still be connected to
/// that relay.
pub(crate) fn also(
    candidates: &[CandidateState],
    (way, since): (Way, Time),
    previous: Option<Way>,
    now: Time,
) -> Option<Way> {
    let candidate = candidates.iter().find(|candidate| candidate.way == way);
    let last_answer =
        |candidate: &CandidateState| candidate.probes.last_answer.filter(|last| now.since(*last) < FRESH_ANSWER);
    let shown = |candidate: &&CandidateState| {
        candidate.is_proven() && candidate.probes.last_answer.is_some_and(|last| last >= since)
    };
    let Some(candidate) = candidate.filter(|candidate| !way.is_relayed() || shown(candidate)) else {
        let answered = candidates.iter().filter(|candidate| candidate.way != way && last_answer(candidate).is_some());
        let answered = answered.max_by_key(|candidate| last_answer(candidate)).map(|candidate| candidate.way);
        return answered.or(previous.filter(|previous| *previous != way && now.since(since) < PREVIOUS_WAY_COPIES));
    };
    if !matches!(
        candidate.state,
        State::Suspected {
            reason: Suspicion::NetworkChanged | Suspicion::PeerMoved | Suspicion::DataUnacknowledged,
            ..
        }
    ) {
        return None;
    }
    let fresh = |candidate: &CandidateState| {
        !candidate.way.is_relayed() && candidate.is_unsuspected() && last_answer(candidate).is_some()
    };
    best(candidates, Some(way), fresh).map(|(candidate, ..)| candidate.way).or_else(|| spare(candidates, way, None))
}

/// Returns the path that a lane may use on its own: a relay, because it shares least with a direct path, or else another direct path. `former` stays
/// while it is as good, so that two relays of similar distance do not alternate.
pub(crate) fn spare(candidates: &[CandidateState], way: Way, former: Option<Way>) -> Option<Way> {
    let relayed = best(candidates, Some(way), |candidate| candidate.way.is_relayed());
    let (other, grade, _) = relayed.or_else(|| best(candidates, Some(way), CandidateState::is_unsuspected))?;
    let kept = best(candidates, Some(way), |candidate| Some(candidate.way) == former);
    let as_good =
        kept.filter(|(candidate, kept, _)| *kept == grade && candidate.way.is_relayed() == other.way.is_relayed());
    Some(as_good.map_or(other.way, |(candidate, ..)| candidate.way))
}

/// Returns how much later packets on `from` may arrive than packets on `to`: the difference of the one-way times, and the variation of the former.
pub(crate) fn behind(candidates: &[CandidateState], from: Way, to: Way) -> Duration {
    let find = |way: Way| candidates.iter().find(|candidate| candidate.way == way);
    let Some((old, new)) = find(from).zip(find(to)) else { return Duration::ZERO };
    if matches!(old.state, State::Down { .. }) {
        return Duration::ZERO;
    }
    // Not measured: the upper bound.
    let Some(before) = old.probes.round_trip() else { return MAX_BEHIND };
    let after = new.probes.shortest_yet().unwrap_or(Duration::ZERO);
    (before.saturating_sub(after) / 2 + old.probes.variation()).min(MAX_BEHIND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate_state::Origins;

    /// Returns a relay at this address whose probes were answered after `round_trip`.
    fn relay(address: [u8; 4], round_trip: Duration) -> CandidateState {
        let relay = SocketAddr::from((address, 3478));
        let mut candidate = CandidateState::new(Way::Relayed { relay, id: 1 }, Origins::default(), Time::ZERO);
        for probe in 0..4 {
            let sent = Time::ZERO + Duration::from_secs(probe);
            candidate.send(probe, sent);
            candidate.answer(probe, relay, sent + round_trip);
        }
        candidate
    }

    #[test]
    fn a_relay_by_udp_is_preferred_to_a_nearer_one_by_websocket_until_it_is_much_farther_away() {
        let now = Time::ZERO + Duration::from_secs(20);
        for (by_udp, expected) in [(2, 1), (45, 1), (70, 0)] {
            let ways =
                [relay([127, 0, 0, 1], Duration::from_millis(2)), relay([192, 0, 2, 1], Duration::from_millis(by_udp))];
            for present in [0, 1] {
                let chosen = choose(&ways, Some((ways[present].way, Time::ZERO)), now);
                assert_eq!(chosen, Some(ways[expected].way), "{by_udp} ms, on {present}");
            }
            assert_eq!(choose(&ways, None, now), Some(ways[expected].way), "{by_udp} ms");
        }
    }
}

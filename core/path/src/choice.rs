//! Which of the ways data takes.
//!
//! First the grade, then the cost, and a change within a grade only for a clear gain:
//!
//! ```text
//! grade 0   direct, proven                       cost = shortest of the last round trips
//!       1   by a relay that has the peer                + 1 ms per per cent of lost probes
//!       2   by a relay where nothing comes back         + 3 ms unless both ends are private
//!       3   direct, given up, but answered again        + 1 ms for IPv4
//!       -   anything else carries nothing
//! ```
//! The worst end decides the grade: one relay between, and it is a relayed way. Inside a grade, round trips are what users feel. 3 ms is less than any detour
//! that matters and more than a local network takes, so that two hosts of one network meet there, and not at their router's outer side; 1 ms lets equals
//! go by IPv6, which has no mappings that end. A per cent of loss is worth a millisecond, because below that nobody moves for it, and at thirty per cent
//! it outweighs a continent.
//!
//! *Clear gain*: more than a tenth of the present cost and more than 2 ms, of at least three samples each, and five seconds after the last change. The
//! shortest of four round trips varies by less than that on all links of the lab; two ways that are alike so never take turns.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use taut_base::Time;

use crate::candidate_state::{CandidateState, State, Suspicion};
use crate::way::Way;

/// Taken for the round trip of a relay that was not measured: the order in which the relays are given then decides.
const UNMEASURED: Duration = Duration::from_millis(100);

const PUBLIC: Duration = Duration::from_millis(3);
const IPV4: Duration = Duration::from_millis(1);
const PER_CENT_LOST: Duration = Duration::from_millis(1);

/// What another way of the same grade must gain.
const LEAST_GAIN: Duration = Duration::from_millis(2);
const GAIN_PART: u32 = 10;

/// How long a way is kept for the sake of others of its grade.
pub(crate) const STAY: Duration = Duration::from_secs(5);

/// Data is held back for at most so long when it changes its way (protocol.md 5.4).
const MOST_BEHIND: Duration = Duration::from_millis(50);

/// Probes without an answer after which a relay that never showed anything is one where nothing comes back: as many as a fifth of loss leaves unanswered
/// once in six hundred times.
const SILENT: u32 = 4;

/// An answer so young says that data arrives now.
const FRESH: Duration = Duration::from_secs(2);

/// While a relay has shown nothing, so long what was left for it takes copies: as long as who lost a relay may pause before it asks there again. Only a way
/// that carries nothing makes them last, and lanes make few of them.
const LEFT: Duration = Duration::from_secs(10);

/// The way data takes to a peer, and what goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The way.
    pub way: Way,
    /// Another one, which the same data takes as well while `way` is judged, or is a relay of which nothing came yet.
    pub also: Option<Way>,
    /// Another one, which a lane may use as well by itself as soon as it suspects `way`, before anybody has judged.
    pub spare: Option<Way>,
    /// How much later what went the former way may arrive than what goes this one; at most 50 ms, and zero when the former way is dead.
    pub behind: Duration,
    /// How long a packet takes by this way to the peer and back, once that was measured.
    pub round_trip: Option<Duration>,
}

/// What a way is worth: less is better. `None` carries nothing.
pub(crate) fn rank(track: &CandidateState, place: usize) -> Option<(u8, Duration)> {
    match track.way {
        Way::Direct(endpoint) => {
            let grade = if track.is_proven() { 0 } else { 3 };
            (grade == 0 || track.is_returning()).then(|| (grade, cost(track, endpoint)))
        }
        Way::Relayed { .. } => {
            let nothing_back = match track.state {
                State::Proven { .. } | State::Suspected { .. } => false,
                State::Down { .. } => !track.is_returning(),
                State::Unproven => is_silent(track),
            };
            let grade = if nothing_back { 2 } else { 1 };
            let order = Duration::from_millis(u64::try_from(place).unwrap_or(0));
            let base = track.probes.shortest_yet().unwrap_or(UNMEASURED + order);
            Some((grade, base + loss(track)))
        }
    }
}

/// Returns true if the latest probes were all lost.
pub(crate) fn is_silent(track: &CandidateState) -> bool {
    track.probes.losses_in_row >= SILENT
}

fn cost(track: &CandidateState, endpoint: SocketAddr) -> Duration {
    let public = !is_private(endpoint.ip()) || track.seen.is_some_and(|seen| !is_private(seen.ip()));
    let family = if endpoint.is_ipv4() { IPV4 } else { Duration::ZERO };
    let base = track.probes.shortest_yet().unwrap_or(UNMEASURED);
    base + loss(track) + family + if public { PUBLIC } else { Duration::ZERO }
}

fn loss(track: &CandidateState) -> Duration {
    PER_CENT_LOST * track.probes.loss().unwrap_or(0)
}

/// Whether an address has a meaning only inside some network: RFC 1918, RFC 6598, RFC 4193, link-local.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, ..] = address.octets();
            address.is_private() || address.is_link_local() || a == 100 && (64..128).contains(&b)
        }
        IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
    }
}

/// The way of least rank, leaving one out.
fn best(
    tracks: &[CandidateState],
    except: Option<Way>,
    fits: impl Fn(&CandidateState) -> bool,
) -> Option<(&CandidateState, u8, Duration)> {
    let others = tracks.iter().enumerate().filter(|(_, track)| Some(track.way) != except && fits(track));
    let ranked = others.filter_map(|(place, track)| rank(track, place).map(|(grade, cost)| (track, grade, cost)));
    ranked.min_by_key(|(_, grade, cost)| (*grade, *cost))
}

/// The way to take, given the present one and since when it is that; `None` while there is none.
pub(crate) fn choose(tracks: &[CandidateState], present: Option<(Way, Time)>, now: Time) -> Option<Way> {
    let Some((way, since)) = present else { return best(tracks, None, |_| true).map(|(track, ..)| track.way) };
    let place = tracks.iter().position(|track| track.way == way);
    let own = place.and_then(|place| rank(&tracks[place], place).map(|(grade, cost)| (grade, cost, &tracks[place])));
    let Some((other, grade, cost)) = best(tracks, Some(way), |_| true) else { return Some(way) };
    let Some((own_grade, own_cost, own)) = own else { return Some(other.way) };
    let measured = [own, other].into_iter().all(|track| track.probes.shortest().is_some() && track.is_sound());
    let gain = own_cost.saturating_sub(cost);
    let clear = gain > LEAST_GAIN && gain > own_cost / GAIN_PART && measured && now.since(since) >= STAY;
    Some(if grade < own_grade || grade == own_grade && clear { other.way } else { way })
}

/// What takes the same data as well while `way` is judged for a reason that data feels: a direct way that was answered just now, or else a relay. And
/// while `way` is a relay that has shown nothing since it was taken: what is answered again, though it was given up, or what was just `left`. The peer may not
/// be at that relay any more, nor we.
pub(crate) fn also(tracks: &[CandidateState], (way, since): (Way, Time), left: Option<Way>, now: Time) -> Option<Way> {
    let track = tracks.iter().find(|track| track.way == way);
    let last_answer = |track: &CandidateState| track.probes.last_answer.filter(|last| now.since(*last) < FRESH);
    let shown =
        |track: &&CandidateState| track.is_proven() && track.probes.last_answer.is_some_and(|last| last >= since);
    let Some(track) = track.filter(|track| !way.is_relayed() || shown(track)) else {
        let answered = tracks.iter().filter(|track| track.way != way && last_answer(track).is_some());
        let answered = answered.max_by_key(|track| last_answer(track)).map(|track| track.way);
        return answered.or(left.filter(|left| *left != way && now.since(since) < LEFT));
    };
    if !matches!(track.state, State::Suspected { by: Suspicion::Moved | Suspicion::Elsewhere | Suspicion::Data, .. }) {
        return None;
    }
    let fresh = |track: &CandidateState| !track.way.is_relayed() && track.is_sound() && last_answer(track).is_some();
    best(tracks, Some(way), fresh).map(|(track, ..)| track.way).or_else(|| spare(tracks, way, None))
}

/// What a lane may use by itself: a relay, which shares least with a direct way; or else another direct way. The `former` one stays while it is as good,
/// so that two relays of about the same distance do not take turns.
pub(crate) fn spare(tracks: &[CandidateState], way: Way, former: Option<Way>) -> Option<Way> {
    let relayed = best(tracks, Some(way), |track| track.way.is_relayed());
    let (other, grade, _) = relayed.or_else(|| best(tracks, Some(way), CandidateState::is_sound))?;
    let kept = best(tracks, Some(way), |track| Some(track.way) == former);
    let as_good = kept.filter(|(track, kept, _)| *kept == grade && track.way.is_relayed() == other.way.is_relayed());
    Some(as_good.map_or(other.way, |(track, ..)| track.way))
}

/// How much later what went by `from` may arrive than what goes by `to`: the difference of the ways there, and what the former one's varies by.
pub(crate) fn behind(tracks: &[CandidateState], from: Way, to: Way) -> Duration {
    let find = |way: Way| tracks.iter().find(|track| track.way == way);
    let Some((old, new)) = find(from).zip(find(to)) else { return Duration::ZERO };
    if matches!(old.state, State::Down { .. }) {
        return Duration::ZERO;
    }
    // Unmeasured: as long as it may be.
    let Some(before) = old.probes.round_trip() else { return MOST_BEHIND };
    let after = new.probes.shortest_yet().unwrap_or(Duration::ZERO);
    (before.saturating_sub(after) / 2 + old.probes.variation()).min(MOST_BEHIND)
}

//! Subnets behind this node and behind its peers: which prefixes are in use, and which router carries each of them.
//!
//! Several peers may be routers of one prefix. The one with the lowest node number is the first choice of every node, so that all nodes use the same router while it works. When it is in
//! doubt, the others are asked for an answer; when it fails, the next one that has answered since carries. Without such an answer nothing changes: then this host itself may be
//! cut off, and connections go on through the same router once it is back. A router carries again when it has answered for a while, longer each time that it failed before.

mod health;

use std::time::Duration;

use taut_base::{NodeId, PeerId, Prefix, SortedMap, SortedSet, Time};
use taut_netmap::NetworkMap;

pub(crate) use health::{Health, Sign};

/// Interval of handshakes with a router that failed and has no session, 5 s: nothing else would tell that it is back.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(5);

/// The routers of a prefix.
#[derive(Debug, Default)]
struct Routers {
    /// By node number: the first choice comes first. Never empty.
    peers: Vec<PeerId>,
    /// Index of the one that carries.
    carrier: usize,
}

/// A prefix that another router carries now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) prefix: Prefix,
    pub(crate) from: PeerId,
    pub(crate) to: PeerId,
}

/// The subnets that this node uses.
#[derive(Debug, Default)]
pub(crate) struct Subnets {
    /// Prefixes that the user accepts from peers.
    accepted: SortedSet<Prefix>,
    /// Prefixes behind this node that it forwards to.
    forwarded: Vec<Prefix>,
    /// The accepted prefixes that a peer has.
    routers: SortedMap<Prefix, Routers>,
    /// Peers that are routers together with others.
    health: SortedMap<PeerId, Health>,
    /// Time of the next handshake with a router that failed.
    ask_at: Option<Time>,
    /// Routers to ask for an answer now.
    checks: Vec<PeerId>,
}

impl Subnets {
    /// Sets the prefixes that peers' packets are forwarded to, and those that are accepted from peers.
    pub(crate) fn set_wanted(&mut self, forwarded: Vec<Prefix>, accepted: Vec<Prefix>) {
        (self.forwarded, self.accepted) = (forwarded, accepted.into_iter().collect());
    }

    /// Sets the prefixes that peers' packets are forwarded to. Returns true if they are others than before.
    pub(crate) fn set_forwarded(&mut self, forwarded: Vec<Prefix>) -> bool {
        let is_other = forwarded != self.forwarded;
        self.forwarded = forwarded;
        is_other
    }

    /// Takes the routes of a map. `peer_of` finds the peer of a node. A prefix keeps its carrier while that is still one of its routers.
    pub(crate) fn set_map(&mut self, map: &NetworkMap, peer_of: impl Fn(NodeId) -> Option<PeerId>, now: Time) {
        let former: SortedMap<Prefix, PeerId> = self.carriers().collect();
        let mut routes: Vec<(Prefix, PeerId)> = Vec::new();
        // Peers are in the order of their numbers.
        for listed in map.peers.values().filter(|peer| !peer.routes.is_empty()) {
            let Some(peer) = peer_of(listed.id) else { continue };
            let usable = listed.usable_routes(&map.network).filter(|prefix| self.accepted.contains(prefix));
            routes.extend(usable.map(|prefix| (prefix, peer)));
        }
        // All prefixes at once, because they come in any order.
        self.routers = routes.iter().map(|(prefix, _)| (*prefix, Routers::default())).collect();
        for (prefix, peer) in routes {
            let routers = self.routers.entry(prefix).or_default();
            if !routers.peers.contains(&peer) {
                routers.peers.push(peer);
            }
        }
        for (prefix, routers) in &mut self.routers {
            let carrier = former.get(prefix);
            routers.carrier = routers.peers.iter().position(|peer| Some(peer) == carrier).unwrap_or(0);
        }
        let several = self.routers.values().filter(|routers| routers.peers.len() > 1);
        let mut known = std::mem::take(&mut self.health);
        let health = |peer: &PeerId| known.remove(peer).unwrap_or(Health::new(now));
        let mut peers: Vec<PeerId> = several.flat_map(|routers| routers.peers.iter().copied()).collect();
        peers.sort_unstable();
        peers.dedup();
        self.health = peers.iter().copied().zip(peers.iter().map(health)).collect();
    }

    /// Chooses the carriers. `sign` tells what the paths to a router show. Returns the prefixes that another router carries now.
    pub(crate) fn choose(&mut self, sign: impl Fn(PeerId) -> Sign, now: Time) -> Vec<Moved> {
        if self.health.is_empty() {
            return Vec::new();
        }
        for (peer, health) in &mut self.health {
            health.note(sign(*peer), now);
            self.checks.extend(std::mem::take(&mut health.wants_probe).then_some(*peer));
        }
        let has_failed = self.health.values().any(|health| !health.answers);
        self.ask_at = if has_failed { Some(self.ask_at.unwrap_or(now + ASK_AGAIN)) } else { None };
        self.check_others();
        let health = &self.health;
        let mut moved = Vec::new();
        for (prefix, routers) in &mut self.routers {
            let next = next_carrier(routers, health, now);
            if next != routers.carrier
                && let (Some(from), Some(to)) = (routers.peers.get(routers.carrier), routers.peers.get(next))
            {
                moved.push(Moved { prefix: *prefix, from: *from, to: *to });
                routers.carrier = next;
            }
        }
        moved
    }

    /// Has the other routers of a prefix asked for an answer while its carrier is in trouble.
    fn check_others(&mut self) {
        for routers in self.routers.values() {
            let carrier = routers.peers.get(routers.carrier);
            let trouble = carrier.and_then(|peer| self.health.get(peer)).and_then(Health::trouble);
            let Some(trouble) = trouble else { continue };
            for peer in routers.peers.iter().filter(|peer| Some(*peer) != carrier) {
                let Some(health) = self.health.get_mut(peer) else { continue };
                if !health.asked && health.answers && health.verified < trouble {
                    health.asked = true;
                    self.checks.push(*peer);
                }
            }
        }
    }

    /// Returns the routers to ask for an answer now.
    pub(crate) fn take_checks(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.checks)
    }

    /// Returns the time at which [`Self::choose`] and [`Self::take_due`] have something to do without another input.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let settled = self.health.values().filter(|health| health.failures > 0).filter_map(Health::settled);
        let doubts = self.health.values().filter_map(Health::poll_timeout);
        settled.filter(|at| *at > now).chain(doubts).chain(self.ask_at).min()
    }

    /// Returns the routers that failed, if a handshake with those without a session is due.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<PeerId> {
        if self.ask_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.ask_at = Some(now + ASK_AGAIN);
        self.health.iter().filter(|(_, health)| !health.answers).map(|(peer, _)| *peer).collect()
    }

    /// Returns true if a prefix has several routers, so that the choice matters.
    pub(crate) fn has_choice(&self) -> bool {
        !self.health.is_empty()
    }

    /// Returns the prefixes behind this node.
    pub(crate) fn forwarded(&self) -> &[Prefix] {
        &self.forwarded
    }

    /// Returns the prefixes behind peers, each with the peer that carries it.
    pub(crate) fn carriers(&self) -> impl Iterator<Item = (Prefix, PeerId)> {
        self.routers.iter().filter_map(|(prefix, routers)| Some((*prefix, *routers.peers.get(routers.carrier)?)))
    }

    /// Returns the prefixes behind peers, each with a further router of it.
    pub(crate) fn spares(&self) -> impl Iterator<Item = (Prefix, PeerId)> {
        self.routers.iter().flat_map(|(prefix, routers)| {
            let spare = |(place, _): &(usize, &PeerId)| *place != routers.carrier;
            routers.peers.iter().enumerate().filter(spare).map(|(_, peer)| (*prefix, *peer))
        })
    }
}

/// Returns the index of the router to use: the first that has answered for long enough, else the present one while it answers, else the first that answers, else the present one. In
/// the place of one that failed, only a router is used that has answered since the trouble began.
fn next_carrier(routers: &Routers, health: &SortedMap<PeerId, Health>, now: Time) -> usize {
    let of = |place: usize| routers.peers.get(place).and_then(|peer| health.get(peer));
    let failed = of(routers.carrier).filter(|carrier| !carrier.answers).and_then(Health::trouble);
    let is_usable = |place: &usize| {
        let answered = |health: &Health| failed.is_none_or(|trouble| health.verified >= trouble);
        of(*place).is_some_and(|health| health.answers && (*place == routers.carrier || answered(health)))
    };
    let is_settled = |place: &usize| of(*place).and_then(Health::settled).is_some_and(|at| at <= now);
    let places = 0..routers.peers.len();
    let present = Some(routers.carrier).filter(is_usable);
    let first = places.clone().find(|place| is_settled(place) && is_usable(place));
    first.or(present).or_else(|| places.clone().find(is_usable)).unwrap_or(routers.carrier)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns subnets with one prefix and two routers, 1 and 2.
    fn two() -> Subnets {
        let routers = Routers { peers: vec![PeerId(1), PeerId(2)], carrier: 0 };
        Subnets {
            routers: SortedMap::from([("10.0.0.0/8".parse().unwrap(), routers)]),
            health: SortedMap::from([(PeerId(1), Health::new(at(0))), (PeerId(2), Health::new(at(0)))]),
            ..Subnets::default()
        }
    }

    fn at(milliseconds: u32) -> Time {
        Time::ZERO + 10_000 * SECOND + Duration::from_millis(milliseconds.into())
    }

    fn carrier(subnets: &Subnets) -> u32 {
        subnets.carriers().next().unwrap().1.0
    }

    /// Gives the subnets one sign of each of the two routers. Returns the routers that they ask for an answer.
    fn look(subnets: &mut Subnets, signs: [Sign; 2], milliseconds: u32) -> Vec<u32> {
        subnets.choose(|peer| signs[peer.0 as usize - 1], at(milliseconds));
        subnets.take_checks().into_iter().map(|peer| peer.0).collect()
    }

    const DOUBT: Sign = Sign::Doubt(Duration::ZERO);
    const GOOD: Sign = Sign::Good(Time::ZERO);

    #[test]
    fn the_next_router_carries_as_soon_as_the_first_one_fails_and_the_second_has_answered() {
        let mut subnets = two();
        assert!(look(&mut subnets, [GOOD, Sign::Unknown], 1).is_empty());
        assert_eq!(look(&mut subnets, [DOUBT, Sign::Unknown], 100), [2], "the other one is asked");
        assert_eq!(subnets.poll_timeout(at(100)), Some(at(450)));
        assert!(look(&mut subnets, [DOUBT, GOOD], 150).is_empty(), "it answers");
        // The other paths to the first one are probed one after the other.
        let next = Sign::Good(at(220));
        assert_eq!(look(&mut subnets, [next, GOOD], 220), [1]);
        look(&mut subnets, [DOUBT, GOOD], 221);
        let last = Sign::Good(at(340));
        assert_eq!(look(&mut subnets, [last, GOOD], 340), [1]);
        assert!(look(&mut subnets, [last, GOOD], 345).is_empty(), "once");
        look(&mut subnets, [DOUBT, GOOD], 350);
        assert_eq!((carrier(&subnets), subnets.poll_timeout(at(350))), (1, Some(at(450))));
        look(&mut subnets, [DOUBT, GOOD], 450);
        assert_eq!(carrier(&subnets), 2);
    }

    #[test]
    fn a_path_that_is_replaced_by_another_one_moves_nothing() {
        let mut subnets = two();
        look(&mut subnets, [DOUBT, GOOD], 100);
        let relay = Sign::Good(at(220));
        assert_eq!(look(&mut subnets, [relay, GOOD], 220), [1]);
        look(&mut subnets, [DOUBT, GOOD], 221);
        assert_eq!(subnets.poll_timeout(at(221)), Some(at(450)));
        look(&mut subnets, [relay, GOOD], 440);
        assert_eq!(subnets.poll_timeout(at(440)), None, "its answer ends the doubt");
        look(&mut subnets, [relay, GOOD], 1_000);
        assert_eq!(carrier(&subnets), 1);
        // A path that cannot be probed has to be free of doubt for a while.
        look(&mut subnets, [DOUBT, GOOD], 2_000);
        let other = Sign::Good(at(2_100));
        look(&mut subnets, [other, GOOD], 2_100);
        assert_eq!(subnets.poll_timeout(at(2_100)), Some(at(2_250)));
        look(&mut subnets, [other, GOOD], 2_250);
        assert_eq!(subnets.poll_timeout(at(2_250)), None);
        assert_eq!(carrier(&subnets), 1);
    }

    #[test]
    fn a_host_that_is_cut_off_keeps_its_router() {
        let mut subnets = two();
        look(&mut subnets, [GOOD, GOOD], 1);
        assert_eq!(look(&mut subnets, [Sign::Bad, GOOD], 100), [2]);
        for milliseconds in (200..20_000).step_by(100) {
            look(&mut subnets, [Sign::Bad, DOUBT], milliseconds);
        }
        look(&mut subnets, [GOOD, GOOD], 20_000);
        look(&mut subnets, [GOOD, GOOD], 20_200);
        assert_eq!(carrier(&subnets), 1);
    }

    #[test]
    fn the_first_router_returns_after_a_while() {
        let mut subnets = two();
        look(&mut subnets, [Sign::Bad, GOOD], 0);
        look(&mut subnets, [Sign::Bad, GOOD], 10);
        assert_eq!((carrier(&subnets), subnets.poll_timeout(at(10))), (2, Some(at(5_000))), "then it is asked");
        assert_eq!((subnets.take_due(at(5_000)), subnets.take_due(at(6_000))), (vec![PeerId(1)], Vec::new()));
        look(&mut subnets, [GOOD, GOOD], 20_000);
        assert_eq!((carrier(&subnets), subnets.poll_timeout(at(20_000))), (2, Some(at(30_000))));
        look(&mut subnets, [GOOD, GOOD], 29_999);
        assert_eq!(carrier(&subnets), 2);
        look(&mut subnets, [GOOD, GOOD], 30_000);
        assert_eq!(carrier(&subnets), 1);
    }

    #[test]
    fn a_router_that_fails_again_and_again_carries_ever_more_rarely() {
        let (mut subnets, mut returns, mut former) = (two(), 0, 1);
        // Down for one second of every fifteen.
        for tenth in 0..30_000 {
            let first = if tenth % 150 < 10 { Sign::Bad } else { GOOD };
            look(&mut subnets, [first, GOOD], tenth * 100);
            returns += u32::from(former == 2 && carrier(&subnets) == 1);
            former = carrier(&subnets);
        }
        assert!(returns <= 2, "{returns}");
        assert_eq!(carrier(&subnets), 2);
    }
}

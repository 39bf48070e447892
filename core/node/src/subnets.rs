//! Subnets behind this node and behind its peers: which prefixes are in use, and which router carries each of them.
//!
//! Several peers may be routers of one prefix. The one with the lowest node number is the first choice of every node, so that all nodes use the same router while it works. One that
//! does not answer is replaced at once by the next that does. It carries again when it has answered for a while, longer each time that it failed before.

use std::collections::BTreeMap;
use std::time::Duration;

use taut_base::{NodeId, PeerId, Prefix, Time};
use taut_netmap::NetworkMap;

/// Time for which a router that failed must answer before it carries again, 10 s, doubled with each failure.
const FIRST_HOLD: Duration = Duration::from_secs(10);

/// Longest such time, 5 minutes.
const LONGEST_HOLD: Duration = Duration::from_secs(300);

/// Time after which a router's former failures do not count any more, 10 minutes without one.
const FORGIVEN: Duration = Duration::from_secs(600);

/// Interval of handshakes with a router that failed and has no session, 5 s: nothing else would tell that it is back.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Whether a router answers.
#[derive(Clone, Copy, Debug)]
struct Health {
    /// When it began to answer, or ceased to.
    since: Time,
    answers: bool,
    /// Failures that count.
    failures: u32,
}

impl Health {
    /// Returns the time from which it may be chosen before another one that works.
    fn settled(&self) -> Option<Time> {
        let doublings = self.failures.saturating_sub(1).min(5);
        let hold = if self.failures == 0 { Duration::ZERO } else { (FIRST_HOLD * (1 << doublings)).min(LONGEST_HOLD) };
        self.answers.then(|| self.since + hold)
    }

    fn note(&mut self, answers: bool, now: Time) {
        if answers == self.answers {
            return;
        }
        if !answers {
            let is_forgiven = now.since(self.since) >= FORGIVEN;
            self.failures = if is_forgiven { 1 } else { self.failures.saturating_add(1) };
        }
        (self.answers, self.since) = (answers, now);
    }
}

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
    accepted: Vec<Prefix>,
    /// Prefixes behind this node that it forwards to.
    forwarded: Vec<Prefix>,
    /// The accepted prefixes that a peer has.
    routers: BTreeMap<Prefix, Routers>,
    /// Peers that are routers together with others.
    health: BTreeMap<PeerId, Health>,
    /// Time of the next handshake with a router that failed.
    ask_at: Option<Time>,
}

impl Subnets {
    /// Sets the prefixes that peers' packets are forwarded to, and those that are accepted from peers.
    pub(crate) fn set_wanted(&mut self, forwarded: Vec<Prefix>, accepted: Vec<Prefix>) {
        (self.forwarded, self.accepted) = (forwarded, accepted);
    }

    /// Takes the routes of a map. `peer_of` finds the peer of a node. A prefix keeps its carrier while that is still one of its routers.
    pub(crate) fn set_map(&mut self, map: &NetworkMap, peer_of: impl Fn(NodeId) -> Option<PeerId>, now: Time) {
        let former: BTreeMap<Prefix, PeerId> = self.carriers().collect();
        self.routers.clear();
        // Peers are in the order of their numbers.
        for listed in map.peers.values().filter(|peer| !peer.routes.is_empty()) {
            let Some(peer) = peer_of(listed.id) else { continue };
            for prefix in listed.usable_routes(&map.network).filter(|prefix| self.accepted.contains(prefix)) {
                let routers = self.routers.entry(prefix).or_default();
                if !routers.peers.contains(&peer) {
                    routers.peers.push(peer);
                }
            }
        }
        for (prefix, routers) in &mut self.routers {
            let carrier = former.get(prefix);
            routers.carrier = routers.peers.iter().position(|peer| Some(peer) == carrier).unwrap_or(0);
        }
        let several = self.routers.values().filter(|routers| routers.peers.len() > 1);
        let mut known = std::mem::take(&mut self.health);
        let health = |peer: &PeerId| known.remove(peer).unwrap_or(Health { since: now, answers: true, failures: 0 });
        let mut peers: Vec<PeerId> = several.flat_map(|routers| routers.peers.iter().copied()).collect();
        peers.sort_unstable();
        peers.dedup();
        self.health = peers.iter().map(|peer| *peer).zip(peers.iter().map(health)).collect();
    }

    /// Chooses the carriers. `answers` tells whether a router answers; `None` if nothing new is known of it. Returns the prefixes that another router carries now.
    pub(crate) fn choose(&mut self, answers: impl Fn(PeerId) -> Option<bool>, now: Time) -> Vec<Moved> {
        if self.health.is_empty() {
            return Vec::new();
        }
        for (peer, health) in &mut self.health {
            answers(*peer).into_iter().for_each(|answers| health.note(answers, now));
        }
        let has_failed = self.health.values().any(|health| !health.answers);
        self.ask_at = if has_failed { Some(self.ask_at.unwrap_or(now + ASK_AGAIN)) } else { None };
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

    /// Returns the time at which [`Self::choose`] and [`Self::to_ask`] have something to do without another input.
    pub(crate) fn poll_timeout(&self, now: Time) -> Option<Time> {
        let settled = self.health.values().filter(|health| health.failures > 0).filter_map(Health::settled);
        settled.filter(|at| *at > now).chain(self.ask_at).min()
    }

    /// Returns the routers that failed, if a handshake with those without a session is due.
    pub(crate) fn to_ask(&mut self, now: Time) -> Vec<PeerId> {
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

/// Returns the index of the router to use: the first that has answered for long enough, else the present one while it answers, else the first that answers, else the present one.
fn next_carrier(routers: &Routers, health: &BTreeMap<PeerId, Health>, now: Time) -> usize {
    let of = |place: usize| routers.peers.get(place).and_then(|peer| health.get(peer));
    let is_settled = |place: &usize| of(*place).and_then(Health::settled).is_some_and(|at| at <= now);
    let answers = |place: &usize| of(*place).is_some_and(|health| health.answers);
    let places = 0..routers.peers.len();
    let present = Some(routers.carrier).filter(answers);
    places.clone().find(is_settled).or(present).or_else(|| places.clone().find(answers)).unwrap_or(routers.carrier)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns subnets with one prefix and two routers, 1 and 2.
    fn two() -> Subnets {
        let routers = Routers { peers: vec![PeerId(1), PeerId(2)], carrier: 0 };
        let health = Health { since: at(0), answers: true, failures: 0 };
        Subnets {
            routers: BTreeMap::from([("10.0.0.0/8".parse().unwrap(), routers)]),
            health: BTreeMap::from([(PeerId(1), health), (PeerId(2), health)]),
            ..Subnets::default()
        }
    }

    fn at(seconds: u32) -> Time {
        Time::ZERO + SECOND * (10_000 + seconds)
    }

    fn carrier(subnets: &Subnets) -> u32 {
        subnets.carriers().next().unwrap().1.0
    }

    #[test]
    fn the_next_router_carries_at_once_and_the_first_one_returns_after_a_while() {
        let mut subnets = two();
        assert!(subnets.choose(|_| Some(true), at(1)).is_empty());
        let moved = subnets.choose(|peer| Some(peer != PeerId(1)), at(2));
        assert_eq!((moved.len(), carrier(&subnets)), (1, 2));
        assert_eq!(subnets.poll_timeout(at(2)), Some(at(7)), "then it is asked");
        assert_eq!((subnets.to_ask(at(7)), subnets.to_ask(at(8))), (vec![PeerId(1)], Vec::new()));
        // It answers again from 20 s on.
        assert!(subnets.choose(|_| Some(true), at(20)).is_empty());
        assert_eq!(subnets.poll_timeout(at(20)), Some(at(30)));
        assert!(subnets.choose(|_| Some(true), at(29)).is_empty());
        assert_eq!(subnets.choose(|_| Some(true), at(30)).len(), 1);
        assert_eq!(carrier(&subnets), 1);
    }

    #[test]
    fn a_router_that_fails_again_and_again_carries_ever_more_rarely() {
        let (mut subnets, mut moves, mut last) = (two(), Vec::new(), 0);
        // Down for one second of every fifteen.
        for second in 0..3_000 {
            let up = second % 15 != 0;
            if !subnets.choose(|peer| Some(up || peer != PeerId(1)), at(second)).is_empty() && carrier(&subnets) == 1 {
                moves.push(second - last);
                last = second;
            }
        }
        assert!(moves.len() <= 2, "{moves:?}");
        assert_eq!(carrier(&subnets), 2);
    }

    #[test]
    fn without_a_router_that_answers_the_last_one_stays_and_any_that_answers_first_is_taken() {
        let mut subnets = two();
        subnets.choose(|peer| Some(peer != PeerId(1)), at(1));
        assert!(subnets.choose(|_| Some(false), at(2)).is_empty());
        assert_eq!(carrier(&subnets), 2);
        subnets.choose(|peer| Some(peer == PeerId(1)), at(3));
        assert_eq!(carrier(&subnets), 1, "it need not have answered for long when nothing else does");
    }
}

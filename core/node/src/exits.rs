//! The exit node that this host uses: the peer that carries packets to the public internet. The user chooses one by name, or leaves the choice to this module.
//!
//! The automatic choice asks all candidates for an answer and takes the one with the lowest round-trip time, a direct path before a relayed one. It stays with that one
//! while it answers, because another exit node has another public address, which ends connections. When it is in doubt, the others are asked; when it fails, the best one
//! that has answered since carries, by the same rules and within the same times as the routers of a subnet ([`crate::subnets`]). An exit node that is back carries again when the
//! present one fails.
//!
//! While an exit node was chosen and none can be used, nothing goes to the internet ([`ExitRoute::Closed`]).

use std::time::Duration;

use taut_base::{NodeId, PeerId, SortedMap, Time};
use taut_netmap::NetworkMap;

use crate::routes::ExitRoute;
use crate::subnets::{ASK_AGAIN, Health, Sign};

/// Time that a choice waits for further candidates, and for their direct paths, after the first one answered, 3 s: a direct path through two NATs takes one or two.
const CHOICE: Duration = Duration::from_secs(3);

/// Limit on the candidates of a choice, 16: each is asked by a handshake, and all of them again when the present one is in doubt.
const MAX_CANDIDATES: usize = 16;

/// The exit node that the user wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// None.
    #[default]
    None,
    /// The best one that works.
    Auto,
    /// This node; `None` if the node of the user's choice is unknown. It is used if it is an exit node that the policy lets this host use.
    Node(Option<NodeId>),
}

/// How good a way to the internet a peer is: less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) is_relayed: bool,
    pub(crate) round_trip: Duration,
}

/// The choice among the exit nodes.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    wish: Wish,
    /// The candidates, by node number.
    peers: Vec<PeerId>,
    carrier: Option<PeerId>,
    /// The candidates, if there are several.
    health: SortedMap<PeerId, Health>,
    choice: Option<Choice>,
    /// Time of the next handshake with candidates that have no session.
    ask_at: Option<Time>,
    /// Candidates to ask for an answer now.
    checks: Vec<PeerId>,
    /// The exit node that was told last.
    told: Option<PeerId>,
}

/// An automatic choice in progress.
#[derive(Clone, Copy, Debug, Default)]
struct Choice {
    /// True once the candidates were asked.
    has_asked: bool,
    /// When it ends at the latest: known since a candidate has answered.
    until: Option<Time>,
}

impl Exits {
    /// Sets the user's choice, from the next map on.
    pub(crate) fn set_wish(&mut self, wish: Wish) {
        if wish != self.wish {
            self.wish = wish;
            self.choice = Some(Choice::default());
        }
    }

    /// Takes the exit nodes of a map. `peer_of` finds the peer of a node. The present one stays while it is one of them.
    pub(crate) fn set_map(&mut self, map: &NetworkMap, peer_of: impl Fn(NodeId) -> Option<PeerId>, now: Time) {
        let is_wanted = |node: NodeId| match self.wish {
            Wish::None => false,
            Wish::Auto => true,
            Wish::Node(wanted) => wanted == Some(node),
        };
        let listed = map.peers.values().filter(|peer| peer.is_exit() && is_wanted(peer.id));
        self.peers = listed.filter_map(|peer| peer_of(peer.id)).take(MAX_CANDIDATES).collect();
        self.carrier = self.carrier.filter(|carrier| self.peers.contains(carrier));
        let mut known = std::mem::take(&mut self.health);
        match self.peers[..] {
            [] => self.choice = None,
            [only] => (self.carrier, self.choice) = (Some(only), None),
            _ => {
                let health = |peer: &PeerId| (*peer, known.remove(peer).unwrap_or(Health::new(now)));
                self.health = self.peers.iter().map(health).collect();
                if self.carrier.is_none() {
                    self.choice.get_or_insert_default();
                }
            }
        }
    }

    /// Returns the way to the internet.
    pub(crate) fn route(&self) -> ExitRoute {
        match (self.wish, self.carrier) {
            (Wish::None, _) => ExitRoute::Off,
            (_, None) => ExitRoute::Closed,
            (_, Some(carrier)) => ExitRoute::Through(carrier),
        }
    }

    /// Returns true if there are several candidates.
    pub(crate) fn has_choice(&self) -> bool {
        !self.health.is_empty()
    }

    /// Returns true while an automatic choice waits for answers.
    pub(crate) fn is_choosing(&self) -> bool {
        self.choice.is_some()
    }

    /// Chooses the exit node among several. `sign` tells what the paths to a candidate show, `rank` how good it is, if it answers. Returns true if another one carries now.
    pub(crate) fn choose(
        &mut self,
        sign: impl Fn(PeerId) -> Sign,
        rank: impl Fn(PeerId) -> Option<Rank>,
        now: Time,
    ) -> bool {
        for (peer, health) in &mut self.health {
            health.note(sign(*peer), now);
            self.checks.extend(std::mem::take(&mut health.wants_probe).then_some(*peer));
        }
        let waits = self.choice.is_some() || self.health.values().any(|health| !health.answers);
        self.ask_at = if waits { Some(self.ask_at.unwrap_or(now + ASK_AGAIN)) } else { None };
        let before = self.carrier;
        match self.choice {
            Some(choice) => self.decide(choice, sign, rank, now),
            None => self.fail_over(rank),
        }
        self.carrier != before
    }

    /// Continues an automatic choice: it ends when all candidates have a direct path, or after [`CHOICE`].
    fn decide(
        &mut self,
        choice: Choice,
        sign: impl Fn(PeerId) -> Sign,
        rank: impl Fn(PeerId) -> Option<Rank>,
        now: Time,
    ) {
        if !choice.has_asked {
            self.checks.extend(self.peers.iter().copied().filter(|peer| sign(*peer) == Sign::Unknown));
        }
        let ranks: Vec<(Rank, PeerId)> = self.peers.iter().filter_map(|peer| Some((rank(*peer)?, *peer))).collect();
        let until = choice.until.or((!ranks.is_empty()).then(|| now + CHOICE));
        let are_direct = ranks.len() == self.peers.len() && ranks.iter().all(|(rank, _)| !rank.is_relayed);
        let is_over = are_direct || until.is_some_and(|until| until <= now);
        match ranks.into_iter().min().filter(|_| is_over) {
            Some((_, best)) => (self.carrier, self.choice) = (Some(best), None),
            None => self.choice = Some(Choice { has_asked: true, until }),
        }
    }

    /// Has the others asked while the present exit node is in doubt, and takes the best that has answered since if it failed.
    fn fail_over(&mut self, rank: impl Fn(PeerId) -> Option<Rank>) {
        let Some(carrier) = self.carrier else { return };
        let Some(trouble) = self.health.get(&carrier).and_then(Health::trouble) else { return };
        let has_failed = self.health.get(&carrier).is_some_and(|health| !health.answers);
        let mut best: Option<(bool, Option<Rank>, PeerId)> = None;
        for (peer, health) in self.health.iter_mut().filter(|(peer, health)| **peer != carrier && health.answers) {
            if health.verified >= trouble {
                let rank = rank(*peer);
                let place = (rank.is_none(), rank, *peer);
                best = Some(best.map_or(place, |best| best.min(place)));
            } else if !std::mem::replace(&mut health.asked, true) {
                self.checks.push(*peer);
            }
        }
        if let Some((_, _, peer)) = best.filter(|_| has_failed) {
            self.carrier = Some(peer);
        }
    }

    /// Returns the candidates to ask for an answer now.
    pub(crate) fn take_checks(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.checks)
    }

    /// Returns the candidates that do not answer, if a handshake with those without a session is due.
    pub(crate) fn take_due(&mut self, now: Time) -> Vec<PeerId> {
        if self.ask_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        self.ask_at = Some(now + ASK_AGAIN);
        let is_choosing = self.choice.is_some();
        self.health.iter().filter(|(_, health)| is_choosing || !health.answers).map(|(peer, _)| *peer).collect()
    }

    /// Returns the time at which [`Self::choose`] and [`Self::take_due`] have something to do without another input.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        if !self.has_choice() {
            return None;
        }
        let doubts = self.health.values().filter_map(Health::poll_timeout);
        doubts.chain(self.ask_at).chain(self.choice.and_then(|choice| choice.until)).min()
    }

    /// Returns the former and the present exit node, if they differ since the last call.
    pub(crate) fn take_change(&mut self) -> Option<(Option<PeerId>, Option<PeerId>)> {
        let from = std::mem::replace(&mut self.told, self.carrier);
        (from != self.carrier).then_some((from, self.carrier))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap as Map;

    use taut_base::{Prefix, PublicKey};
    use taut_netmap::{LocalMember, NetworkInfo, Peer, exit_routes};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(milliseconds: u32) -> Time {
        Time::ZERO + 10_000 * SECOND + Duration::from_millis(milliseconds.into())
    }

    /// Returns the map of a node whose peers of these numbers are exit nodes, beside one that is none.
    fn map(exits: &[u64]) -> NetworkMap {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        let peer = |number: u64, routes: Vec<Prefix>| Peer {
            id: NodeId(number),
            name: format!("n{number}"),
            key: PublicKey([u8::try_from(number).unwrap(); 32]),
            addresses: Vec::new(),
            endpoints: Vec::new(),
            relays: Vec::new(),
            native: false,
            routes,
        };
        let peers = exits.iter().map(|number| peer(*number, exit_routes().to_vec())).chain([peer(99, Vec::new())]);
        let name = String::from("a");
        let (ipv4, ipv6) = (prefix("100.64.0.0/10"), prefix("fd00::/64"));
        let me = LocalMember {
            id: NodeId(100),
            name: name.clone(),
            key: PublicKey([100; 32]),
            addresses: Vec::new(),
            routes: Vec::new(),
        };
        NetworkMap {
            version: 1,
            network: NetworkInfo { name, ipv4, ipv6, naming: taut_netmap::Naming::default() },
            me,
            peers: peers.map(|peer| (peer.id, peer)).collect(),
            relays: Vec::new(),
            filter: None,
        }
    }

    /// Exit nodes, and what their paths show: the signs, and the ranks of those that answer.
    struct Scene {
        exits: Exits,
        seen: Map<u32, (Sign, Option<Rank>)>,
    }

    const GOOD: Sign = Sign::Good(Time::ZERO);

    impl Scene {
        fn new(wish: Wish, exits: &[u64]) -> Self {
            let mut scene = Self { exits: Exits::default(), seen: Map::new() };
            scene.exits.set_wish(wish);
            scene.set_map(exits, 0);
            scene
        }

        fn set_map(&mut self, exits: &[u64], milliseconds: u32) {
            let peer = |node: NodeId| Some(PeerId(u32::try_from(node.0).unwrap()));
            self.exits.set_map(&map(exits), peer, at(milliseconds));
        }

        fn direct(&mut self, peer: u32, milliseconds: u64) {
            let rank = Rank { is_relayed: false, round_trip: Duration::from_millis(milliseconds) };
            self.seen.insert(peer, (GOOD, Some(rank)));
        }

        fn relayed(&mut self, peer: u32, milliseconds: u64) {
            let rank = Rank { is_relayed: true, round_trip: Duration::from_millis(milliseconds) };
            self.seen.insert(peer, (GOOD, Some(rank)));
        }

        /// Gives the present signs. Returns the candidates that are asked.
        fn look(&mut self, milliseconds: u32) -> Vec<u32> {
            let seen = &self.seen;
            let of = |peer: PeerId| seen.get(&peer.0).copied().unwrap_or((Sign::Unknown, None));
            self.exits.choose(|peer| of(peer).0, |peer| of(peer).1, at(milliseconds));
            self.exits.take_checks().into_iter().map(|peer| peer.0).collect()
        }

        fn carrier(&self) -> Option<u32> {
            if let ExitRoute::Through(peer) = self.exits.route() { Some(peer.0) } else { None }
        }
    }

    #[test]
    fn fault_e17_a_map_with_exit_nodes_turns_none_on() {
        let mut scene = Scene::new(Wish::None, &[1, 2]);
        scene.direct(1, 1);
        scene.direct(2, 1);
        assert!(scene.look(10).is_empty() && scene.exits.route() == ExitRoute::Off);
        assert_eq!(scene.exits.poll_timeout(), None);
    }

    #[test]
    fn a_node_that_is_not_an_exit_node_or_unknown_closes_the_way() {
        for wish in [Wish::Node(Some(NodeId(99))), Wish::Node(Some(NodeId(7))), Wish::Node(None)] {
            assert_eq!(Scene::new(wish, &[1, 2]).exits.route(), ExitRoute::Closed, "{wish:?}");
        }
        assert_eq!(Scene::new(Wish::Auto, &[]).exits.route(), ExitRoute::Closed);
        let mut scene = Scene::new(Wish::Node(Some(NodeId(2))), &[1, 2]);
        assert_eq!((scene.carrier(), scene.exits.take_change()), (Some(2), Some((None, Some(PeerId(2))))));
        // It is removed, or the policy forbids it: nothing goes to another one.
        scene.set_map(&[1], 1_000);
        assert_eq!(
            (scene.exits.route(), scene.exits.take_change()),
            (ExitRoute::Closed, Some((Some(PeerId(2)), None)))
        );
        scene.set_map(&[1, 2], 2_000);
        assert_eq!(scene.carrier(), Some(2));
    }

    #[test]
    fn the_nearest_with_a_direct_path_is_chosen() {
        let mut scene = Scene::new(Wish::Auto, &[1, 2, 3]);
        assert_eq!(scene.exits.route(), ExitRoute::Closed);
        assert_eq!(scene.look(0), [1, 2, 3]);
        assert!(scene.look(5).is_empty(), "they are asked once");
        scene.relayed(1, 5);
        scene.look(100);
        scene.direct(2, 30);
        scene.look(200);
        assert_eq!((scene.carrier(), scene.exits.poll_timeout()), (None, Some(at(3_100))));
        scene.direct(1, 40);
        scene.direct(3, 50);
        scene.look(300);
        assert_eq!((scene.carrier(), scene.exits.is_choosing()), (Some(2), false));
        // It stays, even if another one becomes faster.
        scene.direct(3, 1);
        scene.look(10_000);
        assert_eq!(scene.carrier(), Some(2));
    }

    #[test]
    fn a_choice_does_not_wait_for_those_that_do_not_answer() {
        let mut scene = Scene::new(Wish::Auto, &[1, 2, 3]);
        scene.look(0);
        scene.look(60_000);
        assert_eq!(scene.exits.route(), ExitRoute::Closed, "nobody has answered");
        assert!(!scene.exits.take_due(at(60_000)).is_empty(), "they are asked again");
        scene.relayed(3, 80);
        scene.look(60_010);
        scene.look(63_009);
        assert_eq!(scene.carrier(), None);
        scene.look(63_010);
        assert_eq!(scene.carrier(), Some(3));
    }

    #[test]
    fn the_best_that_answers_takes_over_and_keeps_the_way() {
        let mut scene = Scene::new(Wish::Auto, &[1, 2, 3]);
        (1..=3).for_each(|peer| scene.direct(peer, 10 * u64::from(peer)));
        scene.look(0);
        assert_eq!(scene.carrier(), Some(1));
        scene.seen.insert(1, (Sign::Doubt(Duration::ZERO), None));
        assert_eq!(scene.look(100), [2, 3], "the others are asked for an answer");
        scene.relayed(2, 5);
        scene.look(150);
        assert_eq!((scene.carrier(), scene.exits.poll_timeout()), (Some(1), Some(at(450))), "it is only in doubt");
        scene.look(450);
        assert_eq!(scene.carrier(), Some(3), "a direct path comes before a relayed one");
        scene.direct(1, 1);
        for second in 1..1_000 {
            scene.look(450 + second * 1_000);
        }
        assert_eq!(scene.carrier(), Some(3), "the first one is back, and waits");
        scene.seen.insert(3, (Sign::Bad, None));
        scene.look(2_000_000);
        scene.look(2_000_010);
        assert_eq!(scene.carrier(), Some(1));
    }

    #[test]
    fn a_host_that_is_cut_off_keeps_its_exit_node() {
        let mut scene = Scene::new(Wish::Auto, &[1, 2]);
        scene.direct(1, 1);
        scene.direct(2, 2);
        scene.look(0);
        for milliseconds in (100..20_000).step_by(100) {
            scene.seen.insert(1, (Sign::Bad, None));
            scene.seen.insert(2, (Sign::Doubt(Duration::ZERO), None));
            scene.look(milliseconds);
            assert_eq!(scene.carrier(), Some(1));
        }
    }

    #[test]
    fn one_that_flaps_is_left_once() {
        let mut scene = Scene::new(Wish::Auto, &[1, 2]);
        scene.direct(2, 20);
        let (mut moves, mut former) = (0, None);
        for tenth in 0..30_000_u32 {
            // Down for one second of every fifteen.
            if tenth % 150 < 10 && tenth > 150 {
                scene.seen.insert(1, (Sign::Bad, None));
            } else {
                scene.direct(1, 1);
            }
            scene.look(tenth * 100);
            moves += u32::from(former.is_some() && former != scene.carrier());
            former = scene.carrier();
        }
        assert_eq!((moves, scene.carrier()), (1, Some(2)));
    }

    #[test]
    fn the_present_one_stays_when_others_come_and_the_choice_is_made_again_when_it_goes() {
        let mut scene = Scene::new(Wish::Auto, &[1]);
        assert_eq!(scene.carrier(), Some(1), "the only one needs no comparison");
        scene.set_map(&[1, 2, 3], 1_000);
        scene.direct(2, 1);
        scene.direct(3, 9);
        scene.look(2_000);
        assert_eq!(scene.carrier(), Some(1));
        scene.set_map(&[2, 3], 3_000);
        assert_eq!(scene.exits.route(), ExitRoute::Closed);
        scene.look(3_001);
        assert_eq!(scene.carrier(), Some(2));
        // The user wants none.
        scene.exits.set_wish(Wish::None);
        scene.set_map(&[2, 3], 4_000);
        assert_eq!(scene.exits.route(), ExitRoute::Off);
    }

    #[test]
    fn the_candidates_are_bounded() {
        let many: Vec<u64> = (1..=60).collect();
        assert_eq!(Scene::new(Wish::Auto, &many).look(0).len(), MAX_CANDIDATES);
    }
}

//! The exit node that this host uses: the peer that carries packets to the public internet. The user chooses one by name, or leaves the choice to this module.
//!
//! The automatic choice asks all candidates for an answer and takes the one with the lowest round-trip time, a direct path before a relayed one. It stays with that one
//! while it answers, because another exit node has another public address, which ends connections. When it is in doubt, the others are asked; when it fails, the best one
//! that has answered since carries, by the same rules and within the same times as the routers of a subnet ([`crate::subnets`]). An exit node that is back carries again when the
//! present one fails.
//!
//! While an exit node was chosen and none can be used, nothing goes to the internet ([`ExitRoute::Closed`]).

use std::collections::BTreeMap;
use std::time::Duration;

use taut_base::{NodeId, PeerId, Time};
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
    health: BTreeMap<PeerId, Health>,
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

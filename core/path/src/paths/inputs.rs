//! The inputs of a peer's paths.

use core::net::SocketAddr;
use core::time::Duration;

use taut_base::{MAX_CANDIDATES, Time};
use taut_wire::control::Endpoints;

use super::{CandidateState, Families, Origins, Paths, Suspicion};
use crate::candidates::{acceptable, canonical};
use crate::event::PathEvent;
use crate::nat::Nat;
use crate::way::Way;

/// Limit on the relays kept for one peer.
const MAX_RELAYS: usize = 4;

/// Limit on all candidates of one peer (fault D10): two lists, heard endpoints, and proven ones that are listed no more.
const MAX_WAYS: usize = 28;

/// Limit on candidates that are known only because packets came from them: the latest few ports of a NAT that changes its outer port (fault D4).
const MAX_HEARD: usize = 4;

/// Silence on the present path, 1 s, after which it is suspected when the peer is proven elsewhere. A path in use is heard of more often.
const PRESENT_PATH_QUIET: Duration = Duration::from_secs(1);

/// Least time between probes triggered by authentic packets from an unproven candidate, 1 s. A probe from the peer triggers one at once.
const ARRIVAL_PROBE_INTERVAL: Duration = Duration::from_secs(1);

impl Paths {
    /// Replaces the endpoints that the map lists for the peer, best first.
    pub fn set_listed(&mut self, endpoints: &[SocketAddr], now: Time) {
        self.update_list(endpoints, |origins| &mut origins.listed, false, now);
    }

    /// Takes an endpoints message: the peer reports where it may be reached.
    pub fn handle_endpoints(&mut self, message: &Endpoints, now: Time) {
        if !self.exchange.handle_endpoints(message) {
            return;
        }
        if self.peer_nat != message.nat {
            self.rounds.start_over_for_peer(now);
            let (from, to) = (Nat::from_number(self.peer_nat), Nat::from_number(message.nat));
            if from != to {
                self.events.push(PathEvent::PeerNatChanged { from, to });
            }
        }
        self.peer_nat = message.nat;
        let list: Vec<SocketAddr> = message.list().collect();
        self.update_list(&list, |origins| &mut origins.reported, true, now);
    }

    /// Adds a candidate. Most peers have two and are never talked to, so no room is kept for more.
    fn add(&mut self, candidate: CandidateState) {
        self.candidates.reserve_exact(1);
        self.candidates.push(candidate);
    }

    /// Replaces one of the two lists. A candidate in neither list and not in use is dropped. A new one is tried at once, and with `at_once` one that
    /// was not in this list before. If the path in use is no longer listed, it is suspected: the peer moved.
    fn update_list(&mut self, endpoints: &[SocketAddr], list: fn(&mut Origins) -> &mut bool, at_once: bool, now: Time) {
        let way = self.way;
        let named_before =
            way.and_then(|way| self.find_mut(way)).is_some_and(|candidate| *list(&mut candidate.origins));
        self.candidates.iter_mut().for_each(|candidate| *list(&mut candidate.origins) = false);
        let mut named = 0;
        for endpoint in endpoints.iter().map(|endpoint| canonical(*endpoint)) {
            if named == MAX_CANDIDATES || self.candidates.len() >= MAX_WAYS || !acceptable(endpoint, &self.overlay) {
                continue;
            }
            let way = Way::Direct(endpoint);
            if let Some(candidate) = self.find_mut(way) {
                let again = std::mem::replace(list(&mut candidate.origins), true);
                if at_once && !again && !candidate.is_proven() {
                    candidate.start_burst(now);
                }
                named += usize::from(!again);
            } else {
                let mut origins = Origins::default();
                *list(&mut origins) = true;
                self.add(CandidateState::new(way, origins, now));
                named += 1;
            }
        }
        if let Some(candidate) = way.filter(|_| named_before).and_then(|way| self.find_mut(way))
            && !*list(&mut candidate.origins)
        {
            candidate.suspect(Suspicion::NetworkChanged, now);
        }
        self.limit_heard(MAX_HEARD);
        self.candidates.retain(|candidate| {
            candidate.way.is_relayed()
                || candidate.origins != Origins::default()
                || Some(candidate.way) == way
                || candidate.is_proven()
        });
        self.update_path(false, now);
    }

    /// Replaces the relays that both ends are connected to, best first. A relay that is not among them carries no more data.
    pub fn set_relays(&mut self, ways: &[Way], now: Time) {
        let mut relays = Vec::with_capacity(MAX_RELAYS);
        for way in ways.iter().filter(|way| way.is_relayed()).take(MAX_RELAYS).map(|way| canonical_way(*way)) {
            if relays.iter().all(|candidate: &CandidateState| candidate.way != way) {
                let origins = Origins { relay: true, ..Origins::default() };
                relays.push(self.find(way).cloned().unwrap_or_else(|| CandidateState::new(way, origins, now)));
            }
        }
        let lost = self.way.is_some_and(|way| way.is_relayed() && relays.iter().all(|candidate| candidate.way != way));
        relays.extend(self.candidates.drain(..).filter(|candidate| !candidate.way.is_relayed()));
        self.candidates = relays;
        self.update_path(lost, now);
    }

    /// A session with the peer came into use, the first one or a renewal. `by`: the path that its handshake took in both directions, if it was one.
    pub fn handle_session_begun(&mut self, by: Option<Way>, now: Time) {
        let first = !self.session;
        (self.session, self.is_idle, self.last_data) = (true, false, Some(now));
        if first {
            self.changed_at = now;
            self.exchange.begin();
            self.candidates.iter_mut().for_each(|candidate| candidate.start_burst(now));
        }
        if let Some(way) = by.and_then(|way| self.find_or_add(way, now)) {
            if let Some(candidate) = self.find_mut(way) {
                candidate.prove(now);
                candidate.probe_soon();
            }
            // A renewal is sent on all paths; which of them answers first says nothing against the others.
            if first {
                self.suspect_present(way, now);
            }
        }
        self.update_path(false, now);
    }

    /// The last session ended: nothing can be probed or judged.
    pub fn handle_session_ended(&mut self) {
        self.session = false;
    }

    /// An authentic packet of the peer came by another path than the packet before.
    pub fn handle_arrival(&mut self, way: Way, now: Time) {
        let Some(way) = self.find_or_add(way, now) else { return };
        let Some(candidate) = self.find_mut(way) else { return };
        candidate.last_heard = Some(now);
        let recent = candidate.probes.last_sent.is_some_and(|last| now.since(last) < ARRIVAL_PROBE_INTERVAL);
        if !candidate.is_proven() && !recent {
            candidate.probe_soon();
        }
    }

    /// A probe of the peer came by this path: its NAT is open for this side.
    pub fn handle_probe_from(&mut self, way: Way, now: Time) {
        let Some(way) = self.find_or_add(way, now) else { return };
        let Some(candidate) = self.find_mut(way) else { return };
        candidate.last_heard = Some(now);
        candidate.peer_probes += 1;
        // A candidate that is down returns at its own pace. If each end's probe triggered the other's, any number of answers would be collected at
        // once.
        if !candidate.is_proven() && !candidate.is_returning() {
            candidate.probe_soon();
        }
    }

    /// An answer came by this path; the peer saw the probe come from `seen`.
    pub fn handle_answer(&mut self, way: Way, id: u64, seen: SocketAddr, now: Time) {
        let way = canonical_way(way);
        if self.candidates.iter_mut().any(|candidate| candidate.limit.answer(id, now)) {
            return;
        }
        let Some(place) = self.candidates.iter().position(|candidate| candidate.probes.waits_for(id)) else { return };
        let candidate = &mut self.candidates[place];
        if candidate.way != way {
            // The answer shows that the peer is at the other path, too. It says nothing about the probed path (fault D2).
            candidate.answered_elsewhere += 1;
            return self.handle_probe_from(way, now);
        }
        let news = candidate.answer(id, canonical(seen), now);
        let moved = candidate.origins.heard;
        if news && moved {
            self.suspect_present(way, now);
        }
        self.update_path(false, now);
    }

    /// Suspects the path in use when the peer was just proven at `other` and the path in use was silent since.
    fn suspect_present(&mut self, other: Way, now: Time) {
        let Some(known_since) = self.find(other).map(|candidate| candidate.known_since) else { return };
        let present = self.way.filter(|way| !way.is_relayed() && *way != other);
        let Some(candidate) = present.and_then(|way| self.find_mut(way)) else { return };
        if candidate.probes.last_answer.is_none_or(|last| last < known_since || now.since(last) >= PRESENT_PATH_QUIET) {
            candidate.suspect(Suspicion::PeerMoved, now);
        }
    }

    /// Data flows to or from the peer. A lane reports it every few seconds while it does.
    pub fn handle_active(&mut self, now: Time) {
        let talked = self.is_talking(now);
        self.last_data = Some(now);
        self.is_idle = false;
        if talked {
            return;
        }
        self.changed_at = now;
        self.candidates
            .iter_mut()
            .filter(|candidate| !candidate.is_proven())
            .for_each(|candidate| candidate.start_burst(now));
        let way = self.way;
        if let Some(candidate) = self.candidates.iter_mut().find(|candidate| Some(candidate.way) == way) {
            candidate.probe_soon();
        }
    }

    /// A lane reports that data on the path in use is not acknowledged.
    pub fn handle_suspicion(&mut self, now: Time) {
        self.suspicions += 1;
        let way = self.way;
        if let Some(candidate) = self.candidates.iter_mut().find(|candidate| Some(candidate.way) == way) {
            candidate.suspect_data(now);
            let died = !candidate.is_proven() && !candidate.way.is_relayed();
            self.update_path(died, now);
        }
    }

    /// A lane reports that none of the long packets arrived that were sent on the path in use, although later packets did.
    pub fn handle_long_lost(&mut self, now: Time) {
        if let Some(candidate) = self.way.and_then(|way| self.find_mut(way)) {
            candidate.limit.recheck(now);
        }
    }

    /// The peer says whether it takes packets in pieces; not before the first call.
    pub fn set_takes_pieces(&mut self, takes: bool) {
        self.takes_pieces = takes;
    }

    /// This host's addresses, routes or links changed, or it was suspended: everything is proven again.
    pub fn handle_network_change(&mut self, families: Families, now: Time) {
        self.families = families;
        self.changed_at = now;
        self.rounds.start_over();
        let way = self.way;
        let mut lost = false;
        for candidate in &mut self.candidates {
            if candidate.is_proven() && !families.has(candidate.way) {
                // A candidate that cannot be probed would stay suspected for ever. It did not fail, so one answer proves it when the family is back.
                candidate.forget(now);
                lost |= way == Some(candidate.way);
            }
            candidate.suspect(Suspicion::NetworkChanged, now);
            candidate.limit.handle_network_change(now);
            if !candidate.is_proven() {
                candidate.start_burst(now);
            }
        }
        self.update_path(lost, now);
    }

    /// Returns the path of a packet in canonical form, and adds a candidate for it if there is none. `None`: its address may never be sent to, or the
    /// relay is not used for this peer.
    fn find_or_add(&mut self, way: Way, now: Time) -> Option<Way> {
        let way = canonical_way(way);
        let Way::Direct(endpoint) = way else { return self.find(way).map(|_| way) };
        if !acceptable(endpoint, &self.overlay) {
            return None;
        }
        if let Some(candidate) = self.find_mut(way) {
            candidate.origins.heard = true;
            return Some(way);
        }
        self.limit_heard(MAX_HEARD - 1);
        self.add(CandidateState::new(way, Origins { heard: true, ..Origins::default() }, now));
        Some(way)
    }

    /// Drops candidates that are known only by their packets until `most` are left: first those that are not proven, then the least recently heard.
    /// Otherwise old ports of a NAT that changes its port would leave no room for the new one.
    fn limit_heard(&mut self, most: usize) {
        let in_use = self.way;
        let only_heard = |candidate: &CandidateState| {
            !candidate.way.is_relayed()
                && !candidate.origins.listed
                && !candidate.origins.reported
                && Some(candidate.way) != in_use
        };
        loop {
            let heard = self
                .candidates
                .iter()
                .enumerate()
                .filter(|(_, candidate)| only_heard(candidate) && candidate.origins.heard);
            let count = heard.clone().count();
            let Some((place, _)) = heard.min_by_key(|(_, candidate)| (candidate.is_proven(), candidate.last_heard))
            else {
                return;
            };
            if count <= most {
                return;
            }
            self.candidates.remove(place);
        }
    }
}

/// Returns the way with IPv4-mapped addresses written as IPv4, so that equal ways compare equal.
fn canonical_way(way: Way) -> Way {
    match way {
        Way::Direct(endpoint) => Way::Direct(canonical(endpoint)),
        Way::Relayed { relay, id } => Way::Relayed { relay: canonical(relay), id },
    }
}

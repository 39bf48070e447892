//! What happens to a peer's paths from outside.

use core::net::SocketAddr;
use core::time::Duration;

use taut_base::{MAX_CANDIDATES, Time};
use taut_wire::control::Endpoints;

use super::{CandidateState, Families, Origins, Paths, Suspicion};
use crate::candidates::{acceptable, canonical};
use crate::event::PathEvent;
use crate::nat::Nat;
use crate::way::Way;

/// Relays of one peer that are kept.
const RELAYS: usize = 4;

/// Ways of one peer in all, whatever lists say (fault D10): two lists and what was heard, and some that were proven before they were listed no more.
const MOST: usize = 28;

/// Ways that are known only because packets came by them: of a NAT that changes its outer port, the last few (fault D4).
const HEARD: usize = 4;

/// The peer came from elsewhere, and by the way in use nothing was heard for so long: it is judged. What is in use is heard of more often.
const QUIET: Duration = Duration::from_secs(1);

/// An authentic packet by a way that is not proven makes us look there, this often at most; a probe of the peer does at once.
const LOOK_APART: Duration = Duration::from_secs(1);

impl Paths {
    /// Where the map lists the peer, best first.
    pub fn set_listed(&mut self, endpoints: &[SocketAddr], now: Time) {
        self.name(endpoints, |origins| &mut origins.listed, false, now);
    }

    /// The peer says where it may be reached (a control message).
    pub fn handle_said(&mut self, message: &Endpoints, now: Time) {
        if !self.tell.heard(message) {
            return;
        }
        if self.their_nat != message.nat {
            self.rounds.start_over_for_peer(now);
            let (from, to) = (Nat::from_number(self.their_nat), Nat::from_number(message.nat));
            if from != to {
                self.events.push(PathEvent::PeerNatChanged { from, to });
            }
        }
        self.their_nat = message.nat;
        let list: Vec<SocketAddr> = message.list().collect();
        self.name(&list, |origins| &mut origins.said, true, now);
    }

    /// Replaces what one of two lists names. What is in neither and is not in use is forgotten; what is new, or named in `haste`, is tried at once; and a
    /// way in use that is named no more is judged: the peer moved.
    fn name(&mut self, endpoints: &[SocketAddr], list: fn(&mut Origins) -> &mut bool, haste: bool, now: Time) {
        let way = self.way;
        let named_before = way.and_then(|way| self.find_mut(way)).is_some_and(|track| *list(&mut track.origins));
        self.tracks.iter_mut().for_each(|track| *list(&mut track.origins) = false);
        let mut named = 0;
        for endpoint in endpoints.iter().map(|endpoint| canonical(*endpoint)) {
            if named == MAX_CANDIDATES || self.tracks.len() >= MOST || !acceptable(endpoint, &self.overlay) {
                continue;
            }
            let way = Way::Direct(endpoint);
            if let Some(track) = self.find_mut(way) {
                let again = std::mem::replace(list(&mut track.origins), true);
                if haste && !again && !track.is_proven() {
                    track.try_anew(now);
                }
                named += usize::from(!again);
            } else {
                let mut origins = Origins::default();
                *list(&mut origins) = true;
                self.tracks.push(CandidateState::new(way, origins, now));
                named += 1;
            }
        }
        if let Some(track) = way.filter(|_| named_before).and_then(|way| self.find_mut(way))
            && !*list(&mut track.origins)
        {
            track.suspect(Suspicion::Moved, now);
        }
        self.forget_heard(HEARD);
        self.tracks.retain(|track| {
            track.way.is_relayed() || track.origins != Origins::default() || Some(track.way) == way || track.is_proven()
        });
        self.after(false, now);
    }

    /// The relays that have the peer and us, best first. What is not among them carries no more.
    pub fn set_relays(&mut self, ways: &[Way], now: Time) {
        let mut relays = Vec::with_capacity(RELAYS);
        for way in ways.iter().filter(|way| way.is_relayed()).take(RELAYS).map(|way| spelled(*way)) {
            if relays.iter().all(|track: &CandidateState| track.way != way) {
                let origins = Origins { relay: true, ..Origins::default() };
                relays.push(self.find(way).cloned().unwrap_or_else(|| CandidateState::new(way, origins, now)));
            }
        }
        let lost = self.way.is_some_and(|way| way.is_relayed() && relays.iter().all(|track| track.way != way));
        relays.extend(self.tracks.drain(..).filter(|track| !track.way.is_relayed()));
        self.tracks = relays;
        self.after(lost, now);
    }

    /// A session with the peer is in use, the first one or a renewal. `by`: the way that its handshake went both there and back, if it did.
    pub fn handle_session_begun(&mut self, by: Option<Way>, now: Time) {
        let first = !self.session;
        (self.session, self.let_go, self.active) = (true, false, Some(now));
        if first {
            self.news = now;
            self.tell.begin();
            self.tracks.iter_mut().for_each(|track| track.try_anew(now));
        }
        if let Some(way) = by.and_then(|way| self.meet(way, now)) {
            if let Some(track) = self.find_mut(way) {
                track.prove(now);
                track.try_soon();
            }
            // A renewal goes all ways, and whichever answered first says nothing against the others.
            if first {
                self.look_at_present(way, now);
            }
        }
        self.after(false, now);
    }

    /// There is no session any more: nothing can be probed, or judged.
    pub fn handle_session_ended(&mut self) {
        self.session = false;
    }

    /// An authentic packet of the peer came by a way, other than the last one did.
    pub fn handle_arrival(&mut self, way: Way, now: Time) {
        let Some(way) = self.meet(way, now) else { return };
        let Some(track) = self.find_mut(way) else { return };
        track.heard = Some(now);
        let recent = track.probes.last_sent.is_some_and(|last| now.since(last) < LOOK_APART);
        if !track.is_proven() && !recent {
            track.try_soon();
        }
    }

    /// A probe of the peer came by a way: it opened its NAT for us there.
    pub fn handle_probe_from(&mut self, way: Way, now: Time) {
        let Some(way) = self.meet(way, now) else { return };
        let Some(track) = self.find_mut(way) else { return };
        track.heard = Some(now);
        track.asked += 1;
        // One that was down returns at its own pace: two ends that hurried each other would be done with any number of answers at once.
        if !track.is_proven() && !track.is_returning() {
            track.try_soon();
        }
    }

    /// An answer came by a way; the peer saw our probe come from `seen`.
    pub fn handle_answer(&mut self, way: Way, id: u64, seen: SocketAddr, now: Time) {
        let way = spelled(way);
        if self.tracks.iter_mut().any(|track| track.sizes.answer(id)) {
            return;
        }
        let Some(place) = self.tracks.iter().position(|track| track.probes.waits_for(id)) else { return };
        let track = &mut self.tracks[place];
        if track.way != way {
            // It says that the peer is there, too, and nothing about the way that was probed (fault D2).
            track.elsewhere += 1;
            return self.handle_probe_from(way, now);
        }
        let news = track.answer(id, canonical(seen), now);
        let moved = track.origins.heard;
        if news && moved {
            self.look_at_present(way, now);
        }
        self.after(false, now);
    }

    /// The peer was just proven to be at another way than the one in use, of which nothing was heard since: is it still there?
    fn look_at_present(&mut self, other: Way, now: Time) {
        let Some(met) = self.find(other).map(|track| track.known) else { return };
        let present = self.way.filter(|way| !way.is_relayed() && *way != other);
        let Some(track) = present.and_then(|way| self.find_mut(way)) else { return };
        if track.probes.last_answer.is_none_or(|last| last < met || now.since(last) >= QUIET) {
            track.suspect(Suspicion::Elsewhere, now);
        }
    }

    /// Data flows to or from the peer. A lane says so every few seconds while it does.
    pub fn handle_active(&mut self, now: Time) {
        let talked = self.is_talking(now);
        self.active = Some(now);
        self.let_go = false;
        if talked {
            return;
        }
        self.news = now;
        self.tracks.iter_mut().filter(|track| !track.is_proven()).for_each(|track| track.try_anew(now));
        let way = self.way;
        if let Some(track) = self.tracks.iter_mut().find(|track| Some(track.way) == way) {
            track.try_soon();
        }
    }

    /// A lane has data that is not receipted, on the way in use.
    pub fn handle_suspicion(&mut self, now: Time) {
        self.suspicions += 1;
        let way = self.way;
        if let Some(track) = self.tracks.iter_mut().find(|track| Some(track.way) == way) {
            track.doubt(now);
            let died = !track.is_proven() && !track.way.is_relayed();
            self.after(died, now);
        }
    }

    /// Our addresses, routes or links changed, or the host slept: everything is proven again.
    pub fn handle_look_around(&mut self, families: Families, now: Time) {
        self.families = families;
        self.news = now;
        self.rounds.start_over();
        let way = self.way;
        let mut lost = false;
        for track in &mut self.tracks {
            if track.is_proven() && !families.has(track.way) {
                // It cannot be probed, so it would be judged for ever. It did not fail, and is proven by one answer when the family is back.
                track.forget(now);
                lost |= way == Some(track.way);
            }
            track.suspect(Suspicion::Moved, now);
            if !track.is_proven() {
                track.try_anew(now);
            }
        }
        self.after(lost, now);
    }

    /// The track of a way that packets came by, made if there was none. `None` for what is never sent to, and for a relay that we do not use for the peer.
    fn meet(&mut self, way: Way, now: Time) -> Option<Way> {
        let way = spelled(way);
        let Way::Direct(endpoint) = way else { return self.find(way).map(|_| way) };
        if !acceptable(endpoint, &self.overlay) {
            return None;
        }
        if let Some(track) = self.find_mut(way) {
            track.origins.heard = true;
            return Some(way);
        }
        self.forget_heard(HEARD - 1);
        self.tracks.push(CandidateState::new(way, Origins { heard: true, ..Origins::default() }, now));
        Some(way)
    }

    /// Of the ways that are known only because packets came by them so many stay: first go those that lead nowhere, then what was heard of least lately.
    /// Without this the dead ports of a NAT that changes them would fill all places, and its new one found none.
    fn forget_heard(&mut self, most: usize) {
        let in_use = self.way;
        let only_heard = |track: &CandidateState| {
            !track.way.is_relayed() && !track.origins.listed && !track.origins.said && Some(track.way) != in_use
        };
        loop {
            let heard = self.tracks.iter().enumerate().filter(|(_, track)| only_heard(track) && track.origins.heard);
            let count = heard.clone().count();
            let Some((place, _)) = heard.min_by_key(|(_, track)| (track.is_proven(), track.heard)) else { return };
            if count <= most {
                return;
            }
            self.tracks.remove(place);
        }
    }
}

/// One way has one spelling.
fn spelled(way: Way) -> Way {
    match way {
        Way::Direct(endpoint) => Way::Direct(canonical(endpoint)),
        Way::Relayed { relay, id } => Way::Relayed { relay: canonical(relay), id },
    }
}

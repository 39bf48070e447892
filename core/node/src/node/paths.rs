//! How Taut peers are reached: what happens is told to the rules of paths ([`taut_path::Paths`]), one for each peer, and what they want is done.
//!
//! ```text
//! a handshake is wished for ──▶ relayed: the relay is asked for the peer; its copies go there and to the candidates (protocol.md 2.1)
//! a session is in use       ──▶ Paths::handle_session_begun     it tells endpoints and begins to probe
//! FromLane::Arrived         ──▶ Paths::handle_probe_from        somebody authentic is there: worth a probe, moves nothing
//! FromLane::Control(Answer) ──▶ Paths::handle_answer            the proof
//! FromLane::Suspect, Active ──▶ handle_suspicion, handle_active
//! the host changed, slept   ──▶ handle_look_around              everything is proven anew
//!                               PathOutput::Choice      ──▶ ToLane::SetPath
//!                               PathOutput::Endpoints   ──▶ ToLane::Control where data goes
//!                               PathOutput::Probe       ──▶ ToLane::Control on the newest session, by the probe's way
//!                               PathOutput::OpenSearch  ──▶ ToLane::Control where data goes, and ToLane::OpenSearch: sockets for it
//!                               PathOutput::CloseSearch ──▶ ToLane::CloseSearch
//! FromLane::Control(Search) ──▶ Paths::handle_search            the peer asks to be looked for
//! ```
//! Further lanes go without a relay: they are closed when the path is relayed or leads to another host, and proven anew when it is direct.
//! Native peers have no paths: a lane moves them by itself, as stock WireGuard does.

use std::net::SocketAddr;
use std::sync::Arc;

use taut_base::{Entropy, LaneId, PeerId, Prefix, Time};
use taut_path::{Choice, Families, Here, PathContext, PathOutput, Paths, Probe, Report, Way};
use taut_wire::control::{ControlMessage, Endpoints, Search};

use super::Node;
use crate::contract::{Clocks, ToLane};
use crate::event::NodeEvent;
use crate::output::Output;

impl<E: Entropy> Node<E> {
    /// The addresses of our interfaces with the first lane's port, best first: what peers are told inside a session.
    pub fn set_interfaces(&mut self, endpoints: &[SocketAddr], clocks: Clocks) {
        self.set_clocks(clocks);
        self.nat_report.set_hosts(endpoints);
        if self.local_endpoints.set_host(endpoints, &self.overlay) {
            self.tell_endpoints();
        }
    }

    /// What gateways forward to the first lane's port, as far as they say the truth: peers prove it by their probes.
    pub fn set_mapped(&mut self, endpoints: &[SocketAddr], clocks: Clocks) {
        self.set_clocks(clocks);
        self.outside.set_mapped(endpoints);
        self.tell_coordinator();
        if self.local_endpoints.set_mapped(endpoints, &self.overlay) {
            self.tell_endpoints();
        }
    }

    /// The host's addresses, routes or links changed, or it slept: every way is proven anew, and relays are asked whether they still know us.
    pub fn handle_look_around(&mut self, families: Families, clocks: Clocks) {
        self.set_clocks(clocks);
        self.families = families;
        self.relays.handle_look_around(families, &mut self.entropy, clocks.now);
        self.nat_report.handle_look_around(families, clocks.now);
        self.relays_turn();
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { continue };
            paths.handle_look_around(families, clocks.now);
            self.steer(id);
        }
    }

    /// A peer's ways, each with what was sent and what came back, and what that means; `None` for a native peer, and for one that is not listed.
    pub fn report(&self, peer: PeerId, now: Time) -> Option<Report> {
        let paths = self.peers.get(&peer)?.paths.as_ref()?;
        let here = Here {
            nat: self.local_endpoints.nat(),
            networks: &self.networks,
            own: self.nat_report.hosts(),
            seen: self.outside.reflexive(),
            longest: self.budget.longest(),
        };
        Some(paths.report(&here, now))
    }

    /// Sets the networks that this host is in: those that its interfaces reach without a router. Only reports use them.
    pub fn set_networks(&mut self, networks: Vec<Prefix>) {
        self.networks = networks;
    }

    /// Sets the MTU of the TUN: the longest packet whose passage is tested.
    pub fn set_mtu(&mut self, mtu: u16) {
        self.budget.set_longest(mtu);
    }

    /// The coordinator hears of our endpoints outside the NAT, if they changed.
    pub(super) fn tell_coordinator(&mut self) {
        if let Some(endpoints) = self.outside.poll_output() {
            self.outputs.push(Output::Endpoints(endpoints));
        }
    }

    /// All peers hear of a list of ours that is new.
    pub(super) fn tell_endpoints(&mut self) {
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            self.steer(id);
        }
    }

    /// A session is in use. `by`: the way that its handshake went there and back.
    pub(super) fn begin_paths(&mut self, id: PeerId, by: Option<Way>) {
        self.want_relays(id);
        let now = self.now;
        if by.is_some_and(|way| !way.is_relayed()) {
            self.nat_report.handle_heard(now);
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(paths) = peer.paths.as_mut() else { return };
        paths.handle_session_begun(by, now);
        self.steer(id);
    }

    /// The last session is gone: nobody talked for minutes, and NATs forgot. Only where to look is known, and the next packet goes by a relay first.
    pub(super) fn end_paths(&mut self, id: PeerId) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(former) = peer.paths.as_mut() else { return };
        if former.has_open_search() {
            self.outputs.tell(LaneId::FIRST, ToLane::CloseSearch(id));
        }
        let mut paths = Paths::new(Arc::clone(&self.overlay), self.families);
        paths.set_listed(peer.candidates.listed(), now);
        paths.set_relays(&peer.relayed, now);
        *former = paths;
        self.steer(id);
    }

    /// An authentic packet came by another way than packets go.
    pub(super) fn arrived(&mut self, id: PeerId, way: Way) {
        let now = self.now;
        self.heard_by_relay(id, way);
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        paths.handle_probe_from(way, now);
        self.steer(id);
    }

    /// Data is sent and nothing comes back.
    pub(super) fn suspect(&mut self, id: PeerId) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if let Some(way) = peer.way {
            self.relays.suspect(&peer.key, way, &mut self.entropy, now);
            if !way.is_relayed() {
                self.nat_report.handle_doubt(now);
            }
        }
        let Some(paths) = peer.paths.as_mut() else { return };
        paths.handle_suspicion(now);
        self.relays_turn();
        self.steer(id);
        self.nat_report_turn();
    }

    /// Data flows.
    pub(super) fn active(&mut self, id: PeerId) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.wanted = Some(now);
        self.relays.still_wants(&peer.key, now);
        let Some(paths) = peer.paths.as_mut() else { return };
        paths.handle_active(now);
        self.steer(id);
    }

    /// A probe of the first lane was answered.
    pub(super) fn answered(&mut self, id: PeerId, way: Way, probe: u64, seen: SocketAddr) {
        let now = self.now;
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        if !way.is_relayed() {
            self.nat_report.handle_heard(now);
        }
        paths.handle_answer(way, probe, seen, now);
        self.steer(id);
    }

    /// The peer says where it may be reached.
    pub(super) fn said(&mut self, id: PeerId, endpoints: &Endpoints) {
        let now = self.now;
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        paths.handle_said(endpoints, now);
        self.steer(id);
    }

    /// The peer asks to be looked for at ports that it cannot name.
    pub(super) fn asked_to_search(&mut self, id: PeerId, search: &Search) {
        let now = self.now;
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        paths.handle_search(search, &self.local_endpoints, now);
        self.steer(id);
    }

    /// Sockets that may be opened to look for one peer that no other way leads to; 0, as at first, for none.
    pub fn set_search_sockets(&mut self, most: u16) {
        self.budget.set_sockets(most);
    }

    /// Time has passed for a peer's paths.
    pub(super) fn continue_paths(&mut self, id: PeerId) {
        let now = self.now;
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        paths.handle_timeout(now);
        self.steer(id);
    }

    /// Does what the paths of a peer ask for.
    pub(super) fn steer(&mut self, id: PeerId) {
        while let Some(output) = self.poll_paths(id) {
            match output {
                PathOutput::Choice(choice) => self.take_choice(id, choice),
                PathOutput::Endpoints(endpoints) => self.say(id, None, ControlMessage::Endpoints(endpoints)),
                PathOutput::OpenSearch(round) => {
                    self.say(id, None, ControlMessage::Search(round.ask));
                    let session = self.peers.get(&id).and_then(|peer| peer.sessions.last());
                    if let Some(((session, _), search)) = session.copied().zip(round.search) {
                        self.outputs.tell(LaneId::FIRST, ToLane::OpenSearch { peer: id, session, search });
                    }
                }
                PathOutput::Probe(Probe { way, id: probe, size: 0 }) => {
                    self.say(id, Some(way), ControlMessage::Probe { id: probe });
                }
                PathOutput::Probe(Probe { way, id: probe, size }) => {
                    let session = self.peers.get(&id).and_then(|peer| peer.sessions.last());
                    if let Some((session, _)) = session.copied() {
                        let probe = ToLane::SizedProbe { peer: id, session, way, id: probe, size };
                        self.outputs.tell(LaneId::FIRST, probe);
                    }
                }
                PathOutput::CloseSearch => self.outputs.tell(LaneId::FIRST, ToLane::CloseSearch(id)),
                PathOutput::Event(event) => self.outputs.note(NodeEvent::Path { peer: id, event }),
            }
        }
    }

    fn poll_paths(&mut self, id: PeerId) -> Option<PathOutput> {
        let paths = self.peers.get_mut(&id)?.paths.as_mut()?;
        let (local_endpoints, budget, entropy) = (&self.local_endpoints, &mut self.budget, &mut self.entropy);
        paths.poll_output(&mut PathContext { local_endpoints, budget, entropy, now: self.now })
    }

    /// Sends a control message on the newest session; `None` is the way that data goes.
    fn say(&mut self, id: PeerId, way: Option<Way>, message: ControlMessage) {
        let session = self.peers.get(&id).and_then(|peer| peer.sessions.last());
        if let Some((session, _)) = session.copied() {
            let lane = LaneId::FIRST;
            self.outputs.tell(lane, ToLane::Control { peer: id, session, lane, way, message });
        }
    }

    /// Where data goes from now on, if that is news.
    fn take_choice(&mut self, id: PeerId, choice: Choice) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let former = peer.way.replace(choice.way);
        if let Some(endpoint) = choice.way.direct() {
            peer.candidates.set_proven(endpoint);
        }
        if choice.round_trip.is_some() {
            peer.round_trip = choice.round_trip;
        }
        self.tell_all(|| ToLane::SetPath { peer: id, choice });
        let host = |way: Option<Way>| way.and_then(|way| way.direct()).map(|endpoint| endpoint.ip());
        if host(former) != host(Some(choice.way)) {
            self.prove_lanes(id);
        }
    }

    /// The path leads elsewhere: further lanes are closed, and proven there anew.
    fn prove_lanes(&mut self, id: PeerId) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.further.in_use() > 1 {
            self.tell_all(|| ToLane::CloseLanes(id));
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.further.prove_anew(now);
        let session = peer.sessions.last().map(|(session, _)| *session);
        if let Some(session) = session {
            self.probe_lanes(id, session, now);
        }
    }
}

//! The paths to Taut peers: inputs of the node go to the path rules of the peer ([`taut_path::Paths`]), and their outputs are carried out.
//!
//! ```text
//! a handshake starts        ──▶ relayed: the relay is asked for the peer; copies go there and to the candidates (protocol.md 2.1)
//! a session is in use       ──▶ Paths::handle_session_begun     endpoints are told, and probing begins
//! FromLane::Arrived         ──▶ Paths::handle_probe_from        the sender is authentic: its endpoint is probed, data stays where it is
//! FromLane::Control(Answer) ──▶ Paths::handle_answer            the proof of a path
//! FromLane::Suspect, Active ──▶ handle_suspicion, handle_active
//! FromLane::LongLost        ──▶ Paths::handle_long_lost         the packet limit is probed again
//! the host changed, slept   ──▶ handle_look_around              all paths need a new proof
//!                               PathOutput::Choice      ──▶ ToLane::SetPath
//!                               PathOutput::Endpoints   ──▶ ToLane::Control where data goes
//!                               PathOutput::Probe       ──▶ ToLane::Control on the newest session, by the probe's way
//!                               PathOutput::Limit       ──▶ Output::PacketLimit
//!                               PathOutput::OpenSearch  ──▶ ToLane::Control where data goes, and ToLane::OpenSearch: sockets for it
//!                               PathOutput::CloseSearch ──▶ ToLane::CloseSearch
//! FromLane::Control(Search) ──▶ Paths::handle_search            the peer requests a port search
//! ```
//! Extra lanes are closed when the path leads to another host or takes another relay, and are proven again there.
//! Native peers have no paths: a lane follows their endpoint, like stock WireGuard.

use std::net::SocketAddr;
use std::sync::Arc;

use taut_base::{Entropy, LaneId, PeerId, Prefix, Time};
use taut_path::{Choice, Families, LocalNetwork, PathContext, PathOutput, PathReport, Paths, Probe, Way};
use taut_wire::control::{ControlMessage, Endpoints, Search};

use super::Node;
use crate::contract::{Clocks, ToLane};
use crate::event::NodeEvent;
use crate::output::Output;
use crate::peer::Peer;

impl<E: Entropy> Node<E> {
    /// Sets the addresses of this host's interfaces with the first lane's port, best first. Peers are told of them inside a session.
    pub fn set_interfaces(&mut self, endpoints: &[SocketAddr], clocks: Clocks) {
        self.set_clocks(clocks);
        self.nat_report.set_hosts(endpoints);
        if self.local_endpoints.set_host(endpoints, &self.overlay) {
            self.tell_endpoints();
        }
    }

    /// Sets the endpoints that gateways claim to forward to the first lane's port. Peers verify them by probes.
    pub fn set_mapped(&mut self, endpoints: &[SocketAddr], clocks: Clocks) {
        self.set_clocks(clocks);
        self.outside.set_mapped(endpoints);
        self.tell_coordinator();
        if self.local_endpoints.set_mapped(endpoints, &self.overlay) {
            self.tell_endpoints();
        }
    }

    /// Notes that the host's addresses, routes or links changed, or that the host slept: every path needs a new proof, and relays are asked whether this node
    /// is still bound.
    pub fn handle_look_around(&mut self, families: Families, clocks: Clocks) {
        self.set_clocks(clocks);
        self.families = families;
        self.relays.handle_look_around(families, &mut self.entropy, clocks.now);
        self.nat_report.handle_network_change(families, clocks.now);
        self.relays_turn();
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { continue };
            paths.handle_network_change(families, clocks.now);
            self.steer(id);
        }
    }

    /// Returns the ways to a peer with their counters and their meaning; `None` for a native peer and for an unknown one.
    pub fn report(&self, peer: PeerId, now: Time) -> Option<PathReport> {
        let peer = self.peers.get(&peer).filter(|peer| !peer.native)?;
        let here = LocalNetwork {
            nat: self.local_endpoints.nat(),
            networks: &self.networks,
            own: self.nat_report.hosts(),
            seen: self.outside.reflexive(),
            longest: self.budget.longest(),
            interface_mtu: self.interface_mtu,
        };
        Some(match &peer.paths {
            Some(paths) => paths.report(&here, now),
            None => self.new_paths(peer).report(&here, now),
        })
    }

    /// Sets the networks that this host's interfaces reach without a router. Only reports use them.
    pub fn set_networks(&mut self, networks: Vec<Prefix>) {
        self.networks = networks;
    }

    /// Sets the longest packet limit that is looked for, as the user's `--mtu` does; `None`, as before the first call, for as much as the paths carry.
    pub fn set_mtu(&mut self, mtu: Option<u16>) {
        self.budget.set_longest(mtu);
    }

    /// Sets the largest MTU of the interfaces that lead to peers. Only reports use it: a limit that it explains is not the network's.
    pub fn set_interface_mtu(&mut self, mtu: Option<u16>) {
        self.interface_mtu = mtu;
    }

    /// Tells the coordinator of the endpoints outside the NAT, if they changed.
    pub(super) fn tell_coordinator(&mut self) {
        if let Some(endpoints) = self.outside.poll_output() {
            self.outputs.push(Output::Endpoints(endpoints));
        }
    }

    /// Tells all peers of this node's endpoints, which changed.
    pub(super) fn tell_endpoints(&mut self) {
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            self.steer(id);
        }
    }

    /// Returns the paths to a peer of which nothing is known but the candidates and relays.
    fn new_paths(&self, peer: &Peer) -> Paths {
        let mut paths = Paths::new(Arc::clone(&self.overlay), self.families);
        paths.set_listed(peer.candidates.listed(), self.now);
        paths.set_relays(&peer.relayed, self.now);
        paths
    }

    /// Makes the paths to a Taut peer, unless they are there: before the first session, so that lanes know its path before they may send on it.
    pub(super) fn make_paths(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get(&id).filter(|peer| !peer.native && peer.paths.is_none()) else { return };
        let new = Box::new(self.new_paths(peer));
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.paths = Some(new);
        }
        self.steer(id);
    }

    /// Tells the paths that a session is in use. `by` is the way that its handshake proved.
    pub(super) fn begin_paths(&mut self, id: PeerId, by: Option<Way>) {
        self.request_relays(id);
        let now = self.now;
        if by.is_some_and(|way| !way.is_relayed()) {
            self.nat_report.handle_heard(now);
        }
        self.make_paths(id);
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        paths.handle_session_begun(by, now);
        self.steer(id);
    }

    /// Discards the paths of a peer whose last session ended: nothing was sent for minutes, and NAT mappings have expired. The candidates and relays are kept,
    /// and the next packet goes through a relay first.
    pub(super) fn end_paths(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.paths.take().is_some_and(|paths| paths.has_open_search()) {
            self.outputs.tell(LaneId::FIRST, ToLane::CloseSearch(id));
        }
        let choice =
            self.peers.get(&id).filter(|peer| !peer.native).and_then(|peer| self.new_paths(peer).choice(self.now));
        if let Some(choice) = choice {
            self.take_choice(id, choice);
        }
    }

    /// Notes that an authentic packet came by another way than the path to the peer.
    pub(super) fn handle_arrival(&mut self, id: PeerId, way: Way) {
        let now = self.now;
        self.note_relayed_way(id, way);
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        paths.handle_probe_from(way, now);
        self.steer(id);
    }

    /// Notes that data is sent to the peer and nothing comes back.
    pub(super) fn handle_suspicion(&mut self, id: PeerId) {
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

    /// Notes that long packets to the peer were lost although later packets arrived.
    pub(super) fn handle_long_lost(&mut self, id: PeerId) {
        let now = self.now;
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        paths.handle_long_lost(now);
        self.steer(id);
    }

    /// Notes that data flows.
    pub(super) fn handle_activity(&mut self, id: PeerId) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.wanted = Some(now);
        self.relays.note_use(&peer.key, now);
        let Some(paths) = peer.paths.as_mut() else { return };
        paths.handle_active(now);
        self.steer(id);
    }

    /// Takes the answer to a probe of the first lane.
    pub(super) fn handle_path_answer(&mut self, id: PeerId, way: Way, probe: u64, seen: SocketAddr) {
        let now = self.now;
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        if !way.is_relayed() {
            self.nat_report.handle_heard(now);
        }
        paths.handle_answer(way, probe, seen, now);
        self.steer(id);
    }

    /// Takes the endpoints that the peer names.
    pub(super) fn handle_endpoints(&mut self, id: PeerId, endpoints: &Endpoints) {
        let now = self.now;
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        paths.handle_endpoints(endpoints, now);
        self.steer(id);
    }

    /// Takes the peer's request for a port search: it does not know its own outside port.
    pub(super) fn handle_search(&mut self, id: PeerId, search: &Search) {
        let now = self.now;
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        paths.handle_search(search, &self.local_endpoints, now);
        self.steer(id);
    }

    /// Sets the maximum number of sockets of a port search for one peer; initially 0, which disables port searches.
    pub fn set_search_sockets(&mut self, most: u16) {
        self.budget.set_sockets(most);
    }

    /// Lets a peer's paths do the work that is due.
    pub(super) fn continue_paths(&mut self, id: PeerId) {
        let now = self.now;
        let Some(paths) = self.peers.get_mut(&id).and_then(|peer| peer.paths.as_mut()) else { return };
        paths.handle_timeout(now);
        self.steer(id);
    }

    /// Carries out the outputs of a peer's paths. The choice of the path comes first, because control messages take it, too.
    pub(super) fn steer(&mut self, id: PeerId) {
        while let Some(output) = self.poll_paths(id) {
            match output {
                PathOutput::Choice(choice) => self.take_choice(id, choice),
                PathOutput::Endpoints(endpoints) => self.send_control(id, None, ControlMessage::Endpoints(endpoints)),
                PathOutput::OpenSearch(round) => {
                    self.send_control(id, None, ControlMessage::Search(round.ask));
                    let session = self.peers.get(&id).and_then(|peer| peer.sessions.last());
                    if let Some(((session, _), search)) = session.copied().zip(round.search) {
                        self.outputs.tell(LaneId::FIRST, ToLane::OpenSearch { peer: id, session, search });
                    }
                }
                PathOutput::Probe(Probe { way, id: probe, size: 0 }) => {
                    self.send_control(id, Some(way), ControlMessage::Probe { id: probe });
                }
                PathOutput::Probe(Probe { way, id: probe, size }) => {
                    let session = self.peers.get(&id).and_then(|peer| peer.sessions.last());
                    if let Some((session, _)) = session.copied() {
                        let probe = ToLane::SizedProbe { peer: id, session, way, id: probe, size };
                        self.outputs.tell(LaneId::FIRST, probe);
                    }
                }
                PathOutput::CloseSearch => self.outputs.tell(LaneId::FIRST, ToLane::CloseSearch(id)),
                PathOutput::Limit(limit) => self.outputs.push(Output::PacketLimit { peer: id, limit }),
                PathOutput::Event(event) => self.outputs.note(NodeEvent::Path { peer: id, event }),
            }
        }
    }

    /// Returns the next output of a peer's paths.
    fn poll_paths(&mut self, id: PeerId) -> Option<PathOutput> {
        let paths = self.peers.get_mut(&id)?.paths.as_mut()?;
        let (local_endpoints, budget, entropy) = (&self.local_endpoints, &mut self.budget, &mut self.entropy);
        paths.poll_output(&mut PathContext { local_endpoints, budget, entropy, now: self.now })
    }

    /// Sends a control message on the newest session, by this way; `None` for the way of data.
    fn send_control(&mut self, id: PeerId, way: Option<Way>, message: ControlMessage) {
        let session = self.peers.get(&id).and_then(|peer| peer.sessions.last());
        if let Some((session, _)) = session.copied() {
            let lane = LaneId::FIRST;
            self.outputs.tell(lane, ToLane::Control { peer: id, session, lane, way, message });
        }
    }

    /// Tells the lanes of the path to a peer.
    fn take_choice(&mut self, id: PeerId, choice: Choice) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let former = peer.way.replace(choice.way);
        peer.choice = Some(Box::new(choice));
        if let Some(endpoint) = choice.way.direct() {
            peer.candidates.set_proven(endpoint);
        }
        if choice.round_trip.is_some() {
            peer.round_trip = choice.round_trip;
        }
        self.tell_all(|| ToLane::SetPath { peer: id, choice });
        if !former.is_some_and(|former| former.is_beside(&choice.way)) {
            self.update_relay_lanes(id);
            self.prove_extra_lanes(id);
        }
    }

    /// Closes the extra lanes of a peer whose path leads to another address or takes another relay, and probes them there.
    fn prove_extra_lanes(&mut self, id: PeerId) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.extra_lanes.in_use() > 1 {
            self.close_lanes(id);
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.extra_lanes.void_proofs(now);
        let session = peer.sessions.last().map(|(session, _)| *session);
        if let Some(session) = session {
            self.probe_lanes(id, session, now);
        }
    }
}

//! The node: its peers, their handshakes, and the outputs that follow.
//!
//! - this file: maps, peers, handshakes and sessions;
//! - `lanes`: the lanes of this node, and those of each peer's sessions;
//! - `control`: control messages between Taut nodes, inside a session;
//! - `native`: peers that a user configures one by one, without a map;
//! - `paths`: the paths to Taut peers;
//! - `relayed`: relays, and the ways through them;
//! - `relay_lanes`: the extra lanes of peers that are reached through a relay;
//! - `nat_report`: the node's endpoints and its NAT, as relays see them.

mod carriers;
mod control;
mod lanes;
mod nat_report;
mod native;
mod paths;
mod relay_lanes;
mod relayed;
mod rotation;
mod story;

pub use lanes::LanesLimit;
pub use native::NativePeer;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use taut_base::{
    ChunkedMap, Entropy, LaneId, PeerId, Prefix, PresharedKey, PrivateKey, PublicKey, ReceiverIndex, SessionId,
    SortedMap, SortedSet, Time,
};
use taut_dns::Names;
use taut_filter::{Filter, ServicePorts};
use taut_netmap::NetworkMap;
use taut_path::{Budget, Families, HomeRelay, LocalEndpoints, NatReport, Way};
use taut_tunnel::cookie::CookieChecker;
use taut_tunnel::handshake::{Identity, ReceivedInitiation, Remote, SentInitiation};
use taut_tunnel::{Attempt, AttemptAction, Bucket, Limits, Rate, Role, SessionIndices, SessionKeys};
use taut_wire::control::{Lanes, Suites};
use taut_wire::wireguard::{self, Message, classify};

use crate::answer::SentResponse;
use crate::auto_lanes::AutoLanes;
use crate::contract::{Clocks, FromLane, HandshakeMessage, ToLane};
use crate::counts::HandshakeCounts;
use crate::event::{HandshakeRefusal, NodeEvent};
use crate::exits::Exits;
use crate::filtering::Filtering;
use crate::indices::ReceiverIndices;
use crate::naming::Naming;
use crate::output::{Output, Outputs};
use crate::outside_endpoints::OutsideEndpoints;
use crate::peer::{LaneSource, MAX_SESSIONS, Peer, PeerView};
use crate::relays::Relays;
use crate::routes::Routes;
use crate::spread_peers::SpreadPeers;
use crate::stamps::InitiationStamps;
use crate::subnets::Subnets;

/// Time after an answered initiation in which this node sends no initiation of its own, 500 ms: the peer's first packet is on its way and will confirm the
/// session.
const AWAIT_CONFIRMATION: Duration = Duration::from_millis(500);

/// Age up to which a session satisfies a lane's request for a handshake, 500 ms: the lane sent the request before it had the session.
const JUST_MADE: Duration = Duration::from_millis(500);

/// Limit on initiations that are processed at the first lane, 1,800 per second: with four Diffie-Hellman each they take some 30 % of a slow core. The lane
/// divides this limit among classes and prefixes of senders (`CLASSES` in engine/lane/src/ingress.rs).
const WORK: Rate = Rate::new(1_800, 200);

/// Limit on initiations that are processed at all extra lanes together, 200 per second. Peers send handshakes to the port of the first lane, so an honest
/// initiation reaches another lane only at a stale endpoint. Fifteen lanes with limits of their own would together use up the first lane's share.
const WORK_EXTRA: Rate = Rate::new(200, 50);

/// Limit on initiations that are accepted from one peer, 50 per second, evenly spread: each makes a session (paper, section 5.1; the number is the kernel's
/// `INITIATIONS_PER_SECOND`, fault B7).
const ACCEPTED: Rate = Rate::new(50, 1);

/// One node.
pub struct Node<E> {
    identity: Identity,
    limits: Limits,
    entropy: E,
    /// The prefixes of the overlay and of other overlays on this host: no endpoint in them is used.
    overlay: Arc<[Prefix]>,
    /// Prefixes of other overlays on this host.
    avoided: Vec<Prefix>,
    filtering: Filtering,
    naming: Naming,
    subnets: Subnets,
    exits: Exits,
    /// True if this node is an exit node.
    is_exit: bool,
    /// The prefixes of this network.
    network: Arc<[Prefix]>,
    /// The node's own inner addresses, the only ones that packets of peers are delivered to. `None` without a map: then AllowedIPs decide.
    own: Option<Vec<IpAddr>>,
    /// Boxed: a peer has two kilobytes, and all later ones move when one is removed.
    peers: SortedMap<PeerId, Box<Peer>>,
    /// In chunks: the keys of a large map come in any order, and one at a time.
    by_key: ChunkedMap<PublicKey, PeerId>,
    /// The peer of each prefix of inner addresses.
    allowed: SortedMap<Prefix, PeerId>,
    indices: ReceiverIndices,
    next_peer: u32,
    next_session: u64,
    outputs: Outputs,
    /// Initiations that may still be processed: at the first lane, and at the others.
    work: [Bucket; 2],
    counts: HandshakeCounts,
    stamps: InitiationStamps,
    /// The suites under which this node can receive data.
    suites: Suites,
    /// The lanes that run, as peers are told of them.
    lanes: Lanes,
    /// The lanes that native peers are divided among, without a map.
    peer_lanes: u8,
    /// Opens and closes lanes by load; `None` if their number is fixed.
    auto: Option<AutoLanes>,
    /// Peers whose sessions have extra lanes that other local lanes than the first serve.
    spread_peers: SpreadPeers,
    /// Peers whose extra lanes take a relay: the relay's address, and the number of local lanes that have to be bound there.
    relay_lanes: SortedMap<PeerId, (SocketAddr, u8)>,
    /// The endpoints of this node that peers are told of.
    local_endpoints: LocalEndpoints,
    /// The budget that all probes share.
    budget: Budget,
    families: Families,
    relays: Relays,
    /// The networks that this host is in; only reports use them.
    networks: Vec<Prefix>,
    /// The largest MTU of the interfaces that lead to peers; only reports use it.
    interface_mtu: Option<u16>,
    /// The choice of home relays.
    home: HomeRelay,
    /// The NAT in front of this host, as relays see it.
    nat_report: NatReport,
    /// The endpoints outside the NAT, for the coordinator.
    outside: OutsideEndpoints,
    /// The clocks at the latest input.
    now: Time,
    wall: Duration,
}

impl<E: Entropy> Node<E> {
    /// Creates a node without peers.
    pub fn new(node_key: PrivateKey, limits: Limits, mut entropy: E) -> Self {
        let local_endpoints = LocalEndpoints::new(&mut entropy);
        Self {
            identity: Identity::new(node_key),
            limits,
            entropy,
            overlay: Arc::default(),
            avoided: Vec::new(),
            filtering: Filtering::default(),
            naming: Naming::default(),
            subnets: Subnets::default(),
            exits: Exits::default(),
            is_exit: false,
            network: Arc::default(),
            own: None,
            peers: SortedMap::new(),
            by_key: ChunkedMap::new(),
            allowed: SortedMap::new(),
            indices: ReceiverIndices::default(),
            next_peer: 0,
            next_session: 0,
            outputs: Outputs::default(),
            work: [Bucket::default(); 2],
            counts: HandshakeCounts::default(),
            stamps: InitiationStamps::default(),
            suites: Suites::STOCK,
            lanes: Lanes::ONE,
            peer_lanes: 1,
            auto: None,
            spread_peers: SpreadPeers::default(),
            relay_lanes: SortedMap::new(),
            local_endpoints,
            budget: Budget::new(),
            families: Families::default(),
            relays: Relays::default(),
            networks: Vec::new(),
            interface_mtu: None,
            home: HomeRelay::default(),
            nat_report: NatReport::default(),
            outside: OutsideEndpoints::default(),
            now: Time::ZERO,
            wall: Duration::ZERO,
        }
    }

    /// Returns a checker of handshake messages to this node, for one lane. Each checker makes cookies with a secret of its own.
    pub fn checker(&mut self) -> CookieChecker {
        let mut seed = zeroize::Zeroizing::new([0; 32]);
        self.entropy.fill(&mut *seed);
        self.identity.checker(*seed)
    }

    /// Continues from the last [`Output::StampCeiling`] of an earlier run: call it before the first handshake.
    pub fn resume_stamps(&mut self, ceiling: Duration) {
        self.stamps.resume(ceiling);
    }

    /// Returns the node's key pair.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns all peers.
    pub fn peers(&self) -> impl Iterator<Item = PeerView<'_>> {
        self.peers.values().map(|peer| peer.view())
    }

    /// Returns the number of receiver indices in use, those of sessions and of unanswered initiations. It stays within a few per peer.
    pub fn indices_in_use(&self) -> usize {
        self.indices.len()
    }

    /// Returns the counters of the initiations to this node.
    pub fn handshake_counts(&self) -> HandshakeCounts {
        self.counts
    }

    /// Returns the next thing that the agent has to do. Drain it after every input, in this order ([`Output`]).
    pub fn poll_output(&mut self) -> Option<Output> {
        if let Some(ceiling) = self.stamps.poll_output() {
            return Some(Output::StampCeiling(ceiling));
        }
        self.outputs.pop()
    }

    fn tell(&mut self, lane: LaneId, command: ToLane) {
        self.outputs.tell(lane, command);
    }

    fn tell_all(&mut self, command: impl Fn() -> ToLane) {
        (0..self.lanes.count()).for_each(|lane| self.outputs.tell(LaneId(lane), command()));
    }

    /// Notes the time of an input.
    fn set_clocks(&mut self, clocks: Clocks) {
        (self.now, self.wall) = (clocks.now, clocks.wall);
    }

    /// Returns the time at which [`Self::handle_timeout`] has something to do. It may change with every input.
    pub fn poll_timeout(&self) -> Option<Time> {
        let peers = self.peers.values().filter_map(|peer| peer.poll_timeout(&self.limits, self.now));
        let lanes = [self.auto.as_ref().and_then(AutoLanes::poll_timeout), self.spread_peers.poll_timeout()];
        let lanes = lanes.into_iter().flatten();
        let routers = self.subnets.poll_timeout(self.now).into_iter().chain(self.exits.poll_timeout());
        peers.chain(self.relays.poll_timeout()).chain(self.nat_report.poll_timeout()).chain(lanes).chain(routers).min()
    }

    /// Sets the prefixes of other overlays on this host, from the next map on. As with the overlay's own prefixes, this node offers no endpoint in them, and
    /// probes none that a peer names.
    pub fn set_avoided(&mut self, prefixes: Vec<Prefix>) {
        self.avoided = prefixes;
    }

    /// Sets the prefixes behind this node that it forwards peers' packets to, and the prefixes behind peers that this host uses, from the next map on.
    pub fn set_subnets(&mut self, forwarded: Vec<Prefix>, accepted: Vec<Prefix>) {
        self.subnets.set_wanted(forwarded, accepted);
    }

    /// Sets the prefixes behind this node that it forwards peers' packets to, at once.
    pub fn set_forwarded(&mut self, forwarded: Vec<Prefix>) {
        if self.subnets.set_forwarded(forwarded) {
            self.tell_routes();
        }
    }

    /// Sets the ports on which the host offers services, for the decision which flows in progress it began.
    pub fn set_service_ports(&mut self, ports: ServicePorts) {
        if self.filtering.set_ports(ports) && self.filtering.is_on() {
            self.tell_routes();
        }
    }

    /// Returns true if this is the filter in force; `None` if there is none.
    pub fn has_filter(&self, filter: Option<&Filter>) -> bool {
        self.filtering.has(filter)
    }

    /// Returns the names that the stub answers for; `None` without a map.
    pub fn names(&self) -> Option<&Names> {
        self.naming.names().map(Arc::as_ref)
    }

    /// Sets the domains that the user lets the coordinator answer for although they need consent (fault E17). They count from the next [`Self::set_map`] on.
    pub fn set_accepted_domains(&mut self, accepted: &[String]) {
        self.naming.set_accepted(accepted);
    }

    /// Takes a validated map: adds, changes and removes peers, and replaces the routes. Sessions of peers that stay are not touched (law 5).
    pub fn set_map(&mut self, map: &NetworkMap) {
        self.overlay = [map.network.ipv4, map.network.ipv6].into_iter().chain(self.avoided.iter().copied()).collect();
        self.network = [map.network.ipv4, map.network.ipv6].into();
        self.own = Some(map.me.addresses.clone());
        let listed: SortedSet<PublicKey> = map.peers.values().map(|peer| peer.key).collect();
        let rotates = |peer: &&Peer| {
            let new = map.peers.get(&peer.node).filter(|new| !peer.native && !new.native && new.key != peer.key);
            new.is_some_and(|new| !self.by_key.contains_key(&new.key))
        };
        let rotated: Vec<_> =
            self.peers.values().map(Box::as_ref).filter(rotates).map(|peer| (peer.id, peer.node)).collect();
        for (id, node) in rotated {
            map.peers.get(&node).into_iter().for_each(|new| self.rotate_peer(id, new.key));
        }
        let gone: Vec<PeerId> =
            self.peers.values().filter(|peer| !listed.contains(&peer.key)).map(|peer| peer.id).collect();
        self.remove_peers(&gone);
        self.filtering.set(map.filter.as_ref(), &mut self.entropy, self.now);
        self.relays.set_map(&map.relays, self.now);
        self.set_servers(&map.relays);
        for listed in map.peers.values() {
            if let Some(id) = self.upsert_peer(listed) {
                self.steer(id);
            }
        }
        let hosts =
            |peer: &Peer| peer.addresses.iter().map(|address| (Prefix::host(*address), peer.id)).collect::<Vec<_>>();
        self.allowed = self.peers.values().flat_map(|peer| hosts(peer)).collect();
        let by_node: SortedMap<_, _> =
            self.peers.values().filter(|peer| !peer.native).map(|peer| (peer.node, peer.id)).collect();
        self.subnets.set_map(map, |node| by_node.get(&node).copied(), self.now);
        self.exits.set_map(map, |node| by_node.get(&node).copied(), self.now);
        self.note_exit();
        self.naming.set(map);
        self.tell_routes();
        self.relays_turn();
    }

    fn tell_routes(&mut self) {
        let routes = self.routes();
        self.tell_all(|| ToLane::Routes(Arc::clone(&routes)));
    }

    fn routes(&self) -> Arc<Routes> {
        // A peer's own address is longer than any subnet, and no subnet of the network overlaps the overlay.
        let hosts = self.allowed.iter().map(|(prefix, peer)| (*prefix, *peer));
        let routes = Routes::new(self.subnets.carriers().chain(hosts)).shared_by(self.subnets.spares());
        let routes = routes.forwarding(self.subnets.forwarded());
        let routes = routes.with_exit(self.exits.route(), self.is_exit, Arc::clone(&self.network));
        let routes = routes.guarded_by(self.filtering.gate()).with_names(self.naming.names().cloned());
        Arc::new(match &self.own {
            Some(own) => routes.only_to(own),
            None => routes,
        })
    }

    fn upsert_peer(&mut self, listed: &taut_netmap::Peer) -> Option<PeerId> {
        let known = self.by_key.get(&listed.key).and_then(|id| self.peers.get(id));
        // A lane learns whether a peer roams when the peer is added: a peer that became native, or ceased to be, is added again.
        let other = known.filter(|peer| peer.native != listed.native).map(|peer| peer.id);
        other.into_iter().for_each(|id| self.remove_peers(&[id]));
        let id = match self.by_key.get(&listed.key) {
            Some(id) => *id,
            // No handshake is possible with a key of low order: this peer stays unreachable, and the others are served (fault E10).
            None => self.add_peer(Remote::new(&self.identity, listed.key, PresharedKey::NONE).ok()?, listed.native),
        };
        let peer = self.peers.get_mut(&id)?;
        peer.node = listed.id;
        peer.native = listed.native;
        peer.name.clone_from(&listed.name);
        peer.addresses.clone_from(&listed.addresses);
        peer.relays.clone_from(&listed.relays);
        peer.candidates.set_listed(&listed.endpoints, &self.overlay);
        if let Some(paths) = &mut peer.paths {
            paths.set_overlay(Arc::clone(&self.overlay));
            paths.set_listed(&listed.endpoints, self.now);
        }
        Some(id)
    }

    fn add_peer(&mut self, remote: Remote, native: bool) -> PeerId {
        let id = PeerId(self.next_peer);
        self.next_peer += 1;
        self.by_key.insert(remote.public(), id);
        let mut peer = Peer::new(id, remote);
        peer.native = native;
        self.peers.insert(id, Box::new(peer));
        self.tell_all(|| ToLane::AddPeer { peer: id, roams: native });
        id
    }

    /// Removes these peers, whose numbers are in order.
    fn remove_peers(&mut self, ids: &[PeerId]) {
        self.indices.release_all(ids);
        // From the end, so that no others move.
        for id in ids.iter().rev() {
            self.remove_peer(*id);
        }
    }

    /// Removes a peer whose indices were released.
    fn remove_peer(&mut self, id: PeerId) {
        if let Some(peer) = self.peers.remove(&id) {
            self.by_key.remove(&peer.key);
            self.relays.forget_peer(&peer.key);
            self.spread_peers.remove(id);
            self.update_relay_lanes(id);
            self.auto_forget(id);
            if peer.paths.is_some_and(|paths| paths.has_open_search()) {
                self.tell(LaneId::FIRST, ToLane::CloseSearch(id));
            }
            self.tell_all(|| ToLane::RemovePeer(id));
        }
    }

    /// Takes a message of the only lane of a node.
    pub fn handle_lane(&mut self, message: FromLane, clocks: Clocks) {
        self.handle(LaneId::FIRST, message, clocks);
    }

    /// Takes a message of a lane.
    pub fn handle(&mut self, lane: LaneId, message: FromLane, clocks: Clocks) {
        self.set_clocks(clocks);
        match message {
            FromLane::Handshake { source, message } => {
                self.handle_handshake(lane, source.to_lane(LaneId::FIRST), &message, clocks);
            }
            FromLane::WantsHandshake(peer) => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.wanted = Some(clocks.now);
                }
                self.start_handshake(peer, clocks);
            }
            FromLane::Confirmed { peer, id } => self.confirm(peer, id, clocks),
            FromLane::Moved { peer, way } => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.set_proven(way);
                }
            }
            FromLane::Arrived { peer, way } => self.handle_arrival(peer, way.to_lane(LaneId::FIRST)),
            FromLane::Suspect { peer } => self.handle_suspicion(peer),
            FromLane::LongLost { peer } => self.handle_long_lost(peer),
            FromLane::Active { peer } => self.handle_activity(peer),
            FromLane::Datagram { source, bytes } => self.handle_datagram(lane, source, &bytes),
            FromLane::Control { peer, session, lane, source, message } => {
                self.handle_control(peer, session, lane, source, message, clocks);
            }
            FromLane::Filtered { peer, destination, protocol, port } => {
                self.outputs.note(NodeEvent::Filtered { peer, destination, protocol, port });
            }
            FromLane::Load(load) => self.handle_load(lane, &load),
            // The agent decides which lanes read the TUN, and when threads end.
            FromLane::Drained | FromLane::Ended | FromLane::Question(_) => {}
            FromLane::Silent { peer } => {
                if let Some(peer) = self.peers.get_mut(&peer) {
                    peer.extra_lanes.handle_silence(lane, clocks.now);
                }
            }
            FromLane::Retired { peer, id, indices } => self.retire(peer, id, &indices),
        }
        self.choose_carriers();
    }

    /// Starts handshakes with those of these peers that are in the map: the peers that had a session before this node restarted or moved. Otherwise they would
    /// send to a session or an endpoint that no longer exists, and notice only after 15 seconds.
    pub fn greet(&mut self, peers: &[PublicKey], clocks: Clocks) {
        self.set_clocks(clocks);
        for key in peers {
            if let Some(id) = self.by_key.get(key).copied() {
                self.start_handshake(id, clocks);
            }
        }
    }

    /// Returns the peers that have a session with this node now.
    pub fn connected(&self) -> impl Iterator<Item = PublicKey> + '_ {
        self.peers.values().filter(|peer| peer.since().is_some()).map(|peer| peer.key)
    }

    /// Does the work that is due: retransmits, probes, and ends attempts.
    pub fn handle_timeout(&mut self, clocks: Clocks) {
        self.set_clocks(clocks);
        self.relays_timeout(clocks);
        self.auto_timeout();
        self.spread_peers.handle_timeout(clocks.now);
        let talking = self.peers.values().any(|peer| peer.since().is_some());
        self.nat_report.set_talking(talking, clocks.now);
        self.relays_turn();
        let due: Vec<PeerId> = self
            .peers
            .values()
            .filter(|peer| peer.poll_timeout(&self.limits, clocks.now).is_some_and(|due| clocks.now >= due))
            .map(|peer| peer.id)
            .collect();
        for id in due {
            self.continue_attempt(id, clocks);
            self.continue_negotiation(id, clocks);
            self.continue_paths(id);
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            for index in peer.expire_waiting(&self.limits, clocks.now) {
                self.indices.release(index);
            }
        }
        self.ask_routers(clocks);
        self.choose_carriers();
    }

    fn start_handshake(&mut self, id: PeerId, clocks: Clocks) {
        self.make_paths(id);
        self.request_relays(id);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let just_made = peer.since().is_some_and(|since| clocks.now < since + JUST_MADE);
        if !just_made {
            self.begin_handshake(id, clocks);
        }
    }

    /// Starts a handshake with a peer, also if its session is young.
    fn begin_handshake(&mut self, id: PeerId, clocks: Clocks) {
        let Some(peer) = self.peers.get_mut(&id).filter(|peer| peer.attempt.is_none()) else { return };
        // The attempt is kept even if it starts later, because the lane may have no reason to ask again. A confirmation before that ends it.
        let start = peer.answer.as_ref().map_or(clocks.now, |answer| clocks.now.max(answer.at + AWAIT_CONFIRMATION));
        peer.attempt = Some(Attempt::start(peer.retry(), &self.limits, start));
        peer.asked = start;
        self.continue_attempt(id, clocks);
        self.outputs.note(NodeEvent::HandshakeStarted { peer: id });
    }

    fn continue_attempt(&mut self, id: PeerId, clocks: Clocks) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(attempt) = &mut peer.attempt else { return };
        match attempt.handle_timeout(&self.limits, &mut self.entropy, clocks.now) {
            AttemptAction::Wait => {}
            AttemptAction::SendInitiation => match peer.repeatable(clocks.now) {
                Some(message) => self.send_to_candidates(id, message),
                None => self.send_initiation(id, clocks),
            },
            AttemptAction::GiveUp => {
                peer.attempt = None;
                self.tell(LaneId::FIRST, ToLane::GiveUp(id));
                self.note_failure(id);
            }
        }
    }

    /// Creates and sends a new initiation.
    fn send_initiation(&mut self, id: PeerId, clocks: Clocks) {
        let index = match self.peers.get(&id).and_then(|peer| peer.young_name(clocks.now)) {
            Some(limit) => self.indices.draw_below(id, limit, &mut self.entropy),
            None => self.indices.draw(id, id.only_lane(self.peer_lanes), &mut self.entropy),
        };
        let ephemeral = draw_key(&mut self.entropy);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.stamped = self.stamps.next(clocks.wall, peer.stamped);
        let Ok((initiation, message)) =
            SentInitiation::start(&self.identity, &peer.remote, index, peer.stamped, ephemeral)
        else {
            self.indices.release(index);
            return;
        };
        let Some(message) = HandshakeMessage::new(&message) else { return };
        if let Some(oldest) = peer.wait_for(initiation, message, clocks.now) {
            self.indices.release(oldest);
        }
        self.send_to_candidates(id, message);
    }

    /// Sends copies of one handshake message through relays and to every candidate, each with the mac2 of its path (protocol.md 2.1).
    fn send_to_candidates(&mut self, id: PeerId, message: HandshakeMessage) {
        let ways = self.peers.get(&id).map(|peer| peer.handshake_ways().collect::<Vec<_>>());
        self.send_by(id, &ways.unwrap_or_default(), message);
    }

    /// Sends copies of one handshake message by these ways.
    fn send_by(&mut self, id: PeerId, ways: &[Way], message: HandshakeMessage) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        for way in ways.iter().copied() {
            let message = peer.copy_for(way, message, self.now);
            peer.handshake_bytes.1 += message.as_bytes().len() as u64;
            self.outputs.tell(LaneId::FIRST, ToLane::Send { way, message });
        }
    }

    fn handle_handshake(&mut self, lane: LaneId, source: Way, message: &HandshakeMessage, clocks: Clocks) {
        match classify(message.as_bytes()) {
            Ok(Message::Initiation(initiation)) => self.handle_initiation(lane, source, &initiation, clocks),
            Ok(Message::Response(response)) => self.handle_response(source, &response, clocks),
            Ok(Message::CookieReply(reply)) => {
                let owner = self.indices.owner(ReceiverIndex(reply.receiver));
                if let Some(peer) = owner.and_then(|id| self.peers.get_mut(&id))
                    && let Some(message) = peer.take_cookie(source, &reply, clocks.now)
                {
                    peer.handshake_bytes.1 += message.as_bytes().len() as u64;
                    self.tell(lane, ToLane::Send { way: source, message });
                }
            }
            // A lane passes no data packet to the agent.
            Ok(Message::Data(_)) | Err(_) => {}
        }
    }

    /// Takes an initiation. The response leaves from the lane that received it, because the sender expects it from that endpoint.
    fn handle_initiation(&mut self, lane: LaneId, source: Way, message: &wireguard::Initiation<'_>, clocks: Clocks) {
        let [first, extra] = &mut self.work;
        let (work, rate) = if lane == LaneId::FIRST { (first, &WORK) } else { (extra, &WORK_EXTRA) };
        if !work.take(rate, clocks.now) {
            self.counts.over_limit += 1;
            return;
        }
        self.counts.computed += 1;
        let Ok(received) = ReceivedInitiation::read(&self.identity, message) else { return };
        let Some(id) = self.by_key.get(&received.initiator()).copied() else { return };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Ok(authentic) = received.authenticate(&peer.remote) else { return };
        if authentic.timestamp() <= peer.heard {
            if let Some(response) = peer.answer.as_mut().and_then(|answer| answer.again(message.mac1, clocks.now)) {
                let message = peer.copy_for(source, response, clocks.now);
                self.tell(lane, ToLane::Send { way: source, message });
                self.counts.repeated += 1;
            } else if authentic.timestamp() < peer.heard {
                let reason = HandshakeRefusal::OldStamp;
                self.outputs.note(NodeEvent::HandshakeRefused { peer: id, way: source, reason });
            }
            return;
        }
        if !peer.accepted.take(&ACCEPTED, clocks.now) {
            self.counts.over_limit += 1;
            let reason = HandshakeRefusal::TooMany;
            self.outputs.note(NodeEvent::HandshakeRefused { peer: id, way: source, reason });
            return;
        }
        let index = self.indices.draw(id, id.only_lane(self.peer_lanes), &mut self.entropy);
        let ephemeral = draw_key(&mut self.entropy);
        let heard = authentic.timestamp();
        let Ok((keys, response)) = authentic.respond(&peer.remote, index, &ephemeral) else {
            self.indices.release(index);
            return;
        };
        self.counts.answered += 1;
        peer.heard = heard;
        peer.heard_from(source, message.bytes.len(), response.len());
        let response = HandshakeMessage::new(&response);
        peer.answer = response.map(|response| Box::new(SentResponse::new(*message.mac1, response, clocks.now)));
        self.make_paths(id);
        self.note_relayed_way(id, source);
        let session = self.add_session(id, keys, None, clocks.now);
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.unconfirmed = Some((session, clocks.now));
            // The session is in all lanes before its response leaves (protocol.md 1.8): outputs keep their order.
            if let Some(response) = response {
                let message = peer.copy_for(source, response, clocks.now);
                self.outputs.tell(lane, ToLane::Send { way: source, message });
            }
        }
    }

    fn handle_response(&mut self, source: Way, message: &wireguard::Response<'_>, clocks: Clocks) {
        let index = ReceiverIndex(message.receiver);
        let Some(peer) = self.indices.owner(index).and_then(|id| self.peers.get_mut(&id)) else { return };
        let Some(waiting) = peer.waiting_for(index) else { return };
        let Ok(keys) = waiting.finish(&self.identity, &peer.remote, message) else { return };
        let sent = peer.sent_at(index).unwrap_or(clocks.now);
        for earlier in peer.finished(index) {
            self.indices.release(earlier);
        }
        peer.attempt = None;
        peer.heard_from(source, message.bytes.len(), 0);
        let id = peer.id;
        self.note_relayed_way(id, source);
        let session = self.add_session(id, keys, Some(source), clocks.now);
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.begin(session, clocks.now);
        }
        self.start_negotiation(id, session, Role::Initiator, clocks);
        self.begin_paths(id, Some(source));
        self.outputs.note(NodeEvent::HandshakeCompleted { peer: id, way: source, took: clocks.now.since(sent) });
        self.note_session(id, Role::Initiator);
        self.renew_for_lanes(id);
    }

    fn add_session(&mut self, peer: PeerId, mut keys: SessionKeys, proven: Option<Way>, now: Time) -> SessionId {
        keys.suites = self.suites;
        let native = self.peers.get(&peer).is_none_or(|peer| peer.native);
        // Derived indices cannot be drawn again. If one is in use already, which happens once in 2^28, this session stays a stock one.
        if native || !self.indices.claim(peer, &keys.indices().derived()) {
            keys.extension = None;
        }
        let id = SessionId(self.next_session);
        self.next_session += 1;
        let own = self.lanes_for(peer).count();
        let extension = keys.extension.clone().map(|exporter| (keys.role, exporter));
        self.tell(LaneId::FIRST, ToLane::AddSession { peer, id, keys: Box::new(keys), born: now, proven });
        if let (Some((role, exporter)), Some(known)) = (extension, self.peers.get_mut(&peer)) {
            if known.derived.len() == MAX_SESSIONS {
                known.derived.remove(0);
            }
            known.derived.push(LaneSource { session: id, role, exporter, born: now, own, lanes: 1 });
            let lanes = own.max(known.extra_lanes.count());
            self.give_lanes(peer, id, lanes);
        }
        id
    }

    /// Gives each local lane the keys of the session lanes that it serves and does not have yet. `lanes` is the number of lanes of the session.
    fn give_lanes(&mut self, id: PeerId, session: SessionId, lanes: u8) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let agreed = peer.agreed(session);
        let Some(made) = peer.derived.iter_mut().find(|made| made.session == session) else { return };
        while made.lanes < lanes {
            let lane = LaneId(made.lanes);
            let keys = SessionKeys::for_extra_lane(made.role, made.exporter.clone(), self.suites, lane);
            // If a derived index is in use, as above, this lane and the following ones stay closed in this session.
            if !self.indices.claim(id, &keys.indices().derived()) {
                return;
            }
            made.lanes += 1;
            let (keys, born, own) = (Box::new(keys), made.born, made.own);
            let add = ToLane::AddSession { peer: id, id: session, keys, born, proven: None };
            self.outputs.tell(lane.served_by(own), add);
            // A lane that comes after the agreement has missed it, and would go on sealing with an earlier session, in which the peer may not have this lane.
            if let Some((suite, abilities)) = agreed {
                self.outputs.tell(lane.served_by(own), ToLane::UseSuite { peer: id, session, suite, abilities });
            }
        }
    }

    fn confirm(&mut self, peer: PeerId, id: SessionId, clocks: Clocks) {
        let Some(peer) = self.peers.get_mut(&peer) else { return };
        let before = peer.established;
        let role = if let Some((_, since)) = peer.unconfirmed.take_if(|(unconfirmed, _)| *unconfirmed == id) {
            peer.begin(id, since);
            peer.attempt = None;
            peer.answer = None;
            Role::Responder
        } else if let Some(role) = peer.prefer(id) {
            role
        } else {
            return;
        };
        let is_new = peer.established > before;
        let has_extra_lanes = peer.derived.iter().any(|made| made.session == id && made.lanes > 1);
        let peer = peer.id;
        if has_extra_lanes {
            self.tell_all(|| ToLane::Confirm { peer, id });
        }
        self.start_negotiation(peer, id, role, clocks);
        self.begin_paths(peer, None);
        if is_new {
            self.note_session(peer, role);
        }
        self.renew_for_lanes(peer);
    }

    fn retire(&mut self, peer: PeerId, id: SessionId, indices: &SessionIndices) {
        for index in indices.iter().filter(|index| self.indices.owner(*index) == Some(peer)).collect::<Vec<_>>() {
            self.indices.release(index);
        }
        if indices.lane() != peer.only_lane(self.peer_lanes) {
            return;
        }
        let Some(known) = self.peers.get_mut(&peer) else { return };
        known.end(id);
        if known.since().is_some() {
            return;
        }
        // Another session is about to be used: its paths and lanes stay valid.
        if known.unconfirmed.is_some() {
            known.paths.iter_mut().for_each(|paths| paths.handle_session_ended());
            return;
        }
        // The next session begins with the first lane.
        let were_open = known.extra_lanes.in_use() > 1;
        known.extra_lanes.forget();
        if self.spread_peers.contains(peer) || were_open {
            self.close_lanes(peer);
        }
        self.spread_peers.set(peer, false, self.now);
        self.update_relay_lanes(peer);
        self.end_paths(peer);
        self.outputs.note(NodeEvent::SessionExpired { peer });
    }
}

fn draw_key(entropy: &mut impl Entropy) -> PrivateKey {
    let mut bytes = zeroize::Zeroizing::new([0; 32]);
    entropy.fill(&mut *bytes);
    PrivateKey::from_bytes(*bytes)
}

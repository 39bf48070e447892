//! The relays that this node uses, and the relays through which each peer is reached (protocol.md 6).
//!
//! ```text
//!   network map ─▶ relays ─┬─ home relays: the nearest and the second nearest ── bound while the node has a ticket; the coordinator is told of them
//!                          └─ others ── bound while a peer that is bound only there is needed, and for 5 minutes after
//!
//!   request(peer) ─▶ two relays: those of both, else those of the peer, then own ones ─▶ Client::open ─▶ a way, at once if the node is bound there,
//!                                                                                                        otherwise as soon as it is
//!   a way ends: the relay is lost, or says that the peer is not bound there; when a relay is lost or back, each peer's two are chosen again
//! ```
//! The map may name old relays of a peer, because the coordinator is away when they change. So this node also looks for the peer at its own relays. The peer
//! does the same, and one of the two directions is enough.
//!
//! There is one [`taut_relay::Client`] for each relay in use. Clients send frames through the first lane's socket, and those about another lane through that lane's
//! ([`lanes`]). The lane does not interpret them. A client
//! asks the relay's addresses of both families at once, and the first that answers is used until the relay is lost. Frames of a relay are believed only
//! under the keys of a bind with the key that the map names. Where UDP is blocked, a relay is reached through a bridge ([`web`]).
//!
//! Nothing is sent to an address that no map names, and no client binds without a ticket.

mod bridges;
mod lanes;
mod served;
mod web;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, LaneId, PublicKey, RelayId, SortedMap, SortedSet, Time};
use taut_path::{Families, Way};
use taut_relay::{Client, ClientDatagram, Credentials, RelayEvent};

use crate::contract::Datagram;
use crate::event::NodeEvent;
pub use bridges::BridgeRequest;
use served::KnownRelay;
pub use served::RelayView;

/// Number of home relays, which the node is always bound to: the nearest one, and a second one that takes over at once when the first one fails.
const HOMES: usize = 2;

/// Maximum number of relays through which one peer is reached at the same time.
const PER_PEER: usize = 2;

/// Time after the last use of a peer until its ways are closed, and of a relay until its binding ends: five minutes (protocol.md 5.5).
const IDLE: Duration = Duration::from_secs(300);

/// All relays of the map, with the clients of those in use, and the peers that are reached through them.
#[derive(Default)]
pub(crate) struct Relays {
    credentials: Option<Credentials>,
    /// Boxed: a relay with its client is large, and all later ones move when one is added or removed.
    served: SortedMap<RelayId, Box<KnownRelay>>,
    /// The home relays, best first.
    homes: Vec<RelayId>,
    wanted: SortedMap<PublicKey, WantedPeer>,
    families: Families,
    /// Frames for relays, each with its destination and the lane that sends it.
    out: VecDeque<RelayFrame>,
    /// Events of clients that were not handled yet.
    events: VecDeque<(RelayId, RelayEvent)>,
    /// Peers whose ways may have changed.
    changed: SortedSet<PublicKey>,
    /// The relays of the last [`RelaysOutput::Bound`].
    told: Vec<RelayId>,
    /// Whether the addresses of the relays changed since the last [`RelaysOutput::Places`].
    moved: bool,
    /// Relays that were lost.
    lost: Vec<RelayId>,
    /// The bridges of the last [`RelaysOutput::Bridges`].
    bridges: Vec<BridgeRequest>,
    /// Relays that were lost while they were reached through a bridge.
    stuck: Vec<RelayId>,
    /// Time since 1970 at `Time` 0, by the clock of the stamps.
    clock: Duration,
    /// The latest stamp of a bind since the last [`RelaysOutput::Stamped`].
    stamped: Option<Duration>,
    story: VecDeque<NodeEvent>,
    /// Number of lanes that have to be bound at the relay at each address, where it is more than one.
    lanes: SortedMap<SocketAddr, u8>,
    /// Addresses of relays at which lanes were bound or lost.
    lanes_changed: SortedSet<SocketAddr>,
}

/// A frame for a relay: the lane that sends it, its destination, its bytes.
type RelayFrame = (LaneId, SocketAddr, ClientDatagram);

/// What [`Relays`] want from the node, in the order in which they return it.
pub(crate) enum RelaysOutput {
    /// The latest stamp of a bind, as time since 1970.
    Stamped(Duration),
    /// What happened, for the event log.
    Event(NodeEvent),
    /// A relay that was lost.
    Lost(RelayId),
    /// The addresses of all relays, for the lanes: they take frames and STUN answers from there only.
    Places(Vec<SocketAddr>),
    /// A frame to be sent from this lane's socket. It leaves before what the relay is to forward, because the relay needs it for that.
    Transmit(LaneId, SocketAddr, Datagram),
    /// The address of a relay at which lanes of this node were bound or lost ([`Relays::has_lane`]).
    LanesChanged(SocketAddr),
    /// A peer whose ways ([`Relays::ways`]) may have changed.
    WaysChanged(PublicKey),
    /// The home relays that the node is bound to, best first.
    Bound(Vec<RelayId>),
    /// All bridges that have to exist from now on.
    Bridges(Vec<BridgeRequest>),
    /// A relay that was lost though its bridge is open: the bridge's connection may be dead.
    ResetBridge(RelayId),
}

/// A peer that is reached through relays.
struct WantedPeer {
    /// The relays that the peer is bound to, as the map says.
    at: Vec<RelayId>,
    /// The relays through which it is reached, best first.
    by: Vec<RelayId>,
    /// Time at which the peer was last needed.
    since: Time,
}

impl Relays {
    /// Takes the map's relays. Relays that did not change keep their bindings.
    pub(crate) fn set_map(&mut self, relays: &[taut_netmap::Relay], now: Time) {
        let listed: SortedSet<RelayId> = relays.iter().map(|relay| relay.id).collect();
        let gone = self.served.iter().filter(|(id, _)| !listed.contains(id)).map(|(id, _)| *id).collect::<Vec<_>>();
        for id in gone {
            self.forget(id);
            self.wanted.values_mut().for_each(|wanted| wanted.by.retain(|other| *other != id));
        }
        for relay in relays {
            let same = self.served.get(&relay.id).is_some_and(|served| served.is(relay));
            if !same {
                self.forget(relay.id);
                self.served.insert(relay.id, Box::new(KnownRelay::new(relay, now)));
                self.moved = true;
            }
        }
        self.homes.retain(|id| listed.contains(id));
        // Until relays are measured, home relays are taken in the order of the map, those that are not busy first.
        let (busy, free): (Vec<_>, Vec<_>) = relays.iter().partition(|relay| relay.busy);
        for id in free.into_iter().chain(busy).map(|relay| relay.id) {
            if self.homes.len() < HOMES && !self.homes.contains(&id) {
                self.homes.push(id);
            }
        }
        self.bind(now);
    }

    /// Sets the clock of the stamps of binds: at `Time` 0 it showed `at_zero` since 1970.
    pub(crate) fn set_clock(&mut self, at_zero: Duration) {
        self.clock = at_zero;
    }

    /// Sets the ticket and the key that all clients bind with.
    pub(crate) fn set_credentials(&mut self, credentials: Credentials, now: Time) {
        for served in self.served.values_mut() {
            if let Some(client) = &mut served.client {
                client.set_credentials(credentials.clone(), now);
            }
        }
        self.credentials = Some(credentials);
        self.bind(now);
    }

    /// Sets the home relays, best first.
    pub(crate) fn set_homes(&mut self, homes: &[RelayId], now: Time) {
        let known = homes.iter().filter(|id| self.served.contains_key(id)).take(HOMES);
        let homes: Vec<RelayId> = known.copied().collect();
        if !homes.is_empty() && homes != self.homes {
            for former in std::mem::replace(&mut self.homes, homes) {
                // It stays bound for a while, because peers still look for the node there.
                self.served.get_mut(&former).into_iter().for_each(|served| served.needed = now);
            }
            self.bind(now);
        }
    }

    /// Starts a client for each relay that needs one.
    fn bind(&mut self, now: Time) {
        let Some(credentials) = &self.credentials else { return };
        let by_peers = self.wanted.values().flat_map(|wanted| &wanted.by);
        for id in self.homes.iter().chain(by_peers) {
            if let Some(served) = self.served.get_mut(id) {
                served.needed = now;
                served.start(credentials, now);
            }
        }
    }

    /// Opens ways to a peer that is bound to these relays.
    pub(crate) fn request(&mut self, peer: PublicKey, at: &[RelayId], entropy: &mut impl Entropy, now: Time) {
        let wanted =
            self.wanted.entry(peer).or_insert_with(|| WantedPeer { at: Vec::new(), by: Vec::new(), since: now });
        wanted.since = now;
        if wanted.at != at {
            wanted.at = at.to_vec();
        }
        self.choose_relays(peer, entropy, now);
    }

    /// Chooses the relays to a wanted peer, and opens ways through those that are new.
    fn choose_relays(&mut self, peer: PublicKey, entropy: &mut impl Entropy, now: Time) {
        let Some(by) = self.wanted.get(&peer).map(|wanted| self.relays_to(&wanted.at)) else { return };
        let Some(wanted) = self.wanted.get_mut(&peer) else { return };
        let former = std::mem::replace(&mut wanted.by, by);
        if !wanted.by.iter().all(|id| former.contains(id)) {
            self.bind(now);
            self.open(peer, entropy, now);
        }
    }

    /// A relay was lost, or is back: chooses the relays to all wanted peers again.
    fn choose_again(&mut self, entropy: &mut impl Entropy, now: Time) {
        for peer in self.wanted.keys().copied().collect::<Vec<_>>() {
            self.choose_relays(peer, entropy, now);
        }
    }

    /// Notes that the peer is still in use.
    pub(crate) fn note_use(&mut self, peer: &PublicKey, now: Time) {
        self.wanted.get_mut(peer).into_iter().for_each(|wanted| wanted.since = now);
    }

    /// Returns the relays through which a peer is reached that is bound to `at`, two at most, best first: those that both nodes are bound to; if there are none,
    /// those of the peer; then the home relays. Lost relays are taken only where others are too few.
    fn relays_to(&self, at: &[RelayId]) -> Vec<RelayId> {
        let is_lost = |id: &RelayId| self.served.get(id).is_none_or(|served| served.is_lost());
        let both = |lost: bool| self.homes.iter().filter(move |id| at.contains(id) && is_lost(id) == lost);
        let theirs = |lost: bool| at.iter().filter(move |id| self.served.contains_key(id) && is_lost(id) == lost);
        let own = |lost: bool| self.homes.iter().filter(move |id| is_lost(id) == lost);
        let mut by = Vec::with_capacity(PER_PEER);
        for lost in [false, true] {
            let none = both(lost).next().is_none();
            for id in both(lost).chain(theirs(lost).filter(|_| none)).chain(own(lost)) {
                if by.len() < PER_PEER && !by.contains(id) {
                    by.push(*id);
                }
            }
        }
        by
    }

    /// Has the clients at the relays of a peer open it.
    fn open(&mut self, peer: PublicKey, entropy: &mut impl Entropy, now: Time) {
        let Some(wanted) = self.wanted.get(&peer) else { return };
        for id in wanted.by.clone() {
            if let Some(client) = self.served.get_mut(&id).and_then(|served| served.client.as_mut()) {
                client.open(peer, now, entropy);
            }
            self.send(id);
        }
        self.changed.insert(peer);
    }

    /// Closes the ways to a peer that is not needed any more.
    pub(crate) fn release(&mut self, peer: &PublicKey) {
        if self.wanted.remove(peer).is_none() {
            return;
        }
        // This includes clients that have asked for the peer and got no answer.
        self.tell_clients(|_, client| client.close(peer));
        self.changed.insert(*peer);
    }

    /// Forgets a peer that has left the network.
    pub(crate) fn forget_peer(&mut self, peer: &PublicKey) {
        self.release(peer);
        self.served.values_mut().for_each(|served| served.forget(peer));
    }

    /// Notes that the peer authenticated itself by this relayed way.
    pub(crate) fn learn(&mut self, peer: PublicKey, way: Way, now: Time) {
        let Way::Relayed { relay, id } = way.to_lane(LaneId::FIRST) else { return };
        let Some((at, served)) = self.at(relay) else { return };
        if let Some(client) = served.client.as_mut() {
            client.learn(peer, id, now);
            self.changed.insert(peer);
        }
        self.send(at);
    }

    /// Returns the relay that is in use at this address.
    fn at(&mut self, place: SocketAddr) -> Option<(RelayId, &mut KnownRelay)> {
        self.served
            .iter_mut()
            .find(|(_, served)| served.place == Some(place))
            .map(|(id, served)| (*id, served.as_mut()))
    }

    /// Returns the ways to a peer, best first.
    pub(crate) fn ways(&self, peer: &PublicKey) -> Vec<Way> {
        let wanted = self.wanted.get(peer).map_or(&[][..], |wanted| &wanted.by);
        let others = self.served.keys().filter(|id| !wanted.contains(id));
        wanted.iter().chain(others).filter_map(|id| self.served.get(id)?.way_to(peer)).collect()
    }

    /// Takes a frame from a relay's address, which came at the socket of this lane. `is_member` returns true for keys in the map. Returns true if the relay sees this node at another endpoint than
    /// before.
    pub(crate) fn handle_datagram(
        &mut self,
        lane: LaneId,
        source: SocketAddr,
        bytes: &[u8],
        is_member: impl Fn(&PublicKey) -> bool,
        entropy: &mut impl Entropy,
        now: Time,
    ) -> bool {
        let known = self.served.iter_mut().find(|(_, served)| served.is_at(source));
        let Some((id, served)) = known else { return false };
        let (id, before) = (*id, served.seen());
        served.handle_datagram(lane, source, bytes, entropy, now);
        let moved = before.is_some() && before != served.seen();
        let tell = moved && served.take_move(now);
        self.handle_events(id, is_member, entropy, now);
        self.lanes_turn(id, entropy, now);
        if tell {
            // The NAT has another address or lost its mappings: the other relays send to the former endpoint until they receive a frame.
            self.tell_clients(|other, client| {
                if other != id {
                    client.handle_suspicion(now, entropy);
                }
            });
        }
        moved
    }

    /// Calls `tell` for all clients, and takes the frames that they send.
    fn tell_clients(&mut self, mut tell: impl FnMut(RelayId, &mut Client)) {
        for (id, served) in &mut self.served {
            if let Some(client) = &mut served.client {
                tell(*id, client);
            }
            drain(*id, served, self.families, &mut self.out, &mut self.events);
        }
    }

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let clients = self.served.values().filter_map(|served| served.client.as_ref()?.poll_timeout());
        let on_demand = self.served.iter().filter(|(id, served)| served.client.is_some() && !self.is_needed(**id));
        let idle = on_demand.map(|(_, served)| served.needed + IDLE);
        let unused = self.wanted.values().map(|wanted| wanted.since + IDLE);
        let bridges = self.served.values().filter(|served| served.relay.web.is_some() && served.client.is_some());
        let lanes = self.served.values().filter_map(|served| served.fewer_lanes);
        clients
            .chain(lanes)
            .chain(idle)
            .chain(unused)
            .chain(bridges.filter_map(|served| served.web.poll_timeout()))
            .min()
    }

    fn is_needed(&self, id: RelayId) -> bool {
        self.homes.contains(&id) || self.wanted.values().any(|wanted| wanted.by.contains(&id))
    }

    /// Does the work that is due.
    pub(crate) fn handle_timeout(&mut self, entropy: &mut impl Entropy, now: Time) {
        let over = |since: Time| now >= since + IDLE;
        // From the end, so that no others move.
        let idle = self.wanted.iter().rev().filter(|(_, wanted)| over(wanted.since)).map(|(peer, _)| *peer);
        for peer in idle.collect::<Vec<_>>() {
            self.release(&peer);
        }
        for id in self.served.keys().copied().collect::<Vec<_>>() {
            let needed = self.is_needed(id);
            let Some(served) = self.served.get_mut(&id) else { continue };
            served.web.turn(served.is_by_udp(), now);
            if needed {
                served.needed = now;
            } else if served.client.is_some() && over(served.needed) {
                served.stop();
                self.send(id);
                self.served.get_mut(&id).into_iter().for_each(|served| served.end());
                self.story.push_back(NodeEvent::RelayReleased { relay: id });
                continue;
            }
            // Twice, because a client that lost the relay by UDP asks through the bridge at once, and the other way round.
            (0..2).for_each(|_| self.turn_client(id, entropy, now));
            self.lanes_turn(id, entropy, now);
        }
    }

    /// Does the work that is due for one relay's client.
    fn turn_client(&mut self, id: RelayId, entropy: &mut impl Entropy, now: Time) {
        let client = self.served.get(&id).and_then(|served| served.client.as_ref());
        if client.and_then(Client::poll_timeout).is_some_and(|due| now >= due) {
            self.drive_client(id, entropy, now);
        }
    }

    /// Lets a relay's client do all work that it can do now.
    fn drive_client(&mut self, id: RelayId, entropy: &mut impl Entropy, now: Time) {
        let Some(served) = self.served.get_mut(&id) else { return };
        let Some(client) = served.client.as_mut() else { return };
        client.set_clock(self.clock);
        let before = client.last_stamp();
        client.handle_timeout(now, entropy);
        let stamp = client.last_stamp();
        if stamp != before {
            self.stamped = self.stamped.max(Some(stamp));
        }
        if client.is_asking() {
            served.web.note_silence(now);
        }
        // Only frames announce peers.
        self.handle_events(id, |_| false, entropy, now);
    }

    /// Notes that the peer does not answer by this way. If the way leads through a relay, the relay may be gone, or the peer may not be bound there any more:
    /// the relay is asked about both.
    pub(crate) fn suspect(&mut self, peer: &PublicKey, way: Way, entropy: &mut impl Entropy, now: Time) {
        let Some((id, served)) = self.at(way.first_hop()).filter(|_| way.is_relayed()) else { return };
        if let Some(client) = served.client.as_mut() {
            client.handle_suspicion(now, entropy);
            client.doubt(peer, now);
        }
        self.send(id);
    }

    /// Notes that the host's network changed, or that the host slept: clients show the relays their present endpoint.
    pub(crate) fn handle_look_around(&mut self, families: Families, entropy: &mut impl Entropy, now: Time) {
        self.families = families;
        for id in self.served.keys().copied().collect::<Vec<_>>() {
            let Some(served) = self.served.get_mut(&id) else { continue };
            served.web.forget_distrust();
            served.client.as_mut().into_iter().for_each(|client| client.handle_move(now, entropy));
            self.send(id);
        }
    }

    /// Handles the events of a relay's client, and takes the frames that it sends. A frame is taken after the events before it were handled.
    fn handle_events(
        &mut self,
        id: RelayId,
        is_member: impl Fn(&PublicKey) -> bool,
        entropy: &mut impl Entropy,
        now: Time,
    ) {
        while let Some(served) = self.served.get_mut(&id) {
            let (at, event) = match self.events.pop_front() {
                Some(queued) => queued,
                None => match served.poll_event(self.families, &mut self.out) {
                    Some(event) => (id, event),
                    None => return,
                },
            };
            if self.served.get_mut(&at).is_some_and(|served| served.concerns_member(&event, &is_member)) {
                self.handle_event(at, event, entropy, now);
            }
        }
    }

    /// Handles one event of a relay's client.
    fn handle_event(&mut self, id: RelayId, event: RelayEvent, entropy: &mut impl Entropy, now: Time) {
        match event {
            RelayEvent::Opened { peer, .. }
            | RelayEvent::Absent { peer }
            | RelayEvent::Refused { peer }
            | RelayEvent::Arrived { peer, .. } => {
                self.changed.insert(peer);
            }
            RelayEvent::Lanes => {
                self.lanes_changed.extend(self.served.get(&id).and_then(|served| served.place));
            }
            RelayEvent::Ready => {
                let bound = self.served.get_mut(&id).and_then(|served| served.note_bound());
                self.story.extend(bound);
                self.choose_again(entropy, now);
                let wanted = self.wanted.iter().filter(|(_, wanted)| wanted.by.contains(&id)).map(|(peer, _)| *peer);
                for peer in wanted.collect::<Vec<_>>() {
                    self.open(peer, entropy, now);
                }
            }
            RelayEvent::Lost(why) => {
                self.lost.push(id);
                let served = self.served.get_mut(&id);
                self.stuck.extend(served.as_ref().filter(|served| served.is_bridged()).map(|_| id));
                let known = served.map(|served| served.lost(why, entropy, now)).unwrap_or_default();
                self.story.extend(self.served.get_mut(&id).and_then(|served| served.note_lost(why)));
                self.changed.extend(self.wanted.keys().copied().chain(known));
                self.choose_again(entropy, now);
            }
        }
    }

    /// Takes the outputs of a client after an input that causes frames only.
    fn send(&mut self, id: RelayId) {
        if let Some(served) = self.served.get_mut(&id) {
            drain(id, served, self.families, &mut self.out, &mut self.events);
        }
    }

    fn forget(&mut self, id: RelayId) {
        if let Some(mut served) = self.served.remove(&id) {
            served.stop();
            drain(id, &mut served, self.families, &mut self.out, &mut self.events);
            self.changed.extend(self.wanted.keys().copied().chain(served.known));
            self.moved = true;
        }
    }

    /// Returns the addresses of all relays, from which a lane accepts frames.
    pub(crate) fn places(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.served.values().flat_map(|served| served.places())
    }

    /// Returns what the node has to do next. The order of the variants is the order of urgency.
    pub(crate) fn poll_output(&mut self) -> Option<RelaysOutput> {
        if let Some(stamp) = self.stamped.take() {
            return Some(RelaysOutput::Stamped(stamp));
        }
        if let Some(relay) = self.lost.pop() {
            return Some(RelaysOutput::Lost(relay));
        }
        if std::mem::take(&mut self.moved) {
            return Some(RelaysOutput::Places(self.places().collect()));
        }
        while let Some((lane, destination, frame)) = self.out.pop_front() {
            if let Some(frame) = Datagram::new(frame.as_bytes()) {
                return Some(RelaysOutput::Transmit(lane, destination, frame));
            }
        }
        if let Some(peer) = self.changed.pop_last() {
            return Some(RelaysOutput::WaysChanged(peer));
        }
        if let Some(relay) = self.lanes_changed.pop_last() {
            return Some(RelaysOutput::LanesChanged(relay));
        }
        if let Some(relays) = self.newly_bound() {
            return Some(RelaysOutput::Bound(relays));
        }
        if let Some(requests) = self.other_bridges() {
            return Some(RelaysOutput::Bridges(requests));
        }
        if let Some(relay) = self.stuck.pop() {
            return Some(RelaysOutput::ResetBridge(relay));
        }
        self.story.pop_front().map(RelaysOutput::Event)
    }

    /// Returns true if a relay serves this node by UDP, as far as is known: a relay that fails is noticed within half a minute.
    pub(crate) fn is_any_by_udp(&self) -> bool {
        let is_ready = |served: &KnownRelay| served.client.as_ref().is_some_and(Client::is_ready);
        self.served.values().any(|served| served.is_by_udp() && is_ready(served))
    }

    /// Returns the home relays that the node is bound to, best first, if they are not those of the last [`RelaysOutput::Bound`].
    fn newly_bound(&mut self) -> Option<Vec<RelayId>> {
        let ready = |id: &&RelayId| {
            self.served.get(id).and_then(|served| served.client.as_ref()).is_some_and(|client| client.is_ready())
        };
        let bound: Vec<RelayId> = self.homes.iter().filter(ready).copied().collect();
        if bound.is_empty() || bound == self.told {
            return None;
        }
        self.told.clone_from(&bound);
        Some(bound)
    }

    /// Returns the state of all relays of the map for users.
    pub(crate) fn views(&self) -> impl Iterator<Item = RelayView<'_>> {
        self.served.values().map(|served| served.view(self.homes.iter().position(|home| *home == served.relay.id)))
    }
}

/// Takes all outputs of a relay's client. Its events are queued for [`Relays::handle_events`].
fn drain(
    id: RelayId,
    served: &mut KnownRelay,
    families: Families,
    out: &mut VecDeque<RelayFrame>,
    events: &mut VecDeque<(RelayId, RelayEvent)>,
) {
    events.extend(std::iter::from_fn(|| served.poll_event(families, out)).map(|event| (id, event)));
}

#[cfg(test)]
mod tests;

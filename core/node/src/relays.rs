//! The relays that this node uses, and by which of them each peer is reached (protocol.md 6).
//!
//! ```text
//!   network map ─▶ relays ─┬─ homes: the nearest and the next one ── bound as long as we have a ticket; the coordinator is told of them
//!                          └─ others ── bound while a peer that is bound nowhere else is wanted, and for 5 minutes after
//!
//!   want(peer) ─▶ where both are bound, two at most; else where the peer is ─▶ Client::open ─▶ a way at once, if we are bound there
//!                                                                                          └▶ a way as soon as we are
//!   a way ends: the relay is lost, or says that the peer is not there
//! ```
//! One [`taut_relay::Client`] for each relay in use; they speak through the first lane's socket, as frames that the lane passes down and up unread. A relay's addresses
//! of both families are asked at once, and the first that answers is used until the relay is lost. What a relay says is believed only under the keys of
//! a bind with the key that the map names. Where UDP is blocked a relay is reached by a bridge ([`web`]).
//!
//! The agent owns all of it. It refuses: to send anything to an address that no map names, and to bind without a ticket.

mod bridges;
mod served;
mod web;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, PublicKey, RelayId, Time};
use taut_path::{Families, Way};
use taut_relay::{Client, Credentials, Event};

use crate::event::NodeEvent;
pub use bridges::BridgeRequest;
pub use served::RelayView;
use served::Served;

/// Relays that a node is bound to whatever happens: the nearest, and a second one that is warm when the first one dies.
const HOMES: usize = 2;

/// Relays by which one peer is reached at the same time.
const PER_PEER: usize = 2;

/// Without a wish for so long a peer is closed, and so is a relay that nobody needs (protocol.md 5.5).
const IDLE: Duration = Duration::from_secs(300);

/// All relays of the map, those in use, and who is wanted.
#[derive(Default)]
pub(crate) struct Relays {
    credentials: Option<Credentials>,
    served: BTreeMap<RelayId, Served>,
    /// Best first.
    homes: Vec<RelayId>,
    wanted: BTreeMap<PublicKey, Wanted>,
    families: Families,
    /// Frames for relays, with where they go.
    out: VecDeque<(SocketAddr, taut_relay::Datagram)>,
    /// Peers whose ways may be others now.
    changed: BTreeSet<PublicKey>,
    /// What the coordinator was told.
    told: Vec<RelayId>,
    /// The places of the relays are others than the lanes know.
    moved: bool,
    /// Relays that were lost, to be told to who chooses.
    lost: Vec<RelayId>,
    /// The bridges of the last [`RelaysOutput::Bridges`].
    bridges: Vec<BridgeRequest>,
    /// Relays that were lost by a bridge.
    stuck: Vec<RelayId>,
    /// What the clock of the stamps showed at `Time` 0, since 1970.
    clock: Duration,
    /// The latest stamp of a bind since the last [`RelaysOutput::Stamped`].
    stamped: Option<Duration>,
    events: VecDeque<NodeEvent>,
}

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
    /// A frame to be sent from the first lane's socket. It leaves before what the relay is to forward, because the relay needs it for that.
    Transmit(SocketAddr, taut_relay::Datagram),
    /// A peer whose ways ([`Relays::ways`]) may have changed.
    WaysChanged(PublicKey),
    /// The home relays that the node is bound to, best first.
    Bound(Vec<RelayId>),
    /// All bridges that have to exist from now on.
    Bridges(Vec<BridgeRequest>),
    /// A relay that was lost though its bridge is open: the bridge's connection may be dead.
    ResetBridge(RelayId),
}

/// A peer that is to be reached.
struct Wanted {
    /// By which relays, best first.
    by: Vec<RelayId>,
    /// When it was last wished for.
    since: Time,
}

impl Relays {
    /// The map's relays. Those that stay as they are keep their bindings.
    pub(crate) fn set_map(&mut self, relays: &[taut_netmap::Relay], now: Time) {
        let listed: BTreeSet<RelayId> = relays.iter().map(|relay| relay.id).collect();
        let gone = self.served.iter().filter(|(id, _)| !listed.contains(id)).map(|(id, _)| *id).collect::<Vec<_>>();
        for id in gone {
            self.forget(id);
            self.wanted.values_mut().for_each(|wanted| wanted.by.retain(|other| *other != id));
        }
        for relay in relays {
            let same = self.served.get(&relay.id).is_some_and(|served| served.is(relay));
            if !same {
                self.forget(relay.id);
                self.served.insert(relay.id, Served::new(relay, now));
                self.moved = true;
            }
        }
        self.homes.retain(|id| listed.contains(id));
        // Until they are measured, in the order of the map.
        for id in relays.iter().map(|relay| relay.id) {
            if self.homes.len() < HOMES && !self.homes.contains(&id) {
                self.homes.push(id);
            }
        }
        self.bind(now);
    }

    /// Binds are stamped by this clock from now on: at `Time` 0 it showed `at_zero` since 1970.
    pub(crate) fn set_clock(&mut self, at_zero: Duration) {
        self.clock = at_zero;
    }

    /// What we are known by to all relays, from now on.
    pub(crate) fn set_credentials(&mut self, credentials: Credentials, now: Time) {
        for served in self.served.values_mut() {
            if let Some(client) = &mut served.client {
                client.set_credentials(credentials.clone(), now);
            }
        }
        self.credentials = Some(credentials);
        self.bind(now);
    }

    /// The relays that were measured as nearest, best first.
    pub(crate) fn set_homes(&mut self, homes: &[RelayId], now: Time) {
        let known = homes.iter().filter(|id| self.served.contains_key(id)).take(HOMES);
        let homes: Vec<RelayId> = known.copied().collect();
        if !homes.is_empty() && homes != self.homes {
            for former in std::mem::replace(&mut self.homes, homes) {
                // It stays for a while: peers know us there.
                self.served.get_mut(&former).into_iter().for_each(|served| served.needed = now);
            }
            self.bind(now);
        }
    }

    /// A client for each relay that has to have one.
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

    /// The peer is to be reached, and is bound to these relays. Says by which ways it is from now on, best first.
    pub(crate) fn want(&mut self, peer: PublicKey, at: &[RelayId], entropy: &mut impl Entropy, now: Time) {
        let by = self.meeting_places(at);
        let wanted = self.wanted.entry(peer).or_insert_with(|| Wanted { by: Vec::new(), since: now });
        wanted.since = now;
        if by.iter().all(|id| wanted.by.contains(id)) {
            return;
        }
        wanted.by = by;
        self.bind(now);
        self.open(peer, entropy, now);
    }

    /// The peer is still being talked to.
    pub(crate) fn still_wants(&mut self, peer: &PublicKey, now: Time) {
        self.wanted.get_mut(peer).into_iter().for_each(|wanted| wanted.since = now);
    }

    /// Where both of us are bound; or else where the peer is; or, if nobody knows that, where we are.
    fn meeting_places(&self, at: &[RelayId]) -> Vec<RelayId> {
        let known = at.iter().filter(|id| self.served.contains_key(id));
        let both: Vec<RelayId> = self.homes.iter().filter(|id| at.contains(id)).copied().collect();
        match () {
            () if !both.is_empty() => both,
            () if at.is_empty() => self.homes.clone(),
            () => known.copied().take(PER_PEER).collect(),
        }
    }

    /// Asks the relays of a peer for it.
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

    /// Nobody wants the peer any more.
    pub(crate) fn release(&mut self, peer: &PublicKey) {
        if self.wanted.remove(peer).is_none() {
            return;
        }
        // Also where it was only asked about.
        self.tell_clients(|_, client| client.close(peer));
        self.changed.insert(*peer);
    }

    /// Forgets a peer that is no member of the network any more.
    pub(crate) fn forget_peer(&mut self, peer: &PublicKey) {
        self.release(peer);
        self.served.values_mut().for_each(|served| served.forget(peer));
    }

    /// The peer authenticated itself behind this number.
    pub(crate) fn learn(&mut self, peer: PublicKey, way: Way, now: Time) {
        let Way::Relayed { relay, id } = way else { return };
        let Some((at, served)) = self.at(relay) else { return };
        if let Some(client) = served.client.as_mut() {
            client.learn(peer, id, now);
            self.changed.insert(peer);
        }
        self.send(at);
    }

    /// The relay in use at this place.
    fn at(&mut self, place: SocketAddr) -> Option<(RelayId, &mut Served)> {
        self.served.iter_mut().find(|(_, served)| served.place == Some(place)).map(|(id, served)| (*id, served))
    }

    /// The ways to a peer, best first.
    pub(crate) fn ways(&self, peer: &PublicKey) -> Vec<Way> {
        let wanted = self.wanted.get(peer).map_or(&[][..], |wanted| &wanted.by);
        let others = self.served.keys().filter(|id| !wanted.contains(id));
        wanted.iter().chain(others).filter_map(|id| self.served.get(id)?.way_to(peer)).collect()
    }

    /// A frame came from a relay's address. `is_member`: whether a key is in the map. Says whether the relay sees us elsewhere than before.
    pub(crate) fn handle_datagram(
        &mut self,
        source: SocketAddr,
        bytes: &[u8],
        is_member: impl Fn(&PublicKey) -> bool,
        entropy: &mut impl Entropy,
        now: Time,
    ) -> bool {
        let known = self.served.iter_mut().find(|(_, served)| served.is_at(source));
        let Some((id, served)) = known else { return false };
        let (id, before) = (*id, served.seen());
        let event = served.handle_datagram(source, bytes, is_member, entropy, now);
        let moved = before.is_some() && before != served.seen();
        let tell = moved && served.take_move(now);
        self.happened(id, event, entropy, now);
        if tell {
            // A NAT has another address, or began anew: the other relays send to where we were until they hear from us.
            self.tell_clients(|other, client| {
                if other != id {
                    client.handle_suspicion(now, entropy);
                }
            });
        }
        moved
    }

    /// Tells all clients something, and takes what they send.
    fn tell_clients(&mut self, mut tell: impl FnMut(RelayId, &mut Client)) {
        for (id, served) in &mut self.served {
            if let Some(client) = &mut served.client {
                tell(*id, client);
            }
            served.take_frames(self.families, &mut self.out);
        }
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Time> {
        let clients = self.served.values().filter_map(|served| served.client.as_ref()?.poll_timeout());
        let on_demand = self.served.iter().filter(|(id, served)| served.client.is_some() && !self.is_needed(**id));
        let idle = on_demand.map(|(_, served)| served.needed + IDLE);
        let wishes = self.wanted.values().map(|wanted| wanted.since + IDLE);
        let bridges = self.served.values().filter(|served| served.relay.web.is_some() && served.client.is_some());
        clients.chain(idle).chain(wishes).chain(bridges.filter_map(|served| served.web.poll_timeout())).min()
    }

    fn is_needed(&self, id: RelayId) -> bool {
        self.homes.contains(&id) || self.wanted.values().any(|wanted| wanted.by.contains(&id))
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, entropy: &mut impl Entropy, now: Time) {
        let over = |since: Time| now >= since + IDLE;
        let idle = self.wanted.iter().filter(|(_, wanted)| over(wanted.since)).map(|(peer, _)| *peer);
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
                self.served.get_mut(&id).into_iter().for_each(Served::end);
                self.events.push_back(NodeEvent::RelayReleased { relay: id });
                continue;
            }
            // Twice: who was lost by one way asks by the other at once.
            (0..2).for_each(|_| self.turn_client(id, entropy, now));
        }
    }

    /// Does what is due for one relay's client.
    fn turn_client(&mut self, id: RelayId, entropy: &mut impl Entropy, now: Time) {
        let client = self.served.get(&id).and_then(|served| served.client.as_ref());
        if client.and_then(Client::poll_timeout).is_some_and(|due| now >= due) {
            self.drive_client(id, entropy, now);
        }
    }

    /// Has a relay's client do what it can now.
    fn drive_client(&mut self, id: RelayId, entropy: &mut impl Entropy, now: Time) {
        let Some(served) = self.served.get_mut(&id) else { return };
        let Some(client) = served.client.as_mut() else { return };
        client.set_clock(self.clock);
        let before = client.last_stamp();
        let event = client.handle_timeout(now, entropy);
        let stamp = client.last_stamp();
        if stamp != before {
            self.stamped = self.stamped.max(Some(stamp));
        }
        if client.is_asking() {
            served.web.silent(now);
        }
        self.happened(id, event, entropy, now);
    }

    /// The peer does not answer by this way: if it leads by a relay, that may be gone, or the peer may be from there. The relay is asked about both.
    pub(crate) fn suspect(&mut self, peer: &PublicKey, way: Way, entropy: &mut impl Entropy, now: Time) {
        let Some((id, served)) = self.at(way.first_hop()).filter(|_| way.is_relayed()) else { return };
        if let Some(client) = served.client.as_mut() {
            client.handle_suspicion(now, entropy);
            client.doubt(peer, now);
        }
        self.send(id);
    }

    /// The host changed, or slept: relays are shown where we are now.
    pub(crate) fn handle_look_around(&mut self, families: Families, entropy: &mut impl Entropy, now: Time) {
        self.families = families;
        for id in self.served.keys().copied().collect::<Vec<_>>() {
            let Some(served) = self.served.get_mut(&id) else { continue };
            served.web.elsewhere();
            served.client.as_mut().into_iter().for_each(|client| client.handle_move(now, entropy));
            self.send(id);
        }
    }

    /// What came of it at a relay.
    fn happened(&mut self, id: RelayId, event: Option<Event>, entropy: &mut impl Entropy, now: Time) {
        match event {
            Some(
                Event::Opened { peer, .. }
                | Event::Absent { peer }
                | Event::Refused { peer }
                | Event::Arrived { peer, .. },
            ) => {
                self.changed.insert(peer);
            }
            Some(Event::Ready) => {
                let bound = self.served.get_mut(&id).and_then(Served::note_bound);
                self.events.extend(bound);
                let wanted = self.wanted.iter().filter(|(_, wanted)| wanted.by.contains(&id)).map(|(peer, _)| *peer);
                for peer in wanted.collect::<Vec<_>>() {
                    self.open(peer, entropy, now);
                }
            }
            Some(Event::Lost(why)) => {
                self.lost.push(id);
                let served = self.served.get_mut(&id);
                self.stuck.extend(served.as_ref().filter(|served| served.is_bridged()).map(|_| id));
                let known = served.map(|served| served.lost(why, entropy, now)).unwrap_or_default();
                self.events.extend(self.served.get_mut(&id).and_then(|served| served.note_lost(why)));
                self.changed.extend(self.wanted.keys().copied().chain(known));
            }
            None => {}
        }
        self.send(id);
    }

    /// Takes what a client sends.
    fn send(&mut self, id: RelayId) {
        if let Some(served) = self.served.get_mut(&id) {
            served.take_frames(self.families, &mut self.out);
        }
    }

    fn forget(&mut self, id: RelayId) {
        if let Some(mut served) = self.served.remove(&id) {
            served.stop();
            served.take_frames(self.families, &mut self.out);
            self.changed.extend(self.wanted.keys().copied().chain(served.known));
            self.moved = true;
        }
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
            return Some(RelaysOutput::Places(self.served.values().flat_map(Served::places).collect()));
        }
        if let Some((destination, frame)) = self.out.pop_front() {
            return Some(RelaysOutput::Transmit(destination, frame));
        }
        if let Some(peer) = self.changed.pop_first() {
            return Some(RelaysOutput::WaysChanged(peer));
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
        self.events.pop_front().map(RelaysOutput::Event)
    }

    /// Returns true if a relay serves us by UDP, as far as is known: one that went away is noticed within half a minute.
    pub(crate) fn is_any_by_udp(&self) -> bool {
        let is_ready = |served: &Served| served.client.as_ref().is_some_and(Client::is_ready);
        self.served.values().any(|served| served.is_by_udp() && is_ready(served))
    }

    /// Returns the home relays that we are bound to, best first, if the coordinator was told of others.
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

    /// All relays of the map, as users may see them.
    pub(crate) fn views(&self) -> impl Iterator<Item = RelayView<'_>> {
        self.served.values().map(|served| served.view(self.homes.iter().position(|home| *home == served.relay.id)))
    }
}

#[cfg(test)]
mod tests;

//! The node's side of its relays ([`crate::relays`]): inputs go there, and their outputs go to lanes, paths and the agent.
//!
//! ```text
//! set_map, set_ticket, FromLane::Datagram, time ──▶ Relays ──▶ ToLane::Datagram, ToLane::Relays
//!                                                          └─▶ a peer's ways changed: its paths are told, and during a handshake attempt the
//!                                                              newest initiation is sent by the new way at once
//! ```

use std::net::SocketAddr;
use std::sync::Arc;

use taut_base::{Entropy, LaneId, PeerId, PublicKey, RelayId, Time};
use taut_path::Way;
use taut_relay::Credentials;
use taut_wire::stun::is_stun;

use super::Node;
use crate::contract::{Clocks, Datagram, ToLane};
use crate::output::Output;
use crate::relays::{RelayView, RelaysOutput};

impl<E: Entropy> Node<E> {
    /// Sets the ticket and the key that this node binds to relays with. Without them no relay is used. Replacing a ticket before it expires does not interrupt
    /// the bindings.
    pub fn set_ticket(&mut self, credentials: Credentials, clocks: Clocks) {
        self.set_clocks(clocks);
        self.relays.set_credentials(credentials, clocks.now);
        self.relays_turn();
    }

    /// Returns the relays of the map.
    pub fn relays(&self) -> impl Iterator<Item = RelayView<'_>> {
        self.relays.views()
    }

    /// Notes that the bridge to this relay is open at this address, or has a new connection.
    pub fn bridge_opened(&mut self, relay: RelayId, place: SocketAddr, clocks: Clocks) {
        self.set_clocks(clocks);
        self.set_relays_clock(clocks);
        self.relays.bridge_opened(relay, place, &mut self.entropy, clocks.now);
        self.relays_turn();
    }

    /// Notes that the bridge to this relay has no connection.
    pub fn bridge_closed(&mut self, relay: RelayId, clocks: Clocks) {
        self.set_clocks(clocks);
        self.relays.bridge_closed(relay, &mut self.entropy, clocks.now);
        self.relays_turn();
    }

    /// Takes a frame or a STUN answer from a relay's address. Its contents are not checked yet.
    pub(super) fn handle_datagram(&mut self, lane: LaneId, source: SocketAddr, datagram: &Datagram) {
        let (bytes, members) = (datagram.as_bytes(), &self.by_key);
        let is_member = |key: &PublicKey| members.contains_key(key);
        if is_stun(bytes) {
            self.handle_answer(source, bytes);
        } else if self.relays.handle_datagram(lane, source, bytes, is_member, &mut self.entropy, self.now) {
            self.nat_report.handle_doubt(self.now);
            self.nat_report_turn();
        }
        self.relays_turn();
    }

    /// Asks relays for the peer.
    pub(super) fn request_relays(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get(&id).filter(|peer| !peer.native) else { return };
        self.relays.request(peer.key, &peer.relays, &mut self.entropy, self.now);
        self.relays_turn();
    }

    /// Notes that the peer authenticated itself by this way.
    pub(super) fn note_relayed_way(&mut self, id: PeerId, way: Way) {
        let Some(peer) = self.peers.get(&id).filter(|peer| !peer.native && way.is_relayed()) else { return };
        self.relays.learn(peer.key, way, self.now);
        self.relays_turn();
    }

    /// Does the work that is due at relays.
    pub(super) fn relays_timeout(&mut self, clocks: Clocks) {
        self.set_relays_clock(clocks);
        self.relays.handle_timeout(&mut self.entropy, clocks.now);
    }

    /// Sets the clock for stamps of binds to the one of initiations, because one ceiling on the disk serves both.
    fn set_relays_clock(&mut self, clocks: Clocks) {
        self.relays.set_clock(self.stamps.reading(clocks.wall).saturating_sub(clocks.now.since(Time::ZERO)));
    }

    /// Carries out the outputs of the relays, and then what follows for the NAT report.
    pub(super) fn relays_turn(&mut self) {
        self.drain_relays();
        self.nat_report_turn();
    }

    /// Carries out the outputs of the relays.
    pub(super) fn drain_relays(&mut self) {
        while let Some(output) = self.relays.poll_output() {
            match output {
                RelaysOutput::Stamped(stamp) => self.stamps.note_used(stamp, self.wall),
                RelaysOutput::Lost(relay) => self.home.lost(relay, self.now),
                RelaysOutput::Places(places) => {
                    let places: Arc<[SocketAddr]> = places.into();
                    self.tell_all(|| ToLane::Relays(Arc::clone(&places)));
                }
                RelaysOutput::Transmit(lane, destination, bytes) => {
                    // A lane that has ended meanwhile sends nothing.
                    if lane.0 < self.lanes.count() {
                        self.tell(lane, ToLane::Datagram { destination, bytes });
                    }
                }
                RelaysOutput::LanesChanged(relay) => self.handle_relay_lanes(relay),
                RelaysOutput::WaysChanged(key) => {
                    if let Some(id) = self.by_key.get(&key).copied() {
                        self.update_relayed_ways(id);
                    }
                }
                RelaysOutput::Event(event) => self.outputs.note(event),
                RelaysOutput::Bound(relays) => self.outputs.push(Output::HomeRelays(relays)),
                RelaysOutput::Bridges(requests) => self.outputs.push(Output::Bridges(requests)),
                RelaysOutput::ResetBridge(relay) => self.outputs.push(Output::ResetBridge(relay)),
            }
        }
    }

    /// Takes the ways to a peer through relays, if they changed.
    fn update_relayed_ways(&mut self, id: PeerId) {
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let ways = self.relays.ways(&peer.key);
        if ways == peer.relayed {
            return;
        }
        let former = std::mem::replace(&mut peer.relayed, ways);
        if let Some(paths) = &mut peer.paths {
            paths.set_relays(&peer.relayed, now);
        }
        let message = peer.attempt.as_ref().and_then(|_| peer.repeatable(now));
        if let Some(message) = message {
            let new: Vec<Way> = peer.relayed.iter().filter(|way| !former.contains(way)).copied().collect();
            self.send_by(id, &new, message);
        }
        self.steer(id);
    }
}

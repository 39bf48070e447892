//! One relay of the map, and this node's client there if the relay is in use.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, LaneId, PublicKey, RelayId, SortedSet, Time};
use taut_netmap::Relay;
use taut_path::{Families, Way};
use taut_relay::{BindingState, Client, ClientOutput, Credentials, LostCause, RelayEvent};

use super::RelayFrame;
use super::web::WebFallback;
use crate::event::NodeEvent;

/// Shortest time between two changes of endpoint reported by one relay that make the node ask the others, 2 s. A NAT restarts once; a hostile relay would
/// report a change with each answer.
const MOVE_INTERVAL: Duration = Duration::from_secs(2);

/// One relay of the map.
pub(super) struct KnownRelay {
    pub(super) relay: Relay,
    pub(super) client: Option<Client>,
    /// The address at which the relay answered; `None` until it does.
    pub(super) place: Option<SocketAddr>,
    /// Number of lanes that the client binds.
    pub(super) lanes: u8,
    /// Time at which the client binds fewer lanes.
    pub(super) fewer_lanes: Option<Time>,
    /// Index of the address of each family that is asked. It advances when the relay does not answer.
    turn: usize,
    /// The fallback to WebSocket, for networks that block UDP.
    pub(super) web: WebFallback,
    /// Time at which the relay was last needed.
    pub(super) needed: Time,
    /// Members of the network that have, or had, a channel number there.
    pub(super) known: SortedSet<PublicKey>,
    /// Time at which the other relays were last asked because this one saw the node at another endpoint.
    moved: Option<Time>,
    /// The state in the last event about this relay: bound at an address, or lost.
    told: Option<Result<SocketAddr, LostCause>>,
}

impl KnownRelay {
    pub(super) fn new(relay: &Relay, now: Time) -> Self {
        Self {
            relay: relay.clone(),
            client: None,
            place: None,
            lanes: 1,
            fewer_lanes: None,
            turn: 0,
            web: WebFallback::default(),
            needed: now,
            known: SortedSet::new(),
            moved: None,
            told: None,
        }
    }

    /// Returns true if the map entry of the relay did not change.
    pub(super) fn is(&self, relay: &Relay) -> bool {
        self.relay.key == relay.key
            && self.relay.endpoints == relay.endpoints
            && self.relay.stun_port == relay.stun_port
            && self.relay.web == relay.web
    }

    /// Starts a client, if there is none.
    pub(super) fn start(&mut self, credentials: &Credentials, now: Time) {
        let client = || Client::new(self.relay.key, credentials.clone(), now);
        self.client.get_or_insert_with(client);
    }

    /// Has the client unbind.
    pub(super) fn stop(&mut self) {
        self.client.as_mut().into_iter().for_each(Client::leave);
    }

    /// Ends the client.
    pub(super) fn end(&mut self) {
        (self.client, self.place, self.told) = (None, None, None);
        (self.lanes, self.fewer_lanes) = (1, None);
        self.web.idle();
        self.known.clear();
    }

    /// Notes that the relay was lost. Returns the peers that were reached through it.
    pub(super) fn lost(&mut self, why: LostCause, entropy: &mut impl Entropy, now: Time) -> SortedSet<PublicKey> {
        self.place = None;
        if why != LostCause::Silent {
            // The relay answered, so a WebSocket bridge to it would not help.
            self.web.answered();
        } else if self.web.lost(now) {
            // The bridge is still open, so the client binds through it at once.
            self.client.as_mut().into_iter().for_each(|client| client.handle_move(now, entropy));
        }
        self.turn += 1;
        std::mem::take(&mut self.known)
    }

    /// Returns true if this address belongs to the relay.
    pub(super) fn is_at(&self, source: SocketAddr) -> bool {
        self.relay.endpoints.contains(&source) || self.web.open == Some(source)
    }

    /// Returns true if the relay answers by UDP. A relay whose bridge has closed does not.
    pub(super) fn is_by_udp(&self) -> bool {
        self.place.is_some_and(|place| self.relay.endpoints.contains(&place))
    }

    /// Returns true if the relay is reached through a bridge.
    pub(super) fn is_bridged(&self) -> bool {
        self.place.is_some() && self.place == self.web.open
    }

    /// Returns the addresses that frames and STUN answers of the relay come from; that of a bridge first.
    pub(super) fn places(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let stun = |endpoint: &SocketAddr| SocketAddr::new(endpoint.ip(), self.relay.stun_port);
        let stun = self.relay.endpoints.iter().map(stun).filter(|place| place.port() != 0);
        self.web.open.into_iter().chain(self.relay.endpoints.iter().copied()).chain(stun)
    }

    /// Takes a frame from the relay.
    pub(super) fn handle_datagram(
        &mut self,
        lane: LaneId,
        source: SocketAddr,
        bytes: &[u8],
        entropy: &mut impl Entropy,
        now: Time,
    ) {
        let Some(client) = &mut self.client else { return };
        client.handle_lane_datagram(lane.0, bytes, now, entropy);
        if client.is_ready() {
            self.place.get_or_insert(source);
            self.web.answered();
        }
    }

    /// Returns true if the event concerns a member, or no peer. Any other peer is forgotten: membership is decided by the map, not by the relay (fault F18). A
    /// peer that is not in the map yet is opened when the map lists it.
    pub(super) fn concerns_member(&mut self, event: &RelayEvent, is_member: impl Fn(&PublicKey) -> bool) -> bool {
        let (RelayEvent::Opened { peer, .. } | RelayEvent::Arrived { peer, .. }) = event else { return true };
        if is_member(peer) {
            self.known.insert(*peer);
            return true;
        }
        self.client.as_mut().into_iter().for_each(|client| client.forget(peer));
        false
    }

    /// Returns the event that the relay has bound this node, unless the last event said so.
    pub(super) fn note_bound(&mut self) -> Option<NodeEvent> {
        let place = self.place?;
        let is_news = self.told.replace(Ok(place)) != Some(Ok(place));
        is_news.then(|| NodeEvent::RelayBound { relay: self.relay.id, place, by_bridge: self.is_bridged() })
    }

    /// Returns the event that the relay was lost, unless the last event said so.
    pub(super) fn note_lost(&mut self, reason: LostCause) -> Option<NodeEvent> {
        let is_news = self.told.replace(Err(reason)) != Some(Err(reason));
        is_news.then_some(NodeEvent::RelayLost { relay: self.relay.id, reason })
    }

    /// Returns true if the relay was lost and is not back.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.told, Some(Err(_)))
    }

    /// Forgets a peer that has left the network.
    pub(super) fn forget(&mut self, peer: &PublicKey) {
        self.client.as_mut().into_iter().for_each(|client| client.forget(peer));
        self.known.remove(peer);
    }

    /// Returns true if the other relays may be asked now whether they see the node at another endpoint, too.
    pub(super) fn take_move(&mut self, now: Time) -> bool {
        let may = self.moved.is_none_or(|last| now.since(last) >= MOVE_INTERVAL);
        if may {
            self.moved = Some(now);
        }
        may
    }

    /// Returns the endpoint at which the relay last saw this node.
    pub(super) fn seen(&self) -> Option<SocketAddr> {
        self.client.as_ref().and_then(Client::seen)
    }

    /// Returns the way to a peer that has a channel number at this relay.
    pub(super) fn way_to(&self, peer: &PublicKey) -> Option<Way> {
        let (relay, client) = (self.place?, self.client.as_ref()?);
        Some(Way::Relayed { relay, id: client.id_of(peer)? })
    }

    /// Takes the client's outputs up to the next event. Frames go to the address at which the relay answers; until it does, to one address of each family, and
    /// through the bridge.
    pub(super) fn poll_event(&mut self, families: Families, out: &mut VecDeque<RelayFrame>) -> Option<RelayEvent> {
        let client = self.client.as_mut()?;
        loop {
            let frame = match client.poll_output()? {
                ClientOutput::Event(event) => return Some(event),
                ClientOutput::Transmit(frame) => frame,
                ClientOutput::LaneTransmit(lane, frame) => {
                    // The client of a relay that was found without UDP meanwhile has lanes for a moment more.
                    let place = self.place.filter(|place| self.relay.endpoints.contains(place));
                    out.extend(place.map(|place| (LaneId(lane), place, frame)));
                    continue;
                }
            };
            let places = match self.place {
                Some(place) => vec![place],
                None => {
                    candidates(&self.relay.endpoints, families, self.turn).into_iter().chain(self.web.open).collect()
                }
            };
            out.extend(places.into_iter().map(|place| (LaneId::FIRST, place, frame.clone())));
        }
    }

    pub(super) fn view(&self, home: Option<usize>) -> RelayView<'_> {
        RelayView {
            id: self.relay.id,
            name: &self.relay.name,
            place: self.place,
            endpoints: &self.relay.endpoints,
            is_bridged: self.is_bridged(),
            round_trip: self.client.as_ref().and_then(Client::round_trip),
            standing: self.client.as_ref().map(Client::standing),
            lost: self.told.and_then(Result::err),
            home,
        }
    }
}

/// Returns one address of each family that this host has; another one with each turn.
fn candidates(endpoints: &[SocketAddr], families: Families, turn: usize) -> Vec<SocketAddr> {
    let of = |wanted: bool, v4: bool| {
        let all: Vec<SocketAddr> =
            endpoints.iter().copied().filter(|endpoint| wanted && endpoint.is_ipv4() == v4).collect();
        (!all.is_empty()).then(|| all[turn % all.len()])
    };
    of(families.v4, true).into_iter().chain(of(families.v6, false)).collect()
}

/// The state of a relay for users.
#[derive(Clone, Copy, Debug)]
pub struct RelayView<'a> {
    /// The relay's number in the map.
    pub id: RelayId,
    /// The relay's name.
    pub name: &'a str,
    /// The address at which the relay answers.
    pub place: Option<SocketAddr>,
    /// All its addresses in the map.
    pub endpoints: &'a [SocketAddr],
    /// Whether that address is a bridge, because the relay does not answer by UDP.
    pub is_bridged: bool,
    /// The round-trip time to the relay.
    pub round_trip: Option<Duration>,
    /// The state of the binding; `None` while the relay is not in use.
    pub standing: Option<BindingState>,
    /// The reason why the last binding ended, until the relay binds this node again.
    pub lost: Option<LostCause>,
    /// 0 for the first home relay, 1 for the second; `None` for other relays.
    pub home: Option<usize>,
}

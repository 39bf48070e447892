//! One relay of the map, and our client there if it is in use.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::{Entropy, PublicKey, RelayId, Time};
use taut_netmap::Relay;
use taut_path::{Families, Way};
use taut_relay::{Client, Credentials, Datagram, Event, LostCause, Standing};

use super::web::Web;
use crate::event::NodeEvent;

/// Between two times that one relay has us ask the others whether we are elsewhere: a NAT starts again once, and a hostile relay says so with each answer.
const MOVED_APART: Duration = Duration::from_secs(2);

/// One relay.
pub(super) struct Served {
    pub(super) relay: Relay,
    pub(super) client: Option<Client>,
    /// Where it answered; `None` until it does.
    pub(super) place: Option<SocketAddr>,
    /// Which of its addresses of each family is asked: the next one when nobody answers there.
    turn: usize,
    /// The way to it where UDP is blocked.
    pub(super) web: Web,
    /// When somebody last needed it.
    pub(super) needed: Time,
    /// Members of the network that have, or had, a number there.
    pub(super) known: BTreeSet<PublicKey>,
    /// When the other relays were last asked because this one saw us elsewhere.
    moved: Option<Time>,
    /// How it stood when an event was last made of it: bound at a place, or lost.
    told: Option<Result<SocketAddr, LostCause>>,
}

impl Served {
    pub(super) fn new(relay: &Relay, now: Time) -> Self {
        Self {
            relay: relay.clone(),
            client: None,
            place: None,
            turn: 0,
            web: Web::default(),
            needed: now,
            known: BTreeSet::new(),
            moved: None,
            told: None,
        }
    }

    /// Whether the map says the same of it.
    pub(super) fn is(&self, relay: &Relay) -> bool {
        self.relay.key == relay.key
            && self.relay.endpoints == relay.endpoints
            && self.relay.stun_port == relay.stun_port
            && self.relay.web == relay.web
    }

    /// A client there, if there is none yet.
    pub(super) fn start(&mut self, credentials: &Credentials, now: Time) {
        let client = || Client::new(self.relay.key, credentials.clone(), now);
        self.client.get_or_insert_with(client);
    }

    /// Says goodbye, if there is somebody to say it to.
    pub(super) fn stop(&mut self) {
        self.client.as_mut().into_iter().for_each(Client::leave);
    }

    /// Nobody is there any more who could say something.
    pub(super) fn end(&mut self) {
        (self.client, self.place, self.told) = (None, None, None);
        self.web.idle();
        self.known.clear();
    }

    /// It does not answer where it did. Returns who was reached there.
    pub(super) fn lost(&mut self, why: LostCause, entropy: &mut impl Entropy, now: Time) -> BTreeSet<PublicKey> {
        self.place = None;
        if why != LostCause::Silent {
            // It spoke: there is nothing that another way to it would mend.
            self.web.answered();
        } else if self.web.lost(now) {
            // The bridge is still open: there is nothing to wait for.
            self.client.as_mut().into_iter().for_each(|client| client.handle_move(now, entropy));
        }
        self.turn += 1;
        std::mem::take(&mut self.known)
    }

    /// Whether it may speak from there.
    pub(super) fn is_at(&self, source: SocketAddr) -> bool {
        self.relay.endpoints.contains(&source) || self.web.open == Some(source)
    }

    /// Whether it answers by UDP. Where it answered by a bridge that has closed, it does not.
    pub(super) fn is_by_udp(&self) -> bool {
        self.place.is_some_and(|place| self.relay.endpoints.contains(&place))
    }

    /// Whether it is reached by a bridge.
    pub(super) fn is_bridged(&self) -> bool {
        self.place.is_some() && self.place == self.web.open
    }

    /// Where frames and STUN answers of it come from; a bridge first.
    pub(super) fn places(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let stun = |endpoint: &SocketAddr| SocketAddr::new(endpoint.ip(), self.relay.stun_port);
        let stun = self.relay.endpoints.iter().map(stun).filter(|place| place.port() != 0);
        self.web.open.into_iter().chain(self.relay.endpoints.iter().copied()).chain(stun)
    }

    pub(super) fn handle_datagram(
        &mut self,
        source: SocketAddr,
        bytes: &[u8],
        is_member: impl Fn(&PublicKey) -> bool,
        entropy: &mut impl Entropy,
        now: Time,
    ) -> Option<Event> {
        let client = self.client.as_mut()?;
        let event = client.handle_datagram(bytes, now, entropy);
        if client.is_ready() {
            self.place.get_or_insert(source);
            self.web.answered();
        }
        if let Some(Event::Opened { peer, .. } | Event::Arrived { peer, .. }) = event {
            // The map names the members, not the relay (fault F18). A member that is not yet in our map is opened when it is.
            if !is_member(&peer) {
                client.forget(&peer);
                return None;
            }
            self.known.insert(peer);
        }
        event
    }

    /// Returns the event that the relay has bound this node, unless that is known.
    pub(super) fn note_bound(&mut self) -> Option<NodeEvent> {
        let place = self.place?;
        let is_news = self.told.replace(Ok(place)) != Some(Ok(place));
        is_news.then(|| NodeEvent::RelayBound { relay: self.relay.id, place, by_bridge: self.is_bridged() })
    }

    /// Returns the event that the relay was lost, unless that is known.
    pub(super) fn note_lost(&mut self, reason: LostCause) -> Option<NodeEvent> {
        let is_news = self.told.replace(Err(reason)) != Some(Err(reason));
        is_news.then_some(NodeEvent::RelayLost { relay: self.relay.id, reason })
    }

    /// Forgets a peer that is no member of the network any more.
    pub(super) fn forget(&mut self, peer: &PublicKey) {
        self.client.as_mut().into_iter().for_each(|client| client.forget(peer));
        self.known.remove(peer);
    }

    /// Returns true if the other relays may be asked now whether they see us elsewhere, too.
    pub(super) fn take_move(&mut self, now: Time) -> bool {
        let may = self.moved.is_none_or(|last| now.since(last) >= MOVED_APART);
        if may {
            self.moved = Some(now);
        }
        may
    }

    /// Where the relay last saw us.
    pub(super) fn seen(&self) -> Option<SocketAddr> {
        self.client.as_ref().and_then(Client::seen)
    }

    /// The way to a peer that has a number here.
    pub(super) fn way_to(&self, peer: &PublicKey) -> Option<Way> {
        let (relay, client) = (self.place?, self.client.as_ref()?);
        Some(Way::Relayed { relay, id: client.id_of(peer)? })
    }

    /// Takes what the client sends: to where the relay answers, or to an address of each family that we have, and by the bridge.
    pub(super) fn take_frames(&mut self, families: Families, out: &mut VecDeque<(SocketAddr, Datagram)>) {
        let Some(client) = &mut self.client else { return };
        while let Some(frame) = client.poll_transmit() {
            let places = match self.place {
                Some(place) => vec![place],
                None => asked(&self.relay.endpoints, families, self.turn).into_iter().chain(self.web.open).collect(),
            };
            out.extend(places.into_iter().map(|place| (place, frame.clone())));
        }
    }

    pub(super) fn view(&self, home: Option<usize>) -> RelayView<'_> {
        RelayView {
            id: self.relay.id,
            name: &self.relay.name,
            place: self.place,
            is_bridged: self.is_bridged(),
            round_trip: self.client.as_ref().and_then(Client::round_trip),
            standing: self.client.as_ref().map(Client::standing),
            home,
        }
    }
}

/// One address of each family that we have; another one with each turn.
fn asked(endpoints: &[SocketAddr], families: Families, turn: usize) -> Vec<SocketAddr> {
    let of = |wanted: bool, v4: bool| {
        let all: Vec<SocketAddr> =
            endpoints.iter().copied().filter(|endpoint| wanted && endpoint.is_ipv4() == v4).collect();
        (!all.is_empty()).then(|| all[turn % all.len()])
    };
    of(families.v4, true).into_iter().chain(of(families.v6, false)).collect()
}

/// A relay, as a user may see it.
#[derive(Clone, Copy, Debug)]
pub struct RelayView<'a> {
    /// Its number in the map.
    pub id: RelayId,
    /// Its name.
    pub name: &'a str,
    /// Where it answers.
    pub place: Option<SocketAddr>,
    /// Whether that is a bridge: by UDP it does not answer.
    pub is_bridged: bool,
    /// How long it takes to answer.
    pub round_trip: Option<Duration>,
    /// How it stands; `None` while it is not in use.
    pub standing: Option<Standing>,
    /// 0 for the nearest, 1 for the one that is warm beside it.
    pub home: Option<usize>,
}

//! From which of the host's own addresses packets leave: from the one that their receiver speaks to. It sits behind a NAT or a firewall, perhaps,
//! that lets nothing else in, and a peer that heard from another address of ours would follow us there.
//!
//! | what goes to a place | leaves from where |
//! |---|---|
//! | data, and our own handshakes | the last authentic packet from that place came to |
//! | answers to a handshake | the handshake came to |
//!
//! What goes by a relay leaves as the routes say: the relay hears us wherever we speak from. Kept beside the endpoints and not in them: a place is spoken to in one way, whoever has it for an endpoint, and nothing of the way of a packet
//! changes. It is asked once per run of datagrams, when they are sent.
//!
//! The routes choose where nothing is known, where the address is gone (the kernel refuses it, or the agent says so), where the agent saw the way from
//! there change ([`ToLane::ForgetLocal`](taut_node::ToLane)), after the user set the peer's endpoint or the socket's mark or port, and for every second try of a handshake: with a way that leads nowhere a peer is not lost for
//! longer than that. WireGuard in the kernel forgets the address on the second try; then only the peer can bring it back.
//!
//! When the routes lead elsewhere from one moment to the next, because a better interface appeared, the peer goes on speaking to the address of the former
//! one, which still works. That is not learned again for a while, so that it is heard from the better one; and never while the peer was heard there. To a
//! Taut node what it probes at the former address is then answered from the other one, which proves nothing of the former: so its path follows, too.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use taut_base::{PeerId, Time};
use taut_path::Way;
use taut_udp::Local;
use taut_wire::ecn::Ecn;
use taut_wire::wireguard::{TYPE_COOKIE_REPLY, TYPE_DATA, TYPE_INITIATION, TYPE_RESPONSE};

use crate::lane_core::LaneCore;
use crate::tables::LanePeer;

/// Places that are remembered because they asked. As many as handshakes wait in two turns; one that is overwritten is answered as the routes say.
const ASKED: usize = 128;

/// Entries beyond two per peer before those of places where no peer is any more are looked for.
const SPARE: usize = 16;

/// How long an address that the routes left is not learned again, though the peer speaks to it: as long as the peer may take to be heard at the other one,
/// which is a few round trips, and no longer than a user waits should that one lead nowhere.
const LEFT: Duration = Duration::from_secs(3);

/// What is known of the places that speak to us.
#[derive(Default)]
pub(crate) struct Locals {
    /// Where what is being read came to.
    arrival: Option<Local>,
    /// By places from which authentic packets come.
    known: HashMap<SocketAddr, Known>,
    /// The address that the routes left last, by places known then, and when.
    left: HashMap<SocketAddr, (Local, Time)>,
    /// Places that asked, each where its hash says.
    asked: Vec<Option<(SocketAddr, Local)>>,
    hasher: RandomState,
    shared: Arc<LocalTable>,
}

#[derive(Clone, Copy)]
struct Known {
    local: Local,
    /// Handshakes that were started since the last one that ended.
    tries: u8,
}

/// Which address of ours each peer speaks to. The lock is taken when that changes and when the agent looks, never for a packet.
#[derive(Debug, Default)]
pub struct LocalTable {
    known: Mutex<HashMap<SocketAddr, Local>>,
}

impl LocalTable {
    /// Where peers are, and which address of ours they speak to from there.
    pub fn all(&self) -> Vec<(SocketAddr, Local)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(place, local)| (*place, *local)).collect()
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<SocketAddr, Local>)) {
        change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Locals {
    /// From where a message to `place` leaves; `None` where the routes choose.
    fn of(&self, place: SocketAddr, message: &[u8]) -> Option<Local> {
        let kind = message.first_chunk().map(|word| u32::from_le_bytes(*word));
        // To relays and STUN servers we go as the routes say: they answer where we came from.
        if !matches!(kind, Some(TYPE_INITIATION | TYPE_RESPONSE | TYPE_COOKIE_REPLY | TYPE_DATA)) {
            return None;
        }
        let known = self.known.get(&place);
        match kind {
            Some(TYPE_INITIATION) => known.filter(|known| known.tries % 2 == 1).map(|known| known.local),
            Some(TYPE_RESPONSE | TYPE_COOKIE_REPLY) => self.asked(place).or(known.map(|known| known.local)),
            _ => known.map(|known| known.local).or_else(|| self.asked(place)),
        }
    }

    /// What is being read came from `place`, and will be answered. It is not proven to be from there, so it changes nothing else.
    fn ask(&mut self, place: SocketAddr) {
        let Some(local) = self.arrival else { return };
        self.asked.resize(ASKED, None);
        let slot = self.slot(place);
        if let Some(slot) = self.asked.get_mut(slot) {
            *slot = Some((place, local));
        }
    }

    fn asked(&self, place: SocketAddr) -> Option<Local> {
        let (asked, local) = (*self.asked.get(self.slot(place))?)?;
        (asked == place).then_some(local)
    }

    fn slot(&self, place: SocketAddr) -> usize {
        usize::try_from(self.hasher.hash_one(place) % ASKED as u64).unwrap_or(0)
    }

    fn know(&mut self, place: SocketAddr, local: Local) {
        self.known.insert(place, Known { local, tries: 0 });
        self.shared.change(|known| {
            known.insert(place, local);
        });
    }

    /// Keeps what `is_true` of.
    fn retain(&mut self, is_true: &mut dyn FnMut(SocketAddr, Local) -> bool) {
        self.known.retain(|place, known| is_true(*place, known.local));
        for slot in &mut self.asked {
            slot.take_if(|(place, local)| !is_true(*place, *local));
        }
        self.left.retain(|place, (local, _)| is_true(*place, *local));
        let known = &self.known;
        self.shared.change(|shared| shared.retain(|place, _| known.contains_key(place)));
    }

    /// Whether what is being read came to an address that the routes left, and that is not to be learned again.
    fn was_left(&self, place: SocketAddr, now: Time) -> bool {
        let Some((left, since)) = self.left.get(&place).filter(|(left, _)| Some(*left) == self.arrival) else {
            return false;
        };
        now.since(*since) < LEFT || self.known.get(&place).is_some_and(|known| known.local != *left)
    }

    /// A handshake with `place` is started.
    pub(crate) fn tried(&mut self, place: SocketAddr, message: &[u8]) {
        if message.first_chunk() == Some(&TYPE_INITIATION.to_le_bytes())
            && let Some(known) = self.known.get_mut(&place)
        {
            known.tries = known.tries.wrapping_add(1);
        }
    }
}

impl LaneCore {
    /// To which address of ours the datagrams came that [`Self::inbound`] is given from here on, and what routers marked on them.
    pub fn arrived_at(&mut self, local: Option<Local>, congestion: Ecn) {
        self.locals.arrival = local;
        self.congestion = congestion;
    }

    /// From which address of ours a message, or a run of them, leaves; `None` where the routes choose.
    pub fn local_for(&self, destination: SocketAddr, message: &[u8]) -> Option<Local> {
        self.locals.of(destination, message)
    }

    /// Has others see what is known here.
    pub fn share_locals(&mut self, table: Arc<LocalTable>) {
        self.locals.shared = table;
    }

    /// Nothing can be sent from there.
    pub fn local_refused(&mut self, refused: Local) {
        self.forget_locals(&mut |_, local| local == refused);
    }

    /// A message that is answered came this way.
    pub(crate) fn note_asked(&mut self, way: Way) {
        if let Some(place) = way.direct() {
            self.locals.ask(place);
        }
    }

    /// An authentic packet of the peer came this way. Cheap as long as nothing changes.
    pub(crate) fn note_local(&mut self, id: PeerId, way: Way, now: Time) {
        let Some(local) = self.locals.arrival else { return };
        let Some(place) = way.direct() else { return };
        if !self.locals.left.is_empty() && self.locals.was_left(place, now) {
            return;
        }
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(side) = peer.sides().find(|side| side.way == Some(way)) else {
            // It answers a probe, for instance.
            return self.locals.ask(place);
        };
        if side.local.replace((place, local)) == Some((place, local)) {
            return;
        }
        if self.locals.known.len() >= 2 * self.peers.len() + SPARE {
            let there: HashSet<SocketAddr> = self.peers.values().flat_map(LanePeer::places).collect();
            self.locals.retain(&mut |place, _| there.contains(&place));
        }
        self.locals.know(place, local);
    }

    /// A handshake ended, and proved that this way leads to the peer: its last message came by it.
    pub(crate) fn local_proven(&mut self, id: PeerId, way: Way) {
        let Some(place) = way.direct() else { return };
        let Some(local) = self.locals.asked(place) else { return };
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.first.local = Some((place, local));
            self.locals.know(place, local);
        }
    }

    /// The routes changed: they choose again for what goes to `place`.
    pub(crate) fn leave_local(&mut self, place: SocketAddr, now: Time) {
        let known = self.locals.known.get(&place).map(|known| (known.local, now));
        let left = known.or_else(|| self.locals.left.get(&place).copied());
        self.forget_locals(&mut |known, _| known == place);
        // Entries that have no effect any more are removed: peers behind NATs change places, and each change of the routes would leave some.
        let known = &self.locals.known;
        self.locals.left.retain(|place, (_, since)| now.since(*since) < LEFT || known.contains_key(place));
        self.locals.left.extend(left.map(|left| (place, left)));
    }

    /// The routes choose again for these. Rare, and in one place: its callers are in the middle of what is frequent.
    #[cold]
    #[inline(never)]
    pub(crate) fn forget_locals(&mut self, which: &mut dyn FnMut(SocketAddr, Local) -> bool) {
        for peer in self.peers.values_mut() {
            for side in peer.sides() {
                side.local.take_if(|(place, local)| which(*place, *local));
            }
        }
        self.locals.retain(&mut |place, local| !which(place, local));
    }
}

#[cfg(test)]
mod tests;

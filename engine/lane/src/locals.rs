//! The source address of each datagram: the one of the host's own addresses that the receiver sends to. A NAT or firewall in front of the receiver may let
//! nothing else in, and a peer that heard from another address of ours would follow us to it.
//!
//! | sent to an endpoint | source address |
//! |---|---|
//! | data, and our own handshakes | the address to which the last authentic packet from that endpoint came |
//! | answers to a handshake | the address to which the handshake came |
//!
//! Datagrams to a relay get the source address that the routes choose: the relay answers to whichever address it hears from. The source addresses are kept
//! by endpoint and not by peer: one endpoint is reached from one address, whichever peer has it, and nothing of a packet's way changes. They are looked up
//! once per run of datagrams, when the run is sent.
//!
//! The routes choose the source address
//! - where nothing is known,
//! - where the address is gone (the kernel refuses it, or the agent says so),
//! - where the agent saw the route from that address change ([`ToLane::ForgetLocal`](taut_node::ToLane)),
//! - after the user set the peer's endpoint or the socket's mark or port,
//! - for every second attempt of a handshake, so that an address that leads nowhere does not cut a peer off for longer than one attempt. WireGuard in the
//!   kernel forgets the address on the second attempt; from then on only the peer can bring it back.
//!
//! When the routes change to a better interface, the peer goes on sending to the address of the former interface, which still works. That address is not
//! learned again for [`RELEARN_DELAY`], so that the peer hears from the better interface first; and it is not learned again at all once the peer was heard
//! on the better one. A Taut node that probes us at the former address is then answered from the new address, which proves nothing about the former, so its
//! path follows, too.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use taut_base::Time;
use taut_udp::Local;
use taut_wire::wireguard::{TYPE_COOKIE_REPLY, TYPE_DATA, TYPE_INITIATION, TYPE_RESPONSE};

/// Askers that are remembered, 128: endpoints that sent a handshake or probe, each with the address of ours that it sent to. As many handshakes wait for
/// the agent in two turns. An asker whose entry was overwritten is answered from the address that the routes choose.
const ASKERS: usize = 128;

/// Entries beyond two per peer, 16, before entries of endpoints without a peer are removed.
const SPARE: usize = 16;

/// Time for which an address that the routes left is not learned again although the peer sends to it, 3 s. That is as long as the peer may take to be heard
/// at the new address, which is a few round trips, and no longer than a user waits if the new address leads nowhere.
const RELEARN_DELAY: Duration = Duration::from_secs(3);

/// The source addresses of one lane.
#[derive(Default)]
pub(crate) struct LocalAddresses {
    /// The address to which the datagrams that are being received came.
    arrival: Option<Local>,
    /// By endpoints from which authentic packets come.
    known: HashMap<SocketAddr, KnownLocal>,
    /// The address that the routes left last and when, by endpoint.
    left: HashMap<SocketAddr, (Local, Time)>,
    /// Askers, each in the slot that its hash names.
    askers: Vec<Option<(SocketAddr, Local)>>,
    hasher: RandomState,
    /// Rises whenever addresses are forgotten, which makes every [`NotedLocal`] look at `known` again.
    generation: u64,
    shared: Arc<LocalTable>,
}

#[derive(Clone, Copy)]
struct KnownLocal {
    local: Local,
    /// Handshakes that were started since the last handshake that ended.
    attempts: u8,
}

/// What one lane of a session noted last, so that a packet that changes nothing costs no look-up.
#[derive(Clone, Copy, Default)]
pub(crate) struct NotedLocal {
    noted: Option<(SocketAddr, Local)>,
    generation: u64,
}

/// The address of ours that each peer sends to, for other threads. The lock is taken when an address changes and when the agent reads the table, never for
/// a packet.
#[derive(Debug, Default)]
pub struct LocalTable {
    known: Mutex<HashMap<SocketAddr, Local>>,
}

impl LocalTable {
    /// Returns the endpoints of peers, each with the address of ours that the peer sends to from there.
    pub fn all(&self) -> Vec<(SocketAddr, Local)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().map(|(endpoint, local)| (*endpoint, *local)).collect()
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<SocketAddr, Local>)) {
        change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl LocalAddresses {
    /// Publishes the addresses in `table` from now on.
    pub(crate) fn share(&mut self, table: Arc<LocalTable>) {
        self.shared = table;
    }

    /// Sets the address to which the datagrams that are received next came; `None` if the socket does not tell.
    pub(crate) fn set_arrival(&mut self, local: Option<Local>) {
        self.arrival = local;
    }

    /// Returns the source address of a message to `endpoint`, `None` where the routes choose.
    pub(crate) fn source_for(&self, endpoint: SocketAddr, message: &[u8]) -> Option<Local> {
        let kind = message.first_chunk().map(|word| u32::from_le_bytes(*word));
        // Relays and STUN servers answer to the address that they hear from, so the routes choose it.
        if !matches!(kind, Some(TYPE_INITIATION | TYPE_RESPONSE | TYPE_COOKIE_REPLY | TYPE_DATA)) {
            return None;
        }
        let known = self.known.get(&endpoint);
        match kind {
            Some(TYPE_INITIATION) => known.filter(|known| known.attempts % 2 == 1).map(|known| known.local),
            Some(TYPE_RESPONSE | TYPE_COOKIE_REPLY) => self.asker(endpoint).or(known.map(|known| known.local)),
            _ => known.map(|known| known.local).or_else(|| self.asker(endpoint)),
        }
    }

    /// Remembers that the message that is being received came from `endpoint` and will be answered. Its source is not proven, so nothing else changes.
    pub(crate) fn remember_asker(&mut self, endpoint: SocketAddr) {
        let Some(local) = self.arrival else { return };
        self.askers.resize(ASKERS, None);
        let slot = self.slot(endpoint);
        if let Some(slot) = self.askers.get_mut(slot) {
            *slot = Some((endpoint, local));
        }
    }

    fn asker(&self, endpoint: SocketAddr) -> Option<Local> {
        let (asker, local) = (*self.askers.get(self.slot(endpoint))?)?;
        (asker == endpoint).then_some(local)
    }

    fn slot(&self, endpoint: SocketAddr) -> usize {
        usize::try_from(self.hasher.hash_one(endpoint) % ASKERS as u64).unwrap_or(0)
    }

    /// Returns true if an authentic packet from `endpoint`, which is being received, may tell its source address.
    #[inline]
    pub(crate) fn learns_from(&self, endpoint: SocketAddr, now: Time) -> bool {
        self.arrival.is_some() && (self.left.is_empty() || !self.was_left(endpoint, now))
    }

    /// Returns true if the packet that is being received came to an address that the routes left and that must not be learned again now.
    fn was_left(&self, endpoint: SocketAddr, now: Time) -> bool {
        let Some((left, since)) = self.left.get(&endpoint).filter(|(left, _)| Some(*left) == self.arrival) else {
            return false;
        };
        now.since(*since) < RELEARN_DELAY || self.known.get(&endpoint).is_some_and(|known| known.local != *left)
    }

    /// Learns the source address for `endpoint` from an authentic packet, which is being received. `noted` belongs to the lane of the session that the
    /// packet came on. Returns true if that changed anything.
    #[inline]
    pub(crate) fn note(&mut self, noted: &mut NotedLocal, endpoint: SocketAddr) -> bool {
        let Some(local) = self.arrival else { return false };
        let same = noted.noted == Some((endpoint, local));
        if same && noted.generation == self.generation {
            return false;
        }
        self.note_change(noted, endpoint, local, same)
    }

    #[cold]
    fn note_change(&mut self, noted: &mut NotedLocal, endpoint: SocketAddr, local: Local, same: bool) -> bool {
        *noted = NotedLocal { noted: Some((endpoint, local)), generation: self.generation };
        // Another address was forgotten meanwhile, and this one was not.
        if same && self.known.get(&endpoint).is_some_and(|known| known.local == local) {
            return false;
        }
        self.learn(endpoint, local);
        true
    }

    /// Learns the source address for `endpoint` from a handshake that ended: its last message came from there, and proved the path to the peer.
    pub(crate) fn prove(&mut self, noted: &mut NotedLocal, endpoint: SocketAddr) {
        let Some(local) = self.asker(endpoint) else { return };
        *noted = NotedLocal { noted: Some((endpoint, local)), generation: self.generation };
        self.learn(endpoint, local);
    }

    fn learn(&mut self, endpoint: SocketAddr, local: Local) {
        self.known.insert(endpoint, KnownLocal { local, attempts: 0 });
        self.shared.change(|known| {
            known.insert(endpoint, local);
        });
    }

    /// Returns true if so many entries are kept for `peers` peers that those of other endpoints should be removed.
    pub(crate) fn is_crowded(&self, peers: usize) -> bool {
        self.known.len() > 2 * peers + SPARE
    }

    /// Removes the entries of all other endpoints.
    pub(crate) fn keep_only(&mut self, endpoints: &HashSet<SocketAddr>) {
        self.retain(&mut |endpoint, _| endpoints.contains(&endpoint));
    }

    /// Keeps the entries for which `keeps` is true.
    fn retain(&mut self, keeps: &mut dyn FnMut(SocketAddr, Local) -> bool) {
        self.known.retain(|endpoint, known| keeps(*endpoint, known.local));
        for slot in &mut self.askers {
            slot.take_if(|(endpoint, local)| !keeps(*endpoint, *local));
        }
        self.left.retain(|endpoint, (local, _)| keeps(*endpoint, *local));
        let known = &self.known;
        self.shared.change(|shared| shared.retain(|endpoint, _| known.contains_key(endpoint)));
    }

    /// Counts a handshake that is started with `endpoint`; other messages change nothing.
    pub(crate) fn sent(&mut self, endpoint: SocketAddr, message: &[u8]) {
        if message.first_chunk() == Some(&TYPE_INITIATION.to_le_bytes())
            && let Some(known) = self.known.get_mut(&endpoint)
        {
            known.attempts = known.attempts.wrapping_add(1);
        }
    }

    /// Forgets the address for `endpoint` because the routes changed: they choose it again.
    pub(crate) fn leave(&mut self, endpoint: SocketAddr, now: Time) {
        let known = self.known.get(&endpoint).map(|known| (known.local, now));
        let left = known.or_else(|| self.left.get(&endpoint).copied());
        self.forget(&mut |known, _| known == endpoint);
        // Entries without effect are removed: peers behind NATs change endpoints, and each change of the routes would leave some behind.
        let known = &self.known;
        self.left.retain(|endpoint, (_, since)| now.since(*since) < RELEARN_DELAY || known.contains_key(endpoint));
        self.left.extend(left.map(|left| (endpoint, left)));
    }

    /// Forgets the addresses for which `forgets` is true: the routes choose them again.
    // Rare, and kept out of its callers, which are on the way of a packet.
    #[cold]
    #[inline(never)]
    pub(crate) fn forget(&mut self, forgets: &mut dyn FnMut(SocketAddr, Local) -> bool) {
        self.generation += 1;
        self.retain(&mut |endpoint, local| !forgets(endpoint, local));
    }
}

#[cfg(test)]
mod tests;

//! The peers that a client has numbers for.

use std::time::Duration;

use taut_base::{ChunkedMap, Entropy, PublicKey, Time};

use crate::frame::ID_BITS;

/// Pause before an unanswered `open` is sent again, 250 ms. It doubles.
const RETRY: Duration = Duration::from_millis(250);
/// Longest pause before an unanswered `open` is sent again.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// Pause before an absent peer is opened again, 30 s. It doubles. The relay announces the peer when it binds; this covers a lost announcement.
const ABSENT: Duration = Duration::from_secs(30);
/// Longest pause before an absent peer is opened again.
const ABSENT_MAX: Duration = Duration::from_secs(300);

/// Maximum number of peers in the table for which a peer is added only because the relay announced it, 4,096: about 1 MiB. A client forgets peers that are not in
/// its map ([`Client::forget`](super::Client::forget)), so an honest relay reaches this limit only in a larger network. Further peers are learned from their packets.
const MAX_ANNOUNCED: usize = 4_096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerState {
    /// Opened, without an answer yet.
    Requested,
    /// Bound to the relay.
    Here,
    /// Not bound to the relay.
    Absent,
}

struct PeerChannel {
    id: u32,
    state: PeerState,
    /// Whether this node opened the peer; otherwise only the peer opened this node.
    wanted: bool,
    /// Time of the next `open`.
    due: Option<Time>,
    pause: Duration,
    /// Counter of the relay's last message about the peer.
    stamp: u64,
}

/// Peers by key and by number, in chunks: a relay makes thousands come and go one by one.
#[derive(Default)]
pub(super) struct Peers {
    by_key: ChunkedMap<PublicKey, PeerChannel>,
    by_id: ChunkedMap<u32, PublicKey>,
    due: ChunkedMap<(Time, PublicKey), ()>,
}

impl Peers {
    /// Opens a peer, and returns its number.
    pub(super) fn request(&mut self, key: PublicKey, now: Time, entropy: &mut impl Entropy) -> u32 {
        if let Some(peer) = self.by_key.get_mut(&key) {
            let id = peer.id;
            if !peer.wanted {
                peer.wanted = true;
                self.schedule(&key, Some(now));
            }
            return id;
        }
        let id = self.draw_id(entropy);
        self.by_id.insert(id, key);
        self.by_key.insert(
            key,
            PeerChannel { id, state: PeerState::Requested, wanted: true, due: None, pause: RETRY, stamp: 0 },
        );
        self.schedule(&key, Some(now));
        id
    }

    /// Closes a peer. Returns false if it was not open.
    pub(super) fn close(&mut self, key: &PublicKey) -> bool {
        self.schedule(key, None);
        let wanted = self.by_key.get_mut(key).is_some_and(|peer| std::mem::take(&mut peer.wanted));
        if self.by_key.get(key).is_some_and(|peer| peer.state != PeerState::Here) {
            self.forget(key);
        }
        wanted
    }

    pub(super) fn id_of(&self, key: &PublicKey) -> Option<u32> {
        self.by_key.get(key).filter(|peer| peer.state != PeerState::Absent).map(|peer| peer.id)
    }

    pub(super) fn peer_of(&self, id: u32) -> Option<PublicKey> {
        self.by_id.get(&id).copied()
    }

    /// Notes that a peer uses this number. Returns false if the peer has another number here.
    pub(super) fn learn(&mut self, key: PublicKey, id: u32) -> bool {
        if let Some(peer) = self.by_key.get(&key) {
            return peer.id == id;
        }
        if !self.by_id.contains_key(&id) {
            self.by_id.insert(id, key);
            self.by_key.insert(
                key,
                PeerChannel { id, state: PeerState::Here, wanted: false, due: None, pause: RETRY, stamp: 0 },
            );
        }
        true
    }

    /// Opens a peer again that counts as bound. Returns false if the peer is unknown, or is being opened already.
    pub(super) fn doubt(&mut self, key: &PublicKey, now: Time) -> bool {
        let Some(peer) = self.by_key.get_mut(key).filter(|peer| peer.state == PeerState::Here) else { return false };
        (peer.state, peer.wanted, peer.pause) = (PeerState::Requested, true, RETRY);
        self.schedule(key, Some(now));
        true
    }

    /// Returns true if a later message about this peer came already: messages overtake each other, and the latest counts.
    fn is_late(&self, key: &PublicKey, stamp: u64) -> bool {
        self.by_key.get(key).is_some_and(|peer| stamp < peer.stamp)
    }

    /// Returns true if there is room for a peer that the relay announces. A relay that invents keys fills no memory (fault F18).
    fn has_room(&self, key: &PublicKey) -> bool {
        self.by_key.len() < MAX_ANNOUNCED || self.by_key.contains_key(key)
    }

    /// Notes the relay's answer that the peer is bound and has this number. Returns false if a later message came already.
    pub(super) fn opened(&mut self, key: PublicKey, id: u32, stamp: u64) -> bool {
        let news = !self.is_late(&key, stamp) && self.has_room(&key);
        if news {
            self.here(key, id, stamp);
        }
        news
    }

    /// Notes the relay's announcement of a peer. Returns the peer's number here; `None` if a later message came already. If this node is opening the peer with a
    /// number of its own, that number counts: the two `open` messages crossed.
    pub(super) fn arrived(&mut self, key: PublicKey, id: u32, stamp: u64) -> Option<u32> {
        if self.is_late(&key, stamp) || !self.has_room(&key) {
            return None;
        }
        match self.by_key.get_mut(&key) {
            Some(peer) if peer.wanted && peer.state == PeerState::Requested => {
                peer.stamp = stamp;
                Some(peer.id)
            }
            _ => {
                self.here(key, id, stamp);
                Some(id)
            }
        }
    }

    fn here(&mut self, key: PublicKey, id: u32, stamp: u64) {
        self.schedule(&key, None);
        let wanted = self.by_key.get(&key).is_some_and(|peer| peer.wanted);
        if self.by_key.get(&key).is_none_or(|peer| peer.id != id) {
            self.forget(&key);
            if let Some(former) = self.by_id.get(&id).copied() {
                self.forget(&former);
            }
        }
        self.by_id.insert(id, key);
        self.by_key.insert(key, PeerChannel { id, state: PeerState::Here, wanted, due: None, pause: RETRY, stamp });
    }

    /// Notes that a peer is absent. Returns false if the peer is unknown, or if a later message came already.
    pub(super) fn absent(&mut self, key: &PublicKey, stamp: u64, now: Time) -> bool {
        if self.is_late(key, stamp) {
            return false;
        }
        let Some(peer) = self.by_key.get_mut(key) else { return false };
        peer.stamp = stamp;
        if !peer.wanted {
            self.forget(key);
            return true;
        }
        if peer.state != PeerState::Absent {
            peer.state = PeerState::Absent;
            peer.pause = ABSENT;
        }
        let next = now + peer.pause;
        self.schedule(key, Some(next));
        true
    }

    /// Notes that the relay refused a peer. Returns false if the peer was not open, or if a later message came already.
    pub(super) fn refused(&mut self, key: &PublicKey, stamp: u64) -> bool {
        !self.is_late(key, stamp) && self.close(key)
    }

    /// Opens all peers again on a new binding. Peers that only opened this node are forgotten: they are announced again.
    pub(super) fn request_all(&mut self, now: Time) {
        let keys: Vec<_> = self.by_key.keys().copied().collect();
        for key in keys {
            let Some(peer) = self.by_key.get_mut(&key) else { continue };
            if !peer.wanted {
                self.forget(&key);
                continue;
            }
            // A new binding counts its messages from 0.
            (peer.state, peer.pause, peer.stamp) = (PeerState::Requested, RETRY, 0);
            self.schedule(&key, Some(now));
        }
    }

    /// Returns the time of the next `open`.
    pub(super) fn next(&self) -> Option<Time> {
        self.due.first_key_value().map(|((time, _), ())| *time)
    }

    pub(super) fn is_due(&self, key: &PublicKey, now: Time) -> bool {
        self.by_key.get(key).and_then(|peer| peer.due).is_some_and(|due| due <= now)
    }

    pub(super) fn take_due(&mut self, now: Time) -> Option<PublicKey> {
        self.due.first_key_value().filter(|((time, _), ())| *time <= now).map(|((_, key), ())| *key)
    }

    /// Notes that an `open` is sent now, schedules the next one, and returns the peer's number.
    pub(super) fn next_request(&mut self, key: &PublicKey, now: Time) -> Option<u32> {
        let peer = self.by_key.get_mut(key)?;
        let (id, next) = (peer.id, now + peer.pause);
        let most = if peer.state == PeerState::Absent { ABSENT_MAX } else { RETRY_MAX };
        peer.pause = (peer.pause * 2).min(most);
        self.schedule(key, Some(next));
        Some(id)
    }

    fn schedule(&mut self, key: &PublicKey, due: Option<Time>) {
        let Some(peer) = self.by_key.get_mut(key) else { return };
        if let Some(former) = std::mem::replace(&mut peer.due, due) {
            self.due.remove(&(former, *key));
        }
        if let Some(due) = due {
            self.due.insert((due, *key), ());
        }
    }

    pub(super) fn forget(&mut self, key: &PublicKey) {
        self.schedule(key, None);
        if let Some(peer) = self.by_key.remove(key) {
            self.by_id.remove(&peer.id);
        }
    }

    fn draw_id(&self, entropy: &mut impl Entropy) -> u32 {
        loop {
            let id = entropy.next_u32() & ID_BITS;
            if id != 0 && !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_f18_a_relay_that_names_invented_peers_fills_no_memory() {
        let mut peers = Peers::default();
        let key = |number: u32| PublicKey([[0; 28].as_slice(), &number.to_be_bytes()].concat().try_into().unwrap());
        let mut drawn = |bytes: &mut [u8]| bytes.fill(7);
        let wanted = peers.request(key(0), Time::ZERO, &mut drawn);
        for number in 1..100_000 {
            peers.arrived(key(2 * number), 10 + number, number.into());
            peers.opened(key(2 * number + 1), 200_000 + number, number.into());
        }
        assert_eq!((peers.by_key.len(), peers.by_id.len(), peers.due.len()), (MAX_ANNOUNCED, MAX_ANNOUNCED, 1));
        assert!(peers.opened(key(0), wanted, 100_000), "a peer that we asked for is heard of");
        assert_eq!(peers.id_of(&key(0)), Some(wanted));
        // A new one that we want has room, and one that is forgotten makes room.
        assert_eq!(peers.request(key(1), Time::ZERO, &mut |bytes: &mut [u8]| bytes.fill(9)), 0x0909_0909 & ID_BITS);
        (2..100_000).for_each(|number| peers.forget(&key(number)));
        assert_eq!((peers.by_key.len(), peers.by_id.len()), (2, 2));
    }
}

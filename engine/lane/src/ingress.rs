//! Which handshake messages reach the keeper (protocol.md 2.4).
//!
//! A handshake costs the keeper Diffie-Hellman work, and anybody can ask for one. So each message is judged here, by its sender:
//!
//! | class | who | what it may |
//! |---|---|---|
//! | known | sends from where a peer of ours is, or answers an initiation of ours | 20 per second, burst 5, each |
//! | proven | showed a cookie: really is where it says | the same |
//! | new | everybody else | the same, 50 per second for one address, 500 per second for all together |
//!
//! Who sends by a relay is told apart by the relay's number for it, which only that relay's clients have (protocol.md 2.3): those of one relay share no limit
//! but their class's.
//!
//! Who is beyond its limit is not refused but asked for a cookie, which costs an honest sender one more round trip, and one that spoofs its address
//! everything. Nobody's flood puts another class on cookies: the one limit that new senders share only asks new senders. Then one queue per class
//! leads to the keeper, so that no class fills another's place. All of it has a fixed size.

use std::collections::{HashMap, VecDeque};

use taut_base::{KeyedHash, Meter, PeerId, Time, network};
use taut_node::{FromLane, HandshakeMessage, source_of};
use taut_path::Way;
use taut_tunnel::cookie::Checker;
use taut_tunnel::{Bucket, Rate};
use taut_wire::wireguard::{Message, cookie_reply, initiation};

use crate::drops::Drop;

/// Of one address and port, or one client of a relay: what the kernel's `ratelimiter.c` gives one address.
const SOURCE: Rate = Rate::new(20, 5);
/// Of one IPv4 address or IPv6 /64, which one host or one NAT has: several of its clients at once, and still too little to matter.
const NETWORK: Rate = Rate::new(50, 20);
/// Of all members of a class together: three times this is what the keeper can compute for (`Node` holds a limit of its own, too).
const CLASS: Rate = Rate::new(500, 48);
/// Handshakes of one class that wait for the keeper.
const WAITING: usize = 64;
/// Initiations of ours that are remembered, to know their answers by.
const ASKED: usize = 4096;

/// Who sent a handshake message, in the order in which the keeper hears them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Known,
    Proven,
    New,
}

/// What becomes of a handshake message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It waits for the keeper.
    Taken,
    /// It is dropped, and answered with this.
    Cookie([u8; cookie_reply::LEN]),
    /// It is dropped.
    Dropped(Drop),
}

/// The door for handshakes.
pub(crate) struct Ingress {
    checker: Checker,
    /// The hashes that stand for sources.
    hash: KeyedHash,
    sources: Meter,
    networks: Meter,
    /// Of those who showed a cookie: what is spoofed in their name does not count against them.
    proven: Meter,
    classes: [Bucket; 3],
    waiting: [VecDeque<FromLane>; 3],
    /// Where peers are.
    places: HashMap<Way, PeerId>,
    /// Indices of initiations that left here; one that is overwritten only costs its answer the better class.
    asked: Vec<u32>,
}

impl Ingress {
    pub(crate) fn new(checker: Checker) -> Self {
        Self {
            hash: KeyedHash::new(checker.hash_key()),
            checker,
            sources: Meter::new(SOURCE),
            networks: Meter::new(NETWORK),
            proven: Meter::new(SOURCE),
            classes: [Bucket::default(); 3],
            waiting: Default::default(),
            places: HashMap::new(),
            asked: vec![0; ASKED],
        }
    }

    /// A peer is at `new` from now on, or nowhere.
    pub(crate) fn peer_moved(&mut self, peer: PeerId, old: Option<Way>, new: Option<Way>) {
        if let Some(old) = old.filter(|old| self.places.get(old) == Some(&peer)) {
            self.places.remove(&old);
        }
        if let Some(new) = new {
            self.places.insert(new, peer);
        }
    }

    /// A peer is nowhere any more.
    pub(crate) fn peer_left(&mut self, peer: PeerId) {
        self.places.retain(|_, there| *there != peer);
    }

    /// A handshake message of ours leaves.
    pub(crate) fn sent(&mut self, message: &[u8]) {
        if message.len() != initiation::LEN {
            return;
        }
        let sender = message.get(initiation::SENDER).and_then(|sender| sender.try_into().ok()).map(u32::from_le_bytes);
        if let Some(sender) = sender
            && let Some(place) = self.asked.get_mut(place_of(sender))
        {
            *place = sender;
        }
    }

    /// Judges a message. `has_session` says whether a session of ours has the index that a cookie reply names.
    pub(crate) fn judge(
        &mut self,
        source: Way,
        message: &Message<'_>,
        bytes: &[u8],
        has_session: impl FnOnce(u32) -> bool,
        now: Time,
    ) -> Verdict {
        let class = match message {
            Message::Initiation(_) => self.class_of(source, bytes, None, now),
            Message::Response(response) => self.class_of(source, bytes, Some(response.receiver), now),
            // No mac1 protects it, but it names what it answers.
            Message::CookieReply(reply) if self.was_asked(reply.receiver) || has_session(reply.receiver) => {
                let allowed = self.take(source, Class::New, now);
                if allowed { Ok(Class::New) } else { Err(Verdict::Dropped(Drop::HandshakeRate)) }
            }
            Message::CookieReply(_) | Message::Data(_) => Err(Verdict::Dropped(Drop::UnknownIndex)),
        };
        match class {
            Ok(class) => self.enqueue(class, source, bytes),
            Err(verdict) => verdict,
        }
    }

    /// The class in which an initiation, or the answer to our initiation `answers`, may pass.
    fn class_of(&mut self, source: Way, bytes: &[u8], answers: Option<u32>, now: Time) -> Result<Class, Verdict> {
        if !self.checker.is_for_us(bytes) {
            return Err(Verdict::Dropped(Drop::BadMac1));
        }
        if self.checker.proves_address(bytes, source_of(source), now) {
            let allowed = self.take(source, Class::Proven, now);
            return if allowed { Ok(Class::Proven) } else { Err(Verdict::Dropped(Drop::HandshakeRate)) };
        }
        let asked = answers.is_some_and(|index| self.was_asked(index));
        let class = if asked || self.places.contains_key(&source) { Class::Known } else { Class::New };
        if self.take(source, class, now) {
            return Ok(class);
        }
        // An answer to nothing is worth no answer.
        if answers.is_some() && !asked {
            return Err(Verdict::Dropped(Drop::UnknownIndex));
        }
        Err(self
            .checker
            .reply(bytes, source_of(source), now)
            .map_or(Verdict::Dropped(Drop::HandshakeRate), Verdict::Cookie))
    }

    /// Takes from all buckets that count for `source`, or from none.
    fn take(&mut self, source: Way, class: Class, now: Time) -> bool {
        let (place, network) = (self.hash.of(&source), self.hash.of(&network(source.first_hop().ip())));
        let Some(together) = self.classes.get_mut(class as usize) else { return false };
        let meter = if class == Class::Proven { &mut self.proven } else { &mut self.sources };
        let counts_network = class == Class::New && !source.is_relayed();
        let has =
            meter.has(place, now) && together.has(&CLASS, now) && (!counts_network || self.networks.has(network, now));
        if has {
            meter.take(place, now);
            together.take(&CLASS, now);
            if counts_network {
                self.networks.take(network, now);
            }
        }
        has
    }

    fn enqueue(&mut self, class: Class, source: Way, bytes: &[u8]) -> Verdict {
        let Some(waiting) = self.waiting.get_mut(class as usize) else { return Verdict::Dropped(Drop::KeeperBusy) };
        match HandshakeMessage::new(bytes) {
            Some(message) if waiting.len() < WAITING => {
                waiting.push_back(FromLane::Handshake { source, message });
                Verdict::Taken
            }
            _ => Verdict::Dropped(Drop::KeeperBusy),
        }
    }

    /// The next handshake for the keeper.
    pub(crate) fn poll(&mut self) -> Option<FromLane> {
        self.waiting.iter_mut().find_map(VecDeque::pop_front)
    }

    fn was_asked(&self, index: u32) -> bool {
        self.asked.get(place_of(index)).is_some_and(|asked| *asked == index)
    }
}

/// Where an index of ours is remembered: its low 4 bits are the lane's number.
fn place_of(index: u32) -> usize {
    (index >> 4) as usize % ASKED
}

#[cfg(test)]
mod tests;

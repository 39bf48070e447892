//! Admission of handshake messages: which ones reach the agent (protocol.md 2.4).
//!
//! A handshake costs the agent Diffie-Hellman work, and anybody can send an initiation. So each message is judged here, by its sender:
//!
//! | class | sender | limits |
//! |---|---|---|
//! | known | has a peer's address, or answers an initiation of ours | 20 per second, burst 5, for each address and port; 500 per second for the class |
//! | proven | showed a cookie, which proves that it receives at its address | the same for each address and port; 50 per second for one address, 100 for its /24 or /48; 800 for the class |
//! | new | any other | the same for each address and port; 50 per second for one address; 500 for the class |
//!
//! Senders behind a relay are told apart by the relay's number for them (protocol.md 2.3). An honest relay gives one number to each of its clients. A hostile
//! relay may invent numbers, so all proven senders of one relay share 200 per second.
//!
//! A sender beyond its limit is asked for a cookie. That costs an honest sender one more round trip, and shuts out a sender with a forged address. A flood
//! cannot make senders of another class show cookies: only new senders share the limit of new senders. A sender with a cookie competes with its own prefix
//! only, so one address with thousands of ports cannot use up the share of all others (fault B12); a peer that sends from its known address does not compete
//! with its prefix either. Each class has a queue of its own to the agent, so no class takes another's places. Meters and queues
//! have a fixed size.

use std::collections::{HashMap, VecDeque};

use taut_base::{KeyedHash, Meter, PeerId, Time, network, site};
use taut_node::{FromLane, HandshakeMessage, source_of};
use taut_path::Way;
use taut_tunnel::cookie::CookieChecker;
use taut_tunnel::{Bucket, Rate};
use taut_wire::wireguard::{Message, cookie_reply, initiation};

use crate::drops::DropReason;

/// Messages of one address and port, or of one client of a relay: 20 per second, burst 5, which the kernel's `ratelimiter.c` allows one address.
const SOURCE: Rate = Rate::new(20, 5);
/// Messages of one IPv4 address or IPv6 /64, which one host or one NAT has: 50 per second, burst 20. That serves several clients at once and is a small part
/// of the class. New and proven senders count separately, so an address gets twice as much once it shows cookies. Peers behind a carrier's NAT renew
/// sessions as known senders, which no prefix limits; this rate only bounds how fast they connect for the first time.
const NETWORK: Rate = Rate::new(50, 20);
/// Messages of proven senders in one IPv4 /24 or IPv6 /48, which one customer of a provider can have: 100 per second, burst 24, an eighth of their class. A
/// carrier's pool of addresses is in one such prefix, and 100 per second let 6,000 hosts behind it connect within a minute.
const SITE: Rate = Rate::new(100, 24);
/// Messages of proven senders behind one relay: 200 per second, a quarter of their class, because most peers meet at a relay first. The burst of 24 is half of
/// the class's, as in [`SITE`]: one prefix or relay alone does not use up the class.
const RELAY: Rate = Rate::new(200, 24);
/// Messages of each class, in the order of [`SenderClass`]. Their sum is the agent's limit (`WORK` in core/node), so no class takes another's share there.
/// Proven senders get the most: during a flood of forged addresses all honest new senders are among them.
const CLASSES: [Rate; 3] = [Rate::new(500, 48), Rate::new(800, 48), Rate::new(500, 48)];
/// Messages of one class that wait for the agent at most, 64.
const WAITING: usize = 64;
/// Initiations of ours that are remembered so that their answers are recognised, 4,096.
const INITIATIONS: usize = 4096;
/// Answers to one attempt of an initiation that count as known, 16. The initiation leaves on 8 endpoints and 4 relays at most, and each of these paths brings
/// one answer, a response or a cookie. Without this limit, a peer could answer from thousands of ports and use up the class.
const ANSWERS: u8 = 16;

/// The class of a handshake message's sender. The agent gets messages of known senders first, then of proven ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SenderClass {
    Known,
    Proven,
    New,
}

/// The verdict on a handshake message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandshakeVerdict {
    /// The message waits for the agent.
    Passed,
    /// The message is dropped, and answered with this cookie reply.
    Cookie([u8; cookie_reply::LEN]),
    /// The message is dropped.
    Dropped(DropReason),
}

/// Limits on handshake messages, and the messages that passed.
pub(crate) struct Ingress {
    checker: CookieChecker,
    /// Makes the keys of the meters.
    hash: KeyedHash,
    /// Senders without a cookie, by address and port, and by address.
    sources: Meter,
    networks: Meter,
    /// Senders with a cookie, by address and port, by address, by prefix, and by relay. Messages with a forged source do not count against them.
    proven: Meter,
    proven_networks: Meter,
    proven_sites: Meter,
    proven_relays: Meter,
    classes: [Bucket; 3],
    waiting: [VecDeque<FromLane>; 3],
    /// The paths of peers.
    ways: HashMap<Way, PeerId>,
    /// Indices of initiations of ours, each with the number of answers that may still count as known. An overwritten entry only costs an answer the better
    /// class.
    initiations: Vec<(u32, u8)>,
}

/// What the limits distinguish senders by.
#[derive(Clone, Copy)]
struct HandshakeSender {
    way: Way,
    /// True if it has a peer's address, or answers an initiation of ours.
    known: bool,
    /// True if it showed a cookie.
    proven: bool,
}

impl Ingress {
    /// Replaces the checker. Cookies of the former checker are no longer valid, and senders get new ones.
    pub(crate) fn set_checker(&mut self, checker: CookieChecker) {
        self.checker = checker;
    }

    pub(crate) fn new(checker: CookieChecker) -> Self {
        Self {
            hash: KeyedHash::new(checker.hash_key()),
            checker,
            sources: Meter::new(SOURCE),
            networks: Meter::new(NETWORK),
            proven: Meter::new(SOURCE),
            proven_networks: Meter::new(NETWORK),
            proven_sites: Meter::new(SITE),
            proven_relays: Meter::new(RELAY),
            classes: [Bucket::default(); 3],
            waiting: Default::default(),
            ways: HashMap::new(),
            initiations: vec![(0, 0); INITIATIONS],
        }
    }

    /// Notes that a peer's path `old`, if any, is replaced by `new`, if any.
    pub(crate) fn peer_moved(&mut self, peer: PeerId, old: Option<Way>, new: Option<Way>) {
        if let Some(old) = old.filter(|old| self.ways.get(old) == Some(&peer)) {
            self.ways.remove(&old);
        }
        if let Some(new) = new {
            self.ways.insert(new, peer);
        }
    }

    /// Forgets all paths of a peer.
    pub(crate) fn peer_left(&mut self, peer: PeerId) {
        self.ways.retain(|_, known| *known != peer);
    }

    /// Notes that a handshake message of ours is sent.
    pub(crate) fn sent(&mut self, message: &[u8]) {
        if message.len() != initiation::LEN {
            return;
        }
        let sender = message.get(initiation::SENDER).and_then(|sender| sender.try_into().ok()).map(u32::from_le_bytes);
        if let Some(sender) = sender
            && let Some(entry) = self.initiations.get_mut(slot_of(sender))
        {
            *entry = (sender, ANSWERS);
        }
    }

    /// Judges a message. `has_session` returns true if a session of ours has the receiver index of a cookie reply.
    pub(crate) fn judge(
        &mut self,
        source: Way,
        message: &Message<'_>,
        bytes: &[u8],
        has_session: impl FnOnce(u32) -> bool,
        now: Time,
    ) -> HandshakeVerdict {
        let class = match message {
            Message::Initiation(_) => self.class_of(source, bytes, None, now),
            Message::Response(response) => self.class_of(source, bytes, Some(response.receiver), now),
            // No mac1 protects a cookie reply, but it names the message that it answers. A flood of new senders here must not keep from us the cookie that we
            // need in a flood elsewhere.
            Message::CookieReply(reply) => {
                let known = self.is_answer(reply.receiver);
                let class = if known { SenderClass::Known } else { SenderClass::New };
                if !known && !has_session(reply.receiver) {
                    Err(HandshakeVerdict::Dropped(DropReason::UnknownIndex))
                } else if self.take(HandshakeSender { way: source, known, proven: false }, class, now) {
                    Ok(class)
                } else {
                    Err(HandshakeVerdict::Dropped(DropReason::HandshakeRate))
                }
            }
            Message::Data(_) => Err(HandshakeVerdict::Dropped(DropReason::UnknownIndex)),
        };
        match class {
            Ok(class) => self.enqueue(class, source, bytes),
            Err(verdict) => verdict,
        }
    }

    /// Returns the class in which an initiation, or the answer to our initiation `answers`, may pass.
    fn class_of(
        &mut self,
        source: Way,
        bytes: &[u8],
        answers: Option<u32>,
        now: Time,
    ) -> Result<SenderClass, HandshakeVerdict> {
        if !self.checker.is_for_us(bytes) {
            return Err(HandshakeVerdict::Dropped(DropReason::BadMac1));
        }
        let expected = answers.is_some_and(|index| self.is_answer(index));
        let known = expected || self.ways.contains_key(&source);
        let proven = self.checker.proves_address(bytes, source_of(source), now);
        let classes = match (known, proven) {
            // Messages with a peer's forged address may have used up the class of known senders.
            (true, true) => &[SenderClass::Known, SenderClass::Proven][..],
            (true, false) => &[SenderClass::Known],
            (false, true) => &[SenderClass::Proven],
            (false, false) => &[SenderClass::New],
        };
        let sender = HandshakeSender { way: source, known, proven };
        if let Some(class) = classes.iter().find(|class| self.take(sender, **class, now)) {
            return Ok(*class);
        }
        if proven {
            return Err(HandshakeVerdict::Dropped(DropReason::HandshakeRate));
        }
        // An answer to no initiation of ours gets no cookie.
        if answers.is_some() && !expected {
            return Err(HandshakeVerdict::Dropped(DropReason::UnknownIndex));
        }
        Err(self
            .checker
            .reply(bytes, source_of(source), now)
            .map_or(HandshakeVerdict::Dropped(DropReason::HandshakeRate), HandshakeVerdict::Cookie))
    }

    /// Counts a message against all limits that apply to its sender. Returns false, and counts nothing, if one of them is used up.
    fn take(&mut self, sender: HandshakeSender, class: SenderClass, now: Time) -> bool {
        let HandshakeSender { way, known, proven } = sender;
        let (source, hop) = (self.hash.of(&way), way.first_hop());
        let own = if proven { &mut self.proven } else { &mut self.sources };
        let (network, site) = (self.hash.of(&network(hop.ip())), self.hash.of(&site(hop.ip())));
        let (wider, widest) = match (known, way.is_relayed(), proven) {
            (true, ..) | (false, true, false) => (None, None),
            (false, true, true) => (Some((&mut self.proven_relays, self.hash.of(&hop))), None),
            (false, false, true) => (Some((&mut self.proven_networks, network)), Some((&mut self.proven_sites, site))),
            (false, false, false) => (Some((&mut self.networks, network)), None),
        };
        let mut meters = [Some((own, source)), wider, widest];
        let (Some(together), Some(rate)) = (self.classes.get_mut(class as usize), CLASSES.get(class as usize)) else {
            return false;
        };
        let has = together.has(rate, now) && meters.iter().flatten().all(|(meter, source)| meter.has(*source, now));
        if has {
            together.take(rate, now);
            for (meter, source) in meters.iter_mut().flatten() {
                meter.take(*source, now);
            }
        }
        has
    }

    fn enqueue(&mut self, class: SenderClass, source: Way, bytes: &[u8]) -> HandshakeVerdict {
        let Some(waiting) = self.waiting.get_mut(class as usize) else {
            return HandshakeVerdict::Dropped(DropReason::AgentBusy);
        };
        match HandshakeMessage::new(bytes) {
            Some(message) if waiting.len() < WAITING => {
                waiting.push_back(FromLane::Handshake { source, message });
                HandshakeVerdict::Passed
            }
            _ => HandshakeVerdict::Dropped(DropReason::AgentBusy),
        }
    }

    /// Returns the next handshake message for the agent.
    pub(crate) fn poll_output(&mut self) -> Option<FromLane> {
        self.waiting.iter_mut().find_map(VecDeque::pop_front)
    }

    /// Returns true if a message to this index counts as the answer to an initiation of ours, and counts it.
    fn is_answer(&mut self, index: u32) -> bool {
        let Some((sender, left)) = self.initiations.get_mut(slot_of(index)) else { return false };
        let passes = *sender == index && *left > 0;
        *left -= u8::from(passes);
        passes
    }
}

/// Returns the entry in which an index of ours is remembered. Its low 4 bits are the lane's number, and the same for all.
fn slot_of(index: u32) -> usize {
    (index >> 4) as usize % INITIATIONS
}

#[cfg(test)]
mod tests;

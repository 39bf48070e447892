//! Which handshake messages reach the agent (protocol.md 2.4).
//!
//! A handshake costs the agent Diffie-Hellman work, and anybody can ask for one. So each message is judged here, by its sender:
//!
//! | class | sender | limits |
//! |---|---|---|
//! | known | is where a peer of ours is, or answers an initiation of ours | 20 per second, burst 5, for each address and port; 500 per second for the class |
//! | proven | showed a cookie: it receives what is sent to its address | the same for each address and port; 50 per second for one address, 100 for its /24 or /48; 800 for the class |
//! | new | any other | the same for each address and port; 50 per second for one address; 500 for the class |
//!
//! Senders behind a relay are told apart by the relay's number for them (protocol.md 2.3). An honest relay gives one number to each of its clients. A hostile one
//! may invent numbers, so all proven senders of one relay share 200 per second.
//!
//! A sender beyond its limit is not refused but asked for a cookie. That costs an honest sender one more round trip, and a sender with a forged address
//! everything. A flood cannot make senders of another class show cookies: only new senders share the limit of new senders. A sender with a cookie competes with
//! its own prefix only, so that one address with thousands of ports cannot use up the share of all others (fault B12); a peer that sends from where it is
//! known to be does not compete with its prefix either. One queue per class leads to the agent, so that no class takes another's places. All of it has a
//! fixed size.

use std::collections::{HashMap, VecDeque};

use taut_base::{KeyedHash, Meter, PeerId, Time, network, site};
use taut_node::{FromLane, HandshakeMessage, source_of};
use taut_path::Way;
use taut_tunnel::cookie::CookieChecker;
use taut_tunnel::{Bucket, Rate};
use taut_wire::wireguard::{Message, cookie_reply, initiation};

use crate::drops::DropReason;

/// Of one address and port, or one client of a relay: what the kernel's `ratelimiter.c` gives one address.
const SOURCE: Rate = Rate::new(20, 5);
/// Of one IPv4 address or IPv6 /64, which one host or one NAT has: several of its clients at once, and still too little to matter. New and proven senders
/// count apart, so an address gets in twice as often once it shows cookies. Peers behind a carrier's NAT renew sessions as known senders, which no
/// prefix limits; these rates bound only how fast they connect for the first time.
const NETWORK: Rate = Rate::new(50, 20);
/// Proven senders of one IPv4 /24 or IPv6 /48, which one customer of a provider can have: an eighth of their class. A carrier's pool of addresses is in one
/// such prefix, and 100 per second let 6,000 hosts behind it connect within a minute.
const SITE: Rate = Rate::new(100, 24);
/// Proven senders behind one relay: a quarter of their class, because most peers meet at a relay first. The burst is half of the class's, as in [`SITE`]: one
/// prefix or relay alone does not empty the class.
const RELAY: Rate = Rate::new(200, 24);
/// Each class, in the order of [`Class`]. Their sum is what the agent computes for (`WORK` in core/node), so no class takes another's share there. Proven
/// senders get the most: during a flood of forged addresses all honest new senders are among them.
const CLASSES: [Rate; 3] = [Rate::new(500, 48), Rate::new(800, 48), Rate::new(500, 48)];
/// Handshakes of one class that wait for the agent.
const WAITING: usize = 64;
/// Initiations of ours that are remembered, to know their answers by.
const ASKED: usize = 4096;
/// Answers to one try of an initiation that pass as known, however many come: it leaves by 8 endpoints and 4 relays at most, and each of these paths
/// brings one answer, a response or a cookie. Without this a peer could answer from thousands of ports and use up the class.
const ANSWERS: u8 = 16;

/// Who sent a handshake message, in the order in which the agent hears them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Known,
    Proven,
    New,
}

/// What becomes of a handshake message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HandshakeVerdict {
    /// It waits for the agent.
    Passed,
    /// It is dropped, and answered with this.
    Cookie([u8; cookie_reply::LEN]),
    /// It is dropped.
    Dropped(DropReason),
}

/// The door for handshakes.
pub(crate) struct Ingress {
    checker: CookieChecker,
    /// The hashes that stand for sources.
    hash: KeyedHash,
    /// Senders without a cookie, by address and port, and by address.
    sources: Meter,
    networks: Meter,
    /// Senders with a cookie, by address and port, address, prefix, and relay: what is forged in their name does not count against them.
    proven: Meter,
    proven_networks: Meter,
    proven_sites: Meter,
    proven_relays: Meter,
    classes: [Bucket; 3],
    waiting: [VecDeque<FromLane>; 3],
    /// Where peers are.
    places: HashMap<Way, PeerId>,
    /// Indices of initiations that left here, and how many answers may still pass; one that is overwritten only costs its answer the better class.
    asked: Vec<(u32, u8)>,
}

/// A sender, as far as the limits tell senders apart.
#[derive(Clone, Copy)]
struct Sender {
    way: Way,
    /// It is where a peer is, or answers us.
    known: bool,
    /// It showed a cookie.
    proven: bool,
}

impl Ingress {
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
            places: HashMap::new(),
            asked: vec![(0, 0); ASKED],
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
            *place = (sender, ANSWERS);
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
    ) -> HandshakeVerdict {
        let class = match message {
            Message::Initiation(_) => self.class_of(source, bytes, None, now),
            Message::Response(response) => self.class_of(source, bytes, Some(response.receiver), now),
            // No mac1 protects it, but it names what it answers. A flood of new senders must not keep the cookie from us that lets us through another one.
            Message::CookieReply(reply) => {
                let known = self.is_answer(reply.receiver);
                let class = if known { Class::Known } else { Class::New };
                if !known && !has_session(reply.receiver) {
                    Err(HandshakeVerdict::Dropped(DropReason::UnknownIndex))
                } else if self.take(Sender { way: source, known, proven: false }, class, now) {
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

    /// The class in which an initiation, or the answer to our initiation `answers`, may pass.
    fn class_of(
        &mut self,
        source: Way,
        bytes: &[u8],
        answers: Option<u32>,
        now: Time,
    ) -> Result<Class, HandshakeVerdict> {
        if !self.checker.is_for_us(bytes) {
            return Err(HandshakeVerdict::Dropped(DropReason::BadMac1));
        }
        let asked = answers.is_some_and(|index| self.is_answer(index));
        let known = asked || self.places.contains_key(&source);
        let proven = self.checker.proves_address(bytes, source_of(source), now);
        let classes = match (known, proven) {
            // Forged messages in the name of peers may have used up the class of known senders.
            (true, true) => &[Class::Known, Class::Proven][..],
            (true, false) => &[Class::Known],
            (false, true) => &[Class::Proven],
            (false, false) => &[Class::New],
        };
        let sender = Sender { way: source, known, proven };
        if let Some(class) = classes.iter().find(|class| self.take(sender, **class, now)) {
            return Ok(*class);
        }
        if proven {
            return Err(HandshakeVerdict::Dropped(DropReason::HandshakeRate));
        }
        // An answer to nothing is worth no answer.
        if answers.is_some() && !asked {
            return Err(HandshakeVerdict::Dropped(DropReason::UnknownIndex));
        }
        Err(self
            .checker
            .reply(bytes, source_of(source), now)
            .map_or(HandshakeVerdict::Dropped(DropReason::HandshakeRate), HandshakeVerdict::Cookie))
    }

    /// Takes from all limits that count for the sender, or from none. Returns false if one of them is used up.
    fn take(&mut self, sender: Sender, class: Class, now: Time) -> bool {
        let Sender { way, known, proven } = sender;
        let (place, hop) = (self.hash.of(&way), way.first_hop());
        let own = if proven { &mut self.proven } else { &mut self.sources };
        let (network, site) = (self.hash.of(&network(hop.ip())), self.hash.of(&site(hop.ip())));
        let (wider, widest) = match (known, way.is_relayed(), proven) {
            (true, ..) | (false, true, false) => (None, None),
            (false, true, true) => (Some((&mut self.proven_relays, self.hash.of(&hop))), None),
            (false, false, true) => (Some((&mut self.proven_networks, network)), Some((&mut self.proven_sites, site))),
            (false, false, false) => (Some((&mut self.networks, network)), None),
        };
        let mut meters = [Some((own, place)), wider, widest];
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

    fn enqueue(&mut self, class: Class, source: Way, bytes: &[u8]) -> HandshakeVerdict {
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

    /// The next handshake for the agent.
    pub(crate) fn poll_output(&mut self) -> Option<FromLane> {
        self.waiting.iter_mut().find_map(VecDeque::pop_front)
    }

    /// Returns true if a message that names this index may pass as the answer to an initiation of ours; counts it.
    fn is_answer(&mut self, index: u32) -> bool {
        let Some((asked, left)) = self.asked.get_mut(place_of(index)) else { return false };
        let passes = *asked == index && *left > 0;
        *left -= u8::from(passes);
        passes
    }
}

/// Where an index of ours is remembered: its low 4 bits are the lane's number.
fn place_of(index: u32) -> usize {
    (index >> 4) as usize % ASKED
}

#[cfg(test)]
mod tests;

//! One node at one relay, without a socket: it binds, keeps the binding alive, opens peers, and notices when the relay is gone.
//!
//! ```text
//!              ┌──────────── bound ────────────┐
//!   Binding ───┤                               ▼
//!    ▲  ▲      └─ 3 unanswered ─▶ Lost     Ready ── pings unanswered, or it leaves ──▶ Lost, Binding again
//!    │  └───────── again after a pause ──┘     │
//!    └───────── the relay says it does not know us ─┘
//! ```
//! The client draws a number for each peer and tells it to the relay by `open`. Data with this number may follow at once, so opening costs no round trip. A peer
//! that opened this node has a number, too, which `arrived` tells. On each new binding the client opens all its peers again, with the same numbers.
//!
//! The client keeps the binding alive by a ping every 20 to 25 seconds, which also keeps the mapping of a NAT with a timeout of 30 seconds. Three quick pings
//! follow a ping without an answer within a second, or [`Client::handle_suspicion`]. If none is answered, the relay counts as lost.
//!
//! The owner calls [`Client::handle_timeout`] at the time of [`Client::poll_timeout`], and drains [`Client::poll_output`] after every call.

mod bind;
mod lanes;
mod peers;

use std::collections::VecDeque;
use std::time::Duration;

use taut_base::{Bucket, Entropy, PrivateKey, PublicKey, Rate, Time};
use zeroize::Zeroizing;

use crate::control::{ControlLink, ControlMessage, LeaveReason, NONCE_LEN};
use crate::frame::{self, CONTROL_LEN, Frame, MESSAGE_LEN};
use crate::ticket::Ticket;
use bind::{BindAttempt, BindStamps, TicketChoice};
use lanes::ClientLanes;
use peers::Peers;

/// Maximum bytes of a datagram that a client sends.
const MAX_DATAGRAM: usize = 512;

/// Shortest and longest time between two pings, 20 and 25 s: below the mapping timeout of strict NATs, 30 s (RFC 4787 requires 120 s, many use 30).
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(25));
/// Time to wait for the answer to a ping before the quick pings, 1 s: longer than any round trip.
const PATIENCE: Duration = Duration::from_secs(1);
/// Number of unanswered quick pings after which the relay counts as lost.
const QUICK_TRIES: u32 = 3;
/// Minimum time between quick pings, 133 ms: three take 400 ms. On long paths it is twice the round trip.
const QUICK: Duration = Duration::from_millis(133);
/// Maximum time between quick pings.
const QUICK_MAX: Duration = Duration::from_secs(1);
/// Immediate new bindings after the relay reported the former one unknown: one per second, three at once. Each costs both sides a key exchange, and the node a
/// frame for every peer that it wants. A relay that restarts a few times is bound at once each time.
const REBINDS: Rate = Rate::new(1, 3);
/// Pause before a new binding beyond [`REBINDS`].
const REBIND_PAUSE: Duration = Duration::from_secs(1);
/// Shortest and longest pause before a client binds again that another program with the same key replaced, 30 and 60 s: two such programs do not replace each
/// other all the time.
const AFTER_REPLACED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(60));

/// A node's credentials for a relay.
#[derive(Clone)]
pub struct Credentials {
    /// The private half of the ticket's bind key.
    pub bind: PrivateKey,
    /// The ticket of version 1, signed by the coordinator.
    pub ticket: Ticket,
    /// The ticket of version 2, which also names the node, if the coordinator issues it.
    pub numbered: Option<Ticket>,
}

/// A datagram for the relay, stored inline.
#[derive(Clone)]
pub struct ClientDatagram {
    length: usize,
    bytes: [u8; MAX_DATAGRAM],
}

impl ClientDatagram {
    fn new(frame: &[u8]) -> Self {
        let mut bytes = [0; MAX_DATAGRAM];
        let length = frame.len().min(MAX_DATAGRAM);
        bytes[..length].copy_from_slice(&frame[..length]);
        Self { length, bytes }
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// An output of a [`Client`].
#[derive(Clone)]
pub enum ClientOutput {
    /// A change that the owner acts on. Events come before datagrams, so datagrams that the owner causes by its reaction leave with the others.
    Event(RelayEvent),
    /// A datagram to be sent to the relay, from the socket that receives the relay's answers.
    Transmit(ClientDatagram),
    /// A datagram to be sent to the relay from the socket of this lane, one beyond the first.
    LaneTransmit(u8, ClientDatagram),
}

/// A change at a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayEvent {
    /// The relay has bound this node: peers can be opened, and numbers used.
    Ready,
    /// The peer is bound to the relay, too, and frames with `id` reach it.
    Opened {
        /// Who.
        peer: PublicKey,
        /// Its number.
        id: u32,
    },
    /// The peer is not bound to the relay. [`RelayEvent::Arrived`] follows when it binds, as long as it is open.
    Absent {
        /// Who.
        peer: PublicKey,
    },
    /// The peer was bound, or has opened this node.
    Arrived {
        /// Who.
        peer: PublicKey,
        /// Its number.
        id: u32,
    },
    /// The relay does not open the peer: this node or the peer has too many channels.
    Refused {
        /// Who.
        peer: PublicKey,
    },
    /// Lanes beyond the first were bound or lost, see [`Client::has_lane`].
    Lanes,
    /// The relay cannot be used now. The client goes on trying to bind.
    Lost(LostCause),
}

/// The reason why a relay cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostCause {
    /// The relay does not answer.
    Silent,
    /// The relay said that it stops.
    Left,
    /// Another program has bound with this node's key.
    Replaced,
    /// The ticket has expired: [`Client::set_credentials`] sets a new one.
    Expired,
}

/// The state of a node's binding at a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingState {
    /// Not bound yet, and no attempt has failed.
    Binding,
    /// Bound.
    Ready,
    /// Bound, but a quick ping was not answered.
    Suspected,
    /// Not bound after a failure. The client tries again later.
    Lost,
}

/// A ping without an answer yet.
struct PingInFlight {
    /// Nonce of the first try. Each further try adds one.
    nonce: u64,
    /// Time at which the last try was sent.
    sent: Time,
    tries: u32,
    next: Time,
    quick: bool,
}

/// A binding in force.
struct Bound {
    link: ControlLink,
    index: u32,
    ping: Option<PingInFlight>,
    next_ping: Time,
}

/// A frame that waits to be sealed and sent.
enum Outgoing {
    Bind,
    /// A message that leaves from the socket of a lane; 0 is the first.
    Control(u8, ControlMessage),
}

/// One node at one relay.
pub struct Client {
    relay: PublicKey,
    credentials: Credentials,
    bound: Option<Bound>,
    binding: Option<BindAttempt>,
    /// Time of the next attempt to bind, while none is under way.
    next_bind: Time,
    /// Immediate new bindings that are still allowed.
    rebinds: Bucket,
    /// Number of failed attempts to bind in a row.
    failures: u32,
    peers: Peers,
    lanes: ClientLanes,
    /// Events for the owner, oldest first.
    events: VecDeque<RelayEvent>,
    /// Frames to be sealed and sent, in order.
    out: VecDeque<Outgoing>,
    round_trip: Option<Duration>,
    seen: Option<std::net::SocketAddr>,
    stamps: BindStamps,
    tickets: TicketChoice,
    /// Behaves as release 0.1.0, which ignores messages that it does not know.
    #[cfg(test)]
    pub(crate) is_release_0_1_0: bool,
}

impl Client {
    /// Returns a client for the relay with this key (from the map). It binds at the next [`Self::handle_timeout`].
    pub fn new(relay: PublicKey, credentials: Credentials, now: Time) -> Self {
        Self {
            relay,
            credentials,
            bound: None,
            binding: None,
            next_bind: now,
            rebinds: Bucket::default(),
            failures: 0,
            peers: Peers::default(),
            lanes: ClientLanes::default(),
            events: VecDeque::new(),
            out: VecDeque::new(),
            round_trip: None,
            seen: None,
            stamps: BindStamps::default(),
            tickets: TicketChoice::default(),
            #[cfg(test)]
            is_release_0_1_0: false,
        }
    }

    /// Replaces the credentials: binds again at once, and keeps the present binding meanwhile.
    pub fn set_credentials(&mut self, credentials: Credentials, now: Time) {
        self.credentials = credentials;
        self.binding = None;
        self.tickets.not_before = Time::ZERO;
        self.failures = 0;
        self.next_bind = now;
    }

    /// Stamps each later `bind` by a clock that showed `at_zero` (since 1970) at `Time` 0; another call corrects it. The relay compares the stamps of one member
    /// with each other only, so the clock may be wrong. After a restart of the program it has to be ahead of the former [`Self::last_stamp`].
    pub fn set_clock(&mut self, at_zero: Duration) {
        self.stamps.at_zero = Some(at_zero);
    }

    /// Returns the stamp of the last `bind`, as time since 1970; zero if there was none.
    pub fn last_stamp(&self) -> Duration {
        Duration::from_nanos(self.stamps.last)
    }

    /// Returns the relay's key.
    pub fn relay(&self) -> PublicKey {
        self.relay
    }

    /// Returns the state of the binding.
    pub fn standing(&self) -> BindingState {
        match &self.bound {
            Some(Bound { ping: Some(PingInFlight { quick: true, tries: 2.., .. }), .. }) => BindingState::Suspected,
            Some(_) => BindingState::Ready,
            None if self.failures == 0 => BindingState::Binding,
            None => BindingState::Lost,
        }
    }

    /// Returns true if the node is bound, so that frames may be sent.
    pub fn is_ready(&self) -> bool {
        self.bound.is_some()
    }

    /// Returns true if a bind waits for the relay's answer; false during the pause after a failed attempt.
    pub fn is_asking(&self) -> bool {
        self.bound.is_none() && self.binding.is_some()
    }

    /// Returns the smoothed round-trip time; `None` before the relay's first answer.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Returns the address at which the relay last saw this node.
    pub fn seen(&self) -> Option<std::net::SocketAddr> {
        self.seen
    }

    /// Opens `peer` at the relay. Returns the number to use at once if the node is bound. A [`RelayEvent`] tells later whether the peer is bound, too.
    pub fn open(&mut self, peer: PublicKey, now: Time, entropy: &mut impl Entropy) -> Option<u32> {
        let id = self.peers.request(peer, now, entropy);
        if self.bound.is_some() {
            if self.peers.is_due(&peer, now) {
                self.send_open(peer, now);
            }
            return Some(id);
        }
        None
    }

    /// Closes `peer` at the relay. The peer may still reach this node.
    pub fn close(&mut self, peer: &PublicKey) {
        if self.peers.close(peer) && self.bound.is_some() {
            self.out.push_back(Outgoing::Control(0, ControlMessage::Close { node: *peer }));
        }
    }

    /// Forgets a peer that is no member of the network. Without this call a relay that names unknown keys would fill memory (fault F18).
    pub fn forget(&mut self, peer: &PublicKey) {
        self.close(peer);
        self.peers.forget(peer);
    }

    /// Returns the number of a peer, unless the peer is known to be absent or the node is not bound.
    pub fn id_of(&self, peer: &PublicKey) -> Option<u32> {
        self.bound.as_ref().and_then(|_| self.peers.id_of(peer))
    }

    /// Returns the peer with this number. A frame may have a number whose announcement was lost: the handshake in the frames tells the peer then.
    pub fn peer_of(&self, id: u32) -> Option<PublicKey> {
        self.peers.peer_of(id)
    }

    /// Notes that `peer` authenticated itself with the number `id`. If the peer had another number, a message of the relay was lost, and the client
    /// [asks the relay](Self::doubt).
    pub fn learn(&mut self, peer: PublicKey, id: u32, now: Time) {
        if !self.peers.learn(peer, id) {
            self.doubt(&peer, now);
        }
    }

    /// Asks the relay about `peer` again, because a message about it may have been lost: the peer does not answer, or uses another number. Nothing changes before
    /// the [`RelayEvent`] of the answer.
    pub fn doubt(&mut self, peer: &PublicKey, now: Time) {
        if self.bound.is_some() && self.peers.doubt(peer, now) {
            self.send_open(*peer, now);
        }
    }

    /// Shows the relay this node's address, which may have changed. The relay sends to the new address after the client answered its challenge from there.
    pub fn handle_move(&mut self, now: Time, entropy: &mut impl Entropy) {
        match &mut self.bound {
            Some(bound) => bound.ping = None,
            // The attempt from the former address may fail where one from the new address succeeds.
            None => {
                self.next_bind = now;
                self.binding = None;
            }
        }
        self.lanes.announce(self.lanes.most(), now);
        self.handle_suspicion(now, entropy);
    }

    /// Checks a relay that may be gone: pings it at once, and reports [`LostCause::Silent`] within 400 ms, or six round trips if that is longer.
    pub fn handle_suspicion(&mut self, now: Time, entropy: &mut impl Entropy) {
        let Some(bound) = &mut self.bound else { return };
        if bound.ping.as_ref().is_some_and(|ping| ping.quick) {
            return;
        }
        bound.ping = Some(PingInFlight { nonce: nonce(entropy), sent: now, tries: 0, next: now, quick: true });
        self.ping(now);
    }

    /// Tells the relay that this node leaves. Drain [`Self::poll_output`] afterwards; the client cannot be used any more.
    pub fn leave(&mut self) {
        self.out.clear();
        if self.bound.is_some() {
            self.out.push_back(Outgoing::Control(0, ControlMessage::Leave(LeaveReason::Away)));
        }
    }

    /// Takes a datagram from the relay's address, which came at the first lane's socket. It is ignored if it is no frame for a client, not authentic, or a repetition.
    pub fn handle_datagram(&mut self, datagram: &[u8], now: Time, entropy: &mut impl Entropy) {
        self.handle_lane_datagram(0, datagram, now, entropy);
    }

    /// Takes a datagram from the relay's address, which came at the socket of this lane.
    pub fn handle_lane_datagram(&mut self, lane: u8, datagram: &[u8], now: Time, entropy: &mut impl Entropy) {
        let Ok(frame) = frame::parse(datagram) else { return };
        match frame {
            Frame::Bound(bound) => self.handle_bound(bound, now, entropy),
            Frame::Control(control) => self.handle_control(control, now, entropy),
            Frame::Cookie(cookie) => {
                let repeat = self.binding.as_mut().is_some_and(|binding| binding.take_cookie(cookie, now));
                if repeat {
                    self.out.push_back(Outgoing::Bind);
                }
            }
            Frame::Again { echo, .. } => {
                let Some(bound) = &self.bound else { return };
                // The frame may be an answer to a lane's data, or forged: only an echo of a control frame of this client proves that the relay has forgotten it.
                if bound.link.has_sent(echo) {
                    self.bind_anew(now);
                } else if lane > 0 {
                    self.doubt_lane(lane, now);
                } else {
                    self.handle_suspicion(now, entropy);
                }
            }
            Frame::Data { .. } | Frame::Bind(_) => {}
        }
    }

    /// Returns the time at which [`Self::handle_timeout`] has work to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let bound = self.bound.as_ref().map(|bound| bound.ping.as_ref().map_or(bound.next_ping, |ping| ping.next));
        let peers = self.bound.as_ref().and_then(|_| self.peers.next());
        let lanes = self.bound.as_ref().and_then(|_| self.lanes.poll_timeout());
        let binding = match &self.binding {
            Some(binding) => Some(binding.next),
            None if self.wants_bind() => Some(self.next_bind),
            None => None,
        };
        [bound, peers, lanes, binding].into_iter().flatten().min()
    }

    /// Does the work that is due.
    pub fn handle_timeout(&mut self, now: Time, entropy: &mut impl Entropy) {
        if self.bound.is_some() {
            while let Some(peer) = self.peers.take_due(now) {
                self.send_open(peer, now);
            }
        }
        self.ping_timeout(now, entropy);
        self.lane_timeout(now, entropy);
        self.bind_timeout(now, entropy);
    }

    /// Returns the next output. Call it until it returns `None` after each method that changes the client: events come before datagrams.
    pub fn poll_output(&mut self) -> Option<ClientOutput> {
        if let Some(event) = self.events.pop_front() {
            return Some(ClientOutput::Event(event));
        }
        self.poll_datagram().map(|(lane, datagram)| match lane {
            0 => ClientOutput::Transmit(datagram),
            lane => ClientOutput::LaneTransmit(lane, datagram),
        })
    }

    /// Seals the next frame, and returns it with the lane that sends it. Frames are sealed when they leave, so those of a binding that ended meanwhile are dropped.
    fn poll_datagram(&mut self) -> Option<(u8, ClientDatagram)> {
        loop {
            match self.out.pop_front()? {
                Outgoing::Bind => {
                    if let Some(binding) = &self.binding {
                        return Some((0, ClientDatagram::new(binding.message())));
                    }
                }
                Outgoing::Control(lane, message) => {
                    if let Some(bound) = &mut self.bound {
                        return Some((lane, ClientDatagram::new(&bound.link.seal(&message))));
                    }
                }
            }
        }
    }

    /// Returns the next datagram with the lane that sends it, without the events before it.
    #[cfg(test)]
    pub(crate) fn next_lane_datagram(&mut self) -> Option<(u8, ClientDatagram)> {
        self.events.clear();
        self.poll_datagram()
    }

    /// Returns the next datagram, without the events before it.
    #[cfg(test)]
    pub(crate) fn next_datagram(&mut self) -> Option<ClientDatagram> {
        self.next_lane_datagram().map(|(_, datagram)| datagram)
    }

    /// Returns the events that wait, and leaves the datagrams.
    #[cfg(test)]
    pub(crate) fn take_events(&mut self) -> Vec<RelayEvent> {
        self.events.drain(..).collect()
    }

    /// Seals any bytes under the binding's keys, for [`crate::fuzzing`].
    pub(crate) fn seal(&mut self, message: &[u8; MESSAGE_LEN]) -> Option<[u8; CONTROL_LEN]> {
        self.bound.as_mut().map(|bound| bound.link.seal_bytes(message))
    }

    /// Returns true if the client has to bind: it is not bound, or it has a ticket to show that the relay has not seen.
    fn wants_bind(&self) -> bool {
        self.bound.is_none() || self.next_bind != Time(u64::MAX)
    }

    fn send_open(&mut self, peer: PublicKey, now: Time) {
        if let Some(id) = self.peers.next_request(&peer, now) {
            self.out.push_back(Outgoing::Control(0, ControlMessage::Open { id, node: peer }));
        }
    }

    fn handle_control(&mut self, control: &[u8; CONTROL_LEN], now: Time, entropy: &mut impl Entropy) {
        let bound = self.bound.as_mut().filter(|bound| frame::le32(control, 4) == bound.index);
        let Some(opened) = bound.and_then(|bound| bound.link.open(control)) else { return };
        let event = opened.message.and_then(|message| self.handle_message(message, opened.counter, now, entropy));
        self.events.extend(event);
    }

    /// Takes a message with the counter of its frame, and returns the event that it causes.
    fn handle_message(
        &mut self,
        message: ControlMessage,
        counter: u64,
        now: Time,
        entropy: &mut impl Entropy,
    ) -> Option<RelayEvent> {
        match message {
            ControlMessage::Pong { nonce, seen } => {
                // Another address makes the node ask its other relays, so a pong without a ping must not change it.
                if self.handle_pong(nonce, now, entropy) {
                    self.seen = Some(seen);
                }
                None
            }
            ControlMessage::Opened { id, node } => {
                self.peers.opened(node, id, counter).then_some(RelayEvent::Opened { peer: node, id })
            }
            ControlMessage::Arrived { id, node } => {
                let id = self.peers.arrived(node, id, counter)?;
                Some(RelayEvent::Arrived { peer: node, id })
            }
            ControlMessage::Absent { node, .. } => {
                self.peers.absent(&node, counter, now).then_some(RelayEvent::Absent { peer: node })
            }
            ControlMessage::Refused { node } => {
                self.peers.refused(&node, counter).then_some(RelayEvent::Refused { peer: node })
            }
            ControlMessage::Leave(why) => Some(self.handle_leave(why, now, entropy)),
            ControlMessage::Challenge { nonce } => {
                self.handle_challenge(nonce, now);
                None
            }
            ControlMessage::Prove { lane, nonce } => {
                self.handle_prove(lane, nonce);
                None
            }
            ControlMessage::LaneBound { lane } => self.handle_lane_bound(lane, now, entropy),
            ControlMessage::Ping { .. }
            | ControlMessage::Open { .. }
            | ControlMessage::Close { .. }
            | ControlMessage::Lane { .. }
            | ControlMessage::Proof { .. }
            | ControlMessage::LaneEnd { .. }
            | ControlMessage::Response { .. } => None,
        }
    }

    fn handle_leave(&mut self, why: LeaveReason, now: Time, entropy: &mut impl Entropy) -> RelayEvent {
        let (pause, cause) = match why {
            LeaveReason::Away => ((Duration::from_millis(250), Duration::from_secs(2)), LostCause::Left),
            LeaveReason::Replaced => (AFTER_REPLACED, LostCause::Replaced),
            LeaveReason::Expired => (AFTER_REPLACED, LostCause::Expired),
        };
        self.drop_binding();
        self.failures = 1;
        self.next_bind = now + between(pause, entropy);
        RelayEvent::Lost(cause)
    }

    /// Takes a pong. Returns true if it answers the outstanding ping.
    fn handle_pong(&mut self, nonce: u64, now: Time, entropy: &mut impl Entropy) -> bool {
        let Some(bound) = &mut self.bound else { return false };
        let Some(ping) = &bound.ping else { return false };
        let number = nonce.wrapping_sub(ping.nonce);
        if number >= u64::from(ping.tries) {
            return false;
        }
        // Only the answer to the last try measures the round trip.
        let sample = (number + 1 == u64::from(ping.tries)).then(|| now.since(ping.sent));
        bound.ping = None;
        bound.next_ping = now + between(KEEPALIVE, entropy);
        if let Some(sample) = sample {
            self.note_round_trip(sample);
        }
        true
    }

    /// Answers a challenge, which proves that this client receives at its present address. The response leaves first: it makes the relay move the client, and later
    /// answers go to the new address. The pong to an outstanding ping goes to the former address, so the ping is sent again.
    fn handle_challenge(&mut self, nonce: [u8; NONCE_LEN], now: Time) {
        #[cfg(test)]
        if self.is_release_0_1_0 {
            return;
        }
        if self.bound.as_ref().is_some_and(|bound| bound.ping.is_some()) {
            self.ping(now);
        }
        self.out.push_front(Outgoing::Control(0, ControlMessage::Response { nonce }));
    }

    fn note_round_trip(&mut self, sample: Duration) {
        self.round_trip = Some(self.round_trip.map_or(sample, |smoothed| (smoothed * 7 + sample) / 8));
    }

    fn ping_timeout(&mut self, now: Time, entropy: &mut impl Entropy) {
        let Some(bound) = self.bound.as_mut() else { return };
        match &mut bound.ping {
            None if now >= bound.next_ping => {
                bound.ping = Some(PingInFlight { nonce: nonce(entropy), sent: now, tries: 0, next: now, quick: false });
                self.ping(now);
            }
            Some(ping) if now >= ping.next && ping.quick && ping.tries >= QUICK_TRIES => {
                self.drop_binding();
                self.failures = 1;
                self.next_bind = now + between((Duration::ZERO, Duration::from_secs(1)), entropy);
                self.events.push_back(RelayEvent::Lost(LostCause::Silent));
            }
            Some(ping) if now >= ping.next => {
                if !ping.quick {
                    *ping = PingInFlight { nonce: nonce(entropy), sent: now, tries: 0, next: now, quick: true };
                }
                self.ping(now);
            }
            _ => {}
        }
    }

    /// Sends the next try of the ping that waits for an answer.
    fn ping(&mut self, now: Time) {
        let quick = self.round_trip.map_or(QUICK, |round_trip| (round_trip * 2).clamp(QUICK, QUICK_MAX));
        let Some(ping) = self.bound.as_mut().and_then(|bound| bound.ping.as_mut()) else { return };
        let nonce = ping.nonce.wrapping_add(u64::from(ping.tries));
        ping.tries += 1;
        ping.sent = now;
        ping.next = now + if ping.quick { quick } else { PATIENCE };
        // In front of other frames, which may depend on the address that this one shows.
        self.out.push_front(Outgoing::Control(0, ControlMessage::Ping { nonce }));
    }

    fn drop_binding(&mut self) {
        self.bound = None;
        self.binding = None;
        self.out.clear();
        if self.lanes.unbind() {
            self.events.push_back(RelayEvent::Lanes);
        }
    }

    /// Binds again, because the relay does not know the binding any more.
    fn bind_anew(&mut self, now: Time) {
        self.drop_binding();
        self.failures = 0;
        self.next_bind = if self.rebinds.take(&REBINDS, now) { now } else { now + REBIND_PAUSE };
    }
}

fn nonce(entropy: &mut impl Entropy) -> u64 {
    u64::from(entropy.next_u32()) << 32 | u64::from(entropy.next_u32())
}

/// Returns a random duration in this range, so that many clients do not act at the same moment (fault F8).
fn between((least, most): (Duration, Duration), entropy: &mut impl Entropy) -> Duration {
    let span = u32::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u32::MAX);
    least + Duration::from_micros(u64::from(entropy.below(span)))
}

/// Returns a fresh private key for one handshake.
fn draw_key(entropy: &mut impl Entropy) -> PrivateKey {
    let mut bytes = Zeroizing::new([0; 32]);
    entropy.fill(&mut *bytes);
    PrivateKey::from_bytes(*bytes)
}

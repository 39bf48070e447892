//! One node at one relay, without a socket: it binds, keeps the binding alive, opens peers, and notices when the relay is gone.
//!
//! ```text
//!              ┌──────────── bound ────────────┐
//!   Binding ───┤                               ▼
//!    ▲  ▲      └─ 3 unanswered ─▶ Lost     Ready ── pings unanswered, or it leaves ──▶ Lost, Binding again
//!    │  └───────── again after a pause ──┘     │
//!    └───────── the relay says it does not know us ─┘
//! ```
//! Numbers of peers are drawn here and told to the relay by `open`; what bears them may follow at once, so opening costs no round trip. A peer that opened
//! us has a number, too: `arrived` tells it. All that was asked for is asked for again on each new binding, under the same numbers.
//!
//! The binding lasts while the relay hears from us: a ping every 20 to 25 seconds, which also keeps the mapping of a NAT that forgets after 30. A ping that
//! is not answered within a second is followed by three quick ones, as is [`Client::handle_suspicion`]: then the relay counts as gone.
//!
//! The owner asks [`Client::poll_timeout`], calls [`Client::handle_timeout`] then, and sends what [`Client::poll_transmit`] gives after every call.

mod bind;
mod peers;

use std::collections::VecDeque;
use std::time::Duration;

use taut_base::{Bucket, Entropy, PrivateKey, PublicKey, Rate, Time};
use zeroize::Zeroizing;

use crate::control::{ControlLink, ControlMessage, LeaveReason, NONCE_LEN};
use crate::frame::{self, CONTROL_LEN, Frame, MESSAGE_LEN};
use crate::ticket::Ticket;
use bind::{BindAttempt, BindStamps, TicketChoice};
use peers::Peers;

/// Longest datagram that a client sends by itself.
const MAX_DATAGRAM: usize = 512;

/// Shortest and longest pause between two signs of life: below the 30 s after which strict NATs forget a mapping (RFC 4787 asks for 120, many have 30).
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(25));
/// How long an answer to a sign of life may take before it is asked for in haste: above any round trip.
const PATIENCE: Duration = Duration::from_secs(1);
/// Quick pings without an answer after which the relay is gone.
const QUICK_TRIES: u32 = 3;
/// Time between quick pings: at least this, so that three make 400 ms, and twice the round trip on long ways.
const QUICK: Duration = Duration::from_millis(133);
/// And at most this.
const QUICK_MAX: Duration = Duration::from_secs(1);
/// Bindings that follow at once when the relay says that it forgot the former one, per second: each costs both a key exchange, and the node a frame for every
/// peer that it wants. A relay that is started again a few times is bound at once each time.
const REBINDS: Rate = Rate::new(1, 3);
/// The pause before a binding beyond that rate.
const REBIND_PAUSE: Duration = Duration::from_secs(1);
/// How often what was replaced by another program under the same key tries to come back: so two of them do not push each other out without end.
const AFTER_REPLACED: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(60));

/// By what a node is known to a relay.
#[derive(Clone)]
pub struct Credentials {
    /// The private half of the ticket's bind key.
    pub bind: PrivateKey,
    /// What the coordinator signed.
    pub ticket: Ticket,
    /// The same in version 2, from a coordinator that gives it: it names the node, too.
    pub numbered: Option<Ticket>,
}

/// A datagram for the relay, in place.
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
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelayEvent {
    /// The relay has bound us: peers can be opened, and numbers used.
    Ready,
    /// The peer is bound there, too, and what bears `id` reaches it.
    Opened {
        /// Who.
        peer: PublicKey,
        /// Its number.
        id: u32,
    },
    /// The peer is not bound there now. [`RelayEvent::Arrived`] follows when it comes, as long as it is open.
    Absent {
        /// Who.
        peer: PublicKey,
    },
    /// The peer has come, or has opened us.
    Arrived {
        /// Who.
        peer: PublicKey,
        /// Its number.
        id: u32,
    },
    /// The relay does not open the peer: we have too many open, or the peer has.
    Refused {
        /// Who.
        peer: PublicKey,
    },
    /// The relay is of no use now. The client goes on trying by itself.
    Lost(LostCause),
}

/// Why a relay is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostCause {
    /// It does not answer.
    Silent,
    /// It said that it ends.
    Left,
    /// Another program has bound itself with this node's key.
    Replaced,
    /// The ticket has expired: [`Client::set_credentials`].
    Expired,
}

/// How it stands with a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingState {
    /// Asked to bind us, without an answer so far.
    Binding,
    /// Bound.
    Ready,
    /// Bound, and a quick ping was not answered.
    Suspected,
    /// Given up for now; tried again later.
    Lost,
}

/// A ping that waits for its answer.
struct PingInFlight {
    /// The first try's; the others count on from it.
    nonce: u64,
    /// When each try was sent; only as many as may be on their way.
    sent: Time,
    tries: u32,
    next: Time,
    quick: bool,
}

/// A binding that holds.
struct Bound {
    link: ControlLink,
    index: u32,
    ping: Option<PingInFlight>,
    next_ping: Time,
}

/// What waits to be sent.
enum Outgoing {
    Bind,
    Control(ControlMessage),
}

/// One node at one relay.
pub struct Client {
    relay: PublicKey,
    credentials: Credentials,
    bound: Option<Bound>,
    binding: Option<BindAttempt>,
    /// When to bind, while neither bound nor binding.
    next_bind: Time,
    /// Bindings that may follow at once.
    rebinds: Bucket,
    /// Attempts to bind that came to nothing, in a row.
    failures: u32,
    peers: Peers,
    /// Events for the owner, oldest first.
    events: VecDeque<RelayEvent>,
    /// Frames to be sealed and sent, in order.
    out: VecDeque<Outgoing>,
    round_trip: Option<Duration>,
    seen: Option<std::net::SocketAddr>,
    stamps: BindStamps,
    tickets: TicketChoice,
    /// Behaves as a client of release 0.1.0 does, which passes over what it does not know.
    #[cfg(test)]
    pub(crate) is_release_0_1_0: bool,
}

impl Client {
    /// A node at the relay of this key (from the map). It binds at the next [`Self::handle_timeout`].
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

    /// Shows another ticket from now on: binds anew at once, and goes on with the present binding meanwhile.
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

    /// Which relay this is.
    pub fn relay(&self) -> PublicKey {
        self.relay
    }

    /// How it stands.
    pub fn standing(&self) -> BindingState {
        match &self.bound {
            Some(Bound { ping: Some(PingInFlight { quick: true, tries: 2.., .. }), .. }) => BindingState::Suspected,
            Some(_) => BindingState::Ready,
            None if self.failures == 0 => BindingState::Binding,
            None => BindingState::Lost,
        }
    }

    /// Whether frames may be sent now.
    pub fn is_ready(&self) -> bool {
        self.bound.is_some()
    }

    /// Whether the relay was asked to bind us, and has not answered so far: not while a pause is kept.
    pub fn is_asking(&self) -> bool {
        self.bound.is_none() && self.binding.is_some()
    }

    /// How long the relay takes to answer, smoothed; `None` before its first answer.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Where the relay last saw us.
    pub fn seen(&self) -> Option<std::net::SocketAddr> {
        self.seen
    }

    /// Wants to reach `peer` there. Says the number to use at once, if the relay has bound us; an [`RelayEvent`] says later whether the peer is there.
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

    /// Does not want to reach `peer` there any more. It may still reach us.
    pub fn close(&mut self, peer: &PublicKey) {
        if self.peers.close(peer) && self.bound.is_some() {
            self.out.push_back(Outgoing::Control(ControlMessage::Close { node: *peer }));
        }
    }

    /// Forgets a peer that is no member of the network. Without this a relay that names unknown keys would fill memory (fault F18).
    pub fn forget(&mut self, peer: &PublicKey) {
        self.close(peer);
        self.peers.forget(peer);
    }

    /// The number of a peer there, if frames with it may be sent: asked for or told, and not known to lead nowhere.
    pub fn id_of(&self, peer: &PublicKey) -> Option<u32> {
        self.bound.as_ref().and_then(|_| self.peers.id_of(peer))
    }

    /// Whom a number stands for. Frames may bear a number of which the relay's word was lost: they are the peer's all the same, and who it is
    /// says its handshake.
    pub fn peer_of(&self, id: u32) -> Option<PublicKey> {
        self.peers.peer_of(id)
    }

    /// Notes that `id` stands for `peer`, which authenticated itself behind it. Of a peer that has another number the relay's word was lost: that is
    /// [in doubt](Self::doubt).
    pub fn learn(&mut self, peer: PublicKey, id: u32, now: Time) {
        if !self.peers.learn(peer, id) {
            self.doubt(&peer, now);
        }
    }

    /// What the relay said of `peer` may have been lost: it does not answer, or is heard behind another number. The relay is asked once more; an
    /// [`RelayEvent`] says what is true, and until then everything stays.
    pub fn doubt(&mut self, peer: &PublicKey, now: Time) {
        if self.bound.is_some() && self.peers.doubt(peer, now) {
            self.send_open(*peer, now);
        }
    }

    /// Our address may have changed: shows the relay the new one at once. It sends there as soon as we have answered its challenge from there.
    pub fn handle_move(&mut self, now: Time, entropy: &mut impl Entropy) {
        match &mut self.bound {
            Some(bound) => bound.ping = None,
            // Nothing to wait for: what was in vain elsewhere may succeed from here.
            None => {
                self.next_bind = now;
                self.binding = None;
            }
        }
        self.handle_suspicion(now, entropy);
    }

    /// Something says that the relay may be gone: asks it at once, and says [`LostCause::Silent`] within 400 ms, or six round trips if that is more.
    pub fn handle_suspicion(&mut self, now: Time, entropy: &mut impl Entropy) {
        let Some(bound) = &mut self.bound else { return };
        if bound.ping.as_ref().is_some_and(|ping| ping.quick) {
            return;
        }
        bound.ping = Some(PingInFlight { nonce: nonce(entropy), sent: now, tries: 0, next: now, quick: true });
        self.ping(now);
    }

    /// Says goodbye; the client is of no use afterwards. Send what [`Self::poll_transmit`] gives.
    pub fn leave(&mut self) {
        self.out.clear();
        if self.bound.is_some() {
            self.out.push_back(Outgoing::Control(ControlMessage::Leave(LeaveReason::Away)));
        }
    }

    /// A datagram came from the relay's address. All that is no frame for a client, not authentic or not new is ignored.
    pub fn handle_datagram(&mut self, datagram: &[u8], now: Time, entropy: &mut impl Entropy) {
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
                // What was answered may be data that a lane sent, or anybody's invention: then the relay is asked about something that we know.
                if bound.link.has_sent(echo) {
                    self.bind_anew(now);
                } else {
                    self.handle_suspicion(now, entropy);
                }
            }
            Frame::Data { .. } | Frame::Bind(_) => {}
        }
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<Time> {
        let bound = self.bound.as_ref().map(|bound| bound.ping.as_ref().map_or(bound.next_ping, |ping| ping.next));
        let peers = self.bound.as_ref().and_then(|_| self.peers.next());
        let binding = match &self.binding {
            Some(binding) => Some(binding.next),
            None if self.wants_bind() => Some(self.next_bind),
            None => None,
        };
        [bound, peers, binding].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time, entropy: &mut impl Entropy) {
        if self.bound.is_some() {
            while let Some(peer) = self.peers.take_due(now) {
                self.send_open(peer, now);
            }
        }
        self.ping_timeout(now, entropy);
        self.bind_timeout(now, entropy);
    }

    /// Returns the next output. Call it until it returns `None` after each method that changes the client: events come before datagrams.
    pub fn poll_output(&mut self) -> Option<ClientOutput> {
        if let Some(event) = self.events.pop_front() {
            return Some(ClientOutput::Event(event));
        }
        self.poll_datagram().map(ClientOutput::Transmit)
    }

    /// Seals the next frame. Frames are sealed when they leave, so those of a binding that ended meanwhile are dropped.
    fn poll_datagram(&mut self) -> Option<ClientDatagram> {
        loop {
            match self.out.pop_front()? {
                Outgoing::Bind => {
                    if let Some(binding) = &self.binding {
                        return Some(ClientDatagram::new(binding.message()));
                    }
                }
                Outgoing::Control(message) => {
                    if let Some(bound) = &mut self.bound {
                        return Some(ClientDatagram::new(&bound.link.seal(&message)));
                    }
                }
            }
        }
    }

    /// Returns the next datagram, without the events before it.
    #[cfg(test)]
    pub(crate) fn next_datagram(&mut self) -> Option<ClientDatagram> {
        self.events.clear();
        self.poll_datagram()
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

    /// A binding is wanted while there is none, and once where another ticket is to be shown.
    fn wants_bind(&self) -> bool {
        self.bound.is_none() || self.next_bind != Time(u64::MAX)
    }

    fn send_open(&mut self, peer: PublicKey, now: Time) {
        if let Some(id) = self.peers.next_request(&peer, now) {
            self.out.push_back(Outgoing::Control(ControlMessage::Open { id, node: peer }));
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
                // Another address here has the node ask its other relays, so an unasked pong must not change it.
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
            ControlMessage::Ping { .. }
            | ControlMessage::Open { .. }
            | ControlMessage::Close { .. }
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

    /// Returns true if it answers a ping of ours.
    fn handle_pong(&mut self, nonce: u64, now: Time, entropy: &mut impl Entropy) -> bool {
        let Some(bound) = &mut self.bound else { return false };
        let Some(ping) = &bound.ping else { return false };
        let number = nonce.wrapping_sub(ping.nonce);
        if number >= u64::from(ping.tries) {
            return false;
        }
        // Only the last try's answer tells the round trip.
        let sample = (number + 1 == u64::from(ping.tries)).then(|| now.since(ping.sent));
        bound.ping = None;
        bound.next_ping = now + between(KEEPALIVE, entropy);
        if let Some(sample) = sample {
            self.note_round_trip(sample);
        }
        true
    }

    /// Answers the relay's question whether this client is where the challenge came. The response leaves first: the relay moves the client by it, and answers
    /// what follows at the new place. The pong to an outstanding ping goes to the former place, so the ping is sent again.
    fn handle_challenge(&mut self, nonce: [u8; NONCE_LEN], now: Time) {
        #[cfg(test)]
        if self.is_release_0_1_0 {
            return;
        }
        if self.bound.as_ref().is_some_and(|bound| bound.ping.is_some()) {
            self.ping(now);
        }
        self.out.push_front(Outgoing::Control(ControlMessage::Response { nonce }));
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
        // In front: what is said behind it may depend on where we are.
        self.out.push_front(Outgoing::Control(ControlMessage::Ping { nonce }));
    }

    fn drop_binding(&mut self) {
        self.bound = None;
        self.binding = None;
        self.out.clear();
    }

    /// The relay does not know the binding any more: nothing of it is left to wait for.
    fn bind_anew(&mut self, now: Time) {
        self.drop_binding();
        self.failures = 0;
        self.next_bind = if self.rebinds.take(&REBINDS, now) { now } else { now + REBIND_PAUSE };
    }
}

fn nonce(entropy: &mut impl Entropy) -> u64 {
    u64::from(entropy.next_u32()) << 32 | u64::from(entropy.next_u32())
}

/// A duration between two, drawn: what many clients do at the same moment spreads so (fault F8).
fn between((least, most): (Duration, Duration), entropy: &mut impl Entropy) -> Duration {
    let span = u32::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u32::MAX);
    least + Duration::from_micros(u64::from(entropy.below(span)))
}

/// A fresh private key, for one handshake.
fn draw_key(entropy: &mut impl Entropy) -> PrivateKey {
    let mut bytes = Zeroizing::new([0; 32]);
    entropy.fill(&mut *bytes);
    PrivateKey::from_bytes(*bytes)
}

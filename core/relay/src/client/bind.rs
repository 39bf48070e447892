//! Attempts to bind: one message, retransmitted until the relay answers or the attempt fails.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use taut_base::{Entropy, PresharedKey, Time};
use taut_noise::DecryptError;
use taut_tunnel::cookie::{Cookies, mac1};
use taut_tunnel::handshake::{Identity, Remote};
use taut_wire::wireguard::CookieReply;

use super::{Bound, Client, Credentials, KEEPALIVE, LostCause, Outgoing, RelayEvent, between, draw_key};
use crate::control::ControlLink;
use crate::frame::{BIND_LEN, BOUND_LEN, COOKIE_LEN, le32};
use crate::handshake::Initiator;
use crate::ticket::LATEST_VERSION;

/// Number of transmissions of the message. The pause after the first one is [`RETRY`], and doubles: 1.75 s in all.
const TRIES: u32 = 3;
/// Pause after the first transmission.
const RETRY: Duration = Duration::from_millis(250);
/// Longest pause between two attempts, 10 s. A node without another relay stays unreachable for this time after the relay came back. Thousands of clients that
/// bind within 10 s do not overload a relay.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The path of all cookies of a client: cookies are kept per path, and a client has one path.
const COOKIE_PATH: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

/// Pause before a ticket of version 2 is shown again after an attempt with it failed, 10 minutes: a relay that refuses it costs one attempt in this time.
const NUMBERED_RETRY: Duration = Duration::from_secs(600);

/// The choice between the two versions of a ticket. The client shows version 1 until the relay has said that it accepts version 2: every relay accepts version 1,
/// so a lost datagram is not mistaken for an old relay. Afterwards the client binds again with version 2, and the first binding serves meanwhile.
#[derive(Default)]
pub(super) struct TicketChoice {
    /// Whether the relay accepts version 2.
    takes_numbered: bool,
    /// Earliest time for an attempt with version 2.
    pub(super) not_before: Time,
}

impl TicketChoice {
    /// Notes that the relay accepts tickets up to `version`. Returns true if the client should bind again with version 2.
    fn hear(&mut self, version: u8, shown: bool, now: Time) -> bool {
        let better = version >= LATEST_VERSION && !shown && now >= self.not_before;
        self.takes_numbered = better || (shown && version >= LATEST_VERSION);
        better
    }

    /// Notes that an attempt with version 2 failed: the relay may run an older program now.
    fn fail(&mut self, now: Time) {
        *self = Self { takes_numbered: false, not_before: now + NUMBERED_RETRY };
    }
}

/// The stamps of a client's `bind` messages.
#[derive(Default)]
pub(super) struct BindStamps {
    /// The clock of the stamps at `Time` 0, as time since 1970; `None` for a client without stamps.
    pub(super) at_zero: Option<Duration>,
    /// The last stamp, in nanoseconds since 1970; 0 before the first.
    pub(super) last: u64,
}

impl BindStamps {
    /// Returns a stamp that is later than all before it; 0 without a clock.
    fn next(&mut self, now: Time) -> u64 {
        let Some(at_zero) = self.at_zero else { return 0 };
        let reading = at_zero.saturating_add(now.since(Time::ZERO)).as_nanos();
        self.last = u64::try_from(reading).unwrap_or(u64::MAX).max(self.last.saturating_add(1));
        self.last
    }
}

pub(super) struct BindAttempt {
    initiator: Initiator,
    message: Box<[u8; BIND_LEN]>,
    index: u32,
    remote: Remote,
    cookies: Cookies,
    tries: u32,
    sent: Time,
    pub(super) next: Time,
    /// Whether the message has the ticket of version 2.
    is_numbered: bool,
}

impl BindAttempt {
    /// Starts an attempt. Fails if the relay's key is not a valid key.
    fn start(client: &mut Client, now: Time, entropy: &mut impl Entropy) -> Result<Self, DecryptError> {
        let index = entropy.next_u32();
        let Credentials { bind, ticket, numbered } = &client.credentials;
        let numbered = numbered.as_ref().filter(|_| client.tickets.takes_numbered);
        let (is_numbered, ticket, stamp) = (numbered.is_some(), numbered.unwrap_or(ticket), client.stamps.next(now));
        let (initiator, message) = Initiator::start(&client.relay, bind, ticket, stamp, index, draw_key(entropy))?;
        let remote =
            Remote::new(&Identity::new(bind.clone()), client.relay, PresharedKey::NONE).map_err(|_| DecryptError)?;
        let mut message = Box::new(message);
        remote.write_mac1(message.as_mut_slice());
        let (cookies, tries) = (Cookies::default(), 0);
        Ok(Self { initiator, message, index, remote, cookies, tries, sent: now, next: now, is_numbered })
    }

    pub(super) fn message(&self) -> &[u8] {
        self.message.as_slice()
    }

    /// Takes the relay's cookie for this message. Returns true if the message has it now and should be sent again.
    pub(super) fn take_cookie(&mut self, cookie: &[u8; COOKIE_LEN], now: Time) -> bool {
        let (Some(nonce), Some(sealed_cookie)) = (cookie[8..].first_chunk(), cookie.last_chunk()) else { return false };
        let reply = CookieReply { receiver: le32(cookie, 4), nonce, sealed_cookie };
        let Some(mac1) = mac1(self.message.as_slice()).copied() else { return false };
        if reply.receiver != self.index || !self.cookies.take(&self.remote, &mac1, COOKIE_PATH, &reply, now) {
            return false;
        }
        self.cookies.write_mac2(COOKIE_PATH, self.message.as_mut_slice(), now);
        true
    }
}

impl Client {
    /// Begins an attempt, retransmits its message, or ends it as failed.
    pub(super) fn bind_timeout(&mut self, now: Time, entropy: &mut impl Entropy) {
        if self.binding.is_none() {
            if !self.wants_bind() || now < self.next_bind {
                return;
            }
            match BindAttempt::start(self, now, entropy) {
                Ok(binding) => self.binding = Some(binding),
                Err(_) => return self.attempt_failed(now, entropy),
            }
        }
        let Some(binding) = self.binding.as_mut().filter(|binding| now >= binding.next) else { return };
        if binding.tries == TRIES {
            return self.attempt_failed(now, entropy);
        }
        binding.next = now + RETRY * 2_u32.pow(binding.tries);
        binding.tries += 1;
        binding.sent = now;
        self.out.push_back(Outgoing::Bind);
    }

    /// Handles a failed attempt. The pause before the next one doubles and is random, so that the clients of a relay that comes back do not all bind at once.
    fn attempt_failed(&mut self, now: Time, entropy: &mut impl Entropy) {
        if self.binding.take().is_some_and(|binding| binding.is_numbered) {
            self.tickets.fail(now);
        }
        self.failures = self.failures.saturating_add(1);
        let most = (Duration::from_secs(1) * 2_u32.pow(self.failures.min(5))).min(PAUSE_MAX);
        self.next_bind = now + between((most / 2, most), entropy);
        // Reported once per loss, and not while a binding holds: a refused newer ticket loses nothing.
        if self.failures == 1 && self.bound.is_none() {
            self.events.push_back(RelayEvent::Lost(LostCause::Silent));
        }
    }

    /// Takes the relay's answer to the outstanding bind. An answer that is not authentic changes nothing.
    pub(super) fn handle_bound(&mut self, bound: &[u8; BOUND_LEN], now: Time, entropy: &mut impl Entropy) {
        let Some(binding) = self.binding.as_ref().filter(|binding| binding.index == le32(bound, 4)) else { return };
        let Ok((keys, welcome)) = binding.initiator.finish(bound) else { return };
        let sample = (binding.tries == 1).then(|| now.since(binding.sent));
        let (index, is_numbered, was_bound) = (binding.index, binding.is_numbered, self.bound.is_some());
        let link = ControlLink::new(&keys, le32(bound, 8));
        self.bound = Some(Bound { link, index, ping: None, next_ping: now + between(KEEPALIVE, entropy) });
        self.binding = None;
        self.failures = 0;
        let better = self.credentials.numbered.is_some() && self.tickets.hear(welcome.tickets, is_numbered, now);
        self.next_bind = if better { now } else { Time(u64::MAX) };
        self.seen = Some(welcome.seen);
        self.out.clear();
        self.lanes.announce(welcome.lanes, now);
        if let Some(sample) = sample {
            self.note_round_trip(sample);
        }
        // The relay uses the new keys after the first frame under them, so the client always sends one.
        self.handle_suspicion(now, entropy);
        self.peers.request_all(now);
        while let Some(peer) = self.peers.take_due(now) {
            self.send_open(peer, now);
        }
        self.lane_timeout(now, entropy);
        if !was_bound {
            self.events.push_back(RelayEvent::Ready);
        }
    }
}

//! The two MACs of handshake messages, and cookies (paper, sections 5.4.4 and 5.4.7).
//!
//! mac1 proves that the sender knows our public key. mac2 proves that it receives what is sent to its address: it is made with a *cookie*, a MAC of
//! that address under a secret of ours. Who has to show one is decided elsewhere; here is how it is made, given, kept and checked.
//!
//! ```text
//! initiator                                     CookieChecker of the responder
//!   message, mac2 = 0       ───────────────▶      is_for_us, but too much from there
//!   Cookies::take           ◀───────────────      reply: the cookie of that ip:port, sealed, bound to mac1
//!   Cookies::write_mac2     ───────────────▶      proves_address
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use subtle::ConstantTimeEq;
use taut_base::{MAX_CANDIDATES, PublicKey, Time};
use taut_noise::{hash, hmac, keyed_mac, xopen, xseal};
use taut_wire::wireguard::{self, CookieReply, cookie_reply};
use zeroize::{Zeroize, Zeroizing};

use crate::handshake::Remote;

/// `Label-Cookie` of the paper, section 5.4.7.
const LABEL_COOKIE: &[u8] = b"cookie--";

/// How long a cookie is good for, and with it the secret that it is made of (paper, sections 5.4.4 and 5.4.7).
const LIFETIME: Duration = Duration::from_secs(120);

/// Cookies kept of one peer: one for each path that a handshake may take, and as many of paths that it took before.
const MAX_KEPT: usize = 2 * MAX_CANDIDATES;

/// Where the two MACs stand, counted from the end of an initiation or a response.
const MAC: usize = 16;

pub(crate) fn cookie_key(public: &PublicKey) -> [u8; 32] {
    hash(&[LABEL_COOKIE, public.as_bytes()])
}

/// Who sent a handshake message, as far as it is known before it is read (protocol.md 2.3): who is at an address and port, or who a relay says it is.
/// Whoever shares an address or a relay with others shares no cookie with them (fault B5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceAddress([u8; 23]);

impl SourceAddress {
    /// A client of the relay there, by the number that the relay gave us for it.
    pub fn relayed(relay: SocketAddr, id: u32) -> Self {
        let mut source = Self::from(relay);
        source.0[18] = 1;
        source.0[19..].copy_from_slice(&id.to_be_bytes());
        source
    }
}

impl From<SocketAddr> for SourceAddress {
    fn from(place: SocketAddr) -> Self {
        let mut source = [0; 23];
        match place.ip().to_canonical() {
            IpAddr::V4(v4) => source[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => source[..16].copy_from_slice(&v6.octets()),
        }
        source[16..18].copy_from_slice(&place.port().to_be_bytes());
        Self(source)
    }
}

/// Judges handshake messages to this node by their MACs, and gives out cookies. Without state beyond its keys: a cookie is computed anew to check it.
pub struct CookieChecker {
    mac1_key: [u8; 32],
    cookie_key: [u8; 32],
    /// Secrets and nonces derive from it.
    seed: Zeroizing<[u8; 32]>,
    /// The secret in force, and the number of its period.
    secret: Zeroizing<[u8; 32]>,
    period: Option<u64>,
    /// Replies so far: no nonce comes twice.
    replies: u64,
}

impl CookieChecker {
    pub(crate) fn new(mac1_key: [u8; 32], public: &PublicKey, seed: [u8; 32]) -> Self {
        Self {
            mac1_key,
            cookie_key: cookie_key(public),
            seed: Zeroizing::new(seed),
            secret: Zeroizing::new([0; 32]),
            period: None,
            replies: 0,
        }
    }

    /// Whether an initiation or a response was made by somebody who knows our public key.
    pub fn is_for_us(&self, message: &[u8]) -> bool {
        let Some((covered, mac1, _)) = cut(message) else { return false };
        keyed_mac(&self.mac1_key, covered).ct_eq(mac1).into()
    }

    /// Whether the sender of an initiation or a response has shown, within the last two minutes, that it receives what is sent to `source`.
    pub fn proves_address(&mut self, message: &[u8], source: impl Into<SourceAddress>, now: Time) -> bool {
        let Some((_, _, mac2)) = cut(message) else { return false };
        // The common case, and one that no cookie leads to but once in 2^128.
        if *mac2 == [0; MAC] {
            return false;
        }
        let cookie = self.cookie(&source.into(), now);
        let covered = &message[..message.len() - MAC];
        keyed_mac(&*cookie, covered).ct_eq(mac2).into()
    }

    /// The answer that gives `source` its cookie. `message` is an initiation or a response; anything else has no answer.
    pub fn reply(
        &mut self,
        message: &[u8],
        source: impl Into<SourceAddress>,
        now: Time,
    ) -> Option<[u8; cookie_reply::LEN]> {
        let (_, mac1, _) = cut(message)?;
        let sender = message.get(4..8)?.try_into().ok().map(u32::from_le_bytes)?;
        let mut sealed = [0; 32];
        let (cookie, tag) = sealed.split_at_mut(MAC);
        cookie.copy_from_slice(&*self.cookie(&source.into(), now));
        let nonce = self.next_nonce();
        tag.copy_from_slice(&xseal(&self.cookie_key, &nonce, mac1, cookie));
        let mut reply = [0; cookie_reply::LEN];
        wireguard::write_cookie_reply(&mut reply, sender, &nonce, &sealed);
        Some(reply)
    }

    /// A key for hashes of what strangers send, so that they cannot choose what collides.
    pub fn hash_key(&self) -> [u8; 16] {
        let derived = hmac(&self.seed, &[b"hash key"]);
        let mut key = [0; 16];
        key.copy_from_slice(&derived[..16]);
        key
    }

    fn cookie(&mut self, source: &SourceAddress, now: Time) -> Zeroizing<[u8; MAC]> {
        let period = now.0 / u64::try_from(LIFETIME.as_nanos()).unwrap_or(u64::MAX);
        if self.period != Some(period) {
            self.secret = hmac(&self.seed, &[b"secret", &period.to_le_bytes()]);
            self.period = Some(period);
        }
        Zeroizing::new(keyed_mac(&*self.secret, &source.0))
    }

    /// The seed is secret and each number comes once, so this is as good as drawn at random.
    fn next_nonce(&mut self) -> [u8; 24] {
        self.replies += 1;
        let drawn = hmac(&self.seed, &[b"nonce", &self.replies.to_le_bytes()]);
        let mut nonce = [0; 24];
        nonce.copy_from_slice(&drawn[..24]);
        nonce
    }
}

/// What mac1 covers, mac1, mac2.
fn cut(message: &[u8]) -> Option<(&[u8], &[u8; MAC], &[u8; MAC])> {
    let (rest, mac2) = message.split_last_chunk()?;
    let (covered, mac1) = rest.split_last_chunk()?;
    Some((covered, mac1, mac2))
}

/// The mac1 of an initiation or a response; `None` for what is too short to have one.
pub fn mac1(message: &[u8]) -> Option<&[u8; MAC]> {
    cut(message).map(|(_, mac1, _)| mac1)
}

/// The cookies that one peer gave us, each for the path that it came on (protocol.md 2.3). At most `MAX_KEPT` are kept.
#[derive(Default)]
pub struct Cookies {
    /// Oldest first.
    kept: Vec<(SourceAddress, Time, Zeroizing<[u8; MAC]>)>,
}

impl Cookies {
    /// Takes the cookie in `reply`, which came from `source` as the answer to our message with this mac1. False when the peer did not make it for
    /// that message: nothing changes then (fault B8).
    pub fn take(
        &mut self,
        remote: &Remote,
        mac1: &[u8; MAC],
        source: impl Into<SourceAddress>,
        reply: &CookieReply<'_>,
        now: Time,
    ) -> bool {
        let source = source.into();
        let mut sealed = *reply.sealed_cookie;
        let opened = xopen(remote.cookie_key(), reply.nonce, mac1, &mut sealed);
        let Some(cookie) = opened.and_then(|cookie| <[u8; MAC]>::try_from(&*cookie).ok()) else { return false };
        self.kept.retain(|(from, at, _)| *from != source && now < *at + LIFETIME);
        if self.kept.len() == MAX_KEPT {
            self.kept.remove(0);
        }
        self.kept.push((source, now, Zeroizing::new(cookie)));
        sealed.zeroize();
        true
    }

    /// Puts mac2 into a copy of an initiation or a response that goes to `destination`, if there is a young enough cookie from there.
    pub fn write_mac2(&self, destination: impl Into<SourceAddress>, message: &mut [u8], now: Time) {
        let destination = destination.into();
        let kept = self.kept.iter().find(|(from, at, _)| *from == destination && now < *at + LIFETIME);
        let Some((_, _, cookie)) = kept else { return };
        let Some((covered, place)) = message.split_last_chunk_mut::<MAC>() else { return };
        *place = keyed_mac(&**cookie, covered);
    }
}

#[cfg(test)]
mod tests;

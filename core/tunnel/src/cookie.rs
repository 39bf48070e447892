//! The two MACs of handshake messages, and cookies (paper, sections 5.4.4 and 5.4.7).
//!
//! mac1 proves that the sender knows this node's public key. mac2 proves that the sender receives packets at its address: mac2 is keyed with a *cookie*, a
//! MAC of that address under a secret of this node. This module makes, sends, keeps and checks cookies; the caller decides which senders need one.
//!
//! ```text
//! initiator                                     CookieChecker of the responder
//!   message, mac2 = 0       ───────────────▶      is_for_us, but over the rate limit
//!   Cookies::take           ◀───────────────      reply: the cookie of that ip:port, sealed, bound to mac1
//!   Cookies::write_mac2     ───────────────▶      proves_address
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use subtle::ConstantTimeEq;
use taut_base::{MAX_CANDIDATES, PublicKey, Time};
use taut_noise::{hmac, keyed_mac, xopen, xseal};
use taut_wire::wireguard::{self, CookieReply, cookie_reply};
use zeroize::{Zeroize, Zeroizing};

use crate::identity::{Identity, Remote, cookie_key};

/// Lifetime of a cookie and of the secret that it is made with, 120 s (paper, sections 5.4.4 and 5.4.7).
const LIFETIME: Duration = Duration::from_secs(120);

/// Limit on the cookies kept for one peer, 16: one for each path that a handshake may take, and as many for paths of earlier handshakes.
const MAX_KEPT: usize = 2 * MAX_CANDIDATES;

/// Bytes of a MAC. mac1 and mac2 are the last two fields of an initiation and of a response.
const MAC: usize = 16;

/// The source of a handshake message, as far as it is known before decryption (protocol.md 2.3): an address and port, or a client number at a relay.
/// Senders behind one address or one relay have different sources, so none of them gets the cookie of another (fault B5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceAddress([u8; 23]);

impl SourceAddress {
    /// Returns the source of client `id` of the relay at `relay`.
    pub fn relayed(relay: SocketAddr, id: u32) -> Self {
        let mut source = Self::from(relay);
        source.0[18] = 1;
        source.0[19..].copy_from_slice(&id.to_be_bytes());
        source
    }
}

impl From<SocketAddr> for SourceAddress {
    fn from(address: SocketAddr) -> Self {
        let mut source = [0; 23];
        match address.ip().to_canonical() {
            IpAddr::V4(v4) => source[..4].copy_from_slice(&v4.octets()),
            IpAddr::V6(v6) => source[..16].copy_from_slice(&v6.octets()),
        }
        source[16..18].copy_from_slice(&address.port().to_be_bytes());
        Self(source)
    }
}

impl Identity {
    /// Returns a checker of the handshake messages to this node, for a lane (protocol.md 2.4). `seed` is fresh randomness for its cookies.
    pub fn checker(&self, seed: [u8; 32]) -> CookieChecker {
        CookieChecker::new(self.mac1_key, &self.public, seed)
    }
}

/// Checks the MACs of handshake messages to this node, and makes cookies. It keeps no state per sender: a cookie is recomputed to be checked.
pub struct CookieChecker {
    mac1_key: [u8; 32],
    cookie_key: [u8; 32],
    /// Source of all secrets and nonces.
    seed: Zeroizing<[u8; 32]>,
    /// Secret of the current period.
    secret: Zeroizing<[u8; 32]>,
    /// Number of that period, counted in [`LIFETIME`]s.
    period: Option<u64>,
    /// Number of replies so far; makes each nonce unique.
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

    /// Returns true if the sender of an initiation or a response knows this node's public key.
    pub fn is_for_us(&self, message: &[u8]) -> bool {
        let Some((covered, mac1, _)) = split_macs(message) else { return false };
        keyed_mac(&self.mac1_key, covered).ct_eq(mac1).into()
    }

    /// Returns true if mac2 of an initiation or a response proves that its sender received a packet at `source` within the last two minutes.
    pub fn proves_address(&mut self, message: &[u8], source: impl Into<SourceAddress>, now: Time) -> bool {
        let Some((_, _, mac2)) = split_macs(message) else { return false };
        // The common case. A real mac2 is zero with a probability of 2^-128.
        if *mac2 == [0; MAC] {
            return false;
        }
        let cookie = self.cookie(&source.into(), now);
        let covered = &message[..message.len() - MAC];
        keyed_mac(&*cookie, covered).ct_eq(mac2).into()
    }

    /// Returns the cookie reply to `message`, an initiation or a response from `source`; `None` for anything else.
    pub fn reply(
        &mut self,
        message: &[u8],
        source: impl Into<SourceAddress>,
        now: Time,
    ) -> Option<[u8; cookie_reply::LEN]> {
        let (_, mac1, _) = split_macs(message)?;
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

    /// Returns a secret key for hashes over data of unauthenticated senders, so that they cannot choose collisions.
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

    /// Returns a nonce that is as good as a random one: the seed is secret, and each number is used once.
    fn next_nonce(&mut self) -> [u8; 24] {
        self.replies += 1;
        let drawn = hmac(&self.seed, &[b"nonce", &self.replies.to_le_bytes()]);
        let mut nonce = [0; 24];
        nonce.copy_from_slice(&drawn[..24]);
        nonce
    }
}

/// Splits a message into the bytes that mac1 covers, mac1, and mac2.
fn split_macs(message: &[u8]) -> Option<(&[u8], &[u8; MAC], &[u8; MAC])> {
    let (rest, mac2) = message.split_last_chunk()?;
    let (covered, mac1) = rest.split_last_chunk()?;
    Some((covered, mac1, mac2))
}

/// Returns the mac1 of an initiation or a response; `None` if the message is too short.
pub fn mac1(message: &[u8]) -> Option<&[u8; MAC]> {
    split_macs(message).map(|(_, mac1, _)| mac1)
}

/// The cookies received from one peer, one for each path (protocol.md 2.3); at most `MAX_KEPT`.
#[derive(Default)]
pub struct Cookies {
    /// Oldest first.
    kept: Vec<(SourceAddress, Time, Zeroizing<[u8; MAC]>)>,
}

impl Cookies {
    /// Stores the cookie in `reply`, which came from `source` in answer to the message with this mac1. Returns false and changes nothing if the peer did not
    /// make the reply for that message (fault B8).
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

    /// Writes mac2 into an initiation or a response to `destination`, if a cookie from there is still valid.
    pub fn write_mac2(&self, destination: impl Into<SourceAddress>, message: &mut [u8], now: Time) {
        let destination = destination.into();
        let kept = self.kept.iter().find(|(from, at, _)| *from == destination && now < *at + LIFETIME);
        let Some((_, _, cookie)) = kept else { return };
        let Some((covered, field)) = message.split_last_chunk_mut::<MAC>() else { return };
        *field = keyed_mac(&**cookie, covered);
    }
}

#[cfg(test)]
mod tests;

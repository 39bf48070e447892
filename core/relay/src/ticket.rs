//! Relay tickets, signed by the coordinator. A ticket proves membership to a relay, which needs no connection to the coordinator (protocol.md 6.2).
//!
//! ```text
//! version 1                                                   version 2
//! 0     version 1, and 7 zeros                                0     version 2, and 3 zeros
//!                                                             4     seconds for which it is valid (4)
//! 8     the first 8 bytes of BLAKE2s(signer's key): selects one of the trusted keys
//! 16    network (16)
//! 32    node key: the key under which peers reach the member
//! 64    bind key: the key that shows this ticket. It is separate from the node key, so that a relay learns nothing about sessions
//! 96    valid from (8)                                        96    node: its number in the network (8)
//! 104   valid until (8)
//! 112   Ed25519 (RFC 8032) over "taut relay ticket" ‖ bytes 0 to 111
//! ```
//! Times are seconds since 1970; numbers are little-endian. In version 2 a node that changes its key stays the same node, with one binding. In
//! version 1 each key is another member. Release 0.1.0 knows only version 1.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use taut_base::{BadKey, NodeId, PublicKey, decode_base64, decode_base64url, encode_base64, encode_base64url};
use taut_noise::hash;
use zeroize::Zeroizing;

/// Bytes of a ticket.
pub const TICKET_LEN: usize = 176;
const SIGNED: usize = 112;
/// The first bytes of a ticket that names a key, and of one that also names the node.
const VERSION_1: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];
const VERSION_2: [u8; 4] = [2, 0, 0, 0];
/// The latest version that a relay of this program takes.
pub const LATEST_VERSION: u8 = VERSION_2[0];
/// Separates these signatures from others of the same key.
const LABEL: &[u8] = b"taut relay ticket";

/// Tolerance for a relay's clock that is behind the coordinator's, 600 s: hosts without time servers drift by seconds a day.
const CLOCK_TOLERANCE: u64 = 600;
/// Maximum lifetime of a ticket in seconds, whatever its signer: 72 hours (protocol.md 6.2), and one hour for rounding.
pub(crate) const MAX_LIFETIME: u64 = 73 * 3600;

/// A network of a coordinator: 16 bytes that are opaque to a relay. The same bytes from two signers are two networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkTag(pub [u8; 16]);

/// The contents of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The network. Only its members reach each other.
    pub network: NetworkTag,
    /// The member's number in its network, which it keeps when it changes its key. Version 1 does not have it.
    pub id: Option<NodeId>,
    /// The member's WireGuard key.
    pub node: PublicKey,
    /// The key that the member binds with.
    pub bind: PublicKey,
    /// Start of the validity, in seconds since 1970.
    pub not_before: u64,
    /// End of the validity, in seconds since 1970.
    pub expires: u64,
}

/// Label that [`SigningKey::prove`] signs together with a coordinator's key. Both together are shorter than a ticket, so no proof is a valid ticket.
const PROOF_LABEL: &[u8] = b"taut relay token";

/// The coordinator's key for signing tickets.
///
/// ```compile_fail,E0277
/// fn prints<T: std::fmt::Debug>() {}
/// prints::<taut_relay::SigningKey>(); // law 12
/// ```
pub struct SigningKey {
    seed: Zeroizing<[u8; 32]>,
    pair: Ed25519KeyPair,
}

impl SigningKey {
    /// Returns the key of these 32 random bytes. Any bytes make a key, so it is never `None`.
    pub fn from_seed(seed: [u8; 32]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        Some(Self { seed: Zeroizing::new(seed), pair })
    }

    /// Returns the secret bytes, for storage.
    pub fn expose(&self) -> &[u8; 32] {
        &self.seed
    }

    /// Returns the proof that the owner of this key is the coordinator with this key of the control channel ([`VerifyingKey::is_of`]).
    pub fn prove(&self, coordinator: &PublicKey) -> [u8; 64] {
        let mut proof = [0; 64];
        let signature = self.pair.sign(&[PROOF_LABEL, coordinator.as_bytes()].concat());
        for (place, byte) in proof.iter_mut().zip(signature.as_ref()) {
            *place = *byte;
        }
        proof
    }

    /// Returns the public key, by which relays verify tickets.
    pub fn verifying(&self) -> VerifyingKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.pair.public_key().as_ref());
        VerifyingKey(key)
    }
}

/// The public key that verifies tickets. Its text is 44 characters of base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerifyingKey(pub [u8; 32]);

impl VerifyingKey {
    /// Returns true if the owner of this key has proven that it is the coordinator with that key. Without the proof, any client could make a relay believe that
    /// another coordinator's members are removed.
    pub fn is_of(&self, coordinator: &PublicKey, proof: &[u8; 64]) -> bool {
        let message = [PROOF_LABEL, coordinator.as_bytes()].concat();
        UnparsedPublicKey::new(&ED25519, &self.0).verify(&message, proof).is_ok()
    }

    /// Returns the bytes by which a ticket names its signer.
    pub(crate) fn hint(&self) -> [u8; 8] {
        let [a, b, c, d, e, f, g, h, ..] = hash(&[&self.0]);
        [a, b, c, d, e, f, g, h]
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_base64(&self.0))
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for VerifyingKey {
    type Err = BadKey;

    fn from_str(text: &str) -> Result<Self, BadKey> {
        let bytes = decode_base64(text).map_err(|_| BadKey)?;
        bytes.try_into().map(Self).map_err(|_| BadKey)
    }
}

impl Serialize for VerifyingKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for VerifyingKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A ticket as it was received; [`Self::verify`] checks it. Its text is base64url. It is no secret: it is useless without the bind key.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    bytes: [u8; TICKET_LEN],
}

impl Ticket {
    /// Signs a ticket: in version 2 if `terms` have the node's number, otherwise in version 1.
    pub fn sign(terms: &Terms, key: &SigningKey) -> Self {
        let mut bytes = [0; TICKET_LEN];
        let (mut version, mut third) = (VERSION_1, terms.not_before);
        if let Some(id) = terms.id {
            let life = u32::try_from(terms.expires.saturating_sub(terms.not_before)).unwrap_or(u32::MAX);
            version[..4].copy_from_slice(&VERSION_2);
            version[4..].copy_from_slice(&life.to_le_bytes());
            third = id.0;
        }
        let fields: [&[u8]; 7] = [
            &version,
            &key.verifying().hint(),
            &terms.network.0,
            terms.node.as_bytes(),
            terms.bind.as_bytes(),
            &third.to_le_bytes(),
            &terms.expires.to_le_bytes(),
        ];
        for (place, byte) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *place = *byte;
        }
        let signature = key.pair.sign(&[LABEL, &bytes[..SIGNED]].concat());
        bytes[SIGNED..].copy_from_slice(signature.as_ref());
        Self { bytes }
    }

    /// Reads the bytes of a ticket, without verifying it.
    ///
    /// # Errors
    /// [`BadTicket::Malformed`] if the length or the version is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadTicket> {
        let bytes: [u8; TICKET_LEN] = bytes.try_into().map_err(|_| BadTicket::Malformed)?;
        let is_known = bytes[..8] == VERSION_1 || bytes[..4] == VERSION_2;
        if is_known { Ok(Self { bytes }) } else { Err(BadTicket::Malformed) }
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8; TICKET_LEN] {
        &self.bytes
    }

    /// Returns the contents, verified or not.
    pub fn terms(&self) -> Terms {
        let expires = u64::from_le_bytes(self.field(104));
        let third = u64::from_le_bytes(self.field(96));
        let (id, not_before) = if self.bytes[..4] == VERSION_2 {
            let life = u32::from_le_bytes(self.field(4));
            (Some(NodeId(third)), expires.saturating_sub(u64::from(life)))
        } else {
            (None, third)
        };
        Terms {
            network: NetworkTag(self.field(16)),
            id,
            node: PublicKey(self.field(32)),
            bind: PublicKey(self.field(64)),
            not_before,
            expires,
        }
    }

    /// Returns the key of `trusted` that signed the ticket, if it is valid at `wall` (time since 1970).
    ///
    /// # Errors
    /// [`BadTicket`] names the reason.
    pub fn verify<'a>(&self, trusted: &'a [VerifyingKey], wall: Duration) -> Result<&'a VerifyingKey, BadTicket> {
        let hint: [u8; 8] = self.field(8);
        let signer = trusted.iter().find(|key| key.hint() == hint).ok_or(BadTicket::UnknownSigner)?;
        let (signed, signature) = self.bytes.split_at(SIGNED);
        let message = [LABEL, signed].concat();
        UnparsedPublicKey::new(&ED25519, &signer.0).verify(&message, signature).map_err(|_| BadTicket::NotSigned)?;
        let (terms, now) = (self.terms(), wall.as_secs());
        if terms.expires.saturating_sub(terms.not_before) > MAX_LIFETIME || terms.expires < terms.not_before {
            Err(BadTicket::Malformed)
        } else if now.saturating_add(CLOCK_TOLERANCE) < terms.not_before {
            Err(BadTicket::NotYet)
        } else if now >= terms.expires {
            Err(BadTicket::Expired)
        } else {
            Ok(signer)
        }
    }

    fn field<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode_base64url(&self.bytes))
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.terms()).finish()
    }
}

impl FromStr for Ticket {
    type Err = BadTicket;

    fn from_str(text: &str) -> Result<Self, BadTicket> {
        Self::from_bytes(&decode_base64url(text).map_err(|_| BadTicket::Malformed)?)
    }
}

impl Serialize for Ticket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ticket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The reason why a ticket is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadTicket {
    /// The length, the version or the lifetime is wrong.
    Malformed,
    /// The signer's key is not trusted by this relay.
    UnknownSigner,
    /// The signature is wrong.
    NotSigned,
    /// The validity begins later, or the relay's clock is behind.
    NotYet,
    /// The ticket has expired, or the relay's clock is ahead.
    Expired,
}

impl fmt::Display for BadTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "a malformed ticket, or one of an unknown version; the coordinator issues a valid one",
            Self::UnknownSigner => {
                "a ticket of a coordinator that this relay does not trust; start the relay with its --trust KEY"
            }
            Self::NotSigned => "a ticket that was altered, or never signed",
            Self::NotYet => "a ticket that is not valid yet; compare the clocks of the relay and the coordinator",
            Self::Expired => "an expired ticket; the coordinator issues a new one when the node reaches it",
        })
    }
}

impl Error for BadTicket {}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> SigningKey {
        SigningKey::from_seed([number; 32]).unwrap()
    }

    fn terms() -> Terms {
        let (node, bind) = (PublicKey([7; 32]), PublicKey([8; 32]));
        Terms { network: NetworkTag([9; 16]), id: None, node, bind, not_before: 10_000, expires: 10_000 + 48 * 3600 }
    }

    /// The same, for version 2.
    fn numbered() -> Terms {
        Terms { id: Some(NodeId(0x0123_4567_89ab_cdef)), ..terms() }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_ticket_has_the_terms_that_were_signed() {
        let trusted = [key(2).verifying(), key(1).verifying()];
        for terms in [terms(), numbered()] {
            let ticket = Ticket::sign(&terms, &key(1));
            assert_eq!(ticket.terms(), terms);
            assert_eq!(ticket.to_string().parse::<Ticket>(), Ok(ticket.clone()));
            assert_eq!(ticket.verify(&trusted, at(20_000)), Ok(&trusted[1]));
        }
        assert_eq!(trusted[0].to_string().parse(), Ok(trusted[0]));
    }

    #[test]
    fn fault_m7_tickets_hold_in_2038_in_2106_and_later() {
        let trusted = [key(1).verifying()];
        for end in [1 << 31, 1 << 32, 1 << 40] {
            // The number of seconds in 31 or 32 bits ends while the ticket is valid.
            let (not_before, expires) = (end - 24 * 3600, end + 24 * 3600);
            for terms in [terms(), numbered()].map(|terms| Terms { not_before, expires, ..terms }) {
                let ticket = Ticket::sign(&terms, &key(1));
                assert_eq!(ticket.terms(), terms);
                for good in [not_before, end - 1, end, end + 1, expires - 1] {
                    assert_eq!(ticket.verify(&trusted, at(good)), Ok(&trusted[0]), "at {good}");
                }
                assert_eq!(ticket.verify(&trusted, at(expires)), Err(BadTicket::Expired));
                // A clock that wrapped is one that is far behind.
                assert_eq!(ticket.verify(&trusted, at(0)), Err(BadTicket::NotYet));
            }
        }
    }

    /// A relay of release 0.1.0 compares the first 8 bytes with those of version 1, and refuses all others.
    #[test]
    fn a_ticket_of_version_1_has_the_bytes_that_release_0_1_0_knows() {
        assert_eq!(Ticket::sign(&terms(), &key(1)).as_bytes()[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Ticket::sign(&numbered(), &key(1)).as_bytes()[..8], [2, 0, 0, 0, 0, 0xa3, 2, 0]);
        for first in [0, 3, 255] {
            let mut bytes = *Ticket::sign(&terms(), &key(1)).as_bytes();
            bytes[0] = first;
            assert_eq!(Ticket::from_bytes(&bytes), Err(BadTicket::Malformed));
        }
    }

    #[test]
    fn fault_f3_only_what_a_trusted_key_signed_holds() {
        let trusted = [key(1).verifying()];
        for ticket in [Ticket::sign(&terms(), &key(1)), Ticket::sign(&numbered(), &key(1))] {
            assert_eq!(ticket.verify(&[key(2).verifying()], at(20_000)), Err(BadTicket::UnknownSigner));
            for bit in 0..TICKET_LEN * 8 {
                let mut bytes = *ticket.as_bytes();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let verdict =
                    Ticket::from_bytes(&bytes).and_then(|ticket| ticket.verify(&trusted, at(20_000)).copied());
                assert!(verdict.is_err(), "bit {bit} flipped");
            }
        }
    }

    #[test]
    fn fault_c7_old_tickets_are_refused() {
        let trusted = [key(1).verifying()];
        let ticket = Ticket::sign(&terms(), &key(1));
        let verdict = |seconds| ticket.verify(&trusted, at(seconds)).map(|_| ());
        assert_eq!(verdict(10_000 - 601), Err(BadTicket::NotYet));
        assert_eq!(verdict(10_000 - 600), Ok(()));
        assert_eq!(verdict(terms().expires - 1), Ok(()));
        assert_eq!(verdict(terms().expires), Err(BadTicket::Expired));
        assert_eq!(verdict(u64::MAX), Err(BadTicket::Expired));
        for terms in [terms(), numbered()] {
            let for_ever = Ticket::sign(&Terms { expires: u64::MAX, ..terms }, &key(1));
            assert!(for_ever.verify(&trusted, at(20_000)).is_err());
        }
    }

    #[test]
    fn fault_k2_a_kept_ticket_that_was_damaged_is_no_ticket() {
        let text = Ticket::sign(&terms(), &key(1)).to_string();
        for cut in 0..text.len() {
            assert_eq!(text[..cut].parse::<Ticket>(), Err(BadTicket::Malformed), "cut to {cut}");
        }
        assert_eq!("".parse::<Ticket>(), Err(BadTicket::Malformed));
    }
}

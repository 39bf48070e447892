//! The static keys of this node and of its peers, with the keys that handshakes and cookies derive from them.

use taut_base::{PresharedKey, PrivateKey, PublicKey};
use taut_noise::{LowOrderKey, dh, hash, keyed_mac, public_key};
use zeroize::Zeroizing;

/// `Label-Mac1` of the paper, section 5.4.
const LABEL_MAC1: &[u8] = b"mac1----";

/// `Label-Cookie` of the paper, section 5.4.7.
const LABEL_COOKIE: &[u8] = b"cookie--";

/// This node's WireGuard key and the keys derived from it.
pub struct Identity {
    pub(crate) private: PrivateKey,
    pub(crate) public: PublicKey,
    pub(crate) mac1_key: [u8; 32],
}

impl Identity {
    /// Derives the public keys from the private key.
    pub fn new(private: PrivateKey) -> Self {
        let public = public_key(&private);
        Self { private, public, mac1_key: mac1_key(&public) }
    }

    /// Returns this node's public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }
}

/// A peer's WireGuard key and the keys derived from it and this node's.
pub struct Remote {
    pub(crate) public: PublicKey,
    pub(crate) static_secret: Zeroizing<[u8; 32]>,
    pub(crate) preshared: PresharedKey,
    pub(crate) mac1_key: [u8; 32],
    cookie_key: [u8; 32],
}

impl Remote {
    /// Computes the keys that every handshake with this peer needs.
    ///
    /// # Errors
    /// If the peer's key is a point of low order.
    pub fn new(identity: &Identity, public: PublicKey, preshared: PresharedKey) -> Result<Self, LowOrderKey> {
        let static_secret = dh(&identity.private, &public)?;
        Ok(Self { public, static_secret, preshared, mac1_key: mac1_key(&public), cookie_key: cookie_key(&public) })
    }

    /// Returns the peer's public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Returns the key that the peer seals cookies with.
    pub(crate) fn cookie_key(&self) -> &[u8; 32] {
        &self.cookie_key
    }

    /// Writes mac1 into a message to this peer that ends with both MACs: a handshake message, or the bind message of a relay's client.
    pub fn write_mac1(&self, message: &mut [u8]) {
        if let Some(start) = message.len().checked_sub(32) {
            write_mac1(&self.mac1_key, message, start..start + 16);
        }
    }

    /// Returns the preshared key of this peer's handshakes.
    pub fn preshared(&self) -> &PresharedKey {
        &self.preshared
    }

    /// Replaces the preshared key for later handshakes. Existing sessions do not change.
    pub fn set_preshared(&mut self, preshared: PresharedKey) {
        self.preshared = preshared;
    }
}

fn mac1_key(public: &PublicKey) -> [u8; 32] {
    hash(&[LABEL_MAC1, public.as_bytes()])
}

pub(crate) fn write_mac1(mac1_key: &[u8; 32], message: &mut [u8], field: std::ops::Range<usize>) {
    let mac = keyed_mac(mac1_key, &message[..field.start]);
    message[field].copy_from_slice(&mac);
}

pub(crate) fn cookie_key(public: &PublicKey) -> [u8; 32] {
    hash(&[LABEL_COOKIE, public.as_bytes()])
}

//! Public-key cryptography that a node needs seldom: the signatures of certificates and releases, and key agreement with TLS servers that lack X25519.
//!
//! *ring* does the same with code and tables for each curve and processor, more than 300 kB in a node. What happens once per connection may take milliseconds, so here
//! one arithmetic of a hundred lines serves every curve and RSA: `modulus` multiplies, `field` is its use with numbers of up to 384 bits, and each scheme
//! follows its standard on top of it.
//!
//! - [`Algorithm::verify`] checks a signature. Everything in it is public, so it may take more or less time for other keys and messages;
//! - [`Agreement`] holds a secret for one key agreement. Its time does not depend on the secret.
//!
//! The tests run Project Wycheproof's vectors, and the same inputs through *ring*.

mod agreement;
mod curve;
mod der;
mod ecdsa;
mod ed25519;
mod field;
mod modulus;
mod rsa;

pub use agreement::{Agreement, Group};
use ring::digest::{self, Digest};

/// A hash function of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// Returns the hash of the parts of a message.
    fn of(self, parts: &[&[u8]]) -> Digest {
        let mut context = digest::Context::new(match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        });
        parts.iter().for_each(|part| context.update(part));
        context.finish()
    }
}

/// An algorithm of signatures. Keys are what a certificate has as `subjectPublicKey` (RFC 5280 section 4.1.2.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// ECDSA on the curve P-256 (FIPS 186-5 section 6.4.2). The key is a point without compression (SEC 1 section 2.3.3), the signature is DER (RFC 3279 section 2.2.3).
    EcdsaP256(Hash),
    /// ECDSA on the curve P-384.
    EcdsaP384(Hash),
    /// RSA with the padding of PKCS #1 version 1.5 (RFC 8017 section 8.2.2), with 2,048 to 8,192 bits. The key is DER (RFC 8017 appendix A.1.1).
    RsaPkcs1(Hash),
    /// RSA with the padding PSS (RFC 8017 section 8.1.2), a salt as long as the hash, and the same hash in its mask.
    RsaPss(Hash),
    /// Ed25519 (RFC 8032 section 5.1.7). The key has 32 bytes and the signature 64.
    Ed25519,
}

impl Algorithm {
    /// Returns true if `signature` over `message` is of the owner of `key`. A key or a signature that is malformed is false.
    pub fn verify(self, key: &[u8], message: &[u8], signature: &[u8]) -> bool {
        let valid = match self {
            Self::EcdsaP256(hash) => ecdsa::verify(&curve::p256(), key, hash.of(&[message]).as_ref(), signature),
            Self::EcdsaP384(hash) => ecdsa::verify(&curve::p384(), key, hash.of(&[message]).as_ref(), signature),
            Self::RsaPkcs1(hash) => rsa::verify_pkcs1(hash, key, message, signature),
            Self::RsaPss(hash) => rsa::verify_pss(hash, key, message, signature),
            Self::Ed25519 => ed25519::verify(key, message, signature),
        };
        valid.is_some()
    }
}

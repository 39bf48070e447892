//! AEAD by the crate `taut-aegis`, which has one cipher.

use taut_aegis::Aegis256X4;
use zeroize::Zeroizing;

use super::{Aead, Cipher, NONCE, TAG};

/// A key of AEGIS-256X4, with the implementation for this processor.
pub struct Aegis {
    by: Aegis256X4,
    key: Zeroizing<[u8; taut_aegis::KEY]>,
}

impl Aegis {
    /// Returns true if this processor has vector AES instructions. Without them AES-256-GCM is faster.
    pub fn is_fast() -> bool {
        Aegis256X4::detect().is_fast()
    }
}

/// Returns the nonce, with zeros behind it.
fn full(nonce: [u8; NONCE]) -> [u8; taut_aegis::NONCE] {
    let mut bytes = [0; taut_aegis::NONCE];
    bytes[..NONCE].copy_from_slice(&nonce);
    bytes
}

impl Aead for Aegis {
    const CIPHERS: &'static [Cipher] = &[Cipher::Aegis256X4];

    fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        assert!(Self::CIPHERS.contains(&cipher), "the library has one cipher");
        Self { by: Aegis256X4::detect(), key: Zeroizing::new(*key) }
    }

    fn seal_in_place(&self, nonce: [u8; NONCE], associated: &[u8], data: &mut [u8]) -> [u8; TAG] {
        self.by.seal(&self.key, &full(nonce), associated, data)
    }

    fn open_in_place<'a>(&self, nonce: [u8; NONCE], associated: &[u8], sealed: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let (data, tag) = sealed.split_last_chunk_mut::<TAG>()?;
        self.by.open(&self.key, &full(nonce), associated, data, tag).then_some(data)
    }
}

//! Sealing of what leaves the coordinator's memory and is read by it alone.

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::super::random;

/// A key for one purpose.
pub(super) struct SealingKey(Zeroizing<[u8; 32]>);

impl SealingKey {
    /// Derives the key for a purpose from a secret.
    pub(super) fn new(purpose: &[u8], secret: &[u8]) -> Self {
        Self(Zeroizing::new(taut_noise::hash(&[&taut_noise::hash(&[purpose]), secret])))
    }

    /// Seals a text for a context, which must be the same when it is opened. The nonce comes first.
    pub(super) fn seal(&self, context: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        let (nonce, mut sealed): ([u8; 12], _) = (random(), text.to_vec());
        let unique = Nonce::assume_unique_for_key(nonce);
        self.aead()?.seal_in_place_append_tag(unique, Aad::from(context), &mut sealed).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    /// Opens a sealed text; `None` if another key or context sealed it, or it was changed.
    pub(super) fn open(&self, context: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = sealed.split_first_chunk::<12>()?;
        let mut sealed = Zeroizing::new(sealed.to_vec());
        let length = self
            .aead()?
            .open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(context), &mut sealed)
            .ok()?
            .len();
        sealed.truncate(length);
        Some(sealed)
    }

    fn aead(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.0[..]).ok().map(LessSafeKey::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_purpose_and_context_open() {
        let key = SealingKey::new(b"purpose", b"secret");
        let sealed = key.seal(b"7", b"text").unwrap();
        assert_eq!(key.open(b"7", &sealed).unwrap().as_slice(), b"text");
        assert!(key.open(b"8", &sealed).is_none());
        assert!(SealingKey::new(b"purpose", b"other").open(b"7", &sealed).is_none());
        assert!(SealingKey::new(b"purposes", b"ecret").open(b"7", &sealed).is_none());
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(key.open(b"7", &changed).is_none(), "{place}");
        }
    }
}

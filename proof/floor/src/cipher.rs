//! The cipher that seals packets, or none.

use taut_noise::AeadKey;
use taut_wire::wireguard::TAG;

/// The fixed key of both directions.
const KEY: [u8; 32] = [7; 32];

/// The cipher of both ends. Without a cipher, packets are sent unsealed with an empty tag, and only the cost of moving bytes is left.
pub(crate) struct FloorCipher(Option<AeadKey>);

impl FloorCipher {
    /// Returns the cipher with this name on the command line: `aes` is AES-256-GCM.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "aes" => Some(Self(Some(AeadKey::aes_256_gcm(&KEY)))),
            "none" => Some(Self(None)),
            _ => None,
        }
    }

    /// Seals `plain` in place, and returns the tag that follows it.
    pub(crate) fn seal(&self, counter: u64, plain: &mut [u8]) -> [u8; TAG] {
        self.0.as_ref().map_or([0; TAG], |key| key.seal(counter, &[], plain))
    }

    /// Opens `sealed`, which includes the tag, in place. Returns false if it was not made by this cipher.
    pub(crate) fn open(&self, counter: u64, sealed: &mut [u8]) -> bool {
        self.0.as_ref().is_none_or(|key| key.open(counter, &[], sealed).is_some())
    }
}

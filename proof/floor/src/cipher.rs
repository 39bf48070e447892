//! What seals a packet, or that nothing does.

use taut_noise::AeadKey;
use taut_wire::wireguard::TAG;

/// The one key, of both directions and all times.
const KEY: [u8; 32] = [7; 32];

/// The cipher of both ends. With none, bytes go as they are, with room for a tag that says nothing: what is left is the cost of moving them.
pub(crate) struct Cipher(Option<AeadKey>);

impl Cipher {
    /// By its word on the command line: `aes` is AES-256-GCM.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "aes" => Some(Self(Some(AeadKey::aes_256_gcm(&KEY)))),
            "none" => Some(Self(None)),
            _ => None,
        }
    }

    /// Seals `plain` where it stands; the tag belongs behind it.
    pub(crate) fn seal(&self, counter: u64, plain: &mut [u8]) -> [u8; TAG] {
        self.0.as_ref().map_or([0; TAG], |key| key.seal(counter, &[], plain))
    }

    /// Opens `sealed`, tag included, where it stands; false when it was not made by this cipher.
    pub(crate) fn open(&self, counter: u64, sealed: &mut [u8]) -> bool {
        self.0.as_ref().is_none_or(|key| key.open(counter, &[], sealed).is_some())
    }
}

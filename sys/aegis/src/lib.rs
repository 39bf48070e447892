//! AEGIS-256X4 (RFC 10032): an AEAD made of AES rounds, with a key of 256 bits. A processor with vector AES instructions seals a packet with it in less
//! than half the time of AES-256-GCM.
//!
//! The algorithm stands once, in `state`, over rows of four AES blocks. A row is one register of 512 bits, two of 256, or portable code; the portable code
//! serves processors without vector AES instructions, and in tests it is the reference for the others. It is slow, so a caller asks [`Aegis256X4::is_fast`]
//! before it prefers this AEAD to another one. No implementation has tables or branches that depend on keys or data.
//!
//! This crate is computation without input, output or memory of its own; it stands in sys because instructions of one processor family need `unsafe`.

mod portable;
mod state;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

/// Length of a key in bytes.
pub const KEY: usize = 32;
/// Length of a nonce in bytes.
pub const NONCE: usize = 32;
/// Length of a tag in bytes.
pub const TAG: usize = 16;

/// The inputs of one message beside its text. A nonce must be used once per key.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    key: &'a [u8; KEY],
    nonce: &'a [u8; NONCE],
    associated: &'a [u8],
}

/// An implementation of AEGIS-256X4 that this processor can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aegis256X4(Implementation);

/// A value other than `Portable` exists only after the instructions were detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Implementation {
    /// VAES on registers of 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// VAES on registers of 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Aegis256X4 {
    /// Returns the fastest implementation for this processor.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if x86::has_avx512() {
            return Self(Implementation::Avx512);
        } else if x86::has_avx2() {
            return Self(Implementation::Avx2);
        }
        Self(Implementation::Portable)
    }

    /// Returns true if the implementation uses vector AES instructions. Without them AES-256-GCM is faster.
    pub fn is_fast(self) -> bool {
        self.0 != Implementation::Portable
    }

    /// Encrypts `data` in place and returns the tag. The caller must use each nonce once per key.
    pub fn seal(self, key: &[u8; KEY], nonce: &[u8; NONCE], associated: &[u8], data: &mut [u8]) -> [u8; TAG] {
        let inputs = Inputs { key, nonce, associated };
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Implementation::Avx512 => x86::seal_avx512(inputs, data),
            #[cfg(target_arch = "x86_64")]
            Implementation::Avx2 => x86::seal_avx2(inputs, data),
            Implementation::Portable => state::seal::<portable::Row>(inputs, data),
        }
    }

    /// Decrypts `data` in place. Returns false, and leaves zeros in `data`, if `tag` was not made for it with this key, nonce and associated data.
    #[must_use]
    pub fn open(
        self,
        key: &[u8; KEY],
        nonce: &[u8; NONCE],
        associated: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG],
    ) -> bool {
        let inputs = Inputs { key, nonce, associated };
        let computed = match self.0 {
            #[cfg(target_arch = "x86_64")]
            Implementation::Avx512 => x86::open_avx512(inputs, data),
            #[cfg(target_arch = "x86_64")]
            Implementation::Avx2 => x86::open_avx2(inputs, data),
            Implementation::Portable => state::open::<portable::Row>(inputs, data),
        };
        // One comparison of 128 bits: its time does not tell how many bytes are right.
        let authentic = u128::from_ne_bytes(computed) ^ u128::from_ne_bytes(*tag) == 0;
        if !authentic {
            // RFC 10032 forbids to release what is not authentic.
            data.fill(0);
        }
        authentic
    }
}

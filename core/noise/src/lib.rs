//! Noise: the building blocks of WireGuard's handshake, and the IK handshake of the control channel.
//!
//! One set of primitives (X25519, ChaCha20-Poly1305, BLAKE2s) and one [`Symmetric`] state serve two handshakes: `Noise_IKpsk2` of the WireGuard paper in
//! `taut-tunnel`, and `Noise_IK` between a node's machine key and the coordinator's pinned key in [`ik`] (protocol.md 8). Pure: ephemeral keys are
//! arguments. The tests run [`ik`] against the crate `snow`.

mod aead;
pub mod ik;
mod primitives;
mod symmetric;
mod transport;
mod xchacha;

#[cfg(feature = "aws-lc")]
pub use aead::AwsLc;
pub use aead::{Aead, AeadKey, Aegis, Cipher, NONCE, Ring, TAG};
pub use primitives::{LowOrderKey, dh, hash, hmac, keyed_mac, public_key};
pub use symmetric::{DecryptError, Symmetric};
pub use transport::{MAX_MESSAGE, Transport, TransportError};
pub use xchacha::{xopen, xseal};

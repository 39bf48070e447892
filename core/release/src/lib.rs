//! The signed list of a release: what a node reads to learn of a newer version, and how it knows that nobody changed it.
//!
//! - [`Release::open`] checks the signature over the list and reads it; nothing of an unsigned list is used;
//! - [`Version`] has the order of versions, also of those before a release;
//! - [`ReleaseKey`] is the public key that signs;
//! - [`Checksum`] is the SHA-256 of a downloaded program.
//!
//! Guarantees: a list that is accepted has bounded parts, and names of files without a folder. Whether a release may be installed is decided by its reader
//! (apps/taut), which knows what runs and what it saw before. The form of the list: docs/spec/release.md.

mod key;
mod list;
mod version;

pub use key::{Checksum, ReleaseKey, SIGNATURE};
pub use list::{BadRelease, MAX_LIST, Program, Release};
pub use version::Version;

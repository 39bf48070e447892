//! Readers and writers of big-endian fields that never panic.
//!
//! The views check lengths once, at their start. These helpers keep the crate free of panics in any case: out of range, a read returns zero and a write does
//! nothing.

/// Returns the `N` bytes at `at`; `None` out of range.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

/// Returns the byte at `at`.
pub(crate) fn u8_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Returns the big-endian 16-bit field at `at`.
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    array(bytes, at).map_or(0, |field| u16::from_be_bytes(*field))
}

/// Returns the big-endian 32-bit field at `at`.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    array(bytes, at).map_or(0, |field| u32::from_be_bytes(*field))
}

/// Writes one byte at `at`.
pub(crate) fn put8(bytes: &mut [u8], at: usize, value: u8) {
    if let Some(field) = bytes.get_mut(at) {
        *field = value;
    }
}

/// Writes a big-endian 16-bit field at `at`.
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    put(bytes, at, value.to_be_bytes());
}

/// Writes a big-endian 32-bit field at `at`.
pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    put(bytes, at, value.to_be_bytes());
}

/// Writes `value` at `at`.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    if let Some(field) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *field = value;
    }
}

/// Returns a length as 16 bits. Earlier checks limit it to 65,535.
#[expect(clippy::cast_possible_truncation, reason = "callers pass lengths of packets of at most 65,535 bytes")]
pub(crate) const fn low16(length: usize) -> u16 {
    length as u16
}

//! Hash maps whose keys are small numbers that this node chooses.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by numbers of our own choice, such as peer ids and receiver indices. Nobody outside can choose them, so a multiplication spreads them well
/// enough and no keyed hash is needed.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// The hasher of a [`NumberMap`].
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // The odd number next to 2^64 divided by the golden ratio (Fibonacci hashing). The rotation brings the well-mixed high bits to where the map looks
        // for its buckets; the map also uses the top bits.
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

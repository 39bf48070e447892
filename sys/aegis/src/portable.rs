//! Rows without special instructions. An AES round by arithmetic on eight bytes at once instead of by tables, because the time of a table depends on the
//! index, which is secret.

use core::array;

use crate::state::{BLOCK, ROW};

/// Bytes of a word of arithmetic.
const WORD: usize = 8;
/// One bit in each byte of a word.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Four AES blocks as bytes.
#[derive(Clone, Copy)]
pub(crate) struct Row([u8; ROW]);

// Nothing of it is inlined: the round takes nearly all of the time, and the state has dozens of each of these steps, which would be 16 kB of code.
impl crate::state::Row for Row {
    #[inline(never)]
    fn load(bytes: &[u8; ROW]) -> Self {
        Self(*bytes)
    }

    #[inline(never)]
    fn store(self, bytes: &mut [u8; ROW]) {
        *bytes = self.0;
    }

    #[inline(never)]
    fn repeat(block: &[u8; BLOCK]) -> Self {
        Self(array::from_fn(|place| block[place % BLOCK]))
    }

    #[inline(never)]
    fn xor(self, other: Self) -> Self {
        Self(array::from_fn(|place| self.0[place] ^ other.0[place]))
    }

    #[inline(never)]
    fn xor3(self, second: Self, third: Self) -> Self {
        self.xor(second).xor(third)
    }

    #[inline(never)]
    fn and(self, other: Self) -> Self {
        Self(array::from_fn(|place| self.0[place] & other.0[place]))
    }

    #[inline(never)]
    fn round(self, key: Self) -> Self {
        // Byte 4 · column + row of a block comes from the column that is `row` columns further (ShiftRows).
        let shifted: [u8; ROW] = array::from_fn(|place| {
            let (block, column, row) = (place / BLOCK, place / 4 % 4, place % 4);
            self.0[BLOCK * block + 4 * ((column + row) % 4) + row]
        });
        let mut substituted = [0; ROW];
        for (out, word) in substituted.chunks_exact_mut(WORD).zip(shifted.as_chunks::<WORD>().0) {
            out.copy_from_slice(&substitute(u64::from_le_bytes(*word)).to_le_bytes());
        }
        // MixColumns, and the round key.
        Self(array::from_fn(|place| {
            let column = 4 * (place / 4);
            let at = |further: usize| substituted[column + (place + further) % 4];
            double(at(0)) ^ double(at(1)) ^ at(1) ^ at(2) ^ at(3) ^ key.0[place]
        }))
    }

    #[inline(never)]
    fn fold(self) -> [u8; BLOCK] {
        array::from_fn(|place| (0..ROW / BLOCK).fold(0, |sum, block| sum ^ self.0[BLOCK * block + place]))
    }
}

/// Returns twice the byte in AES's field of 256 elements.
fn double(byte: u8) -> u8 {
    (byte << 1) ^ ((byte >> 7) * 0x1b)
}

/// Returns the products of the bytes of two words in AES's field.
fn multiply(mut factor: u64, other: u64) -> u64 {
    let mut product = 0;
    for bit in 0..8 {
        // 0xff in each byte of `other` that has this bit.
        product ^= factor & ((other >> bit & ONES) * 0xff);
        let high = factor >> 7 & ONES;
        factor = ((factor & !(ONES << 7)) << 1) ^ (high * 0x1b);
    }
    product
}

/// Returns AES's substitution of each byte: its inverse, which is its power of 254, and then an affine map.
fn substitute(word: u64) -> u64 {
    let square = |word| multiply(word, word);
    let two = square(word);
    let three = multiply(two, word);
    let twelve = square(square(three));
    let fifteen = multiply(twelve, three);
    let two_hundred_forty = square(square(square(square(fifteen))));
    let inverse = multiply(multiply(two_hundred_forty, twelve), two);
    let rotated = |by: u32| {
        let low = ONES * (0xff >> (8 - by));
        inverse << by & !low | inverse >> (8 - by) & low
    };
    inverse ^ rotated(1) ^ rotated(2) ^ rotated(3) ^ rotated(4) ^ (ONES * 0x63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_substitutions() {
        // FIPS 197, figure 7: the first and last bytes of the table, and one from its middle.
        let bytes = [0x00, 0x01, 0x02, 0x53, 0x7f, 0x80, 0xfe, 0xff];
        assert_eq!(
            substitute(u64::from_le_bytes(bytes)).to_le_bytes(),
            [0x63, 0x7c, 0x77, 0xed, 0xd2, 0xcd, 0xbb, 0x16]
        );
    }
}

//! Arithmetic modulo an odd number, in Montgomery's form: a number x is kept as x·R mod n, where R is the power of 2³² with as many words as n.
//!
//! Numbers are slices of 32-bit words, the lowest first, as long as the modulus. The time of every operation depends on that length alone.

/// An odd modulus.
pub(crate) struct Modulus {
    words: Vec<u32>,
    /// −1/n mod 2³².
    inverse: u32,
    /// R² mod n: a product with it brings a number into Montgomery's form.
    square: Vec<u32>,
}

impl Modulus {
    /// Reads a modulus from big-endian bytes. `None` if it is even or below 3.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let start = bytes.iter().position(|byte| *byte != 0)?;
        let words = words(&bytes[start..]);
        let lowest = *words.first()?;
        if lowest % 2 == 0 || words == [1] {
            return None;
        }
        // Newton's method: an odd number is its own inverse modulo 8, and each step doubles the bits that are right.
        let mut inverse = lowest;
        for _ in 0..4 {
            inverse = inverse.wrapping_mul(2_u32.wrapping_sub(lowest.wrapping_mul(inverse)));
        }
        let mut square = vec![0; words.len()];
        square[0] = 1;
        let mut modulus = Self { words, inverse: inverse.wrapping_neg(), square: vec![] };
        for _ in 0..64 * modulus.words.len() {
            modulus.double(&mut square);
        }
        modulus.square = square;
        Some(modulus)
    }

    /// Returns the number of words.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns the number of bits.
    pub(crate) fn bits(&self) -> usize {
        let zeros = self.words.last().map_or(0, |word| word.leading_zeros());
        32 * self.len() - zeros as usize
    }

    /// Sets `out` to `a`·`b`/R: the product of two numbers in Montgomery's form.
    pub(crate) fn multiply(&self, out: &mut [u32], a: &[u32], b: &[u32]) {
        out.fill(0);
        // The sum is below 2n, which may take one bit more than `out` has.
        let mut top = 0;
        for word in a {
            let carry = add_product(out, *word, b);
            let sum = u64::from(top) + u64::from(carry);
            // A multiple of n that makes the lowest word zero, so that the sum can move down by a word.
            let factor = out[0].wrapping_mul(self.inverse);
            let carry = add_product(out, factor, &self.words);
            let sum = sum + u64::from(carry);
            out.copy_within(1.., 0);
            out[self.len() - 1] = sum as u32;
            top = (sum >> 32) as u32;
        }
        self.reduce(out, top);
    }

    /// Adds `b` to `a`.
    pub(crate) fn add(&self, a: &mut [u32], b: &[u32]) {
        let mut carry = 0;
        for (word, other) in a.iter_mut().zip(b) {
            let sum = u64::from(*word) + u64::from(*other) + carry;
            *word = sum as u32;
            carry = sum >> 32;
        }
        self.reduce(a, carry as u32);
    }

    /// Doubles `a`.
    pub(crate) fn double(&self, a: &mut [u32]) {
        let mut carry = 0;
        for word in &mut *a {
            (*word, carry) = ((*word << 1) | carry, *word >> 31);
        }
        self.reduce(a, carry);
    }

    /// Subtracts `b` from `a`.
    pub(crate) fn subtract(&self, a: &mut [u32], b: &[u32]) {
        let borrow = subtract(a, b);
        self.add_if(a, borrow);
    }

    /// Brings a number of less than n into Montgomery's form.
    pub(crate) fn enter(&self, out: &mut [u32], number: &[u32]) {
        self.multiply(out, number, &self.square);
    }

    /// Sets `out` to the number that `a` is Montgomery's form of.
    pub(crate) fn leave(&self, out: &mut [u32], a: &[u32]) {
        let mut one = vec![0; self.len()];
        one[0] = 1;
        self.multiply(out, a, &one);
    }

    /// Returns true if a number of this length is less than n.
    pub(crate) fn is_above(&self, number: &[u32]) -> bool {
        subtract(&mut number.to_vec(), &self.words) == 1
    }

    /// Subtracts n once if `a`, with `top` as one word more, is not less than n.
    fn reduce(&self, a: &mut [u32], top: u32) {
        let borrow = subtract(a, &self.words);
        self.add_if(a, borrow & !top);
    }

    /// Adds n if `bit` is 1, and nothing if it is 0.
    fn add_if(&self, a: &mut [u32], bit: u32) {
        let mask = bit.wrapping_neg();
        let mut carry = 0;
        for (word, other) in a.iter_mut().zip(&self.words) {
            let sum = u64::from(*word) + u64::from(other & mask) + carry;
            *word = sum as u32;
            carry = sum >> 32;
        }
    }
}

/// Adds `factor`·`b` to `out` and returns the carry.
fn add_product(out: &mut [u32], factor: u32, b: &[u32]) -> u32 {
    let mut carry = 0;
    for (word, other) in out.iter_mut().zip(b) {
        let sum = u64::from(*word) + u64::from(factor) * u64::from(*other) + carry;
        *word = sum as u32;
        carry = sum >> 32;
    }
    carry as u32
}

/// Subtracts `b` from `a` and returns the borrow.
fn subtract(a: &mut [u32], b: &[u32]) -> u32 {
    let mut borrow = 0;
    for (word, other) in a.iter_mut().zip(b) {
        let difference = u64::from(*word).wrapping_sub(u64::from(*other)).wrapping_sub(borrow);
        *word = difference as u32;
        borrow = difference >> 63;
    }
    borrow as u32
}

/// Returns the words of a big-endian number.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| (word << 8) | u32::from(*byte));
    bytes.rchunks(4).map(word).collect()
}

/// Writes a number as big-endian bytes, as many as there is room for.
pub(crate) fn write(number: &[u32], out: &mut [u8]) {
    let bytes = number.iter().flat_map(|word| word.to_le_bytes());
    for (place, byte) in out.iter_mut().rev().zip(bytes) {
        *place = byte;
    }
}

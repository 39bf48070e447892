//! Numbers of up to 384 bits modulo a prime: the coordinates of points, and what multiplies points.

use crate::modulus::{Modulus, words, write};

/// Words of 384 bits.
const WORDS: usize = 12;

/// A number modulo the prime of a [`Field`], in Montgomery's form. Words that a smaller prime does not have are zero.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Element([u32; WORDS]);

impl Element {
    pub(crate) const ZERO: Self = Self([0; WORDS]);

    /// Returns `other` if `bit` is 1 and this one if it is 0, in the same time.
    pub(crate) fn or(mut self, other: &Self, bit: u32) -> Self {
        let mask = bit.wrapping_neg();
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word ^= (*word ^ other) & mask;
        }
        self
    }
}

/// A prime and its arithmetic.
pub(crate) struct Field {
    modulus: Modulus,
    /// The prime less two, with which Fermat's theorem inverts.
    exponent: Vec<u8>,
}

impl Field {
    /// Returns the field of a prime, given in big-endian bytes.
    pub(crate) fn new(prime: &[u8]) -> Self {
        let mut exponent = prime.to_vec();
        if let Some(last) = exponent.last_mut() {
            // No prime here ends with a byte below two.
            *last -= 2;
        }
        Self { modulus: Modulus::new(prime).expect("the primes are constants, and odd"), exponent }
    }

    /// Reads a big-endian number. `None` unless it is less than the prime.
    pub(crate) fn read(&self, bytes: &[u8]) -> Option<Element> {
        let number = words(bytes);
        let is_less = number.len() == self.modulus.len() && self.modulus.is_above(&number);
        is_less.then(|| self.enter(&number))
    }

    /// Returns what is left of a big-endian number of any length.
    pub(crate) fn reduce(&self, bytes: &[u8]) -> Element {
        let one = self.one();
        let mut sum = Element::ZERO;
        for bit in bits(bytes) {
            sum = self.add(&sum, &sum);
            sum = if bit == 1 { self.add(&sum, &one) } else { sum };
        }
        sum
    }

    /// Writes a number as big-endian bytes, as many as there is room for.
    pub(crate) fn write(&self, number: &Element, out: &mut [u8]) {
        let mut plain = Element::ZERO;
        self.modulus.leave(&mut plain.0[..self.modulus.len()], self.part(number));
        write(&plain.0, out);
    }

    pub(crate) fn one(&self) -> Element {
        self.enter(&words(&[1]))
    }

    pub(crate) fn add(&self, a: &Element, b: &Element) -> Element {
        let mut sum = *a;
        self.modulus.add(&mut sum.0[..self.modulus.len()], self.part(b));
        sum
    }

    pub(crate) fn subtract(&self, a: &Element, b: &Element) -> Element {
        let mut difference = *a;
        self.modulus.subtract(&mut difference.0[..self.modulus.len()], self.part(b));
        difference
    }

    pub(crate) fn multiply(&self, a: &Element, b: &Element) -> Element {
        let mut product = Element::ZERO;
        self.modulus.multiply(&mut product.0[..self.modulus.len()], self.part(a), self.part(b));
        product
    }

    /// Returns `base` to the power of a big-endian exponent, which is no secret.
    pub(crate) fn power(&self, base: &Element, exponent: &[u8]) -> Element {
        let mut power = self.one();
        for bit in bits(exponent) {
            power = self.multiply(&power, &power);
            power = if bit == 1 { self.multiply(&power, base) } else { power };
        }
        power
    }

    /// Returns 1/`a`, or zero for zero.
    pub(crate) fn invert(&self, a: &Element) -> Element {
        self.power(a, &self.exponent)
    }

    fn enter(&self, number: &[u32]) -> Element {
        let (mut plain, mut element) = ([0; WORDS], Element::ZERO);
        for (place, word) in plain.iter_mut().zip(number) {
            *place = *word;
        }
        let len = self.modulus.len();
        self.modulus.enter(&mut element.0[..len], &plain[..len]);
        element
    }

    fn part<'a>(&self, element: &'a Element) -> &'a [u32] {
        &element.0[..self.modulus.len()]
    }
}

/// Returns the bits of a big-endian number, the highest first.
pub(crate) fn bits(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| u32::from(byte >> bit) & 1))
}

/// Returns `a`·p + `b`·q for points that `add` adds; `zero` changes none of them. Both numbers are big-endian, equally long, and no secrets: the time depends on their
/// bits.
pub(crate) fn combine<P: Copy>(add: impl Fn(&P, &P) -> P, zero: P, (p, a): (&P, &[u8]), (q, b): (&P, &[u8])) -> P {
    let both = add(p, q);
    bits(a).zip(bits(b)).fold(zero, |sum, pair| {
        let sum = add(&sum, &sum);
        match pair {
            (0, 0) => sum,
            (_, 0) => add(&sum, p),
            (0, _) => add(&sum, q),
            _ => add(&sum, &both),
        }
    })
}

/// Reads the hexadecimal digits of a constant, at compile time.
pub(crate) const fn hex<const N: usize>(text: &str) -> [u8; N] {
    let digits = text.as_bytes();
    assert!(digits.len() == 2 * N);
    let mut bytes = [0; N];
    let mut at = 0;
    while at < 2 * N {
        let digit = match digits[at] {
            digit @ b'0'..=b'9' => digit - b'0',
            digit => digit - b'a' + 10,
        };
        bytes[at / 2] = bytes[at / 2] << 4 | digit;
        at += 1;
    }
    bytes
}

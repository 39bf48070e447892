//! The algorithm: a state of six rows, which absorbs one row of text at a time (RFC 10032, AEGIS-256X with degree 4).

use crate::{Inputs, TAG};

/// Length of a row in bytes, 64: four AES blocks, one for each of the four parallel states.
pub(crate) const ROW: usize = 64;
/// Length of an AES block in bytes.
pub(crate) const BLOCK: usize = 16;
/// Rows of text per turn of the main loop. With four, the compiler keeps the state in registers and needs no moves between rows.
const STRIDE: usize = 4;

/// The RFC's first constant: Fibonacci numbers modulo 256.
const C0: [u8; BLOCK] = *b"\x00\x01\x01\x02\x03\x05\x08\x0d\x15\x22\x37\x59\x90\xe9\x79\x62";
/// The RFC's second constant: Fibonacci numbers modulo 256, continued.
const C1: [u8; BLOCK] = *b"\xdb\x3d\x18\x55\x6d\xc2\x2f\xf1\x20\x11\x31\x42\x73\xb5\x28\xdd";

/// Four AES blocks. All functions are inlined: an implementation by special instructions is used in functions only that are compiled for these instructions.
pub(crate) trait Row: Copy {
    fn load(bytes: &[u8; ROW]) -> Self;
    fn store(self, bytes: &mut [u8; ROW]);
    /// Returns a row of four equal blocks.
    fn repeat(block: &[u8; BLOCK]) -> Self;
    fn xor(self, other: Self) -> Self;
    fn xor3(self, second: Self, third: Self) -> Self;
    fn and(self, other: Self) -> Self;
    /// Returns one AES encryption round of each block, with `key` as round keys.
    fn round(self, key: Self) -> Self;
    /// Returns the sum of the four blocks.
    fn fold(self) -> [u8; BLOCK];
}

/// Encrypts `data` in place and returns the tag.
#[inline(always)]
pub(crate) fn seal<R: Row>(inputs: Inputs<'_>, data: &mut [u8]) -> [u8; TAG] {
    let mut state = State::<R>::new(inputs);
    let length = data.len();
    let (strides, rest) = data.as_chunks_mut::<{ STRIDE * ROW }>();
    for stride in strides {
        let [a, b, c, d] = rows_of(stride);
        state.encrypt(a);
        state.encrypt(b);
        state.encrypt(c);
        state.encrypt(d);
    }
    let (rows, rest) = rest.as_chunks_mut::<ROW>();
    for row in rows {
        state.encrypt(row);
    }
    if !rest.is_empty() {
        let mut row = padded(rest);
        state.encrypt(&mut row);
        rest.copy_from_slice(&row[..rest.len()]);
    }
    state.finish(inputs.associated.len(), length)
}

/// Decrypts `data` in place and returns the tag that belongs to it.
#[inline(always)]
pub(crate) fn open<R: Row>(inputs: Inputs<'_>, data: &mut [u8]) -> [u8; TAG] {
    let mut state = State::<R>::new(inputs);
    let length = data.len();
    let (strides, rest) = data.as_chunks_mut::<{ STRIDE * ROW }>();
    for stride in strides {
        let [a, b, c, d] = rows_of(stride);
        state.decrypt(a);
        state.decrypt(b);
        state.decrypt(c);
        state.decrypt(d);
    }
    let (rows, rest) = rest.as_chunks_mut::<ROW>();
    for row in rows {
        state.decrypt(row);
    }
    if !rest.is_empty() {
        state.decrypt_last(rest);
    }
    state.finish(inputs.associated.len(), length)
}

/// Returns the rows of a stride. They are unrolled by hand, because a loop over them is not unrolled everywhere.
#[inline(always)]
fn rows_of(stride: &mut [u8; STRIDE * ROW]) -> [&mut [u8; ROW]; STRIDE] {
    match stride.as_chunks_mut::<ROW>() {
        ([a, b, c, d], []) => [a, b, c, d],
        _ => unreachable!("a stride is four rows"),
    }
}

/// Returns less than a row, filled up with zeros.
#[inline(always)]
fn padded(bytes: &[u8]) -> [u8; ROW] {
    let mut row = [0; ROW];
    row[..bytes.len()].copy_from_slice(bytes);
    row
}

struct State<R>([R; 6]);

impl<R: Row> State<R> {
    /// Returns the state of a message after its associated data.
    #[inline(always)]
    fn new(inputs: Inputs<'_>) -> Self {
        let ([k0, k1], [n0, n1]): ([R; 2], [R; 2]) = (halves(inputs.key), halves(inputs.nonce));
        let (c0, c1) = (R::repeat(&C0), R::repeat(&C1));
        let (x0, x1) = (k0.xor(n0), k1.xor(n1));
        let mut state = Self([x0, x1, c1, c0, k0.xor(c0), k1.xor(c1)]);
        let contexts = R::load(&contexts());
        for _ in 0..4 {
            for message in [k0, k1, x0, x1] {
                let [a, b, c, d, e, f] = state.0;
                state.0 = [a, b, c, d.xor(contexts), e, f.xor(contexts)];
                state.update(message);
            }
        }
        let (rows, rest) = inputs.associated.as_chunks::<ROW>();
        for row in rows {
            state.update(R::load(row));
        }
        if !rest.is_empty() {
            state.update(R::load(&padded(rest)));
        }
        state
    }

    #[inline(always)]
    fn update(&mut self, message: R) {
        let [a, b, c, d, e, f] = self.0;
        self.0 = [f.round(a.xor(message)), a.round(b), b.round(c), c.round(d), d.round(e), e.round(f)];
    }

    /// Returns the key stream of the next row.
    #[inline(always)]
    fn stream(&self) -> R {
        let [_, b, c, d, e, f] = self.0;
        b.xor3(e, f).xor(c.and(d))
    }

    #[inline(always)]
    fn encrypt(&mut self, row: &mut [u8; ROW]) {
        let plain = R::load(row);
        self.stream().xor(plain).store(row);
        self.update(plain);
    }

    #[inline(always)]
    fn decrypt(&mut self, row: &mut [u8; ROW]) {
        let plain = self.stream().xor(R::load(row));
        plain.store(row);
        self.update(plain);
    }

    /// Decrypts the end of a text, which is shorter than a row.
    #[inline(always)]
    fn decrypt_last(&mut self, rest: &mut [u8]) {
        let mut row = padded(rest);
        self.stream().xor(R::load(&row)).store(&mut row);
        rest.copy_from_slice(&row[..rest.len()]);
        self.update(R::load(&padded(rest)));
    }

    #[inline(always)]
    fn finish(mut self, associated: usize, text: usize) -> [u8; TAG] {
        let bits = |bytes: usize| u128::from(bytes as u64 * 8);
        let lengths = (bits(associated) | bits(text) << 64).to_le_bytes();
        let last = self.0[3].xor(R::repeat(&lengths));
        for _ in 0..7 {
            self.update(last);
        }
        let [a, b, c, d, e, f] = self.0;
        a.xor3(b, c).xor3(d, e).xor(f).fold()
    }
}

/// Returns the halves of a key or nonce, each four times.
#[inline(always)]
fn halves<R: Row>(bytes: &[u8; 2 * BLOCK]) -> [R; 2] {
    match bytes.as_chunks::<BLOCK>() {
        ([first, second], []) => [R::repeat(first), R::repeat(second)],
        _ => unreachable!("32 bytes are two blocks"),
    }
}

/// Returns what makes the four states different: the number of each state, and the highest number.
const fn contexts() -> [u8; ROW] {
    let mut bytes = [0; ROW];
    let mut state = 0;
    while state < 4 {
        bytes[BLOCK * state] = state as u8;
        bytes[BLOCK * state + 1] = 3;
        state += 1;
    }
    bytes
}

//! Rows in vector registers of x86-64.
//!
//! A value of [`Wide`] or [`Halves`] exists only in the four functions at the end, which are reached after the detection of their instructions. That is why the
//! functions of these types may use the instructions without a check.

#![expect(
    unsafe_code,
    reason = "instructions that only some processors have, and loads and stores of vector registers"
)]

use core::arch::x86_64::{
    __m128i, __m256i, __m512i, _mm_loadu_si128, _mm_storeu_si128, _mm_xor_si128, _mm256_aesenc_epi128,
    _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_castsi256_si128, _mm256_extracti128_si256,
    _mm256_loadu_si256, _mm256_storeu_si256, _mm256_xor_si256, _mm512_aesenc_epi128, _mm512_and_si512,
    _mm512_broadcast_i32x4, _mm512_castsi512_si256, _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_storeu_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use crate::state::{self, BLOCK, ROW, Row};
use crate::{Inputs, TAG};

/// Returns true if the processor can run [`seal_avx512`] and [`open_avx512`].
pub(crate) fn has_avx512() -> bool {
    is_x86_feature_detected!("vaes") && is_x86_feature_detected!("avx512f") && has_avx2()
}

/// Returns true if the processor can run [`seal_avx2`] and [`open_avx2`].
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("vaes") && is_x86_feature_detected!("aes") && is_x86_feature_detected!("avx2")
}

/// A row in one register of 512 bits.
#[derive(Clone, Copy)]
struct Wide(__m512i);

// SAFETY of this implementation: the processor has AVX-512F and VAES (the module's documentation), and a load or store covers exactly its array.
impl Row for Wide {
    #[inline(always)]
    fn load(bytes: &[u8; ROW]) -> Self {
        Self(unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, bytes: &mut [u8; ROW]) {
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), self.0) };
    }

    #[inline(always)]
    fn repeat(block: &[u8; BLOCK]) -> Self {
        Self(unsafe { _mm512_broadcast_i32x4(load_block(block)) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn xor3(self, second: Self, third: Self) -> Self {
        // 0x96 is the truth table of the sum of three bits.
        Self(unsafe { _mm512_ternarylogic_epi64::<0x96>(self.0, second.0, third.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(unsafe { _mm512_and_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn round(self, key: Self) -> Self {
        Self(unsafe { _mm512_aesenc_epi128(self.0, key.0) })
    }

    #[inline(always)]
    fn fold(self) -> [u8; BLOCK] {
        let halves = unsafe { [_mm512_castsi512_si256(self.0), _mm512_extracti64x4_epi64::<1>(self.0)] };
        Halves(halves).fold()
    }
}

/// A row in two registers of 256 bits.
#[derive(Clone, Copy)]
struct Halves([__m256i; 2]);

// SAFETY of this implementation: the processor has AVX2 and VAES (the module's documentation), and a load or store covers exactly its array.
impl Row for Halves {
    #[inline(always)]
    fn load(bytes: &[u8; ROW]) -> Self {
        let (low, high) = (bytes.as_ptr(), bytes[ROW / 2..].as_ptr());
        Self(unsafe { [_mm256_loadu_si256(low.cast()), _mm256_loadu_si256(high.cast())] })
    }

    #[inline(always)]
    fn store(self, bytes: &mut [u8; ROW]) {
        let (low, high) = bytes.split_at_mut(ROW / 2);
        unsafe {
            _mm256_storeu_si256(low.as_mut_ptr().cast(), self.0[0]);
            _mm256_storeu_si256(high.as_mut_ptr().cast(), self.0[1]);
        }
    }

    #[inline(always)]
    fn repeat(block: &[u8; BLOCK]) -> Self {
        let half = unsafe { _mm256_broadcastsi128_si256(load_block(block)) };
        Self([half, half])
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        Self(unsafe { [_mm256_xor_si256(a, c), _mm256_xor_si256(b, d)] })
    }

    #[inline(always)]
    fn xor3(self, second: Self, third: Self) -> Self {
        self.xor(second).xor(third)
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, other.0);
        Self(unsafe { [_mm256_and_si256(a, c), _mm256_and_si256(b, d)] })
    }

    #[inline(always)]
    fn round(self, key: Self) -> Self {
        let ([a, b], [c, d]) = (self.0, key.0);
        Self(unsafe { [_mm256_aesenc_epi128(a, c), _mm256_aesenc_epi128(b, d)] })
    }

    #[inline(always)]
    fn fold(self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        unsafe {
            let half = _mm256_xor_si256(self.0[0], self.0[1]);
            let sum = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
            _mm_storeu_si128(block.as_mut_ptr().cast(), sum);
        }
        block
    }
}

#[inline(always)]
fn load_block(block: &[u8; BLOCK]) -> __m128i {
    // SAFETY: the load covers exactly the array; every x86-64 has the instruction.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

/// Defines the entry to one implementation: the only places where its rows come into being.
macro_rules! entry {
    ($name:ident, $function:ident, $row:ty, $detected:ident, $features:literal) => {
        pub(crate) fn $name(inputs: Inputs<'_>, data: &mut [u8]) -> [u8; TAG] {
            #[target_feature(enable = $features)]
            fn compiled(inputs: Inputs<'_>, data: &mut [u8]) -> [u8; TAG] {
                state::$function::<$row>(inputs, data)
            }
            debug_assert!($detected());
            // SAFETY: `Implementation` has a value for these instructions only where the processor has them.
            unsafe { compiled(inputs, data) }
        }
    };
}

entry!(seal_avx512, seal, Wide, has_avx512, "aes,vaes,avx2,avx512f");
entry!(open_avx512, open, Wide, has_avx512, "aes,vaes,avx2,avx512f");
entry!(seal_avx2, seal, Halves, has_avx2, "aes,vaes,avx2");
entry!(open_avx2, open, Halves, has_avx2, "aes,vaes,avx2");

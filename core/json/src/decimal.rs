//! Decimals as floating-point numbers. The standard library's own reading needs 15 kB, most of it a table of powers of five, to be fast.

/// Digits of a number that count, as many as fit into 64 bits: 19.
const MOST: u64 = u64::MAX / 10 - 1;
/// No number has more powers of ten that is neither zero nor infinite: 19 digits from 10^-324 to 10^308.
const MOST_TENS: i32 = 400;
/// Bits of an `f64` that are kept of a number, one of them by its exponent (IEEE 754 binary64).
const KEPT: i32 = 53;
/// Exponents of an `f64`, base 2: of the largest number, of the smallest one with all bits, and of the smallest one.
const LARGEST: i32 = 1023;
const SMALLEST: i32 = -1022;
const LEAST: i32 = -1074;

/// Returns the number that is nearest to a decimal such as `-1.5e-7`, infinity if it is too large. The text is one as JSON writes it.
///
/// Digits after the nineteenth are taken for zeros, and what is computed with has 128 bits. So a number that is the mean of two neighbours but for a 2^-115th, or for a digit
/// after the nineteenth, may become the other neighbour.
pub(crate) fn float(text: &str) -> f64 {
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (mut digits, mut tens, mut is_fraction) = (0_u64, 0_i32, false);
    for byte in number.bytes() {
        match byte {
            b'.' => is_fraction = true,
            b'0'..=b'9' if digits <= MOST => {
                digits = digits * 10 + u64::from(byte - b'0');
                tens = tens.saturating_sub(i32::from(is_fraction));
            }
            b'0'..=b'9' => tens = tens.saturating_add(i32::from(!is_fraction)),
            _ => {}
        }
    }
    // One that does not fit is as good as the largest.
    let exponent = exponent.parse().unwrap_or(if exponent.starts_with('-') { i32::MIN } else { i32::MAX });
    let size = scaled(digits, tens.saturating_add(exponent).clamp(-MOST_TENS, MOST_TENS));
    if number.starts_with('-') { -size } else { size }
}

/// Returns `digits` × 10^`tens`.
fn scaled(digits: u64, tens: i32) -> f64 {
    if digits == 0 {
        return 0.0;
    }
    // The number is `bits` × 2^`twos`, and the first bit is always set.
    let (mut bits, mut twos) = raised(u128::from(digits), 0);
    for _ in 0..tens {
        (bits, twos) = raised((bits >> 4) * 10, twos + 4);
    }
    for _ in tens..0 {
        (bits, twos) = raised(bits / 10, twos);
    }
    rounded(bits, twos)
}

/// Moves the first bit that is set to the first place.
fn raised(bits: u128, twos: i32) -> (u128, i32) {
    let free = bits.leading_zeros();
    (bits << free, twos - free.cast_signed())
}

/// Returns the `f64` nearest to `bits` × 2^`twos`, the even one of two. The first bit is set.
fn rounded(bits: u128, twos: i32) -> f64 {
    // The power of two of the last bit that is kept.
    let unit = (twos + 128 - KEPT).max(LEAST);
    let lost = u32::try_from(unit - twos).unwrap_or(0);
    let (kept, rest) = (bits.checked_shr(lost).unwrap_or(0), bits.checked_shl(128 - lost.min(128)).unwrap_or(0));
    let half = 1 << 127;
    let is_up = lost <= 128 && (rest > half || (rest == half && kept % 2 == 1));
    let kept = kept + u128::from(is_up);
    if unit + KEPT > LARGEST + 1 || (unit + KEPT == LARGEST + 1 && kept == 1 << KEPT) {
        return f64::INFINITY;
    }
    // Both are exact, and so is the product: it has no more bits than `kept`.
    let power =
        if unit < SMALLEST { 1 << (unit - LEAST) } else { u64::from((unit + LARGEST).cast_unsigned()) << (KEPT - 1) };
    kept as f64 * f64::from_bits(power)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::float;

    fn same(text: &str) {
        let wanted: f64 = text.parse().unwrap();
        assert_eq!(float(text).to_bits(), wanted.to_bits(), "{text}: {} and not {wanted}", float(text));
    }

    #[test]
    fn borders_are_those_of_the_standard_library() {
        for text in [
            "0",
            "-0",
            "0.0",
            "1",
            "-1.5",
            "0.1",
            "9007199254740991",
            "9007199254740992",
            "9007199254740993",
            "9007199254740995",
            "9007199254740993.0",
            "0.5e-0",
            "18446744073709551615",
            "18446744073709551616",
            "123456789012345678901234567890",
            "1e22",
            "1e23",
            "8.5e-1",
            "00000000000000000000000001",
            "1.7976931348623157e308",
            "1.7976931348623158e308",
            "1.7976931348623159e308",
            "1.8e308",
            "-1e309",
            "1e400",
            "1e99999999999999999999",
            "2.2250738585072014e-308",
            "2.2250738585072011e-308",
            "2.225073858507201e-308",
            "4.9e-324",
            "5e-324",
            "3e-324",
            "2.5e-324",
            "2.4e-324",
            "2e-324",
            "1e-400",
            "1e-99999999999999999999",
            "0.000000000000000000000000000000000000000000000000000000000000001",
            "1000000000000000000000000000000000000000000000000000e-51",
        ] {
            same(text);
        }
    }

    proptest! {
        #[test]
        fn numbers_as_they_are_written(bits: u64) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            same(&format!("{number}"));
            same(&format!("{number:e}"));
            same(&format!("{number:.18e}"));
        }

        #[test]
        fn any_digits(digits in "[0-9]{1,19}", point in 0..20_usize, tens in -360..330) {
            let (whole, fraction) = digits.split_at(point.clamp(1, digits.len()));
            same(&format!("{whole}.{fraction}0e{tens}"));
            same(&format!("-{digits}e{tens}"));
        }

        #[test]
        fn small_fractions(whole in 0..100_000_u32, fraction in 0..1_000_000_u32) {
            same(&format!("{whole}.{fraction:06}"));
            same(&format!("{whole}.{fraction}"));
        }
    }
}

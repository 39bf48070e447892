//! Decimals as floating-point numbers. The standard library's own reading needs 15 kB, most of it a table of powers of five, to be fast.

/// Digits are taken until they are a number above this one: nineteen, or twenty where they fit into 64 bits.
const MOST: u64 = u64::MAX / 10 - 1;
/// Limit on the exponent to base 10: beyond it, a number with twenty digits is zero or infinite.
const MOST_TENS: i32 = 400;
/// How many powers of ten are multiplied at most for an exponent up to [`MOST_TENS`]: one for each bit of it.
const POWERS: usize = 9;
/// 10^1, 10^2, 10^4, 10^8 and so on.
static UP: [Scaled; POWERS] = powers(false);
/// 10^-1, 10^-2, 10^-4, 10^-8 and so on.
static DOWN: [Scaled; POWERS] = powers(true);
/// Bits of an `f64` that are kept of a number, one of them by its exponent (IEEE 754 binary64).
pub(crate) const KEPT: i32 = 53;
/// Exponent to base 2 of the largest `f64`.
const LARGEST: i32 = 1023;
/// Exponent to base 2 of the smallest `f64` with all its bits.
const SMALLEST: i32 = -1022;
/// Exponent to base 2 of the smallest `f64`.
pub(crate) const LEAST: i32 = -1074;

/// A number `bits` × 2^`twos`. The first of the bits is set.
#[derive(Clone, Copy)]
pub(crate) struct Scaled {
    pub(crate) bits: u128,
    pub(crate) twos: i32,
}

/// Returns the number that is nearest to a decimal such as `-1.5e-7`, infinity if it is too large. The text is one as JSON writes it.
///
/// It is computed with 128 bits. A decimal with at most nineteen digits becomes a neighbour of the nearest number only if it lies between the two, nearer to one of them by less than
/// a 2^-115th of itself. Later digits, which do not fit into 64 bits, count as zeros: that changes a decimal by up to a 2^-60th of itself, and matters if it lies that close to the
/// middle between two numbers. A number is written with seventeen digits at most, and read back as itself. The time is that of reading the text once, and of a dozen multiplications.
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
    // An exponent that does not fit into 32 bits is as good as the largest one that does.
    let exponent = exponent.parse().unwrap_or(if exponent.starts_with('-') { i32::MIN } else { i32::MAX });
    let size = scaled(digits, tens.saturating_add(exponent).clamp(-MOST_TENS, MOST_TENS));
    if number.starts_with('-') { -size } else { size }
}

/// Returns `digits` × 10^`tens`.
pub(crate) fn scaled(mut digits: u64, mut tens: i32) -> f64 {
    if digits == 0 {
        return 0.0;
    }
    // Division by five is exact as long as it can be: a decimal exactly between two neighbours has no tenths after it.
    let mut twos = 0;
    while tens < 0 && digits.is_multiple_of(5) {
        (digits, tens, twos) = (digits / 5, tens + 1, twos - 1);
    }
    Scaled::new(u128::from(digits), twos).times_ten_to(tens).rounded()
}

/// Returns 10 to the powers of two, or with `is_down` 10 to minus these.
const fn powers(is_down: bool) -> [Scaled; POWERS] {
    let mut number = Scaled::new(1, 0);
    let mut found = [number; POWERS];
    let (mut place, mut tens) = (0, 0_u32);
    while place < POWERS {
        while tens < 1 << place {
            number = match is_down {
                true => Scaled::new(number.bits / 10, number.twos),
                false => Scaled::new((number.bits >> 4) * 10, number.twos + 4),
            };
            tens += 1;
        }
        found[place] = number;
        place += 1;
    }
    found
}

impl Scaled {
    /// Moves the first bit that is set to the first place.
    pub(crate) const fn new(bits: u128, twos: i32) -> Self {
        let free = bits.leading_zeros();
        Self { bits: bits << free, twos: twos - free.cast_signed() }
    }

    /// Returns the product with a power of ten, whose exponent is at most [`MOST_TENS`].
    pub(crate) fn times_ten_to(mut self, tens: i32) -> Self {
        for (place, power) in if tens < 0 { &DOWN } else { &UP }.iter().enumerate() {
            if tens.unsigned_abs() >> place & 1 == 1 {
                self = self.times(*power);
            }
        }
        self
    }

    /// Returns the product, without what is behind its first 128 bits.
    fn times(self, other: Self) -> Self {
        let halves = |bits: u128| (bits >> 64, bits & u128::from(u64::MAX));
        let ((high, low), (other_high, other_low)) = (halves(self.bits), halves(other.bits));
        let (one, two) = (halves(high * other_low), halves(low * other_high));
        let carried = ((low * other_low) >> 64) + one.1 + two.1;
        Self::new(high * other_high + one.0 + two.0 + (carried >> 64), self.twos + other.twos + 128)
    }

    /// Returns the nearest `f64`, the even one of two.
    fn rounded(self) -> f64 {
        // The power of two of the last bit that is kept.
        let unit = (self.twos + 128 - KEPT).max(LEAST);
        let lost = u32::try_from(unit - self.twos).unwrap_or(0);
        let kept = self.bits.checked_shr(lost).unwrap_or(0);
        let rest = self.bits.checked_shl(128 - lost.min(128)).unwrap_or(0);
        let half = 1 << 127;
        let is_up = lost <= 128 && (rest > half || (rest == half && kept % 2 == 1));
        let kept = kept + u128::from(is_up);
        if unit + KEPT > LARGEST + 1 || (unit + KEPT == LARGEST + 1 && kept == 1 << KEPT) {
            return f64::INFINITY;
        }
        // Both factors are exact, and so is the product: it has no more bits than `kept`.
        let power = if unit < SMALLEST {
            1 << (unit - LEAST)
        } else {
            u64::from((unit + LARGEST).cast_unsigned()) << (KEPT - 1)
        };
        kept as f64 * f64::from_bits(power)
    }
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
        fn exactly_between_two_neighbours(whole in 1_u64 << 52..1 << 53, twice in 0..3_u32) {
            same(&format!("{whole}.5"));
            same(&format!("{}.0", (2 * whole + 1) << twice));
            same(&format!("{}e-1", whole * 10 + 5));
        }

        #[test]
        fn small_fractions(whole in 0..100_000_u32, fraction in 0..1_000_000_u32) {
            same(&format!("{whole}.{fraction:06}"));
            same(&format!("{whole}.{fraction}"));
        }
    }
}

//! Floating-point numbers as decimals. The standard library's own writing needs 11 kB more, for any number of digits and for numbers with a thousand of them.

use std::fmt::{self, Display, Formatter, Write as _};

use crate::decimal::{KEPT, LEAST, Scaled, scaled};

/// Digits that tell each `f64` from its neighbours.
const ENOUGH: i32 = 17;
/// The first number with more than [`ENOUGH`] digits.
const TOO_LONG: u64 = 10_u64.pow(17);
/// Longest whole numbers without an exponent, in digits.
const LONGEST: i32 = 16;
/// As many zeros as a whole number of that length has at most.
const ZEROS: &str = "000000000000000";
/// Most zeros behind the point without an exponent.
const MOST_ZEROS: i32 = 3;
/// The start of a fraction with that many zeros.
const FRACTION: &str = "0.000";

/// A number that is written as a decimal with the fewest digits that read back as the same number, such as `0.1`, `-12`, or `1.5e-7`.
///
/// Rarely it has one digit more than needed: next to a power of two, and where digits are missing at the lower end, below 1e-307.
#[derive(Clone, Copy)]
pub struct Decimal(pub f64);

impl Display for Decimal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_nan() {
            return f.write_str("NaN");
        }
        if self.0.is_sign_negative() {
            f.write_char('-')?;
        }
        if self.0.is_infinite() {
            return f.write_str("inf");
        }
        let (digits, tens) = shortest(self.0.abs());
        let digits = digits.to_string();
        // How many digits are before the point.
        let point = i32::try_from(digits.len()).unwrap_or(0) + tens;
        let size = point.unsigned_abs() as usize;
        let has_exponent = !(-MOST_ZEROS..=LONGEST).contains(&point);
        let (first, middle, last) = match point {
            _ if has_exponent => (&digits[..1], if digits.len() > 1 { "." } else { "" }, &digits[1..]),
            ..=0 => (&FRACTION[..2 + size], "", &digits[..]),
            _ if tens >= 0 => (&digits[..], &ZEROS[..size - digits.len()], ""),
            _ => (&digits[..size], ".", &digits[size..]),
        };
        for part in [first, middle, last] {
            f.write_str(part)?;
        }
        if has_exponent { write!(f, "e{}", point - 1) } else { Ok(()) }
    }
}

/// Returns digits, and the power of ten that they are multiplied by. The last digit is not zero, unless the number is.
fn shortest(number: f64) -> (u64, i32) {
    if number == 0.0 {
        return (0, 0);
    }
    let exact = exact(number);
    // The power of ten that gives it seventeen digits before the point, or eighteen. 78,913 / 2^18 is the logarithm of 2 to base 10, near enough for each
    // exponent of an `f64` to be rounded down as with the exact one.
    let tens = ENOUGH - 1 - (((exact.twos + 127) * 78_913) >> 18);
    let raised = exact.times_ten_to(tens);
    let behind_point = raised.twos.unsigned_abs();
    let whole = (raised.bits >> behind_point) as u64;
    let half = (raised.bits >> (behind_point - 1)) as u64 & 1;
    let dropped = u32::from(whole >= TOO_LONG);
    // Fifteen digits are enough for each decimal that has no more of them, and seventeen for each number.
    let mut found = (0, 0);
    for dropped in [dropped + 2, dropped + 1, dropped] {
        let unit = 10_u64.pow(dropped);
        let digits = if dropped == 0 { whole + half } else { (whole + unit / 2) / unit };
        found = (digits, dropped.cast_signed() - tens);
        if scaled(found.0, found.1) == number {
            break;
        }
    }
    while found.0.is_multiple_of(10) {
        found = (found.0 / 10, found.1 + 1);
    }
    found
}

/// Returns the bits of a number that is not zero (IEEE 754 binary64).
fn exact(number: f64) -> Scaled {
    let fraction_bits = KEPT - 1;
    let fraction = u128::from(number.to_bits() & ((1 << fraction_bits) - 1));
    match (number.to_bits() >> fraction_bits) as i32 {
        0 => Scaled::new(fraction, LEAST),
        exponent => Scaled::new(fraction | 1 << fraction_bits, LEAST + exponent - 1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Decimal;

    /// Checks that a number reads back bit for bit. Returns how many digits more it has than the standard library's text.
    fn check(number: f64) -> usize {
        let text = Decimal(number).to_string();
        assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits(), "{number:?} became {text}");
        assert_eq!(crate::decimal::float(&text).to_bits(), number.to_bits(), "{number:?} became {text}");
        let digits = |text: &str| text.split('e').next().unwrap().replace(['.', '-'], "").trim_matches('0').len();
        digits(&text).saturating_sub(digits(&format!("{number:?}")))
    }

    #[test]
    fn forms() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-12.0, "-12"),
            (0.1, "0.1"),
            (0.3, "0.3"),
            (0.1 + 0.2, "0.30000000000000004"),
            (12.345, "12.345"),
            (0.000_123, "0.000123"),
            (0.000_012_3, "1.23e-5"),
            (1e-7, "1e-7"),
            (1e15, "1000000000000000"),
            (1e16, "1e16"),
            (1.5e16, "1.5e16"),
            (1e23, "1e23"),
            (9_007_199_254_740_993.0, "9007199254740992"),
            (1e300, "1e300"),
            (f64::MAX, "1.7976931348623157e308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(Decimal(number).to_string(), text);
        }
    }

    #[test]
    fn powers_and_their_neighbours_read_back() {
        let twos = (0..2_046).map(|exponent| f64::from_bits(exponent << 52));
        let small = (0..52).map(|place| f64::from_bits(1 << place));
        let tens = (-323..=308).map(|exponent| format!("1e{exponent}").parse::<f64>().unwrap());
        for number in twos.chain(small).chain(tens) {
            for bits in [number.to_bits().saturating_sub(1), number.to_bits(), number.to_bits() + 1] {
                check(f64::from_bits(bits));
            }
        }
    }

    #[test]
    fn thousandths_are_as_short_as_they_can_be() {
        for thousandths in 0..200_000 {
            let number = f64::from(thousandths) / 1e3;
            assert_eq!(Decimal(number).to_string(), format!("{number}"));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(10_000))]

        #[test]
        fn all_numbers_read_back(bits: u64) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite());
            let longer = check(number);
            prop_assert!(longer <= 1 || number.abs() < 1e-307);
        }

        #[test]
        fn measured_times_and_shares_are_as_short_as_they_can_be(nanoseconds in 0..1_u64 << 53, parts in 0..=100_u32) {
            for number in [nanoseconds as f64 / 1e9, nanoseconds as f64 / 1e6, f64::from(parts) / 1e2] {
                prop_assert_eq!(check(number), 0, "{}", number);
            }
        }
    }
}

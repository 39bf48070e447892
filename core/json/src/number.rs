//! Numbers.

use serde::de::Visitor;

use crate::decimal;
use crate::error::Error;

/// A number as it stands in JSON: an integer if it is written as one and fits.
pub(crate) enum Number {
    Positive(u64),
    Negative(i64),
    Float(f64),
}

impl Number {
    /// Gives the number to what wants one.
    pub(crate) fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Self::Positive(number) => visitor.visit_u64(number),
            Self::Negative(number) => visitor.visit_i64(number),
            Self::Float(number) => visitor.visit_f64(number),
        }
    }

    /// Reads the number at the start of a text (RFC 8259 section 6) and returns how long it is.
    pub(crate) fn read(text: &str) -> Option<(Self, usize)> {
        let bytes = text.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let start = usize::from(bytes.first() == Some(&b'-'));
        let whole = digits(start);
        // No number begins with a zero that another digit follows.
        if whole == 0 || (whole > 1 && bytes[start] == b'0') {
            return None;
        }
        let mut end = start + whole;
        let mut is_integer = true;
        if bytes.get(end) == Some(&b'.') {
            let fraction = digits(end + 1);
            (end, is_integer) = (end + 1 + fraction, false);
            if fraction == 0 {
                return None;
            }
        }
        if let Some(b'e' | b'E') = bytes.get(end) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            (end, is_integer) = (end + 1 + sign + exponent, false);
            if exponent == 0 {
                return None;
            }
        }
        let text = &text[..end];
        let integer = if start == 0 { text.parse().map(Self::Positive) } else { text.parse().map(Self::Negative) };
        let number = match integer {
            // Minus zero is none.
            Ok(Self::Negative(0)) => Self::Float(-0.0),
            Ok(number) if is_integer => number,
            _ => Self::Float(Some(decimal::float(text)).filter(|number| number.is_finite())?),
        };
        Some((number, end))
    }
}

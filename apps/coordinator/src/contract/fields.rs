//! Readers of optional fields, for serde's `deserialize_with`. Serde itself reads null like an absent field.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Number;

/// Smallest whole number from which on a floating-point number may be rounded, 2^53.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// Reads a field that may be absent, but not null.
pub(super) fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let value = Option::<T>::deserialize(deserializer)?;
    value.map(Some).ok_or_else(|| D::Error::custom("a field is null that may only be absent"))
}

/// Reads a field for which null has a meaning of its own: `None` is an absent field, `Some(None)` is null.
pub(super) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// Reads a field with a number of seconds, for which null has a meaning of its own.
pub(super) fn nullable_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<i64>>, D::Error> {
    Ok(nullable::<D, Seconds>(deserializer)?.map(|value| value.map(|Seconds(seconds)| seconds)))
}

/// A whole number of seconds. `3600.0` is a whole number, as in JSON Schema: some programs print 3600 in that form.
struct Seconds(i64);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let whole = || number.as_f64().filter(|seconds| seconds.fract() == 0.0 && seconds.abs() < LARGEST_WHOLE);
        let seconds = number.as_i64().or_else(|| whole().map(|seconds| seconds as i64));
        seconds.map(Self).ok_or_else(|| D::Error::custom("a time is not a whole number of seconds"))
    }
}

//! Functions for the code that `#[derive(taut_json::Deserialize)]` makes.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// The names of the fields of a type, and which of them were read.
pub struct Names {
    names: &'static [&'static str],
    read: u64,
}

impl Names {
    /// Begins to read an object.
    pub fn new(names: &'static [&'static str]) -> Self {
        Self { names, read: 0 }
    }
}

/// Reads a name and returns its number, or one that no field has.
///
/// # Errors
/// If the field was there before.
impl<'de> DeserializeSeed<'de> for &mut Names {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        let number = known(deserializer, self.names)?;
        if let Some(name) = self.names.get(number) {
            if self.read >> number & 1 == 1 {
                return Err(Error::duplicate_field(name));
            }
            self.read |= 1 << number;
        }
        Ok(number)
    }
}

/// Reads a field into its place, in a function of its own for each type: inlined, each field of each type would be up to a hundred bytes of code.
///
/// # Errors
/// If it is not of this type.
#[inline(never)]
pub fn field<'de, T: Deserialize<'de>, M: MapAccess<'de>>(map: &mut M, place: &mut T) -> Result<(), M::Error> {
    *place = map.next_value()?;
    Ok(())
}

/// Reads a field that has to be there; see [`field`].
///
/// # Errors
/// If it is not of this type.
#[inline(never)]
pub fn some<'de, T: Deserialize<'de>, M: MapAccess<'de>>(map: &mut M, place: &mut Option<T>) -> Result<(), M::Error> {
    *place = Some(map.next_value()?);
    Ok(())
}

/// Passes over a field.
///
/// # Errors
/// If it is malformed.
#[inline(never)]
pub fn unknown<'de, M: MapAccess<'de>>(map: &mut M) -> Result<(), M::Error> {
    map.next_value::<IgnoredAny>()?;
    Ok(())
}

/// Returns a field that has to be there.
///
/// # Errors
/// If it is not.
pub fn required<T, E: Error>(field: Option<T>, name: &'static str) -> Result<T, E> {
    field.ok_or_else(|| E::missing_field(name))
}

/// Reads the name of a variant and returns its number.
///
/// # Errors
/// If no variant has this name.
pub fn variant<'de, D: Deserializer<'de>>(deserializer: D, names: &'static [&'static str]) -> Result<usize, D::Error> {
    deserializer.deserialize_identifier(Number { names, is_closed: true })
}

/// Reads the name of a variant and returns its number, or one that no variant has.
///
/// # Errors
/// If it is no string.
pub fn known<'de, D: Deserializer<'de>>(deserializer: D, names: &'static [&'static str]) -> Result<usize, D::Error> {
    deserializer.deserialize_identifier(Number { names, is_closed: false })
}

/// Finds a name in a table.
struct Number {
    names: &'static [&'static str],
    is_closed: bool,
}

impl Visitor<'_> for Number {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name in quotation marks")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
        match self.names.iter().position(|name| *name == text) {
            Some(number) => Ok(number),
            None if self.is_closed => Err(E::unknown_variant(text, self.names)),
            None => Ok(self.names.len()),
        }
    }
}

//! JSON (RFC 8259) for types of serde, in little code.
//!
//! serde makes code for each type that is read or written, and this crate decides how much. `serde_json` is made for speed: it has the loops over text, and
//! reads an object also from an array, in the code of each type. Here that code only calls functions which all types share, and objects are objects.
//!
//! - [`from_slice`] reads a value. Fields in any order, unknown ones ignored; nothing after it but white space;
//! - [`to_vec`] and [`to_string`] write it without white space, [`pretty()`] with lines for people;
//! - [`Decimal`] writes a floating-point number.
//!
//! Guarantees: no input makes it panic, recurse deeper than [`MAX_DEPTH`], or take more memory than a small multiple of its length. The tests compare every
//! answer with `serde_json`.

mod decimal;
#[doc(hidden)]
pub mod derive;
mod error;
mod key;
mod number;
mod pretty;
mod read;
mod shortest;
mod text;
mod write;

use serde::{Deserialize as Read, Serialize};

pub use error::Error;
pub use pretty::pretty;
pub use read::MAX_DEPTH;
pub use shortest::Decimal;
/// Derives serde's trait for structs with named fields, and for enums without values, in less code than serde's own derive makes.
pub use taut_json_derive::Deserialize;

/// Reads a value from JSON.
///
/// # Errors
/// [`Error`] tells what is wrong, and where.
pub fn from_slice<'a, T: Read<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    let mut reader = read::Reader::new(bytes)?;
    match T::deserialize(&mut reader) {
        Ok(value) => reader.end().map(|()| value),
        Err(error) => Err(reader.at(error)),
    }
}

/// Writes a value as JSON, without white space.
///
/// # Errors
/// If a map has keys that are neither text nor numbers.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    to_string(value).map(String::into_bytes)
}

/// Writes a value as JSON, without white space.
///
/// # Errors
/// As [`to_vec`].
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    let mut writer = write::Writer::default();
    value.serialize(&mut writer)?;
    Ok(writer.text)
}

//! The error of reading and writing.

use std::fmt::{self, Display};

use serde::de::{Expected, Unexpected};

use crate::shortest::Decimal;

/// An error of JSON that was read, with its position, or of a value to write. It is one pointer, so that results are small and returned in registers.
#[derive(Debug)]
pub struct Error(Box<Wrong>);

#[derive(Debug)]
struct Wrong {
    message: String,
    /// Where it was read, in bytes from the start.
    at: Option<usize>,
}

impl Error {
    #[cold]
    pub(crate) fn new(message: &str) -> Self {
        Self::with(String::from(message))
    }

    #[cold]
    fn with(message: String) -> Self {
        Self(Box::new(Wrong { message, at: None }))
    }

    /// Adds where it was read, unless that is known.
    pub(crate) fn at(mut self, at: usize) -> Self {
        self.0.at.get_or_insert(at);
        self
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match self.0.at {
            Some(at) => write!(f, " at byte {at}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Self::with(message.to_string())
    }

    #[cold]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::with(format!("invalid type: {}, expected {expected}", describe(found)))
    }

    #[cold]
    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::with(format!("invalid value: {}, expected {expected}", describe(found)))
    }
}

/// Describes what was found, in serde's words. Its own function writes floating-point numbers by the standard library.
fn describe(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("boolean `{value}`"),
        Unexpected::Unsigned(number) => format!("integer `{number}`"),
        Unexpected::Signed(number) => format!("integer `{number}`"),
        Unexpected::Float(number) => format!("floating point `{}`", Decimal(number)),
        Unexpected::Str(text) => format!("string {text:?}"),
        Unexpected::Seq => String::from("sequence"),
        Unexpected::Map => String::from("map"),
        Unexpected::Unit | Unexpected::Option => String::from("null"),
        Unexpected::Other(name) => String::from(name),
        _ => String::from("another kind of value"),
    }
}

impl serde::ser::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Self::with(message.to_string())
    }
}

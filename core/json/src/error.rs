//! What is wrong with JSON that was read, or with a value to write.

use std::fmt::{self, Display};

/// What is wrong, and where.
#[derive(Debug)]
pub struct Error {
    message: Box<str>,
    /// Where it was read, in bytes from the start.
    at: Option<usize>,
}

impl Error {
    pub(crate) fn new(message: &str) -> Self {
        Self { message: message.into(), at: None }
    }

    /// Adds where it was read, unless that is known.
    pub(crate) fn at(self, at: usize) -> Self {
        Self { at: self.at.or(Some(at)), ..self }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.at {
            Some(at) => write!(f, " at byte {at}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(&message.to_string())
    }
}

impl serde::ser::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Self::new(&message.to_string())
    }
}

//! The error of reading and writing.

use std::fmt::{self, Display};

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
}

impl serde::ser::Error for Error {
    fn custom<T: Display>(message: T) -> Self {
        Self::with(message.to_string())
    }
}

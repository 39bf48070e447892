//! The error of the program.

use std::fmt;

/// A failed action, with the cause.
#[derive(Debug)]
pub(crate) struct Failure {
    doing: &'static str,
    why: String,
}

impl Failure {
    /// Returns a function for `map_err` that makes a failure of `doing` from any error.
    pub(crate) fn of<E: fmt::Display>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |why| Self { doing, why: why.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed: {}", self.doing, self.why)
    }
}

impl std::error::Error for Failure {}

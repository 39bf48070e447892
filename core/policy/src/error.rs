//! Errors in a policy's text, with their place.

use std::error::Error;
use std::fmt;

/// A place in a text. Lines and columns count from 1; a column is a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// The first error in the text of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// Description of the error.
    pub message: String,
    /// Advice on what to write instead.
    pub hint: Option<String>,
}

impl PolicyError {
    /// Returns an error at this place.
    pub(crate) fn at(at: Position, message: impl Into<String>) -> Self {
        Self { line: at.line, column: at.column, message: message.into(), hint: None }
    }

    /// Adds advice on what to write instead.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl Error for PolicyError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_place() {
        let error = PolicyError::at(Position { line: 3, column: 7 }, "no").hint("yes");
        assert_eq!(error.to_string(), "line 3, column 7: no");
        assert_eq!(error.hint.as_deref(), Some("yes"));
    }
}

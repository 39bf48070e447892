//! Parameters and rows of statements, in one form for all databases.

use std::sync::Arc;

use super::StoreError;

/// A parameter of a statement. Statements name them `$1`, `$2`, …, which SQLite and PostgreSQL both understand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// An integer, or NULL.
    Integer(Option<i64>),
    /// A text, or NULL.
    Text(Option<&'a str>),
    /// Bytes, or NULL.
    Bytes(Option<&'a [u8]>),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(Some(number))
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Integer(Some(number.into()))
    }
}

impl From<bool> for Value<'_> {
    fn from(truth: bool) -> Self {
        Self::Integer(Some(truth.into()))
    }
}

/// Databases have signed integers. Versions and numbers of rows stay below 2^63.
impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Integer(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<Option<i64>> for Value<'_> {
    fn from(number: Option<i64>) -> Self {
        Self::Integer(number)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(Some(text))
    }
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(text: Option<&'a str>) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<Option<&'a [u8]>> for Value<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(Some(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(Some(bytes))
    }
}

/// A row that a statement returned.
pub(super) struct Row {
    /// Names of the columns, shared by the rows of one statement.
    pub(super) columns: Arc<[String]>,
    pub(super) cells: Vec<Cell>,
}

/// A value in a row.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    /// An integer or a truth value.
    Integer(i64),
    /// Bytes or a text. A text may be no UTF-8 if somebody damaged it.
    Bytes(Vec<u8>),
}

impl Row {
    /// Returns the value of a column.
    pub(super) fn get<T: FromCell>(&self, column: &str) -> Result<T, StoreError> {
        let place = self.columns.iter().position(|name| name == column);
        self.cell(place).ok_or(StoreError::Damaged("a value of another type"))
    }

    /// Returns the value of the first column, for statements that count.
    pub(super) fn first<T: FromCell>(&self) -> Result<T, StoreError> {
        self.cell(Some(0)).ok_or(StoreError::Damaged("a count of another type"))
    }

    fn cell<T: FromCell>(&self, place: Option<usize>) -> Option<T> {
        T::from_cell(self.cells.get(place?)?)
    }
}

/// A type that a column may have.
pub(super) trait FromCell: Sized {
    /// Returns `None` for a value of another type.
    fn from_cell(cell: &Cell) -> Option<Self>;
}

impl FromCell for i64 {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

impl FromCell for bool {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl FromCell for Vec<u8> {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Bytes(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }
}

impl FromCell for String {
    fn from_cell(cell: &Cell) -> Option<Self> {
        String::from_utf8(Vec::from_cell(cell)?).ok()
    }
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            cell => T::from_cell(cell).map(Some),
        }
    }
}

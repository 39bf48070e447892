//! The name of a damaged row.

/// A row that is invalid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DamagedRow {
    /// Name of the table.
    pub(crate) table: &'static str,
    /// The number of the row, or its first column.
    pub(crate) key: String,
    /// What is wrong with it.
    pub(crate) what: &'static str,
}

//! Values of columns that several kinds of rows have.

use super::StoreError;
use super::value::Row;

pub(super) fn bytes<const N: usize>(row: &Row, column: &str) -> Result<[u8; N], StoreError> {
    let value: Vec<u8> = row.get(column)?;
    value.try_into().map_err(|_| StoreError::Damaged("a value of the wrong length"))
}

/// Versions that are valid: a larger one leaves no room for the next ones (`networks.rs`).
const LARGEST_VERSION: u64 = 1 << 53;

pub(super) fn version(row: &Row, column: &str) -> Result<u64, StoreError> {
    let version = unsigned(row.get(column)?)?;
    if version < LARGEST_VERSION { Ok(version) } else { Err(StoreError::Damaged("a version that is too large")) }
}

pub(super) fn unsigned(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| StoreError::Damaged("a negative number"))
}

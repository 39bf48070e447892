//! Rows that no version of this program wrote: a person edited the database, or a disk failed. Each harms only itself (fault O9): it is left out, and logged once.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::value::{Cell, Row};
use super::{DamagedRow, Reading, StoreError};
use crate::log;

/// Damaged rows that are remembered, 1,024, so that each is logged once. A database with more of them is hardly one any more.
const REMEMBERED: usize = 1_024;

/// Longest first column of a row that is shown, 64 bytes: names and hashes are shorter.
const LONGEST_KEY: usize = 64;

/// What to do about a damaged row.
pub(super) const HINT: &str = "`taut-coordinator check` names each damaged row and the command that helps";

/// The damaged rows that were found.
#[derive(Default)]
pub(super) struct DamagedRows(Mutex<BTreeSet<DamagedRow>>);

impl DamagedRows {
    /// Remembers a damaged row, and logs it the first time.
    fn note(&self, row: DamagedRow) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() < REMEMBERED && !found.contains(&row) {
            let (table, key, reason) = (row.table, row.key.as_str(), row.what);
            tracing::error!(target: log::DATABASE, event = "row-damaged", table, row = key, reason, hint = HINT);
            found.insert(row);
        }
    }
}

impl Reading {
    /// Returns the valid rows. A damaged one is noted and left out; one that was revoked or removed is only left out, because nothing needs it.
    pub(super) fn valid<T>(
        &self,
        table: &'static str,
        rows: &[Row],
        parse: impl Fn(&Row) -> Result<T, StoreError>,
    ) -> Vec<T> {
        let valid = |row: &Row| match parse(row) {
            Ok(valid) => Some(valid),
            Err(error) => {
                if !is_over(row) {
                    self.damaged.note(damaged(table, row, &error));
                }
                None
            }
        };
        rows.iter().filter_map(valid).collect()
    }

    /// Returns the tables and numbers of the rows whose network does not exist. Marks of removed nodes and revoked keys are left out.
    pub(crate) async fn orphans(&mut self) -> Result<Vec<(&'static str, String)>, StoreError> {
        const TABLES: [(&str, &str); 3] = [
            (
                "nodes",
                "SELECT id FROM nodes r WHERE removed_at IS NULL AND NOT EXISTS (SELECT 1 FROM networks n WHERE n.id = r.network AND length(n.id) = 16)",
            ),
            (
                "keys",
                "SELECT id FROM keys r WHERE revoked_at IS NULL AND NOT EXISTS (SELECT 1 FROM networks n WHERE n.id = r.network AND length(n.id) = 16)",
            ),
            (
                "relays",
                "SELECT id FROM relays r WHERE NOT EXISTS (SELECT 1 FROM networks n WHERE n.id = r.network AND length(n.id) = 16)",
            ),
        ];
        let mut found = Vec::new();
        for (table, find) in TABLES {
            found.extend(self.all(find, &[]).await?.iter().map(|row| (table, key(row))));
        }
        Ok(found)
    }

    /// Notes a row that breaks a rule.
    pub(crate) fn note_damaged(&self, table: &'static str, key: &dyn ToString, what: &'static str) {
        self.damaged.note(DamagedRow { table, key: key.to_string(), what });
    }

    /// Returns the damaged rows that were noted.
    pub(crate) fn damaged_rows(&self) -> Vec<DamagedRow> {
        self.damaged.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Returns true if a row is a mark of something that was removed or revoked.
pub(super) fn is_over(row: &Row) -> bool {
    let is_set = |column: &&str| {
        let place = row.columns.iter().position(|name| name == column);
        place.and_then(|place| row.cells.get(place)).is_some_and(|cell| *cell != Cell::Null)
    };
    ["removed_at", "revoked_at"].iter().any(is_set)
}

/// Returns a row as a type. The error names the row.
pub(super) fn parsed<T>(
    table: &'static str,
    row: &Row,
    parse: impl FnOnce(&Row) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    parse(row).map_err(|error| StoreError::DamagedRow(damaged(table, row, &error)))
}

fn damaged(table: &'static str, row: &Row, error: &StoreError) -> DamagedRow {
    let what = match error {
        StoreError::Damaged(what) => what,
        _ => "it cannot be read",
    };
    DamagedRow { table, key: key(row), what }
}

/// Returns a row's first column, by which an operator finds it: a number or a name, and other bytes in hex digits.
pub(super) fn key(row: &Row) -> String {
    let is_name = |text: &&str| text.len() <= LONGEST_KEY && !text.contains(char::is_control);
    match row.cells.first() {
        Some(Cell::Integer(number)) => number.to_string(),
        Some(Cell::Bytes(bytes)) => match str::from_utf8(bytes).ok().filter(is_name).filter(|_| bytes.len() != 16) {
            Some(name) => String::from(name),
            None => bytes.iter().take(LONGEST_KEY).map(|byte| format!("{byte:02x}")).collect(),
        },
        Some(Cell::Null) | None => String::from("NULL"),
    }
}

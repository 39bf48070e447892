//! Dumps of SQLite databases, for tests.

use std::collections::BTreeMap;
use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row, query, query_scalar};

use super::super::dumps::{Contents, DumpedRow};
use super::{FILE, migrations, prepare};

async fn connect(directory: &Path) -> SqliteConnection {
    // A dump has its tables in the order of their names, whatever they refer to.
    let options = SqliteConnectOptions::new().filename(directory.join(FILE)).foreign_keys(false);
    options.journal_mode(SqliteJournalMode::Wal).connect().await.unwrap()
}

/// Replaces the database in `directory` with a dump.
pub(in crate::store) async fn load(directory: &Path, statements: String) {
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(directory.join(format!("{FILE}{ending}")));
    }
    prepare(directory).unwrap();
    let mut connection = connect(directory).await;
    connection.execute(AssertSqlSafe(format!("BEGIN; {statements}\nCOMMIT;"))).await.unwrap();
    connection.close().await.unwrap();
}

/// Returns all rows of the database in `directory`.
pub(in crate::store) async fn contents(directory: &Path) -> Contents {
    let mut connection = connect(directory).await;
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
    let tables: Vec<String> = query_scalar(tables).fetch_all(&mut connection).await.unwrap();
    let mut found = Contents::new();
    for table in tables {
        let columns = query_scalar("SELECT name FROM pragma_table_info($1)").bind(&table);
        let columns: Vec<String> = columns.fetch_all(&mut connection).await.unwrap();
        let quoted: Vec<String> = columns.iter().map(|column| format!("quote(\"{column}\")")).collect();
        let read = AssertSqlSafe(format!("SELECT {} FROM \"{table}\"", quoted.join(", ")));
        let rows = query(read).fetch_all(&mut connection).await.unwrap();
        let value = |row: &sqlx::sqlite::SqliteRow, place| row.get::<String, _>(place);
        let dumped = |row| -> DumpedRow {
            columns
                .iter()
                .enumerate()
                .map(|(place, column)| (column.clone(), value(row, place)))
                .collect::<BTreeMap<_, _>>()
        };
        found.insert(table, rows.iter().map(dumped).collect());
    }
    connection.close().await.unwrap();
    found
}

/// Upgrades the database in `directory`, up to the step of SQLite's virtual machine with this number; every later one fails. Returns true if that was too early.
pub(in crate::store) async fn interrupted(directory: &Path, steps: u64) -> bool {
    prepare(directory).unwrap();
    let mut connection = connect(directory).await;
    let mut left = steps;
    let may_go_on = move || {
        left = left.saturating_sub(1);
        left > 0
    };
    connection.lock_handle().await.unwrap().set_progress_handler(1, may_go_on);
    migrations::SQLITE.run(&mut connection).await.is_err()
}

//! Copies of a database, and whether a program has it open.

use std::path::Path;

use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteLockingMode};
use sqlx::{ConnectOptions, Connection, query};

use super::{BUSY, FILE, StoreError};
use crate::store::causes::is_locked;

/// Time for which another program may keep the database open, 2 s: longer than a check or a look with `sqlite3`.
const IN_USE: Duration = Duration::from_secs(2);

/// Writes a consistent copy of the database in `directory` to the empty file `file`. A coordinator may be running.
pub(crate) async fn copy(directory: &Path, file: &str) -> Result<(), StoreError> {
    let options = SqliteConnectOptions::new().filename(directory.join(FILE)).busy_timeout(BUSY);
    let mut connection = options.connect().await?;
    query("VACUUM INTO ?").bind(file).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Returns true if another program has the database in `directory` open. A program that replicates it would go on with the file that it has, whatever then has its
/// name. A database that cannot be read is open nowhere.
pub(crate) async fn is_open_elsewhere(directory: &Path) -> bool {
    // With this mode SQLite needs the file for itself.
    let options = SqliteConnectOptions::new().filename(directory.join(FILE)).busy_timeout(IN_USE);
    let mut connection = match options.locking_mode(SqliteLockingMode::Exclusive).connect().await {
        Ok(connection) => connection,
        Err(error) => return is_locked(&error),
    };
    let read = query("SELECT count(*) FROM sqlite_schema").execute(&mut connection).await;
    // Whether it closes without an error says nothing about others.
    let _ = connection.close().await;
    read.is_err_and(|error| is_locked(&error))
}

//! Copies of a database.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, query};

use super::{BUSY, FILE, StoreError};

/// Writes a consistent copy of the database in `directory` to the empty file `file`. A coordinator may be running.
pub(crate) async fn copy(directory: &Path, file: &str) -> Result<(), StoreError> {
    let options = SqliteConnectOptions::new().filename(directory.join(FILE)).busy_timeout(BUSY);
    let mut connection = options.connect().await?;
    query("VACUUM INTO ?").bind(file).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

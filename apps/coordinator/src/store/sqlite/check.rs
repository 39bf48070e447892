//! Checks of a database file.

use std::path::Path;
use std::sync::Arc;

use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqlitePoolOptions};
use sqlx::{Row, Sqlite, query, query_scalar};

use super::super::Reading;
use super::super::check::violations;
use super::super::migrations;
use super::{BUSY, FILE, SqliteTransaction, StoreError};

/// Returns descriptions of all damages of the database in `directory`. A coordinator may be running on it.
pub(crate) async fn check(directory: &Path) -> Result<Vec<String>, StoreError> {
    let options = SqliteConnectOptions::new().filename(directory.join(FILE)).busy_timeout(BUSY);
    let connections = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
    // One consistent view for all statements.
    let found = find(connections.begin().await?).await?;
    connections.close().await;
    Ok(found)
}

async fn find(mut tx: sqlx::Transaction<'static, Sqlite>) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    for row in query("PRAGMA integrity_check").fetch_all(&mut *tx).await? {
        let finding: String = row.try_get(0)?;
        if finding != "ok" {
            found.push(finding);
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    is_known(&mut tx).await?;
    for row in query("PRAGMA foreign_key_check").fetch_all(&mut *tx).await? {
        let table: String = row.try_get(0)?;
        found.push(format!("a row of {table} belongs to something that is not there"));
    }
    let knows_relays: bool =
        query_scalar("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'relays')").fetch_one(&mut *tx).await?;
    found.extend(violations(&mut SqliteTransaction { tx, _permit: None }, knows_relays).await?);
    Ok(found)
}

/// Returns a view of the database in `directory`, on which a coordinator may be running; `None` if its tables are those of another release.
pub(crate) async fn view(directory: &Path) -> Result<Option<Reading>, StoreError> {
    let options = SqliteConnectOptions::new().filename(directory.join(FILE)).busy_timeout(BUSY);
    let connections = SqlitePoolOptions::new().max_connections(1).connect_with(options).await?;
    let mut tx = connections.begin().await?;
    let made: i64 = match query_scalar("SELECT max(version) FROM _sqlx_migrations").fetch_one(&mut *tx).await {
        Ok(made) => made,
        Err(_) => return Ok(None),
    };
    if migrations::SQLITE.iter().map(|one| one.version).max() != Some(made) {
        return Ok(None);
    }
    Ok(Some(Reading {
        tx: Box::new(SqliteTransaction { tx, _permit: None }),
        figures: Arc::default(),
        damaged: Arc::default(),
    }))
}

/// Fails if a newer release upgraded the database, whose tables this release cannot check.
async fn is_known(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let has_versions = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_sqlx_migrations')";
    if !query_scalar::<_, bool>(has_versions).fetch_one(&mut *connection).await? {
        return Ok(());
    }
    for row in query("SELECT version FROM _sqlx_migrations ORDER BY version").fetch_all(&mut *connection).await? {
        let version: i64 = row.try_get(0)?;
        if !migrations::SQLITE.version_exists(version) {
            return Err(StoreError::Migration(MigrateError::VersionMissing(version)));
        }
    }
    Ok(())
}

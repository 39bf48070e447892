//! Checks of a database on a server.

use sqlx::migrate::{Migrate, MigrateError};
use sqlx::query_scalar;

use super::super::check::violations;
use super::super::database::Database;
use super::super::migrations;
use super::{PostgresDatabase, Purpose, StoreError};

/// Returns descriptions of all damages of the coordinator's database at `url`. A coordinator may be running on it. The server's own checks of its files are not
/// made (`pg_amcheck` makes them).
pub(crate) async fn check(url: &str) -> Result<Vec<String>, StoreError> {
    let database = PostgresDatabase::new(url, Purpose::Change)?;
    let connections = database.0.pools().readers;
    let has_tables: bool =
        query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL").fetch_one(&connections).await?;
    if !has_tables {
        return Err(StoreError::NoTables);
    }
    let known = connections.acquire().await?.list_applied_migrations("_sqlx_migrations").await?;
    if let Some(newer) = known.iter().find(|one| !migrations::POSTGRES.version_exists(one.version)) {
        return Err(StoreError::Migration(MigrateError::VersionMissing(newer.version)));
    }
    let found = violations(database.begin_read().await?.as_mut(), true).await?;
    database.close().await?;
    Ok(found)
}

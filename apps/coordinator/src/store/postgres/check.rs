//! Checks of a database on a server.

use std::str::FromStr;

use sqlx::migrate::{Migrate, MigrateError};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::query_scalar;

use super::super::check::violations;
use super::super::migrations;
use super::{PERMIT_TIMEOUT, PostgresTransaction, StoreError};

/// Returns descriptions of all damages of the coordinator's database at `url`. A coordinator may be running on it. The server's own checks of its files are not
/// made (`pg_amcheck` makes them).
pub(crate) async fn check(url: &str) -> Result<Vec<String>, StoreError> {
    let options = PgConnectOptions::from_str(url)?.application_name("taut-coordinator check");
    let connections =
        PgPoolOptions::new().max_connections(1).acquire_timeout(PERMIT_TIMEOUT).connect_with(options).await?;
    let has_tables: bool =
        query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL").fetch_one(&connections).await?;
    if !has_tables {
        return Err(StoreError::NoTables);
    }
    let known = connections.acquire().await?.list_applied_migrations("_sqlx_migrations").await?;
    if let Some(newer) = known.iter().find(|one| !migrations::POSTGRES.version_exists(one.version)) {
        return Err(StoreError::Migration(MigrateError::VersionMissing(newer.version)));
    }
    let tx = connections.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let found = violations(&mut PostgresTransaction(tx), true).await?;
    connections.close().await;
    Ok(found)
}

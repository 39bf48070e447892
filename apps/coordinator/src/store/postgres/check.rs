//! Checks of a database on a server.

use sqlx::migrate::{Migrate, MigrateError};
use sqlx::postgres::PgConnection;
use sqlx::query_scalar;

use super::{PostgresDatabase, Purpose, StoreError};
use crate::store::check::violations;
use crate::store::{Party, Store, migrations};

/// Returns descriptions of all damages of the coordinator's database at `url`. Coordinators may be running on it. The server's own checks of its files are not
/// made (`pg_amcheck` makes them).
pub(crate) async fn check(url: &str) -> Result<Vec<String>, StoreError> {
    let store = Store::with(Box::new(PostgresDatabase::open(url, Purpose::Change).await?));
    let mut reading = store.read(Party::Coordinator).await?;
    let found = violations(reading.tx.as_mut(), true).await?;
    drop(reading);
    store.close().await;
    Ok(found)
}

/// Returns an error unless the tables are those of this release.
pub(super) async fn expect_tables(connection: &mut PgConnection) -> Result<(), StoreError> {
    let has_tables = "SELECT to_regclass('_sqlx_migrations') IS NOT NULL";
    if !query_scalar::<_, bool>(has_tables).fetch_one(&mut *connection).await? {
        return Err(StoreError::NoTables);
    }
    let known = connection.list_applied_migrations("_sqlx_migrations").await?;
    if let Some(newer) = known.iter().find(|one| !migrations::POSTGRES.version_exists(one.version)) {
        return Err(StoreError::Migration(MigrateError::VersionMissing(newer.version)));
    }
    let is_missing = |version| known.iter().all(|one| one.version != version);
    if migrations::POSTGRES.iter().any(|one| is_missing(one.version)) { Err(StoreError::OldTables) } else { Ok(()) }
}

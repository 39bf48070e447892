//! Checks of a database on a server.

use sqlx::migrate::{Migrate, MigrateError};
use sqlx::postgres::PgConnection;
use sqlx::query_scalar;

use super::{PostgresDatabase, Purpose, StoreError};
use crate::store::check::violations;
use crate::store::{Party, Store, migrations};

/// sqlx's table of the migrations that were made.
const MADE: &str = "_sqlx_migrations";

/// Whether others may put functions where the coordinator's statements look for theirs, or have done so. Everything is named in full, so that the answer is the server's.
const IS_SHARED: &str = "SELECT pg_catalog.has_schema_privilege(CAST('public' AS NAME), CAST(pg_catalog.current_schema() AS TEXT), CAST('CREATE' AS TEXT)) \
     OR EXISTS (SELECT 1 FROM pg_catalog.pg_proc JOIN pg_catalog.pg_roles ON pg_roles.oid = pg_proc.proowner \
     WHERE pg_proc.pronamespace = CAST(CAST(CAST(pg_catalog.current_schema() AS TEXT) AS regnamespace) AS OID) \
     AND NOT pg_roles.rolsuper AND pg_roles.rolname <> CURRENT_USER)";

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

/// Returns an error if other roles may put functions into the schema of the coordinator's tables: the server would call them with the coordinator's rights.
pub(super) async fn expect_private_schema(connection: &mut PgConnection) -> Result<(), StoreError> {
    let is_shared: Option<bool> = query_scalar(IS_SHARED).fetch_one(connection).await?;
    if is_shared == Some(true) { Err(StoreError::SharedSchema) } else { Ok(()) }
}

/// Returns an error unless the tables are those of this release.
pub(super) async fn expect_tables(connection: &mut PgConnection) -> Result<(), StoreError> {
    let has_tables = "SELECT pg_catalog.to_regclass(CAST('_sqlx_migrations' AS TEXT)) IS NOT NULL";
    if !query_scalar::<_, bool>(has_tables).fetch_one(&mut *connection).await? {
        return Err(StoreError::NoTables);
    }
    if let Some(version) = connection.dirty_version(MADE).await? {
        return Err(MigrateError::Dirty(version).into());
    }
    let made = connection.list_applied_migrations(MADE).await?;
    let ours = || migrations::POSTGRES.iter();
    let first = ours().map(|one| one.version).min().unwrap_or(0);
    if let Some(other) = made.iter().find(|one| one.version >= first && ours().all(|ours| ours.version != one.version))
    {
        return Err(MigrateError::VersionMissing(other.version).into());
    }
    for one in ours() {
        match made.iter().find(|made| made.version == one.version) {
            None => return Err(StoreError::OldTables),
            Some(made) if made.checksum != one.checksum => {
                return Err(MigrateError::VersionMismatch(one.version).into());
            }
            Some(_) => {}
        }
    }
    Ok(())
}

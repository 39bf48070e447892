//! Checks of a database.

use std::path::Path;

use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Row, query, query_scalar};

use super::super::migrations;
use super::{BUSY, FILE, StoreError};

/// Damages that no correct change leaves behind, each with a statement that counts them. SQLite itself checks the constraints of the tables (no duplicate
/// address, name or key).
const CHECKS: [(&str, &str); 8] = [
    (
        "the coordinator's key is missing: this is not a coordinator's database, or its first start was interrupted",
        "SELECT NOT EXISTS (SELECT 1 FROM meta WHERE name = 'coordinator-key' AND length(value) = 32)",
    ),
    (
        "a key of the coordinator's, or of its own relay, has a wrong length",
        "SELECT count(*) FROM meta WHERE name IN ('ticket-key', 'relay-key') AND length(value) <> 32",
    ),
    (
        "a network's version is missing in its history",
        "SELECT count(*) FROM networks n WHERE NOT EXISTS \
         (SELECT 1 FROM history h WHERE h.network = n.id AND h.version = n.version)",
    ),
    (
        "a history goes beyond its network's version",
        "SELECT count(*) FROM history h JOIN networks n ON n.id = h.network WHERE h.version > n.version",
    ),
    (
        "a history has gaps",
        "SELECT count(*) FROM networks n WHERE (SELECT count(*) - 1 FROM history h WHERE h.network = n.id) \
         <> (n.version >> 20) - (SELECT min(h.version) >> 20 FROM history h WHERE h.network = n.id)",
    ),
    (
        "a node changed at a version that its network never had",
        "SELECT count(*) FROM nodes d WHERE d.version >= (SELECT min(h.version) FROM history h WHERE h.network = d.network) \
         AND NOT EXISTS (SELECT 1 FROM history h WHERE h.network = d.network AND h.version = d.version)",
    ),
    ("a one-off key was used more than once", "SELECT count(*) FROM keys WHERE reusable = 0 AND used > 1"),
    (
        "there are more nodes than keys were used",
        "SELECT (SELECT count(*) FROM nodes) > (SELECT coalesce(sum(used), 0) FROM keys)",
    ),
];

/// Damages of the tables for relays, which a database of an earlier release does not have.
const CHECKS_OF_RELAYS: [(&str, &str); 2] = [
    (
        "there are relays, and no key that signs leave to use them",
        "SELECT EXISTS (SELECT 1 FROM relays) AND NOT EXISTS (SELECT 1 FROM meta WHERE name = 'ticket-key')",
    ),
    (
        "a network's relays changed at a version after its last",
        "SELECT count(*) FROM networks WHERE relays_version > version",
    ),
];

/// Returns descriptions of all damages of the database in `directory`. A coordinator may be running on it.
pub(crate) async fn check(directory: &Path) -> Result<Vec<String>, StoreError> {
    let options = SqliteConnectOptions::new().filename(directory.join(FILE)).busy_timeout(BUSY);
    let mut connection = options.connect().await?;
    let found = find(&mut connection).await?;
    connection.close().await?;
    Ok(found)
}

async fn find(connection: &mut SqliteConnection) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    // One consistent view for all statements.
    let mut tx = connection.begin().await?;
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
    for (what, count) in CHECKS.into_iter().chain(knows_relays.then_some(CHECKS_OF_RELAYS).into_iter().flatten()) {
        let count: i64 = query_scalar(count).fetch_one(&mut *tx).await?;
        if count != 0 {
            found.push(String::from(what));
        }
    }
    Ok(found)
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

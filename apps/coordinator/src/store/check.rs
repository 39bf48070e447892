//! What has to be true of a database, whatever happened to the program that wrote it.

use std::path::Path;

use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Row, query, query_scalar};

use super::{BUSY, FILE, MIGRATIONS, StoreError};

/// What no change ever leaves behind, each with a statement that counts where it is so. The tables' own constraints (no address, name
/// or key twice) are looked after by SQLite's checks.
const WRONG: [(&str, &str); 8] = [
    (
        "there is no coordinator's key: this is not a coordinator's database, or its first start was cut off",
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

/// The same for a database that knows of relays: one of an earlier version has no such tables until it is used.
const WRONG_OF_RELAYS: [(&str, &str); 2] = [
    (
        "there are relays, and no key that signs leave to use them",
        "SELECT EXISTS (SELECT 1 FROM relays) AND NOT EXISTS (SELECT 1 FROM meta WHERE name = 'ticket-key')",
    ),
    (
        "a network's relays changed at a version after its last",
        "SELECT count(*) FROM networks WHERE relays_version > version",
    ),
];

/// All that is wrong with the database in `directory`, in words; empty when it is sound. A running coordinator may go on meanwhile.
pub(crate) async fn check(directory: &Path) -> Result<Vec<String>, StoreError> {
    let options = SqliteConnectOptions::new().filename(directory.join(FILE)).busy_timeout(BUSY);
    let mut connection = options.connect().await?;
    let found = find(&mut connection).await?;
    connection.close().await?;
    Ok(found)
}

async fn find(connection: &mut SqliteConnection) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    // One view for all questions.
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
    for (what, count) in WRONG.into_iter().chain(knows_relays.then_some(WRONG_OF_RELAYS).into_iter().flatten()) {
        let count: i64 = query_scalar(count).fetch_one(&mut *tx).await?;
        if count != 0 {
            found.push(String::from(what));
        }
    }
    Ok(found)
}

/// Fails if a newer program upgraded the database. What has to be true of its tables is not known to this one, and it would not open it.
async fn is_known(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let has_versions = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '_sqlx_migrations')";
    if !query_scalar::<_, bool>(has_versions).fetch_one(&mut *connection).await? {
        return Ok(());
    }
    for row in query("SELECT version FROM _sqlx_migrations ORDER BY version").fetch_all(&mut *connection).await? {
        let version: i64 = row.try_get(0)?;
        if !MIGRATIONS.version_exists(version) {
            return Err(StoreError::Migration(MigrateError::VersionMissing(version)));
        }
    }
    Ok(())
}

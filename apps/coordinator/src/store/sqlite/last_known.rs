//! What a database knows to be assigned, read before a restore replaces it.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Row, query, query_scalar};

use super::super::database::Table;
use super::super::restored::LastKnown;
use super::{BUSY, FILE, NetworkId};

/// Returns what the database in `directory` assigned last; nothing if it cannot be read. Its tables are not updated, because it is kept as it is.
pub(crate) async fn last_known(directory: &Path) -> LastKnown {
    let options = SqliteConnectOptions::new().filename(directory.join(FILE)).busy_timeout(BUSY);
    let Ok(mut connection) = options.connect().await else { return LastKnown::default() };
    let known = read(&mut connection).await.unwrap_or_default();
    // Whether it closes without an error changes nothing about what was read.
    let _ = connection.close().await;
    known
}

async fn read(connection: &mut SqliteConnection) -> Result<LastKnown, sqlx::Error> {
    let mut known = LastKnown::default();
    for (table, number) in
        [(Table::Nodes, &mut known.nodes), (Table::Keys, &mut known.keys), (Table::Relays, &mut known.relays)]
    {
        let last = query_scalar("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = $1");
        *number = last.bind(table.name()).fetch_one(&mut *connection).await?;
    }
    for row in query("SELECT id, cursor, version FROM networks").fetch_all(connection).await? {
        let id: Vec<u8> = row.try_get(0)?;
        if let Ok(id) = id.try_into() {
            known.networks.push((NetworkId(id), row.try_get(1)?, row.try_get(2)?));
        }
    }
    Ok(known)
}

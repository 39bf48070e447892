//! PostgreSQL: for coordinators that several hosts run, or whose operator runs PostgreSQL anyway.
//!
//! Several coordinators may serve one database (`replica`). Writers take turns by the lock of the table `turns`, as SQLite's do by the lock of its file. It
//! belongs to the transaction, so a program that dies or loses its connection gives it back with everything that it has not committed. Readers see one snapshot and
//! wait for nobody.

mod check;
mod connections;
#[cfg(test)]
mod dumped;
mod options;
mod replica;
mod rows;
#[cfg(test)]
mod testing;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use sqlx::{query, query_scalar};
use tokio::runtime::Handle;
use tokio::time::timeout;

pub(crate) use check::check;
#[cfg(test)]
pub(super) use dumped::{contents, interrupted, load};
pub(super) use options::check_url;
#[cfg(test)]
pub(crate) use testing::{
    ServerLock, SilentLine, StuckServer, TableLock, count, end_connections, execute, forbid_connections, forbid_writes,
    forget_database, location_for_test, translated,
};

use super::causes::{ends_connection, has_no_table};
use super::database::{Database, Table, Transaction};
use super::error::Answer;
use super::replica::Replica;
use super::value::{Row, Value};
use super::{NetworkId, Party, Permit, Purpose, StoreError, migrations};
use connections::{Connection, Connections, failure};
use replica::PostgresReplica;
use rows::{bound, rows};

/// Concurrent readers of one coordinator, 4: a server of the usual 100 connections has room for many coordinators.
const READERS: usize = 4;

/// Begins a read transaction.
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Begins a write transaction, and waits for its turn. Each statement sees what was committed before it, and with the lock nobody commits meanwhile. Only who may write
/// the table can take the lock.
const WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; LOCK TABLE turns IN EXCLUSIVE MODE";

/// Longest time that a statement takes, 20 s: more than the server itself allows. Only a server that is stopped, or whose host is gone, is slower. TCP alone would wait for a
/// quarter of an hour.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// The same in a copy of everything, 1 h.
const COPY_TIMEOUT: Duration = Duration::from_secs(3_600);

/// A database on a server.
pub(super) struct PostgresDatabase {
    connections: Arc<Connections>,
    /// Number of this coordinator among those that serve the database; drawn by each start.
    id: i64,
}

impl PostgresDatabase {
    /// Connects to the server of a URL (`postgres://USER:PASSWORD@HOST/DATABASE`). Updates the tables of its database, unless it is opened for one change.
    pub(super) async fn open(url: &str, purpose: Purpose) -> Result<Self, StoreError> {
        let connections = Arc::new(Connections::new(options::options(url)?));
        let mut connection = connections.connect().await?;
        check::expect_private_schema(&mut connection.raw).await?;
        match (check::expect_tables(&mut connection.raw).await, purpose) {
            // The lock that sqlx takes for a migration is one that any role can hold, so it is taken only if there is something to do.
            (Err(StoreError::NoTables | StoreError::OldTables), Purpose::Serve | Purpose::Copy) => {
                migrations::POSTGRES.run(&mut connection.raw).await?;
            }
            (result, _) => result?,
        }
        connections.keep(connection);
        let database = Self { connections, id: number() };
        match purpose {
            // Before its first change, so that a copy of the database that has begun meanwhile notices.
            Purpose::Serve => _ = database.link().beat().await?,
            Purpose::Copy => database.expect_unserved().await?,
            Purpose::Change => {}
        }
        Ok(database)
    }

    fn link(&self) -> PostgresReplica {
        PostgresReplica::new(Arc::clone(&self.connections), self.id)
    }

    async fn begin(&self, begin: &'static str, permit: Permit<Party>) -> Result<PostgresTransaction, StoreError> {
        let connection = Some(self.connections.begin(begin).await?);
        let connections = Arc::clone(&self.connections);
        Ok(PostgresTransaction { connection, connections, permit: Some(permit), limit: ANSWER_TIMEOUT, failed: false })
    }
}

/// Returns a number that no other coordinator has.
fn number() -> i64 {
    // The keys of the standard library's hasher are random bits of the system.
    RandomState::new().hash_one(std::process::id()).cast_signed()
}

impl Database for PostgresDatabase {
    fn readers(&self) -> usize {
        READERS
    }

    fn begin_read(&self, permit: Permit<Party>) -> Answer<'_, Box<dyn Transaction>> {
        Box::pin(async { Ok(Box::new(self.begin(READ, permit).await?) as _) })
    }

    fn begin_write(&self, permit: Permit<Party>) -> Answer<'_, Box<dyn Transaction>> {
        Box::pin(async {
            match self.begin(WRITE, permit).await {
                // The table has another name since the coordinator moved.
                Err(StoreError::Database(error)) if has_no_table(&error) => Err(StoreError::Moved),
                begun => Ok(Box::new(begun?) as _),
            }
        })
    }

    fn silence(&self) -> Duration {
        self.connections.silence()
    }

    fn expect_unserved(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let mut connection = self.connections.begin(READ).await?;
            let served = timeout(ANSWER_TIMEOUT, query_scalar(replica::IS_SERVED).fetch_one(&mut connection.raw));
            let is_served: bool = served.await.map_err(|_| StoreError::Slow)?.map_err(failure)?;
            self.connections.roll_back(connection).await;
            if is_served { Err(StoreError::Occupied) } else { Ok(()) }
        })
    }

    fn replica(&self) -> Option<Box<dyn Replica>> {
        Some(Box::new(self.link()))
    }

    #[cfg(test)]
    fn dialect(&self, sql: &'static str) -> &'static str {
        translated(sql)
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.connections.close().await;
            Ok(())
        })
    }
}

struct PostgresTransaction {
    /// `None` after the end of the transaction, and after a failure that leaves nothing to end.
    connection: Option<Connection>,
    connections: Arc<Connections>,
    /// Given back after the transaction.
    permit: Option<Permit<Party>>,
    /// Longest time that a statement takes.
    limit: Duration,
    /// True if a statement failed. The server then refuses everything up to the end of the transaction, and would answer COMMIT without an error.
    failed: bool,
}

impl PostgresTransaction {
    /// Executes a statement on the connection.
    async fn run<'a, T, F>(&'a mut self, statement: impl FnOnce(&'a mut Connection) -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, sqlx::Error>>,
    {
        let Self { connection, connections, limit, failed, .. } = self;
        let Some(connection) = connection.as_mut() else { return Err(StoreError::Slow) };
        // Also if the caller does not wait for the answer.
        let before = std::mem::replace(failed, true);
        let answer = timeout(*limit, statement(connection)).await.map_err(|_| StoreError::Slow)?.map_err(failure)?;
        connections.note_answer();
        *failed = before;
        Ok(answer)
    }
}

impl Transaction for PostgresTransaction {
    fn rows<'a>(&'a mut self, sql: &'static str, values: &'a [Value<'a>]) -> Answer<'a, Vec<Row>> {
        Box::pin(async move { rows(&self.run(|connection| bound(sql, values).fetch_all(&mut connection.raw)).await?) })
    }

    fn execute<'a>(&'a mut self, sql: &'static str, values: &'a [Value<'a>]) -> Answer<'a, u64> {
        Box::pin(async move {
            Ok(self.run(|connection| bound(sql, values).execute(&mut connection.raw)).await?.rows_affected())
        })
    }

    fn last_number(&mut self, table: Table) -> Answer<'_, i64> {
        // Rows that were written by hand may have numbers that the sequence does not know.
        const LAST: &str =
            "SELECT coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence($1, 'id') AS regclass)), 0)";
        Box::pin(async move {
            let last: i64 =
                self.run(|connection| query_scalar(LAST).bind(table.name()).fetch_one(&mut connection.raw)).await?;
            let largest = self.rows(table.largest(), &[]).await?;
            let largest: i64 = largest.first().ok_or(StoreError::Damaged("a count is missing"))?.first()?;
            Ok(last.max(largest))
        })
    }

    fn set_last_number(&mut self, table: Table, last: i64) -> Answer<'_, ()> {
        // A sequence begins with 1, which is the first number that is not the last one of an empty table.
        const SET: &str = "SELECT pg_catalog.setval(CAST(pg_catalog.pg_get_serial_sequence(CAST($1 AS TEXT), CAST('id' AS TEXT)) AS regclass), greatest($2, 1), $2 > 0)";
        Box::pin(async move {
            let set = query(SET).bind(table.name()).bind(last);
            self.run(|connection| set.execute(&mut connection.raw)).await.map(drop)
        })
    }

    fn hint(&mut self, network: NetworkId, version: u64) -> Answer<'_, ()> {
        Box::pin(async move {
            let told = replica::network_hint(network, version);
            self.run(|connection| query(replica::NOTIFY).bind(told).execute(&mut connection.raw)).await.map(drop)
        })
    }

    fn unlimited(&mut self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.limit = COPY_TIMEOUT;
            self.execute("SET LOCAL statement_timeout = 0", &[]).await?;
            self.execute("SET LOCAL idle_in_transaction_session_timeout = 0", &[]).await.map(drop)
        })
    }

    fn fence(&mut self) -> Answer<'_, ()> {
        Box::pin(async move { self.execute("ALTER TABLE turns RENAME TO turns_moved", &[]).await.map(drop) })
    }

    fn commit(mut self: Box<Self>) -> Answer<'static, ()> {
        Box::pin(async move {
            if self.failed {
                return Err(StoreError::Damaged("a statement of this change failed"));
            }
            // From here on the connection is dropped unless the server has answered.
            let Some(mut connection) = self.connection.take() else { return Err(StoreError::Slow) };
            let committed = timeout(self.limit, query("COMMIT").execute(&mut connection.raw)).await;
            match committed {
                Ok(Ok(_)) => self.connections.keep(connection),
                Ok(Err(error)) if !ends_connection(&error) => {
                    // A rule of the tables that is checked at the end.
                    self.connections.roll_back(connection).await;
                    return Err(error.into());
                }
                // The server may have done it.
                Ok(Err(_)) | Err(_) => return Err(StoreError::Uncertain),
            }
            Ok(())
        })
    }
}

impl Drop for PostgresTransaction {
    /// Ends the transaction without effect, before the permit is given back.
    fn drop(&mut self) {
        let (connection, permit) = (self.connection.take(), self.permit.take());
        if let Some(connection) = connection
            && let Ok(runtime) = Handle::try_current()
        {
            let connections = Arc::clone(&self.connections);
            runtime.spawn(async move {
                connections.roll_back(connection).await;
                drop(permit);
            });
        }
    }
}

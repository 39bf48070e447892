//! PostgreSQL: for coordinators that several hosts run, or whose operator runs PostgreSQL anyway.
//!
//! Writers take turns by an advisory lock of the server ([`WRITERS`]), as SQLite's do by the lock of its file. It belongs to the transaction, so a program that
//! dies or loses its connection gives it back with everything that it has not committed. Readers see one snapshot and wait for nobody.
//!
//! `serve` holds another lock ([`SERVING`]) on the connection of its writer, because two coordinators on one database would not tell each other's nodes what
//! changed. A coordinator that lost the connection takes the lock again with its next change. If another one has it by then, every change fails: whoever
//! is late writes nothing.

mod check;
#[cfg(test)]
mod testing;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{Column, Executor, Postgres, Row as _, TypeInfo, ValueRef, query, query_scalar};

pub(crate) use check::check;
#[cfg(test)]
pub(crate) use testing::{
    ServerLock, end_connections, forbid_connections, forbid_writes, forget_database, location_for_test, translated,
};

use super::database::{Answer, Database, Table, Transaction};
use super::value::{Cell, Row, Value};
use super::{PERMIT_TIMEOUT, Purpose, StoreError, migrations};

/// Concurrent readers of one coordinator, 4: a server of the usual 100 connections has room for many coordinators.
const READERS: u32 = 4;

/// Number of the advisory lock that a writer holds, "taut" in ASCII. The server's other databases have locks of their own.
const WRITERS: i64 = 0x7461_7574;

/// Number of the advisory lock that `serve` holds.
const SERVING: i64 = 0x7461_7575;

/// What each connection sets. A server that is stuck answers with an error instead of never, and notices within 25 s that a coordinator's host is gone. A coordinator that stops in the middle of a transaction does not hold
/// the lock of the writers for ever, and what is acknowledged survives a loss of power (fault O2) although the server may be set to faster answers. Statements
/// may take longer than [`PERMIT_TIMEOUT`], after which nobody waits any more; the lock is waited for as long as SQLite's.
const SETTINGS: &str = "SET statement_timeout = '15s'; SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '15s'; \
     SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; \
     SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// Time after which a connection is renewed, 30 minutes, so that a server that moved is found by its name again.
const LIFETIME: Duration = Duration::from_secs(1_800);

/// The connections to the server.
pub(super) struct PostgresDatabase {
    readers: PgPool,
    writer: PgPool,
    purpose: Purpose,
}

impl PostgresDatabase {
    /// Connects to the server of a URL (`postgres://USER:PASSWORD@HOST/DATABASE`), and updates the tables of its database.
    pub(super) async fn open(url: &str, purpose: Purpose) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url)?.application_name("taut-coordinator");
        let pool = |size, lifetime| {
            let pool = PgPoolOptions::new().min_connections(1).max_connections(size).idle_timeout(None);
            pool.acquire_timeout(PERMIT_TIMEOUT).max_lifetime(lifetime).after_connect(|connection, _| {
                Box::pin(async move {
                    connection.execute(SETTINGS).await?;
                    Ok(())
                })
            })
        };
        // The writer's connection has the lock of `serve`, so it is never renewed.
        let writer = pool(1, None).connect_with(options.clone()).await?;
        let opened = Self { readers: pool(READERS, Some(LIFETIME)).connect_with(options).await?, writer, purpose };
        if matches!(purpose, Purpose::Serve) {
            // Waited for, because the server may not have noticed the end of the one before.
            let waited = query("SELECT pg_advisory_lock($1)").bind(SERVING).execute(&opened.writer).await;
            waited.map_err(|error| if is_lock_timeout(&error) { StoreError::Occupied } else { error.into() })?;
        }
        migrations::POSTGRES.run(&opened.writer).await?;
        Ok(opened)
    }
}

impl Database for PostgresDatabase {
    fn readers(&self) -> usize {
        READERS as usize
    }

    fn begin_read(&self) -> Answer<'_, Box<dyn Transaction>> {
        Box::pin(async {
            let tx = self.readers.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
            Ok(Box::new(PostgresTransaction(tx)) as _)
        })
    }

    fn begin_write(&self) -> Answer<'_, Box<dyn Transaction>> {
        Box::pin(async {
            // Each statement sees what was committed before it, and with the lock nobody commits meanwhile.
            let mut tx = self.writer.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED").await?;
            query("SELECT pg_advisory_xact_lock($1)").bind(WRITERS).execute(&mut *tx).await?;
            if matches!(self.purpose, Purpose::Serve) {
                // True as well if this connection has it already.
                let is_ours: bool =
                    query_scalar("SELECT pg_try_advisory_lock($1)").bind(SERVING).fetch_one(&mut *tx).await?;
                if !is_ours {
                    return Err(StoreError::Occupied);
                }
            }
            Ok(Box::new(PostgresTransaction(tx)) as _)
        })
    }

    #[cfg(test)]
    fn dialect(&self, sql: &'static str) -> &'static str {
        translated(sql)
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.readers.close().await;
            self.writer.close().await;
            Ok(())
        })
    }
}

struct PostgresTransaction(sqlx::Transaction<'static, Postgres>);

impl Transaction for PostgresTransaction {
    fn rows<'a>(&'a mut self, sql: &'static str, values: &'a [Value<'a>]) -> Answer<'a, Vec<Row>> {
        Box::pin(async move { rows(&bound(sql, values).fetch_all(&mut *self.0).await?) })
    }

    fn execute<'a>(&'a mut self, sql: &'static str, values: &'a [Value<'a>]) -> Answer<'a, u64> {
        Box::pin(async move { Ok(bound(sql, values).execute(&mut *self.0).await?.rows_affected()) })
    }

    fn last_number(&mut self, table: Table) -> Answer<'_, i64> {
        const LAST: &str =
            "SELECT coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence($1, 'id') AS regclass)), 0)";
        Box::pin(async move { Ok(query_scalar(LAST).bind(table.name()).fetch_one(&mut *self.0).await?) })
    }

    fn set_last_number(&mut self, table: Table, last: i64) -> Answer<'_, ()> {
        // A sequence begins with 1, which is the first number that is not the last one of an empty table.
        const SET: &str = "SELECT setval(pg_get_serial_sequence($1, 'id'), greatest($2, 1), $2 > 0)";
        Box::pin(async move {
            query(SET).bind(table.name()).bind(last).execute(&mut *self.0).await?;
            Ok(())
        })
    }

    fn commit(self: Box<Self>) -> Answer<'static, ()> {
        Box::pin(async { Ok(self.0.commit().await?) })
    }
}

fn bound<'q>(sql: &'static str, values: &[Value<'_>]) -> Query<'q, Postgres, PgArguments> {
    values.iter().fold(query(sql), |query, value| match *value {
        Value::Integer(number) => query.bind(number),
        Value::Text(text) => query.bind(text.map(String::from)),
        Value::Bytes(bytes) => query.bind(bytes.map(<[u8]>::to_vec)),
    })
}

fn rows(found: &[PgRow]) -> Result<Vec<Row>, StoreError> {
    let Some(first) = found.first() else { return Ok(Vec::new()) };
    let columns: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
    let row = |row| Ok(Row { columns: Arc::clone(&columns), cells: cells(row, columns.len())? });
    found.iter().map(row).collect()
}

fn cells(row: &PgRow, count: usize) -> Result<Vec<Cell>, StoreError> {
    let cell = |place| {
        let value = row.try_get_raw(place)?;
        Ok(match value.type_info().name() {
            _ if value.is_null() => Cell::Null,
            "INT8" => Cell::Integer(row.try_get(place)?),
            "INT4" => Cell::Integer(row.try_get::<i32, _>(place)?.into()),
            "BOOL" => Cell::Integer(row.try_get::<bool, _>(place)?.into()),
            "BYTEA" => Cell::Bytes(row.try_get(place)?),
            "TEXT" => Cell::Bytes(row.try_get::<String, _>(place)?.into_bytes()),
            _ => return Err(StoreError::Damaged("a column of another type")),
        })
    };
    (0..count).map(cell).collect()
}

fn is_lock_timeout(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "55P03")
}

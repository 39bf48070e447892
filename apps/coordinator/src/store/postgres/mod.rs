//! PostgreSQL: for coordinators that several hosts run, or whose operator runs PostgreSQL anyway.
//!
//! Writers take turns by an advisory lock of the server ([`WRITERS`]), as SQLite's do by the lock of its file. It belongs to the transaction, so a program that
//! dies or loses its connection gives it back with everything that it has not committed. Readers see one snapshot and wait for nobody.
//!
//! `serve` holds a second lock ([`SERVING`]) on the connection with which it writes. The reason: two coordinators on one database would not tell each other's
//! nodes what changed. A coordinator that lost this connection asks for the lock again with its next change. If another coordinator holds the lock, the
//! change fails.

mod check;
#[cfg(test)]
mod testing;

use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::query::Query;
use sqlx::{Column, Executor, Postgres, Row as _, TypeInfo, ValueRef, query, query_scalar};
use tokio::time::timeout;

pub(crate) use check::check;
#[cfg(test)]
pub(crate) use testing::{
    ServerLock, StuckServer, end_connections, forbid_connections, forbid_writes, forget_database, location_for_test,
    translated,
};

use super::causes::is_unreachable;
use super::database::{Answer, Database, Table, Transaction};
use super::value::{Cell, Row, Value};
use super::{Purpose, StoreError, migrations};

/// Concurrent readers of one coordinator, 4: a server of the usual 100 connections has room for many coordinators.
const READERS: u32 = 4;

/// Number of the advisory lock that a writer holds, "taut" in ASCII. The server's other databases have locks of their own.
const WRITERS: i64 = 0x7461_7574;

/// Number of the advisory lock that `serve` holds.
const SERVING: i64 = 0x7461_7575;

/// What each connection sets. A server that is stuck answers with an error instead of never, and notices within 25 s that a coordinator's host is gone. A coordinator that stops in the middle of a transaction does not hold
/// the lock of the writers for ever, and what is acknowledged survives a loss of power (fault O2) although the server may be set to faster answers. Statements
/// may take longer than a request waits for its turn; the lock is waited for as long as SQLite's.
const SETTINGS: &str = "SET statement_timeout = '15s'; SET lock_timeout = '5s'; SET idle_in_transaction_session_timeout = '15s'; \
     SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; \
     SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// Time after which a connection is renewed, 30 minutes, so that a server that moved is found by its name again.
const LIFETIME: Duration = Duration::from_secs(1_800);

/// Timeout of a connection attempt, 3 s. A reachable server answers within milliseconds, and the request that waits holds one of the few permits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest time that a statement takes, 20 s: more than the server itself allows. Only a server that is stopped, or whose host is gone, is slower. TCP alone would wait for a
/// quarter of an hour.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// Time after a failed connection for which nobody tries again, 3 s, so that requests fail at once instead of waiting for each other.
const PAUSE: Duration = Duration::from_secs(3);

/// The connections to the server.
pub(super) struct PostgresDatabase(Arc<Server>);

struct Server {
    options: PgConnectOptions,
    purpose: Purpose,
    pools: Mutex<Pools>,
    /// When the server did not answer last.
    missed: Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct Pools {
    readers: PgPool,
    /// Its connection has the lock of `serve`, so it is never renewed while it works.
    writer: PgPool,
}

impl PostgresDatabase {
    /// Connects to the server of a URL (`postgres://USER:PASSWORD@HOST/DATABASE`), and updates the tables of its database.
    pub(super) async fn open(url: &str, purpose: Purpose) -> Result<Self, StoreError> {
        let database = Self::new(url, purpose)?;
        let writer = database.0.pools().writer;
        if matches!(purpose, Purpose::Serve) {
            // Waited for, because the server may not have noticed the end of the one before.
            let waited = query("SELECT pg_advisory_lock($1)").bind(SERVING).execute(&writer).await;
            waited.map_err(|error| if is_lock_timeout(&error) { StoreError::Occupied } else { error.into() })?;
        }
        migrations::POSTGRES.run(&writer).await?;
        Ok(database)
    }

    /// Connects when something is asked.
    fn new(url: &str, purpose: Purpose) -> Result<Self, StoreError> {
        let options = PgConnectOptions::from_str(url)?.application_name("taut-coordinator");
        let pools = Mutex::new(Pools::new(&options));
        Ok(Self(Arc::new(Server { options, purpose, pools, missed: Mutex::default() })))
    }
}

impl Pools {
    fn new(options: &PgConnectOptions) -> Self {
        let pool = |size, lifetime| {
            let pool = PgPoolOptions::new().max_connections(size).idle_timeout(None).max_lifetime(lifetime);
            let pool = pool.acquire_timeout(CONNECT_TIMEOUT).after_connect(|connection, _| {
                Box::pin(async move {
                    connection.execute(SETTINGS).await?;
                    Ok(())
                })
            });
            pool.connect_lazy_with(options.clone())
        };
        Self { readers: pool(READERS, Some(LIFETIME)), writer: pool(1, None) }
    }

    async fn close(self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

impl Server {
    fn pools(&self) -> Pools {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn missed(&self) -> MutexGuard<'_, Option<Instant>> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for an answer, but not for ever. A connection without an answer is given up with all others, because they lead to the same server.
    async fn answer<T>(&self, answer: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, StoreError> {
        let answered = timeout(ANSWER_TIMEOUT, answer).await;
        match &answered {
            Ok(Err(error)) if is_unreachable(error) => *self.missed() = Some(Instant::now()),
            Ok(_) => {}
            Err(_) => {
                *self.missed() = Some(Instant::now());
                let pools = Pools::new(&self.options);
                let stuck = std::mem::replace(&mut *self.pools.lock().unwrap_or_else(PoisonError::into_inner), pools);
                tokio::spawn(timeout(ANSWER_TIMEOUT, stuck.close()));
            }
        }
        Ok(answered.map_err(|_| StoreError::Slow)??)
    }

    /// Fails at once if the server did not answer a moment ago.
    fn expect_answer(&self) -> Result<(), StoreError> {
        match *self.missed() {
            Some(missed) if missed.elapsed() < PAUSE => Err(sqlx::Error::PoolTimedOut.into()),
            _ => Ok(()),
        }
    }
}

impl Database for PostgresDatabase {
    fn readers(&self) -> usize {
        READERS as usize
    }

    fn begin_read(&self) -> Answer<'_, Box<dyn Transaction>> {
        Box::pin(async {
            self.0.expect_answer()?;
            let readers = self.0.pools().readers;
            let tx = self.0.answer(readers.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")).await?;
            Ok(Box::new(PostgresTransaction { tx, server: Arc::clone(&self.0) }) as _)
        })
    }

    fn begin_write(&self) -> Answer<'_, Box<dyn Transaction>> {
        Box::pin(async {
            self.0.expect_answer()?;
            let writer = self.0.pools().writer;
            // Each statement sees what was committed before it, and with the lock nobody commits meanwhile.
            let mut tx = self.0.answer(writer.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED")).await?;
            self.0.answer(query("SELECT pg_advisory_xact_lock($1)").bind(WRITERS).execute(&mut *tx)).await?;
            if matches!(self.0.purpose, Purpose::Serve) {
                // True as well if this connection has it already.
                let ours = query_scalar("SELECT pg_try_advisory_lock($1)").bind(SERVING);
                let is_ours: bool = self.0.answer(ours.fetch_one(&mut *tx)).await?;
                if !is_ours {
                    return Err(StoreError::Occupied);
                }
            }
            Ok(Box::new(PostgresTransaction { tx, server: Arc::clone(&self.0) }) as _)
        })
    }

    #[cfg(test)]
    fn dialect(&self, sql: &'static str) -> &'static str {
        translated(sql)
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async { timeout(ANSWER_TIMEOUT, self.0.pools().close()).await.map_err(|_| StoreError::Slow) })
    }
}

struct PostgresTransaction {
    tx: sqlx::Transaction<'static, Postgres>,
    server: Arc<Server>,
}

impl Transaction for PostgresTransaction {
    fn rows<'a>(&'a mut self, sql: &'static str, values: &'a [Value<'a>]) -> Answer<'a, Vec<Row>> {
        Box::pin(async move { rows(&self.server.answer(bound(sql, values).fetch_all(&mut *self.tx)).await?) })
    }

    fn execute<'a>(&'a mut self, sql: &'static str, values: &'a [Value<'a>]) -> Answer<'a, u64> {
        Box::pin(
            async move { Ok(self.server.answer(bound(sql, values).execute(&mut *self.tx)).await?.rows_affected()) },
        )
    }

    fn last_number(&mut self, table: Table) -> Answer<'_, i64> {
        const LAST: &str =
            "SELECT coalesce(pg_sequence_last_value(CAST(pg_get_serial_sequence($1, 'id') AS regclass)), 0)";
        Box::pin(
            async move { self.server.answer(query_scalar(LAST).bind(table.name()).fetch_one(&mut *self.tx)).await },
        )
    }

    fn set_last_number(&mut self, table: Table, last: i64) -> Answer<'_, ()> {
        // A sequence begins with 1, which is the first number that is not the last one of an empty table.
        const SET: &str = "SELECT setval(pg_get_serial_sequence($1, 'id'), greatest($2, 1), $2 > 0)";
        Box::pin(async move {
            let set = query(SET).bind(table.name()).bind(last).execute(&mut *self.tx);
            self.server.answer(set).await.map(drop)
        })
    }

    fn commit(self: Box<Self>) -> Answer<'static, ()> {
        let Self { tx, server } = *self;
        Box::pin(async move { server.answer(tx.commit()).await })
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

//! The database: SQLite, rows, statements. The only module that names sqlx; it knows no rules.
//!
//! [`Store::read`] returns one consistent view. [`Store::write`] returns the only write transaction: changes wait for one connection instead of failing with
//! "database is locked" (fault O5). A transaction that is dropped without [`Writing::commit`] has no effect. Each [`Party`] gets both in turn, so that the many
//! requests of one party do not delay the others.

#[cfg(test)]
mod blocking;
mod check;
mod copy;
mod fair_semaphore;
mod keys;
mod migrations;
mod networks;
mod nodes;
mod operators;
mod relays;
mod rows;

use std::error::Error;
use std::fmt;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::migrate::MigrateError;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, Sqlite, Transaction, query};
use tokio::time::timeout;

#[cfg(test)]
pub(crate) use blocking::BlockingConnection;
pub(crate) use check::check;
pub(crate) use copy::copy;
use fair_semaphore::{FairSemaphore, Permit};
use migrations::MIGRATIONS;
pub(crate) use networks::MARKED;
pub(crate) use rows::{
    KeyRow, MarkRow, Marks, NetworkId, NetworkRow, NewKey, NewNode, NewRelay, NodeRow, OperatorRow, Origin, RelayRow,
};

/// File of the database inside the state directory.
pub(crate) const FILE: &str = "coordinator.db";

/// Time for which a statement waits for another process (`operator-token create` beside a running `serve`), 5 s.
const BUSY: Duration = Duration::from_secs(5);

/// Time for which a request waits for a permit before it is refused as unavailable, 10 s.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Concurrent readers, 4. SQLite reads from memory, so a few readers keep all cores of a small host busy.
const READERS: u32 = 4;

/// Largest write-ahead log, 512 MiB. SQLite writes the log back into the database when no reader needs an older state; it grows this large only if a program
/// reads one old state for a very long time (fault O4).
const LARGEST_LOG: u64 = 512 * 1024 * 1024;

/// Size to which the file of the log is truncated afterwards, 4 MiB.
const KEPT_LOG: u32 = 4 * 1024 * 1024;

/// The party for which the database is used. Parties take turns, independently of the number of their requests (law 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party {
    /// The coordinator itself.
    Coordinator,
    /// Operators with a valid token.
    Operators,
    /// Nodes of an existing network, and nodes that want to join it.
    Network(NetworkId),
    /// Unauthenticated requests.
    Unauthenticated,
}

/// The open database.
pub(crate) struct Store {
    reads: FairSemaphore<Party>,
    writes: FairSemaphore<Party>,
    readers: SqlitePool,
    writer: SqlitePool,
    /// Path of the write-ahead log.
    log: PathBuf,
    largest_log: AtomicU64,
}

impl Store {
    /// Opens the database in `directory`, and updates its tables. Creates both if they do not exist, readable by their owner only, because the database
    /// contains the coordinator's private key.
    pub(crate) async fn open(directory: &Path) -> Result<Self, StoreError> {
        prepare(directory)?;
        let options = SqliteConnectOptions::new()
            .filename(directory.join(FILE))
            .foreign_keys(true)
            .busy_timeout(BUSY)
            .journal_mode(SqliteJournalMode::Wal)
            // NORMAL may lose acknowledged writes when the power fails; a node must keep the address that it was told (fault O2).
            .synchronous(SqliteSynchronous::Full)
            .pragma("journal_size_limit", KEPT_LOG.to_string());
        // All connections are opened now and stay open. A connection that is opened after somebody deleted the log would see an older database, and the
        // coordinator would send maps in which members are missing (fault O3).
        let pool = |size| {
            let pool = SqlitePoolOptions::new().min_connections(size).max_connections(size);
            // SQLite ends a transaction by itself when the disk is full, and sqlx goes on counting it: such a connection begins none
            // any more, and is replaced (fault O3).
            let pool = pool.before_acquire(|connection, _| {
                let is_clean = !connection.is_in_transaction();
                Box::pin(async move { Ok(is_clean) })
            });
            pool.acquire_timeout(PERMIT_TIMEOUT).idle_timeout(None).max_lifetime(None)
        };
        let writer = pool(1).connect_with(options.clone()).await?;
        MIGRATIONS.run(&writer).await?;
        // Readers cannot write, even by mistake.
        let readers = pool(READERS).connect_with(options.pragma("query_only", "ON")).await?;
        let log = directory.join(format!("{FILE}-wal"));
        let (reads, writes) = (FairSemaphore::new(READERS as usize), FairSemaphore::new(1));
        Ok(Self { reads, writes, readers, writer, log, largest_log: AtomicU64::new(LARGEST_LOG) })
    }

    /// Returns a consistent view of the database.
    pub(crate) async fn read(&self, party: Party) -> Result<Reading, StoreError> {
        let permit = timeout(PERMIT_TIMEOUT, self.reads.take(party)).await.map_err(|_| StoreError::Busy)?;
        Ok(Reading { tx: self.readers.begin().await?, permit })
    }

    /// Returns the write transaction.
    pub(crate) async fn write(&self, party: Party) -> Result<Writing, StoreError> {
        let permit = timeout(PERMIT_TIMEOUT, self.writes.take(party)).await.map_err(|_| StoreError::Busy)?;
        if self.log_share() >= 100 {
            // Otherwise only a commit writes the log back, and there will be no commit.
            query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.writer).await?;
            if self.log_share() >= 100 {
                return Err(StoreError::Log);
            }
        }
        // IMMEDIATE takes the lock before the first read, so that nothing changes between a read and a write.
        Ok(Writing { reading: Reading { tx: self.writer.begin_with("BEGIN IMMEDIATE").await?, permit } })
    }

    /// Returns the size of the log in percent of its limit.
    pub(crate) fn log_share(&self) -> u64 {
        let size = std::fs::metadata(&self.log).map_or(0, |metadata| metadata.len());
        size.saturating_mul(100) / self.largest_log.load(Ordering::Relaxed).max(1)
    }

    /// Sets the limit of the log, in bytes.
    #[cfg(test)]
    pub(crate) fn set_log_limit(&self, largest: u64) {
        self.largest_log.store(largest, Ordering::Relaxed);
    }

    /// Executes a statement, as a person with `sqlite3` would.
    #[cfg(test)]
    pub(crate) async fn edit(&self, sql: &'static str) {
        query(sql).execute(&self.writer).await.unwrap();
    }

    /// Waits for running transactions, and writes the log back into the database.
    pub(crate) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// A read transaction. Its methods are the statements that read.
pub(crate) struct Reading {
    tx: Transaction<'static, Sqlite>,
    /// Released after the transaction.
    permit: Permit<Party>,
}

/// A write transaction. Its methods are the statements that write.
pub(crate) struct Writing {
    reading: Reading,
}

impl Writing {
    /// Commits the transaction. Its changes then survive a loss of power.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        let Reading { tx, permit } = self.reading;
        tx.commit().await?;
        drop(permit);
        Ok(())
    }
}

impl Deref for Writing {
    type Target = Reading;

    fn deref(&self) -> &Reading {
        &self.reading
    }
}

impl DerefMut for Writing {
    fn deref_mut(&mut self) -> &mut Reading {
        &mut self.reading
    }
}

/// Creates the state directory and an empty database file if they do not exist, readable by their owner only.
pub(crate) fn prepare(directory: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::Directory { path: directory.display().to_string(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    // Created before SQLite does, with the right mode from the start. SQLite gives its log files the same mode.
    OpenOptions::new().create(true).append(true).mode(0o600).open(directory.join(FILE)).map_err(failed)?;
    Ok(())
}

/// A failure of the database.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// The state directory cannot be used.
    Directory {
        /// Path of the directory.
        path: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A newer release upgraded the database, or its migrations were edited.
    Migration(MigrateError),
    /// No permit was free in time.
    Busy,
    /// SQLite failed: disk full, read-only, locked, damaged.
    Database(sqlx::Error),
    /// The write-ahead log has reached its limit.
    Log,
    /// A row is invalid although the tables have constraints.
    Damaged(&'static str),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        Self::Migration(error)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory { path, source } => write!(f, "the state directory {path} cannot be used: {source}"),
            Self::Migration(MigrateError::VersionMissing(version)) => {
                write!(f, "a newer program upgraded the database: its format {version} is not known to this one")
            }
            Self::Migration(error) => write!(f, "the database does not fit this program: {error}"),
            Self::Database(error) => match cause(error) {
                Some(cause) => write!(f, "{cause} ({error})"),
                None => write!(f, "the database failed: {error}"),
            },
            Self::Busy => {
                write!(
                    f,
                    "the database was busy for {} s with requests that came before this one",
                    PERMIT_TIMEOUT.as_secs()
                )
            }
            Self::Log => write!(
                f,
                "the database's log has grown to {} MiB because another program reads an old state of it; end that program",
                LARGEST_LOG >> 20
            ),
            Self::Damaged(what) => write!(f, "the database is damaged: {what}"),
        }
    }
}

impl Error for StoreError {}

/// Returns the cause of a failure if an operator can remove it, by SQLite's primary result codes (sqlite.org/rescode.html).
fn cause(error: &sqlx::Error) -> Option<&'static str> {
    let code: u32 = error.as_database_error()?.code()?.parse().ok()?;
    match code & 0xff {
        5 | 6 => Some("the database is locked by another program"),
        8 => Some("the database cannot be written to: it or its disk is read-only"),
        10 => Some("the disk failed"),
        11 | 26 => Some("the database is damaged; stop the coordinator and restore a backup"),
        13 => Some("the disk is full"),
        _ => None,
    }
}

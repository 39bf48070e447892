//! The room of the database: SQLite, rows, statements. The only one that names sqlx; it knows no rules.
//!
//! [`Store::read`] is one consistent view for as long as it lives. [`Store::write`] is the only writer: changes queue in front of one
//! connection instead of meeting as "database is locked" (fault O5), so whoever holds one sees nobody else's half-done work. What is
//! dropped without [`Writing::commit`] never happened. Both are given to each [`Party`] in turn, so that none waits for another's crowd.

mod check;
mod copy;
mod keys;
mod networks;
mod nodes;
mod operators;
mod relays;
mod rows;
#[cfg(test)]
mod trouble;
mod turns;

use std::error::Error;
use std::fmt;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, Sqlite, Transaction, query};
use tokio::time::timeout;

pub(crate) use check::check;
pub(crate) use copy::copy;
pub(crate) use networks::MARKED;
pub(crate) use rows::{
    KeyRow, MarkRow, Marks, NetworkId, NetworkRow, NewKey, NewNode, NewRelay, NodeRow, OperatorRow, Origin, RelayRow,
};
#[cfg(test)]
pub(crate) use trouble::Held;
use turns::{Turn, Turns};

/// Migrations travel inside the program; a released one is never edited (its checksum is checked at every start).
static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// File of the database inside the state directory.
pub(crate) const FILE: &str = "coordinator.db";

/// How long a statement waits for another process (`operator-token create` beside a running `serve`) before it gives up.
const BUSY: Duration = Duration::from_secs(5);

/// How long a request waits for its turn before it is told that the coordinator is unavailable.
const TURN: Duration = Duration::from_secs(10);

/// Readers at the same time; SQLite reads from memory, so a few keep all cores of a small host busy.
const READERS: u32 = 4;

/// Largest write-ahead log, in bytes. SQLite folds it into the database whenever no reader needs its old state any more; it gets near this
/// only when somebody reads one old state for a very long time (fault O4).
const LARGEST_LOG: u64 = 512 * 1024 * 1024;

/// What the log's file is cut to once it was folded in, in bytes.
const KEPT_LOG: u32 = 4 * 1024 * 1024;

/// On whose behalf the database is used. Parties take turns, whatever the number of requests of each (law 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party {
    /// The coordinator itself.
    House,
    /// Operators that have shown a token.
    Operators,
    /// The nodes of one network that exists, those that want to join it included.
    Network(NetworkId),
    /// Requests that have proven nothing yet.
    Guests,
}

/// The open database.
pub(crate) struct Store {
    reads: Turns<Party>,
    writes: Turns<Party>,
    readers: SqlitePool,
    writer: SqlitePool,
    /// The write-ahead log's file.
    log: PathBuf,
    largest_log: AtomicU64,
}

impl Store {
    /// Opens the database in `directory`, makes both where they are missing (readable by their owner only: the database holds the
    /// coordinator's private key) and brings the tables up to date.
    pub(crate) async fn open(directory: &Path) -> Result<Self, StoreError> {
        prepare(directory)?;
        let options = SqliteConnectOptions::new()
            .filename(directory.join(FILE))
            .foreign_keys(true)
            .busy_timeout(BUSY)
            .journal_mode(SqliteJournalMode::Wal)
            // NORMAL may lose acknowledged writes with the power; a node that was told its address must keep it (fault O2).
            .synchronous(SqliteSynchronous::Full)
            .pragma("journal_size_limit", KEPT_LOG.to_string());
        // All connections are opened now and stay: one that is opened after somebody deleted the log would see an older database, and
        // send it out as a map with members missing (fault O3).
        let pool = |size| {
            let pool = SqlitePoolOptions::new().min_connections(size).max_connections(size);
            // SQLite ends a transaction by itself when the disk is full, and sqlx goes on counting it: such a connection begins none
            // any more, and is replaced (fault O3).
            let pool = pool.before_acquire(|connection, _| {
                let is_clean = !connection.is_in_transaction();
                Box::pin(async move { Ok(is_clean) })
            });
            pool.acquire_timeout(TURN).idle_timeout(None).max_lifetime(None)
        };
        let writer = pool(1).connect_with(options.clone()).await?;
        MIGRATIONS.run(&writer).await?;
        // Readers cannot write even by mistake.
        let readers = pool(READERS).connect_with(options.pragma("query_only", "ON")).await?;
        let log = directory.join(format!("{FILE}-wal"));
        let (reads, writes) = (Turns::new(READERS as usize), Turns::new(1));
        Ok(Self { reads, writes, readers, writer, log, largest_log: AtomicU64::new(LARGEST_LOG) })
    }

    /// One consistent view of everything.
    pub(crate) async fn read(&self, party: Party) -> Result<Reading, StoreError> {
        let turn = timeout(TURN, self.reads.take(party)).await.map_err(|_| StoreError::Busy)?;
        Ok(Reading { tx: self.readers.begin().await?, turn })
    }

    /// The turn to change something.
    pub(crate) async fn write(&self, party: Party) -> Result<Writing, StoreError> {
        let turn = timeout(TURN, self.writes.take(party)).await.map_err(|_| StoreError::Busy)?;
        if self.log_share() >= 100 {
            // Only a commit folds the log in otherwise, and there will be none.
            query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.writer).await?;
            if self.log_share() >= 100 {
                return Err(StoreError::Log);
            }
        }
        // IMMEDIATE: the lock is taken before the first read, so what was read is still true when it is written upon.
        Ok(Writing { reading: Reading { tx: self.writer.begin_with("BEGIN IMMEDIATE").await?, turn } })
    }

    /// How much of what the log may be it is, in percent.
    pub(crate) fn log_share(&self) -> u64 {
        let size = std::fs::metadata(&self.log).map_or(0, |metadata| metadata.len());
        size.saturating_mul(100) / self.largest_log.load(Ordering::Relaxed).max(1)
    }

    /// Another bound for the log, in bytes.
    #[cfg(test)]
    pub(crate) fn set_log_limit(&self, largest: u64) {
        self.largest_log.store(largest, Ordering::Relaxed);
    }

    /// Edits rows behind the rules' back, as a person with `sqlite3` would.
    #[cfg(test)]
    pub(crate) async fn edit(&self, sql: &'static str) {
        query(sql).execute(&self.writer).await.unwrap();
    }

    /// Waits for what is running and folds the log into the database.
    pub(crate) async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// A consistent view; statements that read are its methods.
pub(crate) struct Reading {
    tx: Transaction<'static, Sqlite>,
    /// Given back after the transaction.
    turn: Turn<Party>,
}

/// A change in the making; statements that write are its methods.
pub(crate) struct Writing {
    reading: Reading,
}

impl Writing {
    /// Makes it so; survives a loss of power from here on.
    pub(crate) async fn commit(self) -> Result<(), StoreError> {
        let Reading { tx, turn } = self.reading;
        tx.commit().await?;
        drop(turn);
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

/// Makes the state directory and an empty database file where they are missing, readable by their owner only.
pub(crate) fn prepare(directory: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::Directory { path: directory.display().to_string(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    // Made before SQLite does, with the right mode from the first moment; its log files take over the mode of this one.
    OpenOptions::new().create(true).append(true).mode(0o600).open(directory.join(FILE)).map_err(failed)?;
    Ok(())
}

/// Why the database did not do as asked.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// The state directory cannot be used.
    Directory {
        /// Which one.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The database was made by a newer program, or its migrations were edited.
    Migration(MigrateError),
    /// No turn came in time.
    Busy,
    /// SQLite failed: disk full, read-only, locked, damaged.
    Database(sqlx::Error),
    /// The write-ahead log has grown to its bound.
    Log,
    /// A row that the tables' own checks should have kept out.
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
                write!(f, "the database was busy for {} s with requests that came before this one", TURN.as_secs())
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

/// The causes that a person can do something about, by SQLite's primary result codes (sqlite.org/rescode.html).
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

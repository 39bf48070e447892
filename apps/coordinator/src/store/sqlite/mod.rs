//! SQLite: one file in the state directory, for a coordinator that runs alone.

#[cfg(test)]
mod blocking;
mod check;
mod copy;
#[cfg(test)]
mod dumped;
mod last_known;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::query::Query;
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{Column, Connection, Row as _, Sqlite, TypeInfo, ValueRef, query, query_scalar};

#[cfg(test)]
pub(crate) use blocking::{BlockingConnection, execute_on_file};
pub(crate) use check::{check, view};
pub(crate) use copy::{copy, is_open_elsewhere};
#[cfg(test)]
pub(super) use dumped::{contents, interrupted, load};

pub(crate) use last_known::last_known;

use super::database::{Database, Table, Transaction};
use super::error::Answer;
use super::value::{Cell, Row, Value};
use super::{NetworkId, PERMIT_TIMEOUT, Party, Permit, StoreError, migrations};
use crate::process::effective_uid;

/// File of the database inside the state directory.
pub(crate) const FILE: &str = "coordinator.db";

/// Time for which a statement waits for another process (`operator-token create` beside a running `serve`), 5 s.
const BUSY: Duration = Duration::from_secs(5);

/// Concurrent readers, 4. SQLite reads from memory, so a few readers keep all cores of a small host busy.
const READERS: u32 = 4;

/// Largest write-ahead log, 512 MiB. SQLite writes the log back into the database when no reader needs an older state; it grows this large only if a program
/// reads one old state for a very long time (fault O4).
const LARGEST_LOG: u64 = 512 * 1024 * 1024;

/// Size to which the file of the log is truncated afterwards, 4 MiB.
const KEPT_LOG: u32 = 4 * 1024 * 1024;

/// The open file.
pub(super) struct SqliteDatabase {
    readers: SqlitePool,
    writer: SqlitePool,
    /// Path of the write-ahead log.
    log: PathBuf,
    largest_log: AtomicU64,
}

impl SqliteDatabase {
    /// Opens the database in `directory`, and updates its tables. Creates both if they do not exist, readable by their owner only, because the database
    /// contains the coordinator's private key.
    pub(super) async fn open(directory: &Path) -> Result<Self, StoreError> {
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
        migrations::SQLITE.run(&writer).await?;
        // Readers cannot write, even by mistake.
        let readers = pool(READERS).connect_with(options.pragma("query_only", "ON")).await?;
        let log = directory.join(format!("{FILE}-wal"));
        Ok(Self { readers, writer, log, largest_log: AtomicU64::new(LARGEST_LOG) })
    }
}

impl Database for SqliteDatabase {
    fn readers(&self) -> usize {
        READERS as usize
    }

    fn begin_read(&self, permit: Permit<Party>) -> Answer<'_, Box<dyn Transaction>> {
        Box::pin(async {
            Ok(Box::new(SqliteTransaction { tx: self.readers.begin().await?, _permit: Some(permit) }) as _)
        })
    }

    fn begin_write(&self, permit: Permit<Party>) -> Answer<'_, Box<dyn Transaction>> {
        Box::pin(async {
            if self.log_share() >= 100 {
                // Otherwise only a commit writes the log back, and there will be no commit.
                query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&self.writer).await?;
                if self.log_share() >= 100 {
                    return Err(StoreError::Log { limit: LARGEST_LOG });
                }
            }
            // IMMEDIATE takes the lock before the first read.
            let tx = self.writer.begin_with("BEGIN IMMEDIATE").await?;
            Ok(Box::new(SqliteTransaction { tx, _permit: Some(permit) }) as _)
        })
    }

    fn log_share(&self) -> u64 {
        let size = fs::metadata(&self.log).map_or(0, |metadata| metadata.len());
        size.saturating_mul(100) / self.largest_log.load(Ordering::Relaxed).max(1)
    }

    #[cfg(test)]
    fn set_log_limit(&self, largest: u64) {
        self.largest_log.store(largest, Ordering::Relaxed);
    }

    /// Writes the log back into the database as well.
    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async {
            self.readers.close().await;
            self.writer.close().await;
            Ok(())
        })
    }
}

struct SqliteTransaction {
    tx: sqlx::Transaction<'static, Sqlite>,
    /// Given back after the transaction; `None` for a check.
    _permit: Option<Permit<Party>>,
}

impl Transaction for SqliteTransaction {
    fn rows<'a>(&'a mut self, sql: &'static str, values: &'a [Value<'a>]) -> Answer<'a, Vec<Row>> {
        Box::pin(async move { rows(&bound(sql, values).fetch_all(&mut *self.tx).await?) })
    }

    fn execute<'a>(&'a mut self, sql: &'static str, values: &'a [Value<'a>]) -> Answer<'a, u64> {
        Box::pin(async move { Ok(bound(sql, values).execute(&mut *self.tx).await?.rows_affected()) })
    }

    fn last_number(&mut self, table: Table) -> Answer<'_, i64> {
        // A table that never had a row has no entry.
        const LAST: &str = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = $1";
        Box::pin(async move { Ok(query_scalar(LAST).bind(table.name()).fetch_one(&mut *self.tx).await?) })
    }

    fn set_last_number(&mut self, table: Table, last: i64) -> Answer<'_, ()> {
        Box::pin(async move {
            query("DELETE FROM sqlite_sequence WHERE name = $1").bind(table.name()).execute(&mut *self.tx).await?;
            let enter = query("INSERT INTO sqlite_sequence (name, seq) VALUES ($1, $2)");
            enter.bind(table.name()).bind(last).execute(&mut *self.tx).await?;
            Ok(())
        })
    }

    fn commit(self: Box<Self>) -> Answer<'static, ()> {
        Box::pin(async { Ok(self.tx.commit().await?) })
    }
}

fn bound<'q>(sql: &'static str, values: &[Value<'_>]) -> Query<'q, Sqlite, SqliteArguments> {
    values.iter().fold(query(sql), |query, value| match *value {
        Value::Integer(number) => query.bind(number),
        Value::Text(text) => query.bind(text.map(String::from)),
        Value::Bytes(bytes) => query.bind(bytes.map(<[u8]>::to_vec)),
    })
}

fn rows(found: &[SqliteRow]) -> Result<Vec<Row>, StoreError> {
    let Some(first) = found.first() else { return Ok(Vec::new()) };
    let columns: Arc<[String]> = first.columns().iter().map(|column| column.name().to_owned()).collect();
    let row = |row| Ok(Row { columns: Arc::clone(&columns), cells: cells(row, columns.len())? });
    found.iter().map(row).collect()
}

fn cells(row: &SqliteRow, count: usize) -> Result<Vec<Cell>, StoreError> {
    let cell = |place| {
        let value = row.try_get_raw(place)?;
        Ok(match value.type_info().name() {
            _ if value.is_null() => Cell::Null,
            "INTEGER" | "BOOLEAN" => Cell::Integer(row.try_get_unchecked(place)?),
            // Text is not decoded: it may be damaged.
            _ => Cell::Bytes(row.try_get_unchecked(place)?),
        })
    };
    (0..count).map(cell).collect()
}

/// Creates the state directory and an empty database file if they do not exist, readable by their owner only.
pub(crate) fn prepare(directory: &Path) -> Result<(), StoreError> {
    make_directory(directory)?;
    let failed = |source| StoreError::Directory { path: directory.display().to_string(), source };
    // Created before SQLite does, with the right mode from the start. SQLite gives its log files the same mode.
    open_private(directory, &directory.join(FILE)).map(drop).map_err(failed)
}

/// Opens a file of the state directory for appending, and creates it with private permissions if it does not exist. A file that root creates is given to the owner of
/// the directory: otherwise the service, which runs as a user of its own, could not open it. SQLite gives its log files the owner of the database.
///
/// In a directory of another user, root follows no link and opens no pipe: that user could have placed a link so that root creates or gives away another file.
pub(crate) fn open_private(directory: &Path, path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).mode(0o600);
    let is_root = effective_uid().is_ok_and(|user| user == 0);
    if !is_root || fs::metadata(directory)?.uid() == 0 {
        return options.create(true).open(path);
    }
    let file = match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => open_named(&options, path)?,
        outcome => outcome?,
    };
    give_to_owner(directory, &file)?;
    Ok(file)
}

/// Opens an existing regular file. Links and other types are refused.
fn open_named(options: &OpenOptions, path: &Path) -> std::io::Result<File> {
    // The type is checked before the file is opened, because opening a pipe would wait for a writer.
    let named = fs::symlink_metadata(path)?;
    if !named.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let file = options.open(path)?;
    let opened = file.metadata()?;
    match (opened.dev(), opened.ino()) == (named.dev(), named.ino()) {
        true => Ok(file),
        false => Err(std::io::Error::other("it is another file than a moment ago")),
    }
}

/// Gives a file that belongs to root to the owner of the state directory.
pub(crate) fn give_to_owner(directory: &Path, file: &File) -> std::io::Result<()> {
    let (of_directory, of_file) = (fs::metadata(directory)?, file.metadata()?);
    match (of_file.uid(), of_directory.uid(), of_file.nlink()) {
        (0, 1.., 1) => fchown(file, Some(of_directory.uid()), Some(of_directory.gid())),
        _ => Ok(()),
    }
}

/// Creates the state directory if it does not exist, readable by its owner only.
pub(crate) fn make_directory(directory: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::Directory { path: directory.display().to_string(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)
}

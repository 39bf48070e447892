//! Failures of the database, in words.

use std::error::Error;
use std::fmt;
use std::io;

use sqlx::migrate::MigrateError;

use super::PERMIT_TIMEOUT;
use super::causes::{cause, is_unreachable};

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
    /// The database server is stuck, or its host is gone.
    Slow,
    /// The database failed: disk full, read-only, locked, damaged.
    Database(sqlx::Error),
    /// There is no coordinator in this PostgreSQL database.
    NoTables,
    /// Another coordinator serves this PostgreSQL database.
    Occupied,
    /// The write-ahead log has reached its limit.
    Log {
        /// The limit, in bytes.
        limit: u64,
    },
    /// A row is invalid although the tables have constraints.
    Damaged(&'static str),
}

impl StoreError {
    /// Returns true if the database did not answer. A database that answers with an error is another matter: it may be damaged.
    pub(crate) fn is_silence(&self) -> bool {
        match self {
            Self::Busy | Self::Slow => true,
            Self::Database(error) => is_unreachable(error),
            _ => false,
        }
    }
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
            Self::NoTables => f.write_str("there is no coordinator in the PostgreSQL database"),
            Self::Occupied => f.write_str(
                "another coordinator is running on this PostgreSQL database, and only one may; stop the other one, or name another database",
            ),
            Self::Slow => f.write_str("the database server did not answer in time"),
            Self::Log { limit } => write!(
                f,
                "the database's log has grown to {} MiB because another program reads an old state of it; end that program",
                limit >> 20
            ),
            Self::Damaged(what) => write!(f, "the database is damaged: {what}"),
        }
    }
}

impl Error for StoreError {}

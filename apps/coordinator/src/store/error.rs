//! Failures of the database, in words.

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;

use sqlx::migrate::MigrateError;

use super::PERMIT_TIMEOUT;
use super::causes::{cause, is_unreachable, told};
use super::damaged_row::DamagedRow;

/// The answer of a database, later.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

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
    /// There is no connection to the database server, for this reason.
    NoConnection(String),
    /// The connection ended while a change was committed.
    Uncertain,
    /// The URL of the database server cannot be used, for this reason.
    Url(String),
    /// The tables are those of an earlier release.
    OldTables,
    /// Other roles may put functions into the schema of the tables.
    SharedSchema,
    /// The coordinator moved to another database.
    Moved,
    /// The database failed: disk full, read-only, locked, damaged.
    Database(sqlx::Error),
    /// There is no coordinator in this PostgreSQL database.
    NoTables,
    /// A coordinator serves this PostgreSQL database.
    Occupied,
    /// The write-ahead log has reached its limit.
    Log {
        /// The limit, in bytes.
        limit: u64,
    },
    /// A row is invalid although the tables have constraints.
    DamagedRow(DamagedRow),
    /// The database is invalid although the tables have constraints.
    Damaged(&'static str),
}

impl StoreError {
    /// Returns true if the database did not answer. A database that answers with an error is another matter: it may be damaged.
    pub(crate) fn is_silence(&self) -> bool {
        match self {
            Self::Busy | Self::Slow | Self::NoConnection(_) => true,
            Self::Database(error) => is_unreachable(error),
            _ => false,
        }
    }
}

impl StoreError {
    /// Returns the failure in a few words for callers without a token: an error may contain names of hosts, users and files.
    pub(crate) fn in_short(&self) -> &'static str {
        match self {
            error if error.is_silence() => "the database does not answer",
            Self::Moved => "the coordinator was moved to another database",
            Self::Damaged(_) | Self::DamagedRow(_) => "the database is damaged",
            Self::Log { .. } => "the database's log is too large",
            _ => "the database fails",
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
        match error {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) if cause(&error).is_some() => {
                Self::Database(error)
            }
            error => Self::Migration(error),
        }
    }
}

/// Returns the row that was read; `None` also for a damaged one.
pub(crate) fn undamaged<T>(read: Result<Option<T>, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Err(StoreError::DamagedRow(_)) => Ok(None),
        other => other,
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
            Self::Database(error) => f.write_str(&told(error)),
            Self::NoConnection(why) => f.write_str(why),
            Self::Uncertain => f.write_str(
                "the database server did not answer while it stored this change, which may have been made or not; look before you repeat it",
            ),
            Self::Url(why) => write!(f, "the URL of the database cannot be used: {why}"),
            Self::Moved => f.write_str(
                "this coordinator was moved to another database by `taut-coordinator migrate`, and both would assign the same addresses",
            ),
            Self::SharedSchema => f.write_str(
                "other users of this PostgreSQL database may put functions into its schema, which the server would call with the coordinator's rights, or have done so",
            ),
            Self::OldTables => f.write_str(
                "the tables are those of an earlier release; start this release's `taut-coordinator serve` first, which updates them",
            ),
            Self::Busy => {
                write!(
                    f,
                    "the database was busy for {} s with requests that came before this one",
                    PERMIT_TIMEOUT.as_secs()
                )
            }
            Self::NoTables => f.write_str("there is no coordinator in the PostgreSQL database"),
            Self::Occupied => f.write_str(
                "a coordinator is running on this PostgreSQL database, or was killed less than 20 s ago; stop it, or name another database",
            ),
            Self::Slow => f.write_str("the database server did not answer in time"),
            Self::Log { limit } => write!(
                f,
                "the database's log has grown to {} MiB because another program reads an old state of it; end that program",
                limit >> 20
            ),
            Self::Damaged(what) => write!(f, "the database is damaged: {what}"),
            Self::DamagedRow(DamagedRow { table, key, what }) => {
                write!(f, "the row `{key}` of the table `{table}` is damaged: {what}")
            }
        }
    }
}

impl Error for StoreError {}

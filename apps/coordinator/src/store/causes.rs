//! What a failure of a database means, in an operator's words.

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;

/// Returns the cause of a failure if an operator can remove it.
pub(super) fn cause(error: &sqlx::Error) -> Option<&'static str> {
    of_encryption(error).or_else(|| of_sqlite(error)).or_else(|| of_postgres(error))
}

/// Returns true if the database did not answer, or the server admits nobody: it stops, starts, or has no connection left.
pub(super) fn is_unreachable(error: &sqlx::Error) -> bool {
    let is_silent = matches!(error, sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed);
    is_silent || is_cut(error) || postgres_code(error).is_some_and(|code| UNREACHABLE.contains(&code))
}

/// Returns true if the connection leads nowhere, or no longer.
fn is_cut(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_))
}

/// Returns true if a connection cannot be used any more after this error: it has ended, or its prepared statements do not fit the tables any more.
pub(super) fn ends_connection(error: &sqlx::Error) -> bool {
    let ends = |code: &str| UNREACHABLE.contains(&code) || ["08", "57P"].iter().any(|class| code.starts_with(class));
    is_cut(error) || postgres_code(error).is_some_and(|code| ends(code) || ["0A000", "25P03"].contains(&code))
}

/// Returns true if a table of the statement does not exist.
pub(super) fn has_no_table(error: &sqlx::Error) -> bool {
    postgres_code(error) == Some("42P01")
}

/// Returns a failure in words.
pub(super) fn told(failure: &sqlx::Error) -> String {
    // Without the place in the server's own source, which sqlx adds.
    let error = |error: &sqlx::Error| match error.as_database_error() {
        Some(database) => String::from(database.message()),
        None => error.to_string(),
    };
    match cause(failure) {
        Some(cause) => format!("{cause} ({})", error(failure)),
        None => format!("the database failed: {}", error(failure)),
    }
}

/// SQLSTATEs of a server that admits nobody: object not in the state that is needed, too many connections, shutdown, crash, start.
const UNREACHABLE: [&str; 5] = ["55000", "53300", "57P01", "57P02", "57P03"];

fn postgres_code(error: &sqlx::Error) -> Option<&str> {
    Some(error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?.code())
}

/// Failures of TLS.
fn of_encryption(error: &sqlx::Error) -> Option<&'static str> {
    let is_tls = matches!(error, sqlx::Error::Tls(_)) || error.to_string().contains("certificate");
    is_tls.then_some(
        "there is no encrypted connection to the database server; it needs a certificate for its name (`sslrootcert=FILE` in the URL names the authority), \
         or the URL says what else is enough: `sslmode=require` or `sslmode=disable`",
    )
}

/// Returns true if another program has a lock of an SQLite database.
pub(super) fn is_locked(error: &sqlx::Error) -> bool {
    sqlite_code(error).is_some_and(|code| matches!(code, 5 | 6))
}

/// Returns the primary result code of a failure of SQLite's (sqlite.org/rescode.html).
fn sqlite_code(error: &sqlx::Error) -> Option<u32> {
    let error = error.as_database_error()?.try_downcast_ref::<SqliteError>()?;
    let code: u32 = error.code()?.parse().ok()?;
    Some(code & 0xff)
}

/// SQLite's failures.
fn of_sqlite(error: &sqlx::Error) -> Option<&'static str> {
    match sqlite_code(error)? {
        5 | 6 => Some("the database is locked by another program"),
        8 => Some("the database cannot be written to: it or its disk is read-only"),
        10 => Some("the disk failed"),
        11 | 26 => Some("the database is damaged; stop the coordinator and restore a backup"),
        13 => Some("the disk is full"),
        _ => None,
    }
}

/// PostgreSQL's failures, by SQLSTATE (PostgreSQL's documentation, appendix A).
fn of_postgres(error: &sqlx::Error) -> Option<&'static str> {
    match postgres_code(error) {
        Some("25006") => Some("the database server is read-only, as a standby is; name its primary"),
        Some("28000" | "28P01") => Some("the database server refuses this user or its password"),
        Some("42P01") => Some("there are no tables of a coordinator in this database"),
        Some("3D000") => Some("the database server has no database of this name; make it with `createdb`"),
        Some("53100") => Some("the disk of the database server is full"),
        Some("53300") => Some("the database server has no connection left"),
        Some("55P03") => Some("the database is locked by another program"),
        Some("57014") => Some("the database server did not answer in time"),
        Some("42501") => Some(
            "this user may not do that; it needs to own this database and its tables (`ALTER DATABASE … OWNER TO …`)",
        ),
        _ => is_unreachable(error).then_some("the database cannot be reached"),
    }
}

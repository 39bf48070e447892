//! What a failure of a database means, in an operator's words.

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;

/// Returns the cause of a failure if an operator can remove it.
pub(super) fn cause(error: &sqlx::Error) -> Option<&'static str> {
    of_sqlite(error).or_else(|| of_postgres(error))
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

/// Returns a failure in words.
pub(super) fn told(error: &sqlx::Error) -> String {
    match cause(error) {
        Some(cause) => format!("{cause} ({error})"),
        None => format!("the database failed: {error}"),
    }
}

/// SQLSTATEs of a server that admits nobody: object not in the state that is needed, too many connections, shutdown, crash, start.
const UNREACHABLE: [&str; 5] = ["55000", "53300", "57P01", "57P02", "57P03"];

fn postgres_code(error: &sqlx::Error) -> Option<&str> {
    Some(error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?.code())
}

/// SQLite's failures, by the primary result codes (sqlite.org/rescode.html).
fn of_sqlite(error: &sqlx::Error) -> Option<&'static str> {
    let error = error.as_database_error()?.try_downcast_ref::<SqliteError>()?;
    let code: u32 = error.code()?.parse().ok()?;
    match code & 0xff {
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
        Some("42501") => Some("this user may not do that; it needs to own the tables of this database"),
        _ => is_unreachable(error).then_some("the database cannot be reached"),
    }
}

//! What a failure of a database means, in an operator's words.

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;

/// Returns the cause of a failure if an operator can remove it.
pub(super) fn cause(error: &sqlx::Error) -> Option<&'static str> {
    of_sqlite(error).or_else(|| of_postgres(error))
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
    if matches!(error, sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed) {
        return Some("the database cannot be reached");
    }
    let code = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?.code();
    match code {
        "25006" => Some("the database server is read-only, as a standby is; name its primary"),
        "28000" | "28P01" => Some("the database server refuses this user or its password"),
        "42P01" => Some("there are no tables of a coordinator in this database"),
        "3D000" => Some("the database server has no database of this name; make it with `createdb`"),
        "53100" => Some("the disk of the database server is full"),
        "53300" => Some("the database server has no connection left"),
        "55P03" => Some("the database is locked by another program"),
        "57014" => Some("the database server did not answer in time"),
        "55000" | "57P01" | "57P02" | "57P03" => Some("the database server cannot be reached: it stops or starts"),
        "42501" => Some("this user may not do that; it needs to own the tables of this database"),
        _ => None,
    }
}

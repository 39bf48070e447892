//! Connections of other programs to the database, for tests.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, query};

use super::FILE;

/// A connection that blocks others.
pub(crate) struct BlockingConnection(SqliteConnection);

impl BlockingConnection {
    /// Takes the lock that every writer needs.
    pub(crate) async fn lock(directory: &Path) -> Self {
        Self::hold(directory, "BEGIN EXCLUSIVE").await
    }

    /// Starts a read transaction, and keeps it open.
    pub(crate) async fn view(directory: &Path) -> Self {
        let mut held = Self::hold(directory, "BEGIN").await;
        query("SELECT count(*) FROM nodes").fetch_one(&mut held.0).await.unwrap();
        held
    }

    async fn hold(directory: &Path, begin: &'static str) -> Self {
        let mut connection = SqliteConnectOptions::new().filename(directory.join(FILE)).connect().await.unwrap();
        query(begin).execute(&mut connection).await.unwrap();
        Self(connection)
    }

    /// Closes the connection.
    pub(crate) async fn release(mut self) {
        query("ROLLBACK").execute(&mut self.0).await.unwrap();
        self.0.close().await.unwrap();
    }
}

/// Executes statements as a person with another program would, without the rules between tables.
pub(crate) async fn execute_on_file(directory: &Path, statements: &str) {
    let options = SqliteConnectOptions::new().filename(directory.join(FILE)).foreign_keys(false);
    let mut connection = options.connect().await.unwrap();
    connection.execute(AssertSqlSafe(statements)).await.unwrap();
    connection.close().await.unwrap();
}

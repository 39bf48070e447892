//! Connections of other programs to the database, for tests.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, query};

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

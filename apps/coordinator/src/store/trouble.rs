//! Other programs at the database, for tests.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, query};

use super::FILE;

/// A connection that is in the way.
pub(crate) struct Held(SqliteConnection);

impl Held {
    /// Holds the lock that every writer needs.
    pub(crate) async fn lock(directory: &Path) -> Self {
        Self::hold(directory, "BEGIN EXCLUSIVE").await
    }

    /// Reads one state and goes on looking at it.
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

    /// Out of the way.
    pub(crate) async fn release(mut self) {
        query("ROLLBACK").execute(&mut self.0).await.unwrap();
        self.0.close().await.unwrap();
    }
}

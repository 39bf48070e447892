//! The lock that every writer needs, held by another program, for tests.

use super::Location;
use super::postgres::ServerLock;
use super::sqlite::BlockingConnection;

/// The lock, until it is released.
pub(crate) enum HeldLock {
    File(BlockingConnection),
    Server(ServerLock),
}

impl HeldLock {
    /// Takes the lock.
    pub(crate) async fn take(location: &Location) -> Self {
        match location {
            Location::Directory(directory) => Self::File(BlockingConnection::lock(directory).await),
            Location::Server(url) => Self::Server(ServerLock::take(url).await),
        }
    }

    /// Gives it back.
    pub(crate) async fn release(self) {
        match self {
            Self::File(held) => held.release().await,
            Self::Server(held) => held.release().await,
        }
    }
}

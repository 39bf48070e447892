//! Where the database is.

use std::fmt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::StoreError;

/// Where the database is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Location {
    /// SQLite, in this state directory.
    Directory(PathBuf),
    /// PostgreSQL, by its URL, which may contain a password.
    Server(Zeroizing<String>),
}

impl Location {
    /// Returns the location that an operator names by a URL, by default the state directory. `None` for a URL that is not PostgreSQL's.
    pub(crate) fn parse(url: Option<String>, directory: &Path) -> Option<Self> {
        let Some(url) = url else { return Some(Self::Directory(directory.to_path_buf())) };
        let is_postgres = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
        is_postgres.then(|| Self::Server(Zeroizing::new(url)))
    }

    /// Checks the database's URL in the same way as opening the database does, without connecting.
    ///
    /// # Errors
    /// If the URL cannot be used. The error does not contain the password.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self {
            Self::Directory(_) => Ok(()),
            Self::Server(url) => super::postgres::check_url(url),
        }
    }
}

/// Without the URL, because its password must not get into a log.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(directory) => write!(f, "{}", directory.display()),
            Self::Server(_) => f.write_str("the PostgreSQL database"),
        }
    }
}

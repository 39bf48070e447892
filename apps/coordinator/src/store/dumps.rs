//! Dumps of released databases, for tests of upgrades (fault L1). tools/dumps writes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Location, postgres, sqlite};

/// A row: its values by column, as literals of SQL.
pub(crate) type DumpedRow = BTreeMap<String, String>;

/// All rows of a database, by table; the last numbers that were given are a table as well.
pub(crate) type Contents = BTreeMap<String, Vec<DumpedRow>>;

/// The database of a release as SQL.
pub(crate) struct Dump {
    /// The release, or `next`.
    pub(crate) version: String,
    statements: String,
}

impl Dump {
    /// Returns the dumps of one kind of database; the last one is empty.
    pub(crate) fn all(location: &Location) -> Vec<Self> {
        let kind = match location {
            Location::Directory(_) => "sqlite-",
            Location::Server(_) => "postgres-",
        };
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dumps"));
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let version =
            |file: &PathBuf| Some(file.file_name()?.to_str()?.strip_prefix(kind)?.strip_suffix(".sql")?.to_owned());
        let dump = |file: PathBuf| {
            Some(Self { version: version(&file)?, statements: std::fs::read_to_string(&file).unwrap() })
        };
        files.into_iter().filter_map(dump).chain([Self::empty()]).collect()
    }

    /// Returns the dump of a database in which nothing is.
    pub(crate) fn empty() -> Self {
        Self { version: String::from("empty"), statements: String::new() }
    }

    /// Replaces whatever is in a test's database with the dump.
    pub(crate) async fn load(&self, location: &Location) {
        match location {
            Location::Directory(directory) => sqlite::load(directory, self.statements.clone()).await,
            Location::Server(url) => postgres::load(url, self.statements.clone()).await,
        }
    }
}

/// Returns all rows of a database that nobody uses.
pub(crate) async fn contents(location: &Location) -> Contents {
    match location {
        Location::Directory(directory) => sqlite::contents(directory).await,
        Location::Server(url) => postgres::contents(url).await,
    }
}

/// Opens a database, and is interrupted after this number of steps: of SQLite's virtual machine, or messages to the server. Returns true if it was interrupted.
pub(crate) async fn interrupted(location: &Location, steps: u64) -> bool {
    match location {
        Location::Directory(directory) => sqlite::interrupted(directory, steps).await,
        Location::Server(url) => postgres::interrupted(url, steps).await,
    }
}

/// Returns version, description and checksum, in hex digits, of each migration for a kind of database.
pub(crate) fn migrations(location: &Location) -> Vec<(i64, String, String)> {
    let all = match location {
        Location::Directory(_) => &super::migrations::SQLITE,
        Location::Server(_) => &super::migrations::POSTGRES,
    };
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    all.iter().map(|one| (one.version, one.description.to_string(), digits(&one.checksum))).collect()
}

//! A coordinator moves to another database.

use std::fs::File;

use super::start::{KEY, MOVED, StateDirectoryError, expect_unmoved, lock, lock_database};
use crate::clock::unix_now;
use crate::store::{FILE, Location, Party, Purpose, Store, StoreError, WAS_MOVED, check, make_directory};

/// Copies the coordinator of one database into another, empty one, and compares every row. No coordinator may run on either; while it copies, nobody can change
/// anything in either. The first one gets a mark, with which it is not served again: both would assign the same addresses. Returns the names of the tables and
/// the numbers of their rows.
pub(crate) async fn migrate(from: &Location, to: &Location) -> Result<Vec<(&'static str, usize)>, StateDirectoryError> {
    if let Location::Directory(directory) = from
        && !directory.join(FILE).is_file()
    {
        return Err(StateDirectoryError::Empty(directory.clone()));
    }
    if from == to {
        return Err(StateDirectoryError::NotEmpty(format!("{to}, which is also where it comes from")));
    }
    let _locks = (held(from)?, held(to)?);
    let found = check(from).await?;
    if found.iter().any(|found| found == WAS_MOVED) {
        return Err(StoreError::Moved.into());
    }
    if !found.is_empty() {
        return Err(StateDirectoryError::Damaged(found.join("; ")));
    }
    let (source, target) = (Store::open(from, Purpose::Copy).await?, Store::open(to, Purpose::Copy).await?);
    // A write transaction as well, so that nothing changes in the source meanwhile.
    let mut old = source.write(Party::Coordinator).await?;
    let mut new = target.write(Party::Coordinator).await?;
    old.unlimited().await?;
    new.unlimited().await?;
    if old.meta(KEY).await?.is_none() {
        return Err(match from {
            Location::Directory(directory) => StateDirectoryError::Empty(directory.clone()),
            Location::Server(_) => StoreError::NoTables.into(),
        });
    }
    expect_unmoved(&mut old).await?;
    if new.meta(KEY).await?.is_some() {
        return Err(StateDirectoryError::NotEmpty(to.to_string()));
    }
    let counts = new.copy_from(&mut old).await?;
    // A lost connection has given its lock back, and a coordinator may have changed what was copied.
    old.meta(KEY).await?;
    source.expect_unserved().await?;
    new.commit().await?;
    // Nobody starts it again by mistake.
    old.insert_meta(MOVED, &unix_now().to_be_bytes()).await?;
    // One that was frozen meanwhile goes on believing that it serves.
    old.fence().await?;
    old.commit().await?;
    source.close().await;
    target.close().await;
    Ok(counts)
}

/// Keeps a coordinator off the directory of a database. A server does that by itself.
fn held(location: &Location) -> Result<Option<(File, File)>, StateDirectoryError> {
    let Location::Directory(directory) = location else { return Ok(None) };
    make_directory(directory)?;
    Ok(Some((lock(directory)?, lock_database(directory)?)))
}

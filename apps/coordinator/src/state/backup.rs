//! Backup, restore and check of the database.
//!
//! A restored backup is older than what nodes remember. No address or number that was assigned since then may be assigned again, and no map change may refer to
//! a version that meant something else. A restored coordinator therefore skips addresses and numbers, and sends every node a full map (fault N9).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use taut_relay_server::open_regular;

use super::stage::Stage;
use super::start::{StateDirectoryError, lock, lock_database};
use super::{addresses, random_bits};
use crate::clock::unix_now;
use crate::store::{
    FILE, LastKnown, Location, Party, Purpose, Store, StoreError, WAS_MOVED, check, copy, give_to_owner,
    is_open_elsewhere, last_known, prepare,
};

/// Node numbers that are skipped by a step, 65,536: as many as the largest network has members.
const NODES: u32 = 65_536;

/// Key numbers that are skipped by a step.
const KEYS: u32 = 1_000;

/// Relay numbers that are skipped by a step.
const RELAYS: u32 = 1_000;

/// Versions of a network that are skipped, 2^20: a year with two changes per minute.
const CHANGES: u32 = 1 << 20;

/// Addresses that are skipped by a step, 65,536, but at most a quarter of a network.
const ADDRESSES: u32 = 65_536;

/// Most steps that are skipped if nothing is known about earlier restores, 1,024: two restores of one backup skip the same numbers once in a thousand times, and
/// the numbers of relays, which have 32 bits, last for thousands of restores.
const MOST_STEPS: u32 = 1_024;

/// Result of a restore.
pub(crate) struct Restored {
    /// New path of the database that was replaced.
    pub(crate) replaced: Option<PathBuf>,
}

/// Writes the database of the coordinator in `directory`, which may be running, to `file`, readable by its owner only. The file appears complete and checked,
/// or not at all.
pub(crate) async fn backup(directory: &Path, file: &Path) -> Result<(), StateDirectoryError> {
    if !directory.join(FILE).is_file() {
        return Err(StateDirectoryError::Empty(directory.to_path_buf()));
    }
    if file.exists() {
        return Err(StateDirectoryError::Exists(file.to_path_buf()));
    }
    let failed = |source| StateDirectoryError::File(file.to_path_buf(), source);
    let stage = Stage::new(parent(file)).map_err(failed)?;
    prepare(stage.path())?;
    copy(directory, &stage.database().to_string_lossy()).await?;
    if check(&Location::Directory(stage.path().to_path_buf())).await?.iter().any(|found| found == WAS_MOVED) {
        return Err(StoreError::Moved.into());
    }
    sound(stage.path()).await?;
    let (made, _) = stage.bring_to(parent(file)).map_err(failed)?;
    // `rename` is not used here, because it would replace a file that appeared meanwhile.
    let result = fs::hard_link(&made, file).and_then(|()| sync_parent(file)).map_err(failed);
    let _ = fs::remove_file(&made);
    result
}

/// Restores the backup `file` into `directory`. An existing database is replaced only with `force`, and kept under another name.
pub(crate) async fn restore(directory: &Path, file: &Path, force: bool) -> Result<Restored, StateDirectoryError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| StateDirectoryError::File(path, source)
    };
    let database = directory.join(FILE);
    // Opened first, so that a wrong name leaves nothing behind.
    let mut from = open_regular(file).map_err(failed(file))?;
    let is_used = || fs::metadata(&database).is_ok_and(|metadata| metadata.len() > 0);
    if is_used() && !force {
        return Err(StateDirectoryError::Occupied(directory.to_path_buf()));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed(directory))?;
    let _lock = lock(directory)?;
    let _database = if is_used() { Some(lock_database(directory)?) } else { None };
    if is_used() && is_open_elsewhere(directory).await {
        return Err(StateDirectoryError::Open(directory.to_path_buf()));
    }
    // A restore by an earlier release used this directory and left it behind if it was interrupted.
    let _ = fs::remove_dir_all(directory.join("restoring"));
    let stage = Stage::new(directory).map_err(failed(directory))?;
    prepare(stage.path())?;
    let mut to = OpenOptions::new().write(true).open(stage.database()).map_err(failed(stage.path()))?;
    io::copy(&mut from, &mut to).map_err(failed(stage.path()))?;
    sound(stage.path()).await?;
    let known = if is_used() { last_known(directory).await } else { LastKnown::default() };
    move_ahead(&Location::Directory(stage.path().to_path_buf()), Purpose::Change, &known).await?;
    sound(stage.path()).await?;
    let (made, to) = stage.bring_to(directory).map_err(failed(directory))?;
    let placed =
        give_to_owner(directory, &to).map_err(failed(&made)).and_then(|()| put_in_place(directory, &made, is_used()));
    if placed.is_err() {
        let _ = fs::remove_file(&made);
    }
    placed
}

/// Renames the complete file `made` to the database of the state directory. A database that is replaced is kept under another name.
fn put_in_place(directory: &Path, made: &Path, is_used: bool) -> Result<Restored, StateDirectoryError> {
    let database = directory.join(FILE);
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| StateDirectoryError::File(path, source)
    };
    // The name must be free: another restore may have kept a database under the name of the same second.
    let free = |time| Some(with_ending(&database, &format!(".replaced-{time}"))).filter(|path| !path.exists());
    let replaced = if is_used { (unix_now()..).find_map(free) } else { None };
    if let Some(replaced) = &replaced {
        set_aside(&database, replaced).map_err(failed(replaced))?;
    }
    fs::rename(made, &database).and_then(|()| sync_parent(&database)).map_err(failed(&database))?;
    Ok(Restored { replaced })
}

/// Skips what may have been assigned after the backup from which a server's database was restored by the server's own means. No coordinator may serve it.
pub(crate) async fn restored_elsewhere(database: &Location) -> Result<(), StateDirectoryError> {
    match check(database).await {
        Ok(found) if found.is_empty() => move_ahead(database, Purpose::Copy, &LastKnown::default()).await,
        Ok(found) => Err(StateDirectoryError::Unsound(found.join("; "))),
        Err(error) => Err(error.into()),
    }
}

/// Returns the damages of a coordinator's database; empty if there are none.
pub(crate) async fn findings(database: &Location) -> Result<Vec<String>, StateDirectoryError> {
    match database {
        Location::Directory(directory) if !directory.join(FILE).is_file() => {
            Err(StateDirectoryError::Empty(directory.clone()))
        }
        _ => Ok(check(database).await?),
    }
}

async fn sound(directory: &Path) -> Result<(), StateDirectoryError> {
    match check(&Location::Directory(directory.to_path_buf())).await {
        Ok(found) if found.is_empty() => Ok(()),
        Ok(found) => Err(StateDirectoryError::Unsound(found.join("; "))),
        Err(error) => Err(StateDirectoryError::Unsound(error.to_string())),
    }
}

/// Skips the addresses, numbers and versions that may have been assigned after the backup. What was assigned after an earlier restore of the same backup is
/// `known` from the database that is replaced now; without one, a random number of steps is skipped, so that two restores hardly skip the same.
async fn move_ahead(database: &Location, purpose: Purpose, known: &LastKnown) -> Result<(), StateDirectoryError> {
    let store = Store::open(database, purpose).await?;
    let mut tx = store.write(Party::Coordinator).await?;
    for network in tx.networks().await? {
        let step = (addresses::last_host(network.ipv4) / 4).min(ADDRESSES);
        let (cursor, version) = match known.network(network.id) {
            Some((cursor, version)) => (addresses::host_after(network.ipv4, cursor, step), version),
            None => {
                let room = (addresses::last_host(network.ipv4) / step.max(1)).max(2) - 1;
                (addresses::host_after(network.ipv4, network.cursor, step * steps(room)), 0)
            }
        };
        tx.set_cursor(network.id, cursor).await?;
        tx.leap(network.id, version, CHANGES, random_bits()).await?;
    }
    let count = if known.nodes == 0 { steps(MOST_STEPS) } else { 1 };
    tx.skip_numbers(known, NODES * count, KEYS * count, RELAYS * count).await?;
    // Sessions and links that were ended after the backup must not be alive again.
    tx.delete_all_sessions().await?;
    tx.commit().await?;
    store.close().await;
    Ok(())
}

/// Returns a random number of steps, from 1 to `most`.
fn steps(most: u32) -> u32 {
    1 + random_bits() % most
}

/// Renames a database together with its write-ahead log. If the log stayed, SQLite would apply it to the new database.
fn set_aside(database: &Path, replaced: &Path) -> io::Result<()> {
    fs::hard_link(database, replaced)?;
    let log = with_ending(database, "-wal");
    if log.exists() {
        fs::rename(log, with_ending(replaced, "-wal"))?;
    }
    let index = with_ending(database, "-shm");
    if index.exists() {
        fs::remove_file(index)?;
    }
    sync_parent(database)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Returns the directory of a file.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Syncs the directory of a file, without which its name may be lost.
fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent(path))?.sync_all()
}

//! Backups, restoring one, and checking what is there.
//!
//! A restored backup is older than what nodes remember. Whatever was handed out since then must not be handed out again, and no change
//! must be built on a version that meant something else: a restored coordinator leaves out the addresses and numbers that may have been
//! given meanwhile, and sends every node a whole map (fault N9).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::start::{StartError, lock};
use super::{addresses, random_bits};
use crate::clock::unix_now;
use crate::store::{FILE, Party, Store, check, copy, prepare};

/// Where a backup is made ready, inside the state directory: one rename puts it in place.
const STAGE: &str = "restoring";

/// Numbers of nodes that may have been given since the backup: as many as the largest network has members.
const NODES: u32 = 65_536;

/// Numbers of keys that may have been given since the backup.
const KEYS: u32 = 1_000;

/// Numbers of relays that may have been given since the backup.
const RELAYS: u32 = 1_000;

/// Changes that a network may have been through since the backup: a year at two per minute.
const CHANGES: u32 = 1 << 20;

/// Addresses that may have been given since the backup; in a small network a quarter of what it has.
const ADDRESSES: u32 = 65_536;

/// What restoring did.
pub(crate) struct Restored {
    /// Where the database that was there before is kept.
    pub(crate) replaced: Option<PathBuf>,
}

/// Writes the database of the coordinator in `directory`, which may be running, to `file`, readable by its owner only. The file is
/// there, whole and checked, or not at all.
pub(crate) async fn backup(directory: &Path, file: &Path) -> Result<(), StartError> {
    if !directory.join(FILE).is_file() {
        return Err(StartError::Empty(directory.to_path_buf()));
    }
    if file.exists() {
        return Err(StartError::Exists(file.to_path_buf()));
    }
    // Beside the target, so that a rename ends it; a directory of its own, so that it can be looked at as a coordinator's.
    let stage = with_ending(file, ".new");
    let result = async {
        prepare(&stage)?;
        copy(directory, &stage.join(FILE).to_string_lossy()).await?;
        sound(&stage).await?;
        let failed = |source| StartError::File(file.to_path_buf(), source);
        File::open(stage.join(FILE)).and_then(|made| made.sync_all()).map_err(failed)?;
        // Not `rename`: a file that appeared meanwhile is not ours to replace.
        fs::hard_link(stage.join(FILE), file).and_then(|()| sync_parent(file)).map_err(failed)
    }
    .await;
    let _ = fs::remove_dir_all(&stage);
    result
}

/// Puts the backup `file` into `directory`. A database that is there already is kept beside it, and replaced only with `force`.
pub(crate) async fn restore(directory: &Path, file: &Path, force: bool) -> Result<Restored, StartError> {
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| StartError::File(path, source)
    };
    let (stage, database) = (directory.join(STAGE), directory.join(FILE));
    // Read before anything is made: a wrong name leaves nothing behind.
    let mut from = File::open(file).map_err(failed(file))?;
    let is_used = || fs::metadata(&database).is_ok_and(|metadata| metadata.len() > 0);
    if is_used() && !force {
        return Err(StartError::Occupied(directory.to_path_buf()));
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed(directory))?;
    let _lock = lock(directory)?;
    let result = async {
        // What a restore that was cut off left behind.
        let _ = fs::remove_dir_all(&stage);
        prepare(&stage)?;
        let mut to = OpenOptions::new().write(true).open(stage.join(FILE)).map_err(failed(&stage))?;
        io::copy(&mut from, &mut to).map_err(failed(file))?;
        sound(&stage).await?;
        move_ahead(&stage).await?;
        sound(&stage).await?;
        File::open(stage.join(FILE)).and_then(|made| made.sync_all()).map_err(failed(&stage))?;
        // Never the name of one that was replaced before, were it in the same second.
        let free = |time| Some(with_ending(&database, &format!(".replaced-{time}"))).filter(|path| !path.exists());
        let replaced = if is_used() { (unix_now()..).find_map(free) } else { None };
        if let Some(replaced) = &replaced {
            set_aside(&database, replaced).map_err(failed(replaced))?;
        }
        fs::rename(stage.join(FILE), &database).and_then(|()| sync_parent(&database)).map_err(failed(&database))?;
        Ok(Restored { replaced })
    }
    .await;
    let _ = fs::remove_dir_all(&stage);
    result
}

/// What is wrong with the database in `directory`; empty when it is sound.
pub(crate) async fn findings(directory: &Path) -> Result<Vec<String>, StartError> {
    if !directory.join(FILE).is_file() {
        return Err(StartError::Empty(directory.to_path_buf()));
    }
    Ok(check(directory).await?)
}

async fn sound(directory: &Path) -> Result<(), StartError> {
    match check(directory).await {
        Ok(found) if found.is_empty() => Ok(()),
        Ok(found) => Err(StartError::Unsound(found.join("; "))),
        Err(error) => Err(StartError::Unsound(error.to_string())),
    }
}

/// Leaves out what may have been handed out after the backup was made.
async fn move_ahead(directory: &Path) -> Result<(), StartError> {
    let store = Store::open(directory).await?;
    let mut tx = store.write(Party::House).await?;
    for network in tx.networks().await? {
        let hosts = (addresses::last_host(network.ipv4) / 4).min(ADDRESSES);
        let cursor = addresses::host_after(network.ipv4, network.cursor, hosts);
        tx.set_cursor(network.id, cursor).await?;
        tx.leap(network.id, CHANGES, random_bits()).await?;
    }
    tx.skip_numbers(NODES, KEYS, RELAYS).await?;
    tx.commit().await?;
    store.close().await;
    Ok(())
}

/// Keeps a database under another name, its log with it. The log must not stay: SQLite would play it into the new database.
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

/// A name is on the disk once its directory is.
fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

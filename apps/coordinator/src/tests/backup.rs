//! Backups of a running coordinator, and restores after which no address or number is assigned twice.

use std::fs::{self, metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use taut_netmap::{NetworkMap, ProblemCode, ToCoordinator};
use tokio::runtime::Runtime;

use super::world::{Directory, TestCoordinator, TestHost};
use crate::state::{backup, findings, restore};
use crate::store::{BlockingConnection, Contents, Location, contents};

fn wait<T>(future: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(future)
}

fn backup_in(directory: &Directory) -> PathBuf {
    directory.0.join("saved.db")
}

#[test]
fn a_backup_of_a_running_coordinator_is_whole_private_and_never_replaces() {
    let directory = Directory::new();
    let file = backup_in(&directory);
    assert!(wait(backup(&directory.0, &file)).unwrap_err().to_string().contains("there is no coordinator"));
    let coordinator = TestCoordinator::start(&directory);
    let writing = std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..30).map(|_| coordinator.join("n").id()).collect::<Vec<_>>().len());
        for number in 0..10 {
            wait(backup(&directory.0, &directory.0.join(format!("{number}.db")))).unwrap();
        }
        writer.join().unwrap()
    });
    assert_eq!(writing, 30);
    wait(backup(&directory.0, &file)).unwrap();
    assert_eq!(metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(wait(backup(&directory.0, &file)).unwrap_err().to_string().contains("exists already"));
    assert!(!directory.0.join("saved.db.new").exists());
    let other = Directory::new();
    for number in ["0.db", "9.db", "saved.db"] {
        wait(restore(&other.0, &directory.0.join(number), true)).unwrap();
        assert_eq!(wait(findings(&other.database())).unwrap(), [""; 0]);
    }
    assert_eq!(metadata(other.0.join("coordinator.db")).unwrap().permissions().mode() & 0o777, 0o600);
    drop(coordinator);
    let restored = TestCoordinator::start(&other);
    assert!(restored.first.is_none(), "the tokens are the backup's");
    assert_eq!(restored.wait(restored.state.nodes(None)).unwrap().len(), 30);
}

#[test]
fn fault_o8_a_backup_under_load_restored_elsewhere_has_each_row_of_one_moment() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    coordinator.join("a");
    let made = AtomicUsize::new(1);
    let copies: Vec<Contents> = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..200 {
                coordinator.key(true, crate::state::Expiry::Never);
                made.fetch_add(1, Ordering::SeqCst);
            }
        });
        let mut copies = Vec::new();
        while !writer.is_finished() {
            let file = directory.0.join(format!("{}.db", copies.len()));
            let before = made.load(Ordering::SeqCst);
            wait(backup(&directory.0, &file)).unwrap();
            let after = made.load(Ordering::SeqCst);
            let other = Directory::new();
            wait(restore(&other.0, &file, false)).unwrap();
            let copy = wait(contents(&Location::Directory(other.0.clone())));
            // One change may be stored and not yet counted.
            assert!((before..=after + 1).contains(&copy["keys"].len()), "{before} {after}: {:?}", copy["keys"].len());
            copies.push(copy);
        }
        copies
    });
    let last = wait(contents(&Location::Directory(directory.0.clone())));
    for copy in &copies {
        for table in ["meta", "operators", "keys", "nodes", "relays"] {
            assert!(copy[table].iter().all(|row| last[table].contains(row)), "{table}");
        }
        let keys = (1..=copy["keys"].len()).map(|key| key.to_string());
        assert!(keys.eq(copy["keys"].iter().map(|row| row["id"].clone())), "no change before the last is missing");
    }
}

#[test]
fn fault_n9_after_a_restore_nothing_is_given_twice_and_nodes_get_whole_maps() {
    let directory = Directory::new();
    let file = backup_in(&directory);
    let (token, old, lost, late_key);
    let mut watcher;
    {
        let coordinator = TestCoordinator::start(&directory);
        token = coordinator.token();
        watcher = coordinator.join("watcher");
        old = coordinator.join("old");
        wait(backup(&directory.0, &file)).unwrap();
        let mut node = coordinator.join("lost");
        node.channel.send(&ToCoordinator::Ping);
        late_key = coordinator.key(true, crate::state::Expiry::Never);
        lost = node.host.resume(&coordinator, &token, None).unwrap();
        watcher.hear_until(|watcher| watcher.map.peers.len() == 2);
    }
    wait(restore(&directory.0, &file, true)).unwrap();
    let coordinator = TestCoordinator::start(&directory);
    // A node that is ahead gets a whole map, and goes on from it.
    let mut back = watcher.host.resume(&coordinator, &token, Some(watcher.map.clone())).unwrap();
    assert_eq!((back.wholes, back.map.peers.len()), (1, 1));
    assert!(back.map.version > watcher.map.version, "versions rise over a restore");
    // A node that is not ahead also gets a full map, because its version may belong to another history.
    assert_eq!(old.host.resume(&coordinator, &token, Some(old.map.clone())).unwrap().wholes, 1);
    // A node that joined meanwhile is told to join again. No other node gets its address or its number.
    let refused = lost.host.resume(&coordinator, &token, Some(lost.map.clone())).err().unwrap();
    assert_eq!(refused.code, ProblemCode::NotAMember);
    let next = TestHost::new().join(&coordinator, &token, "next").unwrap();
    assert!(next.id() > lost.id());
    assert!(next.map.me.addresses.iter().all(|address| !lost.map.me.addresses.contains(address)));
    assert!(coordinator.key(true, crate::state::Expiry::Never).0 > late_key.0);
    back.hear_until(|back| back.map.peers.len() == 2);
    assert_eq!((back.wholes, back.map.clone()), (1, back.fresh_map(&coordinator)));
    drop(coordinator);
    assert_eq!(wait(findings(&directory.database())).unwrap(), [""; 0]);
}

#[test]
fn fault_n9_a_second_restore_of_the_same_backup_gives_nothing_again_that_was_given_after_the_first() {
    let directory = Directory::new();
    let file = backup_in(&directory);
    let token = {
        let coordinator = TestCoordinator::start(&directory);
        coordinator.join("old");
        wait(backup(&directory.0, &file)).unwrap();
        coordinator.token()
    };
    let mut given = Vec::new();
    for round in 0..3 {
        wait(restore(&directory.0, &file, true)).unwrap();
        let coordinator = TestCoordinator::start(&directory);
        let key = coordinator.key(true, crate::state::Expiry::Never).0;
        for name in ["a", "b"] {
            let node = TestHost::new().join(&coordinator, &token, name).unwrap();
            let is_new = |(id, addresses, version, keys): &(_, Vec<_>, u64, _)| {
                let differs = *id < node.id() && node.map.me.addresses.iter().all(|own| !addresses.contains(own));
                differs && *version < node.map.version && *keys <= key
            };
            assert!(given.iter().all(is_new), "{round}: {given:?} {:?}", node.map.me);
            given.push((node.id(), node.map.me.addresses.clone(), node.map.version, key));
        }
    }
}

#[test]
fn fault_n9_a_database_that_another_program_has_open_is_not_replaced() {
    let directory = Directory::new();
    let file = backup_in(&directory);
    drop(TestCoordinator::start(&directory));
    wait(backup(&directory.0, &file)).unwrap();
    let before = fs::read(directory.0.join("coordinator.db")).unwrap();
    // A program that replicates the log has a read transaction open.
    let runtime = Runtime::new().unwrap();
    let open = runtime.block_on(BlockingConnection::view(&directory.0));
    let refusal = wait(restore(&directory.0, &file, true)).err().unwrap().to_string();
    assert!(refusal.contains("would go on with the old one"), "{refusal}");
    assert_eq!(fs::read(directory.0.join("coordinator.db")).unwrap(), before);
    runtime.block_on(open.release());
    wait(restore(&directory.0, &file, true)).unwrap();
}

#[test]
fn a_restore_refuses_to_overwrite_and_damaged_backups() {
    let directory = Directory::new();
    let file = backup_in(&directory);
    let map: NetworkMap;
    {
        let coordinator = TestCoordinator::start(&directory);
        map = coordinator.join("n").map;
        wait(backup(&directory.0, &file)).unwrap();
        let running = wait(restore(&directory.0, &file, true)).err().unwrap().to_string();
        assert!(running.contains("another coordinator is running"), "{running}");
    }
    let occupied = wait(restore(&directory.0, &file, false)).err().unwrap().to_string();
    assert!(occupied.contains("--force"), "{occupied}");
    let bytes = fs::read(&file).unwrap();
    let mut flipped = bytes.clone();
    flipped[5_000..9_000].fill(0xff);
    let wrong = directory.0.join("wrong.db");
    for damaged in
        [&b""[..], b"text, not a database, but long enough to look like one", &bytes[..bytes.len() / 2], &flipped]
    {
        fs::write(&wrong, damaged).unwrap();
        let why = wait(restore(&directory.0, &wrong, true)).err().unwrap().to_string();
        assert!(why.contains("nothing was changed"), "{why}");
        let elsewhere = Directory::new();
        assert!(wait(restore(&elsewhere.0, &wrong, false)).is_err());
        assert!(!elsewhere.0.join("coordinator.db").exists(), "no first start from a failed restore");
    }
    assert!(wait(restore(&directory.0, Path::new("/nowhere"), true)).is_err());
    let left = fs::read_dir(&directory.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(left.filter(|name| name.contains("new")).count(), 0, "no stage is left behind");
    let coordinator = TestCoordinator::start(&directory);
    assert_eq!(coordinator.wait(coordinator.state.nodes(None)).unwrap()[0].row.id, map.me.id, "as before");
    drop(coordinator);
    let kept = wait(restore(&directory.0, &file, true)).unwrap().replaced.unwrap();
    assert!(kept.is_file());
}

#[test]
fn what_root_restores_belongs_to_the_owner_of_the_directory() {
    let (saved, to) = (Directory::new(), Directory::new());
    let file = saved.0.with_extension("backup");
    {
        let coordinator = TestCoordinator::start(&saved);
        coordinator.wait(backup(&saved.0, &file)).unwrap();
    }
    fs::create_dir(&to.0).unwrap();
    if chown(&to.0, Some(12_345), Some(54_321)).is_err() {
        return eprintln!("skipped: only root can give a directory to another user");
    }
    let runtime = Runtime::new().unwrap();
    for _ in 0..2 {
        runtime.block_on(restore(&to.0, &file, true)).unwrap();
        for file in fs::read_dir(&to.0).unwrap() {
            let file = file.unwrap();
            let metadata = file.metadata().unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (12_345, 54_321), "{:?}", file.path());
        }
    }
    fs::remove_file(&file).unwrap();
}

#[test]
fn root_follows_no_link_that_appears_while_it_restores_for_another_user_or_makes_a_backup_there() {
    let (saved, victim) = (Directory::new(), Directory::new());
    let file = saved.0.with_extension("backup");
    let coordinator = TestCoordinator::start(&saved);
    wait(backup(&saved.0, &file)).unwrap();
    fs::create_dir(&victim.0).unwrap();
    let precious = victim.0.join("coordinator.db");
    fs::write(&precious, "precious").unwrap();
    for _ in 0..10 {
        let to = Directory::new();
        fs::create_dir(&to.0).unwrap();
        if chown(&to.0, Some(12_345), Some(54_321)).is_err() {
            return eprintln!("skipped: only root can give a directory to another user");
        }
        let ended = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            // The owner of the directory puts a link in the place of each directory that appears there.
            scope.spawn(|| {
                while ended.load(Ordering::SeqCst) == 0 {
                    for found in fs::read_dir(&to.0).unwrap().map_while(Result::ok) {
                        let aside = found.path().with_extension("aside");
                        if found.file_type().is_ok_and(|kind| kind.is_dir()) && fs::rename(found.path(), aside).is_ok()
                        {
                            let _ = symlink(&victim.0, found.path());
                        }
                    }
                }
            });
            let restored = wait(restore(&to.0, &file, false)).map(drop);
            let made = wait(backup(&saved.0, &to.0.join("saved.db")));
            ended.store(1, Ordering::SeqCst);
            assert_eq!(fs::read_to_string(&precious).unwrap(), "precious", "root wrote to a file that the user chose");
            assert_eq!(fs::read_dir(&victim.0).unwrap().count(), 1, "root made a file where the user chose");
            restored.unwrap();
            made.unwrap();
        });
    }
    drop(coordinator);
    fs::remove_file(&file).unwrap();
}

#[test]
fn root_follows_no_link_in_the_state_directory_of_another_user() {
    let directory = Directory::new();
    fs::create_dir(&directory.0).unwrap();
    if chown(&directory.0, Some(12_345), Some(54_321)).is_err() {
        return eprintln!("skipped: only root can give a directory to another user");
    }
    let target = directory.0.with_extension("target");
    for name in ["lock", "coordinator.db"] {
        symlink(&target, directory.0.join(name)).unwrap();
        let refused = TestCoordinator::refusal(&directory, &Location::Directory(directory.0.clone()));
        assert!(refused.contains("not a regular file"), "{refused}");
        assert!(!target.exists(), "{name} was followed");
        fs::remove_file(directory.0.join(name)).unwrap();
    }
}

#[test]
fn a_backup_uses_no_directory_that_somebody_else_prepared() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let file = backup_in(&directory);
    let prepared = file.with_extension("db.new");
    fs::create_dir(&prepared).unwrap();
    fs::write(prepared.join("mine"), "kept").unwrap();
    coordinator.wait(backup(&directory.0, &file)).unwrap();
    assert_eq!(metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(prepared.join("mine")).unwrap(), "kept");
    let nowhere = directory.0.join("missing").join("saved.db");
    assert!(wait(backup(&directory.0, &nowhere)).is_err() && !nowhere.parent().unwrap().exists());
}

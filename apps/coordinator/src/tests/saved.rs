//! Backups under load, restored elsewhere (fault O8).

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use taut_base::NodeId;

use super::world::{Directory, TestCoordinator, dump};
use crate::state::{backup, findings, restore, restored_elsewhere};
use crate::store::{Location, execute};

/// Backups that are made while others write.
const BACKUPS: usize = 6;

/// Nodes that join at most, 200: more would exceed the limit on joins from one address.
const MOST: usize = 200;

/// Has clients write without end while backups are made. Each backup is given the nodes that were acknowledged before it began.
fn under_load(coordinator: &TestCoordinator, mut save: impl FnMut(usize, BTreeSet<NodeId>)) {
    let (joined, is_over) = (Mutex::new(BTreeSet::new()), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) && joined.lock().unwrap().len() < MOST {
                    let node = coordinator.join("n");
                    joined.lock().unwrap().insert(node.id());
                    let _ = coordinator.wait(coordinator.state.rename_node(
                        None,
                        &node.id().to_string(),
                        &format!("r{}", node.id().0),
                    ));
                }
            });
        }
        for number in 0..BACKUPS {
            while joined.lock().unwrap().len() < 5 * (number + 1) {
                std::thread::yield_now();
            }
            let before = joined.lock().unwrap().clone();
            save(number, before);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Returns the URL of a test's database as PostgreSQL's own programs take it.
fn url(directory: &Directory) -> String {
    let server = std::env::var("TAUT_TEST_POSTGRES").expect("tools/with_postgres runs this test with a server");
    let name = directory.0.file_name().unwrap().to_string_lossy().replace('-', "_");
    server.replace("/postgres?", &format!("/{name}?"))
}

/// Returns the nodes in a dump.
fn nodes(rows: &[String]) -> BTreeSet<NodeId> {
    let numbers = rows.iter().filter_map(|row| row.strip_prefix("nodes [Integer(")?.split(')').next()?.parse().ok());
    numbers.map(NodeId).collect()
}

#[test]
fn fault_o8_a_backup_under_load_is_whole_and_restored_elsewhere_it_is_identical() {
    let directory = Directory::new();
    let here = Location::Directory(directory.0.clone());
    let coordinator = TestCoordinator::start_on(&directory, &here);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let places: Vec<Directory> = (0..=BACKUPS).map(|_| Directory::new()).collect();
    let save = |number: usize| {
        let file = directory.0.join(format!("{number}.db"));
        runtime.block_on(backup(&directory.0, &file)).unwrap();
        // The very file, before `restore` skips numbers in it.
        std::fs::create_dir(&places[number].0).unwrap();
        std::fs::copy(&file, places[number].0.join("coordinator.db")).unwrap();
        let place = Location::Directory(places[number].0.clone());
        assert_eq!(runtime.block_on(findings(&place)).unwrap(), [""; 0], "backup {number}");
        (file, dump(&place))
    };
    let mut saved = Vec::new();
    under_load(&coordinator, |number, before| {
        let (_, rows) = save(number);
        assert!(before.is_subset(&nodes(&rows)), "backup {number} lacks an acknowledged node");
        saved.push(nodes(&rows).len());
    });
    assert!(saved.is_sorted() && saved[0] < saved[BACKUPS - 1], "{saved:?}");
    let (file, rows) = save(BACKUPS);
    assert_eq!(rows, dump(&here), "nothing was written meanwhile");
    // Restored on another host, it has the same members, keys and networks.
    drop(coordinator);
    let other = Directory::new();
    runtime.block_on(restore(&other.0, &file, false)).unwrap();
    let there = dump(&Location::Directory(other.0.clone()));
    let of = |rows: &[String], table: &str| {
        let is_row = |row: &&String| row.starts_with(&format!("{table} ["));
        rows.iter().filter(is_row).cloned().collect::<Vec<_>>()
    };
    for table in ["meta", "operators", "keys", "nodes", "relays"] {
        assert_eq!(of(&there, table), of(&rows, table), "{table}");
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o8_on_server_a_dump_under_load_is_whole_and_restored_elsewhere_it_is_identical() {
    let directory = Directory::new();
    let database = directory.database();
    let coordinator = TestCoordinator::start(&directory);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let places: Vec<Directory> = (0..=BACKUPS).map(|_| Directory::new()).collect();
    let save = |number: usize| {
        let place = places[number].database();
        let [from, to] = [&directory, &places[number]].map(url);
        let file = format!("{}.sql", places[number].0.display());
        let run = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output().unwrap();
            assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        };
        run("pg_dump", &["--file", &file, &from]);
        run("psql", &["--quiet", "--set", "ON_ERROR_STOP=1", "--file", &file, &to]);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(runtime.block_on(findings(&place)).unwrap(), [""; 0], "dump {number}");
        dump(&place)
    };
    under_load(&coordinator, |number, before| {
        assert!(before.is_subset(&nodes(&save(number))), "dump {number} lacks an acknowledged node");
    });
    let rows = save(BACKUPS);
    assert_eq!(rows, dump(&database), "nothing was written meanwhile");
    let place = places[BACKUPS].database();
    // The copied sign of life of the coordinator that was dumped.
    runtime.block_on(execute(&place, "UPDATE replicas SET seen_at = now() - interval '1 minute'")).unwrap();
    runtime.block_on(restored_elsewhere(&place)).unwrap();
    assert_eq!(nodes(&dump(&place)), nodes(&rows));
}

//! Failures of the database: an error is never an empty map (law 6), waiting changes are not lost, and the coordinator recovers on its own.

use std::sync::Barrier;
use std::time::Duration;

use serde_json::json;
use taut_netmap::ProblemCode;

use super::world::{Directory, TestCoordinator, TestHost};
use crate::state::{StateError, findings};
use crate::store::{BlockingConnection, HeldLock, Purpose, Store};

const KEYS: &str = "/api/v1/keys";

#[test]
fn fault_n5_while_the_database_is_locked_maps_are_whole_and_writes_say_why() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (token, operator) = (coordinator.token(), coordinator.operator_token());
    let mut node = coordinator.join("a");
    coordinator.join("b");
    node.hear_until(|node| node.map.peers.len() == 1);
    let held = coordinator.wait(HeldLock::take(&directory.database()));
    let (status, answer) = coordinator.ask("POST", KEYS, Some(operator), Some("{}"));
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("unavailable")));
    assert!(answer["error"]["message"].as_str().unwrap().contains("locked by another program"), "{answer}");
    let refused = TestHost::new().join(&coordinator, &token, "c").err().unwrap();
    assert!(refused.code == ProblemCode::Unavailable && !refused.code.is_final());
    let back = node.host.resume(&coordinator, &token, None).unwrap();
    assert_eq!(back.map, node.map, "reads go on, and are whole");
    assert_eq!(coordinator.ask("GET", "/api/v1/nodes", Some(operator), None).0, 200);
    coordinator.wait(held.release());
    assert_eq!(coordinator.ask("POST", KEYS, Some(operator), Some("{}")).0, 201);
    coordinator.join("c");
}

#[test]
fn fault_o5_64_writers_and_a_slow_database_lose_nothing() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let barrier = Barrier::new(65);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let write = || {
            barrier.wait();
            coordinator.ask("POST", KEYS, Some(coordinator.operator_token()), Some("{}")).0
        };
        let threads: Vec<_> = (0..64).map(|_| scope.spawn(write)).collect();
        let held = coordinator.wait(HeldLock::take(&directory.database()));
        barrier.wait();
        std::thread::sleep(Duration::from_secs(2));
        coordinator.wait(held.release());
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(statuses, [201; 64]);
    assert_eq!(coordinator.wait(coordinator.state.keys(None)).unwrap().len(), 65);
}

#[test]
fn fault_o4_a_stuck_reader_is_named_before_the_log_fills_the_disk() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = coordinator.operator_token();
    let health = || coordinator.ask("GET", "/healthz", None, None).1["warnings"].clone();
    let write = || coordinator.ask("POST", KEYS, Some(operator), Some("{}"));
    coordinator.state.store().set_log_limit(256 * 1024);
    let held = coordinator.wait(BlockingConnection::view(&directory.0));
    let refused = (0..200).map(|_| write()).find(|(status, _)| *status != 201);
    let (status, answer) = refused.expect("the log has a bound");
    assert_eq!(status, 503);
    assert!(answer["error"]["message"].as_str().unwrap().contains("reads an old state"), "{answer}");
    assert_eq!(health().as_array().unwrap().len(), 1, "the first question");
    assert_eq!(coordinator.ask("GET", "/api/v1/keys", Some(operator), None).0, 200, "reads go on");
    coordinator.wait(held.release());
    assert_eq!(write().0, 201);
    // The result of a health check is reused for a second.
    let mut waited = 0;
    while health() != json!([]) {
        assert!(waited < 600, "{}", health());
        waited += 1;
        std::thread::sleep(Duration::from_millis(100));
    }
    let log = std::fs::metadata(directory.0.join("coordinator.db-wal")).unwrap().len();
    assert!(log < 256 * 1024, "{log} bytes");
}

#[test]
fn fault_o3_a_log_deleted_under_a_running_coordinator_costs_nothing() {
    let directory = Directory::new();
    let token;
    {
        let coordinator = TestCoordinator::start(&directory);
        token = coordinator.token();
        let node = coordinator.join("a");
        for ending in ["-wal", "-shm"] {
            std::fs::remove_file(directory.0.join(format!("coordinator.db{ending}"))).unwrap();
        }
        coordinator.join("b");
        // More requests at once than open connections: no new connection may open the file that is now on the disk.
        let whole: Vec<usize> = std::thread::scope(|scope| {
            let ask = || node.host.resume(&coordinator, &token, None).map(|node| node.map.peers.len());
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
        });
        assert_eq!(whole, [1; 16]);
    }
    let coordinator = TestCoordinator::start(&directory);
    assert_eq!(coordinator.wait(coordinator.state.nodes(None)).unwrap().len(), 2);
}

#[test]
fn fault_l2_a_database_of_a_newer_program_is_left_alone_with_words() {
    let directory = Directory::new();
    {
        let coordinator = TestCoordinator::start(&directory);
        let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                     VALUES (1000, 'from the future', TRUE, x'00', 0)";
        coordinator.wait(coordinator.state.store().edit(newer));
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = StateError::from(runtime.block_on(Store::open(&directory.database(), Purpose::Serve)).err().unwrap());
    assert!(error.to_string().contains("a newer program upgraded the database: its format 1000"), "{error}");
    assert!(error.hint().contains("taut-coordinator restore"), "{}", error.hint());
    let checked = runtime.block_on(findings(&directory.database())).unwrap_err().to_string();
    assert!(checked.contains("a newer program upgraded the database: its format 1000"), "{checked}");
}

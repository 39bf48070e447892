//! PostgreSQL: servers that are gone, connections that end or go silent, copies. `tools/with_postgres` runs these tests, and all others a second time.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use serde_json::json;
use taut_netmap::ProblemCode;

use super::relays::named;
use super::world::{Directory, TestCoordinator, TestHost, dump};
use crate::state::{Expiry, findings, migrate, new_operator_token, restored_elsewhere};
use crate::store::{
    Location, Party, SilentLine, StuckServer, count, end_connections, execute, forbid_connections, forbid_writes,
};

const KEYS: &str = "/api/v1/keys";
const NEEDS_SERVER: &str = "tools/with_postgres runs this test with a server";

/// Waits until changes are stored again. Nobody helps, and it takes no longer than the pause after a failure.
fn goes_on(coordinator: &TestCoordinator) {
    let mut waited = 0;
    while coordinator.ask("POST", KEYS, Some(coordinator.operator_token()), Some("{}")).0 != 201 {
        assert!(waited < 100, "it does not go on");
        waited += 1;
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o6_connections_that_end_cost_nothing() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (token, operator) = (coordinator.token(), coordinator.operator_token());
    let node = coordinator.join("a");
    for round in 0..5 {
        coordinator.wait(end_connections(&directory.database())).expect(NEEDS_SERVER);
        assert_eq!(coordinator.ask("POST", KEYS, Some(operator), Some("{}")).0, 201, "round {round}");
        coordinator.wait(end_connections(&directory.database())).expect(NEEDS_SERVER);
        coordinator.state.forget_views();
        assert!(node.host.resume(&coordinator, &token, None).is_ok(), "round {round}");
    }
    assert_eq!(coordinator.wait(coordinator.state.keys(None)).unwrap().len(), 6);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o6_while_the_server_is_gone_maps_come_from_memory_and_changes_fail_with_words() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (token, operator) = (coordinator.token(), coordinator.operator_token());
    let mut node = coordinator.join("a");
    let host = coordinator.join("b").host;
    node.hear_until(|node| node.map.peers.len() == 1);
    coordinator.wait(forbid_connections(&directory.database(), true)).expect(NEEDS_SERVER);
    let (status, answer) = coordinator.ask("POST", KEYS, Some(operator), Some("{}"));
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("unavailable")));
    assert!(answer["error"]["message"].as_str().unwrap().contains("cannot be reached"), "{answer}");
    let refused = TestHost::new().join(&coordinator, &token, "c").err().unwrap();
    assert!(refused.code == ProblemCode::Unavailable && !refused.code.is_final(), "the node tries again");
    let (status, answer) = coordinator.ask("GET", "/readyz", None, None);
    let is_told =
        answer["warnings"].as_array().unwrap().iter().any(|why| why.as_str().unwrap().contains("from memory"));
    assert!(!answer.to_string().contains("the server is"), "anyone may ask, and need not know where it is: {answer}");
    assert!(status == 200 && is_told, "a balancer that took all coordinators away would help nobody: {answer}");
    assert_eq!(coordinator.ask("GET", "/healthz", None, None).0, 200);
    // Members that connect get their maps from memory.
    let back = host.resume(&coordinator, &token, None).expect("a member is known");
    assert_eq!(back.map.peers.len(), 1);
    let mut other_key = host.clone();
    other_key.node = TestHost::new().node;
    assert!(other_key.resume(&coordinator, &token, None).is_err(), "a new key would have to be stored");
    coordinator.wait(forbid_connections(&directory.database(), false)).expect(NEEDS_SERVER);
    goes_on(&coordinator);
    coordinator.join("c");
    node.hear_until(|node| node.map.peers.len() == 2);
    assert_eq!(node.wholes, 1, "its channel was open all the time");
    // What failed was not done, and nothing was done twice.
    assert_eq!(coordinator.wait(coordinator.state.keys(None)).unwrap().len(), 2);
    assert_eq!(coordinator.wait(coordinator.state.nodes(None)).unwrap().len(), 3);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o6_on_a_read_only_server_maps_are_sent_and_changes_fail_with_words() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (token, operator) = (coordinator.token(), coordinator.operator_token());
    let node = coordinator.join("a");
    coordinator.wait(forbid_writes(&directory.database(), true)).expect(NEEDS_SERVER);
    let (status, answer) = coordinator.ask("POST", KEYS, Some(operator), Some("{}"));
    assert_eq!(status, 503);
    assert!(answer["error"]["message"].as_str().unwrap().contains("read-only"), "{answer}");
    coordinator.state.forget_views();
    assert!(node.host.resume(&coordinator, &token, None).is_ok(), "reads go on");
    coordinator.wait(forbid_writes(&directory.database(), false)).expect(NEEDS_SERVER);
    assert_eq!(coordinator.ask("POST", KEYS, Some(operator), Some("{}")).0, 201);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o6_connections_that_go_silent_are_replaced() {
    let directory = Directory::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let line = runtime.block_on(SilentLine::start(&directory.database())).expect(NEEDS_SERVER);
    let coordinator = TestCoordinator::start_on(&directory, line.location());
    let (token, operator) = (coordinator.token(), coordinator.operator_token());
    // Its channel keeps the network in memory.
    let _other = coordinator.join("b");
    let node = coordinator.join("a");
    for round in 0..2 {
        // Several readers have had a connection.
        let reads: Vec<_> =
            (0..4).map(|_| coordinator.wait(coordinator.state.store().read(Party::Operators))).collect();
        coordinator.wait(async move { drop(reads) });
        line.silence(false);
        // Nobody waits longer than for one connection that does not answer.
        let asked = || coordinator.ask("GET", KEYS, Some(operator), None).0;
        // On a busy machine a new connection may take too long once.
        assert!((0..3).any(|_| asked() == 200), "round {round}");
        goes_on(&coordinator);
        coordinator.state.forget_views();
        assert!(node.host.resume(&coordinator, &token, None).is_ok(), "round {round}");
    }
    // All of the server.
    line.silence(true);
    let (status, answer) = coordinator.ask("POST", KEYS, Some(operator), Some("{}"));
    assert_eq!(status, 503, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("cannot be reached"), "{answer}");
    assert_eq!(node.host.resume(&coordinator, &token, None).unwrap().map.me, node.map.me, "from memory");
    line.silence(false);
    goes_on(&coordinator);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o6_a_request_whose_client_leaves_at_any_moment_leaves_nothing_behind() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = coordinator.operator_token();
    for round in 0..400_u64 {
        // Given up after a number of steps, at every point of a change.
        let state = &coordinator.state;
        coordinator.wait(async {
            let change = std::pin::pin!(state.create_key(None, true, Expiry::Default));
            let _ = tokio::time::timeout(Duration::from_micros(round * 20), change).await;
        });
    }
    assert_eq!(coordinator.ask("POST", KEYS, Some(operator), Some("{}")).0, 201);
    let idle = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    let begin = Instant::now();
    while coordinator.wait(count(&directory.database(), idle)).expect(NEEDS_SERVER) > 0 {
        assert!(begin.elapsed() < Duration::from_secs(10), "a transaction was left open");
    }
    let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()";
    let open = coordinator.wait(count(&directory.database(), open)).unwrap();
    assert!(open < 12, "{open} connections");
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn a_change_beside_coordinators_needs_their_tables_and_makes_none() {
    let directory = Directory::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = directory.database();
    let refusal = runtime.block_on(new_operator_token(&database)).unwrap_err().to_string();
    assert!(refusal.contains("there is no coordinator in the PostgreSQL database"), "{refusal}");
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(runtime.block_on(count(&database, tables)), Some(0), "{NEEDS_SERVER}");
    let coordinator = TestCoordinator::start(&directory);
    let secret = runtime.block_on(new_operator_token(&database)).unwrap();
    assert_eq!(coordinator.ask("GET", KEYS, Some(&secret), None).0, 200, "it is valid at once");
    // The tables of an earlier release are not changed.
    runtime.block_on(execute(&database, "DELETE FROM _sqlx_migrations")).unwrap();
    let refusal = runtime.block_on(new_operator_token(&database)).unwrap_err().to_string();
    assert!(refusal.contains("earlier release"), "{refusal}");
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_l3_a_column_of_a_later_release_changes_nothing() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (token, operator) = (coordinator.token(), coordinator.operator_token());
    let node = coordinator.join("a");
    let add = "ALTER TABLE nodes ADD COLUMN later TEXT NOT NULL DEFAULT 'x'; ALTER TABLE keys ADD COLUMN later BIGINT; \
               ALTER TABLE networks ADD COLUMN later BIGINT; ALTER TABLE operators ADD COLUMN later BIGINT; \
               ALTER TABLE relays ADD COLUMN later BIGINT";
    coordinator.wait(execute(&directory.database(), add)).expect(NEEDS_SERVER);
    for path in ["nodes", "keys", "networks", "relays", "operator-tokens"] {
        assert_eq!(coordinator.ask("GET", &format!("/api/v1/{path}"), Some(operator), None).0, 200, "{path}");
    }
    assert_eq!(coordinator.ask("POST", KEYS, Some(operator), Some("{}")).0, 201);
    coordinator.state.forget_views();
    assert!(node.host.resume(&coordinator, &token, None).is_ok());
    coordinator.join("b");
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn a_copy_whose_lock_is_lost_is_not_completed() {
    let (directory, other) = (Directory::new(), Directory::new());
    let (server, file) = (directory.database(), Location::Directory(other.0.clone()));
    drop(TestCoordinator::start(&directory));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // Enough rows that the copy takes a moment, and more than one statement writes.
    let many = "INSERT INTO keys (network, hash, reusable, created_at) \
                SELECT id, sha256(CAST(CAST(n AS TEXT) AS BYTEA)), 1, 0 FROM networks, generate_series(1, 60123) AS n";
    runtime.block_on(execute(&server, many)).expect(NEEDS_SERVER);
    let lost = runtime.block_on(async {
        // As soon as it holds the lock, which it does while it copies.
        let held = "SELECT count(*) FROM pg_locks JOIN pg_class ON pg_class.oid = relation WHERE relname = 'turns' AND granted";
        let end = async {
            while count(&server, held).await == Some(0) {}
            end_connections(&server).await
        };
        tokio::join!(migrate(&server, &file), end).0
    });
    assert!(lost.is_err(), "{lost:?}");
    // Nothing arrived, so that it can be repeated.
    let counts = runtime.block_on(migrate(&server, &file)).unwrap();
    assert!(counts.contains(&("keys", 60_124)), "{counts:?}");
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o8_after_the_servers_own_restore_nothing_is_given_twice_and_nodes_get_whole_maps() {
    let directory = Directory::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = directory.database();
    let empty = runtime.block_on(findings(&database)).unwrap_err().to_string();
    assert!(empty.contains("there is no coordinator in the PostgreSQL database"), "{empty}");
    let (node, token) = {
        let coordinator = TestCoordinator::start(&directory);
        let running = runtime.block_on(restored_elsewhere(&database)).unwrap_err().to_string();
        assert!(running.contains("a coordinator is running"), "{running}");
        (coordinator.join("a"), coordinator.token())
    };
    runtime.block_on(restored_elsewhere(&database)).unwrap();
    runtime.block_on(end_connections(&database)).expect(NEEDS_SERVER);
    assert_eq!(runtime.block_on(findings(&database)).unwrap(), [""; 0]);
    let coordinator = TestCoordinator::start(&directory);
    let back = node.host.resume(&coordinator, &token, Some(node.map.clone())).unwrap();
    assert_eq!(back.wholes, 1, "what the node knows may be of another history");
    let next = TestHost::new().join(&coordinator, &token, "b").unwrap();
    assert!(next.id().0 > node.id().0 + 65_536, "{:?}", next.id());
    // The first address is 100.64.0.1, and 65,536 are left out.
    let IpAddr::V4(address) = next.map.me.addresses[0] else { panic!("{:?}", next.map.me) };
    assert!(address > Ipv4Addr::new(100, 65, 0, 0), "{address}");
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o8_a_coordinator_moves_to_sqlite_and_back_and_nodes_notice_nothing() {
    let (directory, other) = (Directory::new(), Directory::new());
    let (server, file) = (directory.database(), Location::Directory(other.0.clone()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let moved = |from, to| runtime.block_on(migrate(from, to));
    let empty = moved(&server, &file).unwrap_err().to_string();
    assert!(empty.contains("there is no coordinator in the PostgreSQL database"), "{empty}");
    let (token, nodes, secret) = {
        let coordinator = TestCoordinator::start(&directory);
        let running = moved(&server, &file).unwrap_err().to_string();
        assert!(running.contains("a coordinator is running"), "{running}");
        let nodes = ["a", "b", "c"].map(|name| coordinator.join(name));
        coordinator.wait(coordinator.state.remove_node(None, "c")).unwrap();
        coordinator.wait(coordinator.state.add_relay(None, named(1))).unwrap();
        (coordinator.token(), nodes, coordinator.operator_token().to_owned())
    };
    let original = dump(&server);
    let counts = moved(&server, &file).unwrap();
    assert_eq!(dump(&file), original, "each row and each number");
    assert_eq!(counts.iter().map(|(table, _)| *table).filter(|table| *table == "nodes").count(), 1);
    assert!(counts.contains(&("nodes", 3)) && counts.contains(&("relays", 1)), "{counts:?}");
    let again = moved(&server, &file).unwrap_err().to_string();
    assert!(again.contains("was moved to another database"), "{again}");
    let started = TestCoordinator::refusal(&directory, &server);
    assert!(started.contains("was moved to another database") && started.contains("DELETE FROM meta"), "{started}");
    let same = moved(&file, &file).unwrap_err().to_string();
    assert!(same.contains("which is also where it comes from"), "{same}");
    // The way back, into a database of its own.
    let third = Directory::new();
    let back = third.database();
    let original = dump(&file);
    assert_eq!(moved(&file, &back).unwrap(), counts);
    assert_eq!(dump(&back), original);
    assert_eq!(runtime.block_on(findings(&back)).unwrap(), [""; 0]);
    let coordinator = TestCoordinator::start(&third);
    assert_eq!(coordinator.ask("GET", "/api/v1/nodes", Some(&secret), None).0, 200, "the operator token stays");
    let resumed = nodes[0].host.resume(&coordinator, &token, Some(nodes[0].map.clone())).unwrap();
    assert_eq!(resumed.wholes, 0, "the versions go on");
    let next = TestHost::new().join(&coordinator, &token, "d").unwrap();
    assert_eq!(next.id().0, nodes[2].id().0 + 1, "the number of the removed node is not given again");
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o6_processes_of_the_server_that_hang_are_replaced() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (token, operator) = (coordinator.token(), coordinator.operator_token());
    let node = coordinator.join("a");
    let stuck = coordinator.wait(StuckServer::stop(&directory.database())).expect(NEEDS_SERVER);
    let (status, answer) = coordinator.ask("POST", KEYS, Some(operator), Some("{}"));
    assert_eq!(status, 201, "{answer}");
    assert_eq!(node.host.resume(&coordinator, &token, None).unwrap().map.me, node.map.me);
    stuck.go_on();
    goes_on(&coordinator);
}

//! PostgreSQL: servers that are gone, connections that end, coordinators that are too many. `tools/with_postgres` runs these tests, and all others a second time.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::json;
use taut_netmap::ProblemCode;

use super::relays::named;
use super::world::{Directory, TestCoordinator, TestHost};
use crate::state::{StateError, findings, migrate, restored_elsewhere};
use crate::store::{
    Location, Purpose, Store, StoreError, StuckServer, end_connections, forbid_connections, forbid_writes,
};

const KEYS: &str = "/api/v1/keys";
const NEEDS_SERVER: &str = "tools/with_postgres runs this test with a server";

/// Waits until changes are stored again. Nobody helps, and it takes no longer than the pause after a failure.
fn goes_on(coordinator: &TestCoordinator) {
    let mut waited = 0;
    while coordinator.ask("POST", KEYS, Some(coordinator.operator_token()), Some("{}")).0 != 201 {
        assert!(waited < 100, "it does not go on");
        waited += 1;
        std::thread::sleep(std::time::Duration::from_millis(200));
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
fn one_coordinator_serves_a_database_and_a_late_one_writes_nothing() {
    let directory = Directory::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = directory.database();
    let open = || runtime.block_on(Store::open(&database, Purpose::Serve));
    let coordinator = TestCoordinator::start(&directory);
    let operator = coordinator.operator_token();
    let error = StateError::from(open().err().expect(NEEDS_SERVER));
    assert!(error.to_string().contains("another coordinator is running on this PostgreSQL database"), "{error}");
    // Its connections end, and another one is faster.
    coordinator.wait(end_connections(&database)).expect(NEEDS_SERVER);
    let other = open().unwrap();
    let (status, answer) = coordinator.ask("POST", KEYS, Some(operator), Some("{}"));
    assert_eq!(status, 503);
    assert!(answer["error"]["message"].as_str().unwrap().contains("another coordinator"), "{answer}");
    runtime.block_on(other.close());
    assert_eq!(coordinator.ask("POST", KEYS, Some(operator), Some("{}")).0, 201, "it serves again");
    assert!(matches!(open().err(), Some(StoreError::Occupied)));
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
        assert!(running.contains("another coordinator is running"), "{running}");
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
fn a_coordinator_moves_to_sqlite_and_back_and_nodes_notice_nothing() {
    let (directory, other) = (Directory::new(), Directory::new());
    let (server, file) = (directory.database(), Location::Directory(other.0.clone()));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let moved = |from, to| runtime.block_on(migrate(from, to));
    let empty = moved(&server, &file).unwrap_err().to_string();
    assert!(empty.contains("there is no coordinator in the PostgreSQL database"), "{empty}");
    let (token, nodes, secret) = {
        let coordinator = TestCoordinator::start(&directory);
        let running = moved(&server, &file).unwrap_err().to_string();
        assert!(running.contains("another coordinator is running"), "{running}");
        let nodes = ["a", "b", "c"].map(|name| coordinator.join(name));
        coordinator.wait(coordinator.state.remove_node(None, "c")).unwrap();
        coordinator.wait(coordinator.state.add_relay(None, named(1))).unwrap();
        (coordinator.token(), nodes, coordinator.operator_token().to_owned())
    };
    let counts = moved(&server, &file).unwrap();
    assert_eq!(counts.iter().map(|(table, _)| *table).filter(|table| *table == "nodes").count(), 1);
    assert!(counts.contains(&("nodes", 3)) && counts.contains(&("relays", 1)), "{counts:?}");
    let again = moved(&server, &file).unwrap_err().to_string();
    assert!(again.contains("there is a coordinator in"), "{again}");
    // The way back, into a database of its own.
    let third = Directory::new();
    let back = third.database();
    assert_eq!(moved(&file, &back).unwrap(), counts);
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
fn fault_o6_a_server_that_is_stuck_holds_nobody_up_for_ever() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (token, operator) = (coordinator.token(), coordinator.operator_token());
    let node = coordinator.join("a");
    let stuck = coordinator.wait(StuckServer::stop(&directory.database())).expect(NEEDS_SERVER);
    let (status, answer) = coordinator.ask("POST", KEYS, Some(operator), Some("{}"));
    assert_eq!(status, 503);
    assert!(answer["error"]["message"].as_str().unwrap().contains("cannot be reached"), "{answer}");
    assert_eq!(node.host.resume(&coordinator, &token, None).unwrap().map.me, node.map.me, "from memory");
    stuck.go_on();
    goes_on(&coordinator);
}

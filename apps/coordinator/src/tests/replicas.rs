//! Several coordinators on one PostgreSQL database: nodes and operators use any of them. `tools/with_postgres` runs these tests.

use std::collections::BTreeSet;
use std::time::Duration;

use taut_base::NodeId;
use taut_netmap::{ProblemCode, ToCoordinator};

use super::devices::joined;
use super::relay_control;
use super::world::{Directory, TestCoordinator, TestHost, TestNode};
use crate::state::{DeviceChange, Expiry, migrate};
use crate::store::{Grants, Location, TableLock, count, end_connections, execute};

const NEEDS_SERVER: &str = "tools/with_postgres runs this test with a server";

/// Coordinators on one database, the first of which made it.
struct Replicas {
    all: Vec<TestCoordinator>,
    database: Location,
    directories: Vec<Directory>,
}

impl Replicas {
    fn start(number: usize) -> Self {
        let directories: Vec<Directory> = (0..number).map(|_| Directory::new()).collect();
        let database = directories[0].database();
        assert!(matches!(database, Location::Server(_)), "{NEEDS_SERVER}");
        let all = directories.iter().map(|directory| TestCoordinator::start_on(directory, &database)).collect();
        Self { all, database, directories }
    }

    fn join(&self, at: usize, name: &str) -> TestNode {
        TestHost::new().join(&self.all[at], &self.all[0].token(), name).unwrap()
    }

    fn resume(&self, at: usize, node: &TestNode) -> TestNode {
        node.host.resume(&self.all[at], &self.all[0].token(), Some(node.map.clone())).unwrap()
    }

    fn online(&self, at: usize) -> BTreeSet<NodeId> {
        let coordinator = &self.all[at];
        let nodes = coordinator.wait(coordinator.state.nodes(None)).unwrap();
        nodes.into_iter().filter(|node| node.online).map(|node| node.row.id).collect()
    }

    /// Waits until all coordinators agree that these nodes are online.
    fn agree(&self, nodes: &[&TestNode]) {
        let wanted: BTreeSet<NodeId> = nodes.iter().map(|node| node.id()).collect();
        for _ in 0..300 {
            if (0..self.all.len()).all(|at| self.online(at) == wanted) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let found: Vec<_> = (0..self.all.len()).map(|at| self.online(at)).collect();
        panic!("{wanted:?} should be online; the coordinators say {found:?}");
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn a_change_at_one_coordinator_reaches_the_nodes_of_all() {
    let replicas = Replicas::start(3);
    let mut nodes: Vec<TestNode> = (0..3).map(|at| replicas.join(at, &format!("n{at}"))).collect();
    nodes.iter_mut().for_each(|node| node.hear_until(|node| node.map.peers.len() == 2));
    let first = &replicas.all[0];
    first.wait(first.state.rename_node(None, "n2", "renamed")).unwrap();
    for node in &mut nodes[..2] {
        node.hear_until(|node| node.map.peers.values().any(|peer| peer.name == "renamed"));
    }
    assert!(nodes.iter().all(|node| node.wholes == 1), "the others were told what changed");
    // The third coordinator closes the channel of the member that was removed at the first one.
    first.wait(first.state.remove_node(None, "renamed")).unwrap();
    while nodes[2].channel.receive().is_some() {}
    for node in &mut nodes[..2] {
        node.hear_until(|node| node.map.peers.len() == 1);
    }
    let refused = nodes[2].host.resume(&replicas.all[1], &first.token(), None).err().unwrap();
    assert_eq!(refused.code, ProblemCode::NotAMember);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn a_change_while_a_node_connects_elsewhere_reaches_this_node() {
    let replicas = Replicas::start(2);
    let (_other, node) = (replicas.join(0, "other"), replicas.join(0, "node"));
    let (first, second) = (&replicas.all[0], &replicas.all[1]);
    let mut lock = first.wait(TableLock::take(&replicas.database, "relays")).expect(NEEDS_SERVER);
    let mut back = std::thread::scope(|scope| {
        // The second coordinator reads the network, and is kept in the middle of it. What it reads is from before the change.
        let connecting = scope.spawn(|| node.host.resume(second, &first.token(), None).unwrap());
        while !first.wait(lock.is_waited_for()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        first.wait(first.state.rename_node(None, "other", "renamed")).unwrap();
        // The hint arrives.
        std::thread::sleep(Duration::from_millis(500));
        first.wait(lock.release());
        connecting.join().unwrap()
    });
    back.hear_until(|node| node.map.peers.values().any(|peer| peer.name == "renamed"));
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn a_node_that_joined_at_one_coordinator_is_served_by_any_at_once() {
    let replicas = Replicas::start(2);
    // Both have the network in memory.
    let _watchers = [replicas.join(0, "w0"), replicas.join(1, "w1")];
    for round in 0..30 {
        let node = replicas.join(round % 2, &format!("n{round}"));
        let back = replicas.resume((round + 1) % 2, &node);
        assert!(back.map.version >= node.map.version && back.map.peers.len() == round + 2, "round {round}");
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn presence_is_the_same_at_all_coordinators_and_has_no_gap_when_a_node_moves() {
    let replicas = Replicas::start(2);
    let mut watcher = replicas.join(0, "watcher");
    let mut node = replicas.join(1, "node");
    let id = node.id();
    watcher.hear_until(|watcher| watcher.online.contains(&id));
    replicas.agree(&[&watcher, &node]);
    for round in 0..6 {
        let mut back = replicas.resume(round % 2, &node);
        // The coordinator that had it before closes the older channel.
        while node.channel.receive().is_some() {}
        std::mem::swap(&mut node, &mut back);
        assert!(node.online.contains(&watcher.id()), "round {round}");
    }
    replicas.agree(&[&watcher, &node]);
    node.channel.send(&ToCoordinator::Goodbye);
    let gone = |watcher: &TestNode| !watcher.online.contains(&id);
    watcher.hear();
    assert!(gone(&watcher), "the first thing that the watcher hears of it since it came");
    replicas.agree(&[&watcher]);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn nodes_of_a_coordinator_that_was_killed_are_offline_unless_they_are_elsewhere() {
    let mut replicas = Replicas::start(3);
    let (mut watcher, moves, stays) =
        (replicas.join(0, "watcher"), replicas.join(2, "moves"), replicas.join(2, "stays"));
    let all = [moves.id(), stays.id()];
    watcher.hear_until(|watcher| all.iter().all(|node| watcher.online.contains(node)));
    replicas.all.pop().unwrap().kill();
    let moved = replicas.resume(1, &moves);
    // It is declared dead after 20 s, which is longer than a test waits for a message.
    std::thread::sleep(Duration::from_secs(12));
    watcher.hear_until(|watcher| !watcher.online.contains(&stays.id()));
    assert!(watcher.online.contains(&moved.id()), "it was never offline");
    replicas.agree(&[&watcher, &moved]);
    // A coordinator that starts knows who is where.
    let again = TestCoordinator::start_on(&replicas.directories[2], &replicas.database);
    replicas.all.push(again);
    replicas.agree(&[&watcher, &moved]);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn after_a_crash_of_the_server_and_lost_connections_all_agree_again() {
    let replicas = Replicas::start(2);
    let mut nodes = vec![replicas.join(0, "a"), replicas.join(1, "b")];
    replicas.agree(&[&nodes[0], &nodes[1]]);
    for round in 0..3 {
        // A crash empties tables without a log.
        let crash = async {
            execute(&replicas.database, "TRUNCATE presence, replicas").await?;
            end_connections(&replicas.database).await
        };
        replicas.all[0].wait(crash).expect(NEEDS_SERVER);
        let name = format!("n{round}");
        let joined = loop {
            match TestHost::new().join(&replicas.all[round % 2], &replicas.all[0].token(), &name) {
                Ok(joined) => break joined,
                Err(problem) => assert_eq!(problem.code, ProblemCode::Unavailable, "{problem}"),
            }
        };
        nodes.push(joined);
        let peers = nodes.len() - 1;
        nodes.iter_mut().for_each(|node| node.hear_until(|node| node.map.peers.len() == peers));
        replicas.agree(&nodes.iter().collect::<Vec<_>>());
    }
    assert!(nodes.iter().all(|node| node.wholes == 1), "no channel was closed");
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn presence_that_somebody_deleted_or_locked_is_right_again_and_maps_go_on_meanwhile() {
    let replicas = Replicas::start(2);
    let mut nodes = vec![replicas.join(0, "a"), replicas.join(1, "b")];
    replicas.agree(&[&nodes[0], &nodes[1]]);
    let coordinator = &replicas.all[0];
    // Held for as long as the statement takes.
    let locked = "BEGIN; LOCK TABLE presence IN SHARE MODE; SELECT pg_sleep(8); COMMIT";
    let database = replicas.database.clone();
    let lock = std::thread::spawn(move || {
        tokio::runtime::Runtime::new().unwrap().block_on(execute(&database, locked)).expect(NEEDS_SERVER);
    });
    std::thread::sleep(Duration::from_millis(500));
    nodes.push(replicas.join(1, "c"));
    nodes.iter_mut().for_each(|node| node.hear_until(|node| node.map.peers.len() == 2));
    assert!(!lock.is_finished(), "maps do not wait for presence");
    lock.join().unwrap();
    replicas.agree(&nodes.iter().collect::<Vec<_>>());
    // A crash of the server whose first sign of life after it was cut off.
    coordinator.wait(execute(&replicas.database, "TRUNCATE presence")).expect(NEEDS_SERVER);
    coordinator.wait(end_connections(&replicas.database)).expect(NEEDS_SERVER);
    replicas.agree(&nodes.iter().collect::<Vec<_>>());
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn a_coordinator_that_was_frozen_while_its_database_moved_changes_nothing_any_more() {
    let (replicas, other) = (Replicas::start(1), Directory::new());
    let coordinator = &replicas.all[0];
    // As if it had been silent for a minute.
    let frozen = "UPDATE replicas SET seen_at = now() - interval '1 minute'";
    let file = Location::Directory(other.0.clone());
    let mut moved = Err(String::new());
    while moved.is_err() {
        coordinator.wait(execute(&replicas.database, frozen)).expect(NEEDS_SERVER);
        moved = coordinator.wait(migrate(&replicas.database, &file)).map_err(|error| error.to_string());
    }
    let refused = TestHost::new().join(coordinator, &coordinator.token(), "late").err().unwrap();
    assert_eq!(refused.code, ProblemCode::Unavailable);
    let (status, answer) = coordinator.ask("POST", "/api/v1/keys", Some(coordinator.operator_token()), Some("{}"));
    assert_eq!(status, 503);
    assert!(answer["error"]["message"].as_str().unwrap().contains("was moved to another database"), "{answer}");
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn a_schema_that_others_may_write_is_refused() {
    let directory = Directory::new();
    let (runtime, database) = (tokio::runtime::Runtime::new().unwrap(), directory.database());
    runtime.block_on(execute(&database, "GRANT CREATE ON SCHEMA public TO PUBLIC")).expect(NEEDS_SERVER);
    let refusal = TestCoordinator::refusal(&directory, &database);
    assert!(refusal.contains("REVOKE CREATE ON SCHEMA public FROM PUBLIC"), "{refusal}");
    runtime.block_on(execute(&database, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")).unwrap();
    TestCoordinator::start(&directory);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o7_a_network_that_was_removed_elsewhere_is_forgotten_without_a_channel_of_it() {
    let replicas = Replicas::start(2);
    let [one, other] = [&replicas.all[0], &replicas.all[1]];
    one.wait(one.state.create_network("short", "10.9.0.0/16".parse().unwrap())).unwrap();
    let knows = |number: usize| {
        (0..300).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            other.state.known_networks().len() == number
        })
    };
    assert!(knows(2), "{:?}", other.state.known_networks());
    one.wait(one.state.remove_network("short", true)).unwrap();
    assert!(knows(1), "{:?}", other.state.known_networks());
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_o9_damaged_rows_of_presence_harm_only_themselves() {
    let replicas = Replicas::start(2);
    let mut nodes = vec![replicas.join(0, "a"), replicas.join(1, "b")];
    let damage = "INSERT INTO presence (node, network, replica, run, change) VALUES \
         (-1, '\\x00', 5, -1, nextval('presence_changes')), (9000000000000000000, '\\x', NULL, 0, nextval('presence_changes')); \
         NOTIFY taut, 'presence'";
    replicas.all[0].wait(execute(&replicas.database, damage)).expect(NEEDS_SERVER);
    for name in ["c", "d"] {
        nodes.push(replicas.join(nodes.len() % 2, name));
        replicas.agree(&nodes.iter().collect::<Vec<_>>());
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn hints_that_anybody_may_send_change_nothing() {
    let replicas = Replicas::start(2);
    let mut nodes = [replicas.join(0, "a"), replicas.join(1, "b")];
    nodes.iter_mut().for_each(|node| node.hear_until(|node| node.map.peers.len() == 1));
    let forged = "DO $$ BEGIN FOR n IN 1..500 LOOP \
         PERFORM pg_notify('taut', 'presence'); PERFORM pg_notify('taut', 'beat ' || n); PERFORM pg_notify('taut', ''); \
         PERFORM pg_notify('taut', repeat('x', 7000)); \
         PERFORM pg_notify('taut', 'network ' || md5(n::TEXT) || ' 18446744073709551615'); \
         PERFORM pg_notify('taut', 'network ' || encode(id, 'hex') || ' ' || n::TEXT || '000000000000000') FROM networks; \
         END LOOP; END $$";
    for _ in 0..20 {
        replicas.all[0].wait(execute(&replicas.database, forged)).expect(NEEDS_SERVER);
    }
    let third = replicas.join(1, "c");
    nodes.iter_mut().for_each(|node| node.hear_until(|node| node.map.peers.len() == 2));
    replicas.agree(&[&nodes[0], &nodes[1], &third]);
    assert!(nodes.iter().all(|node| (node.wholes, node.deltas) == (1, 2) || (node.wholes, node.deltas) == (1, 1)));
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_d14_two_hosts_with_one_key_are_told_at_whichever_coordinator() {
    let replicas = Replicas::start(2);
    let first = replicas.join(0, "node");
    // Coordinators tell each other of new channels every 50 ms, so the order of channels that open within 50 ms is not certain.
    replicas.agree(&[&first]);
    let clone = TestHost { run: 2, ..first.host.clone() };
    let token = replicas.all[0].token();
    let mut second = clone.resume(&replicas.all[1], &token, Some(first.map.clone())).unwrap();
    let mut ended = first.channel;
    while ended.receive().is_some() {}
    let problem = first.host.resume(&replicas.all[0], &token, None).err().expect("the later program stays");
    assert_eq!(problem.code, ProblemCode::Twin);
    second.channel.send(&ToCoordinator::Goodbye);
    while second.channel.receive().is_some() {}
    replicas.agree(&[]);
    assert!(first.host.resume(&replicas.all[0], &token, None).is_ok());
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn coordinators_that_ended_leave_no_row_behind() {
    let replicas = Replicas::start(2);
    let database = replicas.database.clone();
    let Replicas { all, directories, .. } = replicas;
    drop(all);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let living = runtime.block_on(count(&database, "SELECT count(*) FROM replicas WHERE NOT ended"));
    assert_eq!(living, Some(0));
    drop(directories);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_f17_a_relay_with_a_channel_to_one_coordinator_is_told_of_removals_at_another() {
    let replicas = Replicas::start(2);
    let (first, second) = (&replicas.all[0], &replicas.all[1]);
    let relay = relay_control::relay(16);
    relay_control::name(second, &relay);
    let _link = relay_control::connect(first, &relay);
    relay_control::until(|| relay.stats().coordinators == 1);
    for name in ["a", "b"] {
        replicas.join(1, name);
        let before = relay.stats().revocations;
        second.wait(second.state.remove_node(None, name)).unwrap();
        relay_control::until(|| relay.stats().revocations == before + 1);
    }
    // An operator sees its load at whichever coordinator.
    let report = || second.wait(second.state.relays(None)).unwrap().into_iter().find_map(|relay| relay.report);
    relay_control::until(|| report().is_some_and(|report| report.load.is_some()));
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_e5_a_one_off_key_used_by_50_at_two_coordinators_at_once_admits_one() {
    let replicas = Replicas::start(2);
    let [first, second] = [&replicas.all[0], &replicas.all[1]];
    for round in 0..3 {
        let (_, token) = first.key(false, Expiry::Default);
        assert_eq!(joined(&[first, second], &token, 50), 1, "round {round}");
        let grants = Grants { most_uses: Some(3), ..Grants::default() };
        let key = first.wait(second.state.create_key_with(None, true, Expiry::Default, grants)).unwrap();
        assert_eq!(joined(&[first, second], &key.2.parse().unwrap(), 30), 3, "round {round}");
    }
    assert_eq!(first.wait(first.state.nodes(None)).unwrap().len(), 12);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_e18_a_decision_at_one_coordinator_acts_at_the_nodes_of_all_and_outlives_it() {
    let mut replicas = Replicas::start(2);
    let (mut one, mut two) = (replicas.join(0, "one"), replicas.join(1, "two"));
    one.hear_until(|node| node.map.peers.len() == 1);
    let first = replicas.all.remove(0);
    let disable = DeviceChange { disabled: Some(true), ..DeviceChange::default() };
    first.wait(first.state.change_device(None, "one", disable)).unwrap();
    // The first coordinator is stopped right after its answer.
    first.kill();
    two.hear_until(|node| node.map.peers.is_empty());
    let second = &replicas.all[0];
    let back = one.host.resume(second, &two_token(second, &one), Some(one.map.clone())).unwrap();
    assert!(back.map.peers.is_empty());
}

/// Returns a token with which a member connects again: only the network and the coordinator's key in it count.
fn two_token(coordinator: &TestCoordinator, node: &TestNode) -> taut_netmap::JoinToken {
    let (_, mut token) = coordinator.key(true, Expiry::Default);
    token.network = node.network.0;
    token
}

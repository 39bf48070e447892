//! Several coordinators on one database: a file is served by one, a server's database is changed by one at a time (fault N8).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use taut_netmap::{JoinToken, ProblemCode};

use super::world::{Directory, TestCoordinator, TestHost, TestNode};
use crate::state::{Expiry, StateError, restore};
use crate::store::{Location, Party};

const NEEDS_SERVER: &str = "tools/with_postgres runs this test with a server";

/// Longest wait for the turn of a writer, 60 s: the server ends an idle transaction after 15 s.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn fault_n8_a_file_that_a_coordinator_serves_is_served_by_no_other_under_any_name() {
    let directory = Directory::new();
    let served = Location::Directory(directory.0.clone());
    let coordinator = TestCoordinator::start_on(&directory, &served);
    let node = coordinator.join("a");
    type Link = fn(&Path, &Path) -> std::io::Result<()>;
    let links: [(&str, Link); 3] = [
        ("the directory by a symbolic link", |from, to| symlink(from, to)),
        ("the file by a symbolic link", |from, to| {
            fs::create_dir(to)?;
            symlink(from.join("coordinator.db"), to.join("coordinator.db"))
        }),
        ("the file by a hard link, as by a bind mount", |from, to| {
            fs::create_dir(to)?;
            fs::hard_link(from.join("coordinator.db"), to.join("coordinator.db"))
        }),
    ];
    let linked: Vec<Directory> = links.iter().map(|_| Directory::new()).collect();
    for ((how, link), other) in links.iter().zip(&linked) {
        link(&directory.0, &other.0).unwrap();
        let refusal = TestCoordinator::refusal(other, &Location::Directory(other.0.clone()));
        assert!(refusal.contains("another coordinator is running"), "{how}: {refusal}");
        let backup = coordinator.wait(restore(&other.0, &directory.0.join("coordinator.db"), true));
        let refusal = backup.err().expect(how).to_string();
        assert!(refusal.contains("another coordinator is running"), "{how}: {refusal}");
    }
    // The refused ones changed nothing.
    let token = coordinator.token();
    assert!(node.host.resume(&coordinator, &token, None).is_ok());
    coordinator.join("b");
    drop(coordinator);
    // None of these locks outlives its coordinator.
    let coordinator = TestCoordinator::start_on(&linked[1], &Location::Directory(linked[1].0.clone()));
    assert_eq!(node.host.resume(&coordinator, &token, None).unwrap().map.peers.len(), 1);
    drop(coordinator);
    fs::remove_file(&linked[0].0).unwrap();
}

/// Starts coordinators on one database of the server.
fn several<const N: usize>(directories: &[Directory; N]) -> [TestCoordinator; N] {
    let database = directories[0].database();
    assert!(matches!(database, Location::Server(_)), "{NEEDS_SERVER}");
    directories.each_ref().map(|directory| TestCoordinator::start_on(directory, &database))
}

/// Joins hosts at the same moment, each at the next coordinator. Returns those that are members.
fn join_at_once(coordinators: &[TestCoordinator], token: &JoinToken, hosts: usize) -> Vec<TestNode> {
    let barrier = Barrier::new(hosts);
    let join = |number: usize| {
        let (host, coordinator) = (TestHost::new(), &coordinators[number % coordinators.len()]);
        barrier.wait();
        let began = Instant::now();
        loop {
            match host.join(coordinator, token, "twin") {
                Err(problem) if problem.code == ProblemCode::Unavailable && began.elapsed() < TURN_TIMEOUT => {}
                result => return result.ok(),
            }
        }
    };
    std::thread::scope(|scope| {
        let joins: Vec<_> = (0..hosts).map(|number| scope.spawn(move || join(number))).collect();
        joins.into_iter().filter_map(|join| join.join().unwrap()).collect()
    })
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_n8_on_server_coordinators_that_race_give_each_address_name_and_one_off_key_once() {
    let directories = [(); 3].map(|()| Directory::new());
    let all = several(&directories);
    let token = all[0].token();
    let nodes = join_at_once(&all, &token, 24);
    let addresses: BTreeSet<_> = nodes.iter().flat_map(|node| node.map.me.addresses.clone()).collect();
    let names: BTreeSet<_> = nodes.iter().map(|node| node.map.me.name.clone()).collect();
    let numbers: BTreeSet<_> = nodes.iter().map(TestNode::id).collect();
    assert_eq!((nodes.len(), addresses.len(), names.len(), numbers.len()), (24, 48, 24, 24));
    for _ in 0..3 {
        let (_, one_off) = all[1].key(false, Expiry::Never);
        assert_eq!(join_at_once(&all, &one_off, 12).len(), 1, "a one-off key admits one");
    }
    // One name for two nodes, at two coordinators.
    let barrier = Barrier::new(2);
    let (ids, all) = ([nodes[0].id(), nodes[1].id()], &all);
    for round in 0..10 {
        let name = format!("wanted-{round}");
        let rename = |at: usize| {
            barrier.wait();
            all[at].wait(all[at].state.rename_node(None, &ids[at].to_string(), &name))
        };
        let results: Vec<_> = std::thread::scope(|scope| {
            let renames = [0, 1].map(|at| scope.spawn(move || rename(at).map(drop)));
            renames.map(|rename| rename.join().unwrap()).into()
        });
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{results:?}");
        assert!(results.iter().any(|result| matches!(result, Err(StateError::NameTaken(_)))), "{results:?}");
    }
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn fault_n8_on_server_a_coordinator_that_stalled_in_its_turn_writes_nothing_when_it_wakes() {
    let directories = [(); 2].map(|()| Directory::new());
    let [stalled, other] = several(&directories);
    let (token, network) = (stalled.token(), stalled.network());
    let watcher = TestHost::new().join(&other, &token, "watcher").unwrap();
    // It has its turn, has read what it needs, and is stopped.
    let mut turn = stalled.wait(stalled.state.store().write(Party::Network(network))).unwrap();
    let before = stalled.wait(turn.network(network)).unwrap().unwrap();
    // The server ends its turn, and the other one goes on.
    let next = join_at_once(std::slice::from_ref(&other), &token, 1);
    assert_eq!(next.len(), 1, "one that stalls keeps nobody from changing anything");
    // It wakes, and writes what it had decided.
    let version = stalled.wait(turn.next_version(network, 1));
    let cursor = stalled.wait(turn.set_cursor(network, before.cursor + 1));
    assert!(version.is_err() && cursor.is_err(), "its turn is over");
    assert!(stalled.wait(turn.commit()).is_err());
    let third = join_at_once(std::slice::from_ref(&stalled), &token, 1);
    let all = [&watcher, &next[0], &third[0]].map(|node| node.map.me.addresses[0]);
    assert_eq!(BTreeSet::from(all).len(), 3, "{all:?}");
    assert_eq!(watcher.fresh_map(&stalled).peers.len(), 2);
    // The other one hears of the last change a moment later.
    let began = Instant::now();
    while watcher.fresh_map(&stalled) != watcher.fresh_map(&other) {
        assert!(began.elapsed() < TURN_TIMEOUT, "the two do not agree");
    }
}

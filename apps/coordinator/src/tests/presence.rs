//! Presence as it is sent to nodes. The tests of leases are in `state::presence`, with time as an argument.

use taut_netmap::{ProblemCode, ToCoordinator};

use super::world::{Directory, TestCoordinator, TestHost};

#[test]
fn peers_see_nodes_come_online_and_go_offline() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut watcher = coordinator.join("watcher");
    let mut node = coordinator.join("node");
    let id = node.id();
    assert!(node.online.contains(&watcher.id()));
    watcher.hear_until(|watcher| watcher.online.contains(&id));
    node.channel.send(&ToCoordinator::Goodbye);
    watcher.hear_until(|watcher| !watcher.online.contains(&id));
    while node.channel.receive().is_some() {}
    let listed = coordinator.wait(coordinator.state.nodes(None)).unwrap();
    assert_eq!(listed.iter().map(|node| node.online).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn a_lost_socket_is_no_goodbye() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut watcher = coordinator.join("watcher");
    let node = coordinator.join("node");
    let (id, host, map) = (node.id(), node.host.clone(), node.map.clone());
    // The map may come after the presence, when the database was slow.
    watcher.hear_until(|watcher| watcher.online.contains(&id) && watcher.map.peers.len() == 1);
    drop(node);
    // The node is back within the grace period, so no other node is told. The goodbye that follows is the first change.
    let mut back = host.resume(&coordinator, &coordinator.token(), Some(map)).unwrap();
    assert!(back.online.contains(&id));
    back.channel.send(&ToCoordinator::Goodbye);
    watcher.hear();
    assert!(!watcher.online.contains(&id));
}

#[test]
fn a_removed_node_is_offline() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut watcher = coordinator.join("watcher");
    let node = coordinator.join("node");
    let id = node.id();
    watcher.hear_until(|watcher| watcher.online.contains(&id));
    coordinator.wait(coordinator.state.remove_node(None, "node")).unwrap();
    watcher.hear_until(|watcher| !watcher.online.contains(&id));
}

#[test]
fn fault_d14_of_two_hosts_with_one_key_the_later_one_is_served_and_both_are_told() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut first = coordinator.join("node");
    let clone = TestHost { run: 2, ..first.host.clone() };
    let back = |host: &TestHost| host.resume(&coordinator, &coordinator.token(), Some(first.map.clone()));
    let mut second = back(&clone).unwrap();
    while first.channel.receive().is_some() {}
    let duplicates =
        || coordinator.wait(coordinator.state.nodes(None)).unwrap().iter().map(|node| node.twin).collect::<Vec<_>>();
    assert_eq!((duplicates(), &second.twin), (vec![false], &None), "so far it may be the same host, started again");
    for _ in 0..3 {
        let problem = back(&first.host).map(|node| node.id()).unwrap_err();
        assert!(problem.code == ProblemCode::Twin && problem.hint.contains("join again"), "{problem}");
    }
    second.hear_until(|second| second.twin.is_some());
    assert_eq!(duplicates(), [true]);
    // Its channel breaks, and the next channel tells it. The other program is served when it is gone.
    second = back(&clone).unwrap();
    second.hear_until(|second| second.twin.is_some());
    second.channel.send(&ToCoordinator::Goodbye);
    while second.channel.receive().is_some() {}
    let mut first = back(&first.host).unwrap();
    first.hear_until(|first| first.twin.is_some());
}

//! Presence as nodes are told it. Leases themselves are tested in `state::presence`, with time as an argument.

use taut_netmap::ToCoordinator;

use super::world::{Coordinator, Directory};

#[test]
fn peers_see_who_comes_and_who_says_goodbye() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
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
    let coordinator = Coordinator::start(&directory);
    let mut watcher = coordinator.join("watcher");
    let node = coordinator.join("node");
    let (id, host, map) = (node.id(), node.host.clone(), node.map.clone());
    watcher.hear_until(|watcher| watcher.online.contains(&id));
    drop(node);
    // It is back within the grace: nobody hears of it. The goodbye that follows is the first news.
    let mut back = host.resume(&coordinator, &coordinator.token(), Some(map)).unwrap();
    assert!(back.online.contains(&id));
    back.channel.send(&ToCoordinator::Goodbye);
    watcher.hear();
    assert!(!watcher.online.contains(&id));
}

#[test]
fn a_removed_node_is_offline() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let mut watcher = coordinator.join("watcher");
    let node = coordinator.join("node");
    let id = node.id();
    watcher.hear_until(|watcher| watcher.online.contains(&id));
    coordinator.wait(coordinator.state.remove_node(None, "node")).unwrap();
    watcher.hear_until(|watcher| !watcher.online.contains(&id));
}

//! Presence as nodes are told it. Leases themselves are tested in `state::presence`, with time as an argument.

use taut_netmap::{ProblemCode, ToCoordinator};

use super::world::{Coordinator, Directory, Host};

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

#[test]
fn fault_d14_of_two_hosts_with_one_key_the_later_one_is_served_and_both_are_told() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let mut first = coordinator.join("node");
    let clone = Host { run: 2, ..first.host.clone() };
    let back = |host: &Host| host.resume(&coordinator, &coordinator.token(), Some(first.map.clone()));
    let mut second = back(&clone).unwrap();
    while first.channel.receive().is_some() {}
    let twins =
        || coordinator.wait(coordinator.state.nodes(None)).unwrap().iter().map(|node| node.twin).collect::<Vec<_>>();
    assert_eq!((twins(), &second.twin), (vec![false], &None), "so far it may be the same host, started again");
    for _ in 0..3 {
        let problem = back(&first.host).map(|node| node.id()).unwrap_err();
        assert!(problem.code == ProblemCode::Twin && problem.hint.contains("join again"), "{problem}");
    }
    second.hear_until(|second| second.twin.is_some());
    assert_eq!(twins(), [true]);
    // Its own channel breaks, and it is told on the next one; the other one is served when it is gone.
    second = back(&clone).unwrap();
    second.hear_until(|second| second.twin.is_some());
    second.channel.send(&ToCoordinator::Goodbye);
    while second.channel.receive().is_some() {}
    let mut first = back(&first.host).unwrap();
    first.hear_until(|first| first.twin.is_some());
}

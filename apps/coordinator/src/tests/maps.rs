//! Map changes: after any history, applying the changes gives the same map as a full map.

use taut_base::RelayId;
use taut_netmap::{NetworkMap, ProblemCode, ToCoordinator, ToNode};

use super::relays::{named, own};
use super::world::{Directory, TestChannel, TestCoordinator, TestHost, TestNode};
use crate::state::ReportedEndpoints;

fn endpoints(port: u16) -> ToCoordinator {
    ToCoordinator::Endpoints {
        endpoints: vec![format!("10.1.2.3:{port}").parse().unwrap()],
        ports: vec![port],
        observed: Vec::new(),
    }
}

#[test]
fn new_endpoints_reach_the_peers_and_repeated_ones_do_not() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut watcher = coordinator.join("watcher");
    let mut node = coordinator.join("node");
    node.channel.send(&endpoints(7));
    let id = node.id();
    watcher.hear_until(|watcher| watcher.map.peers.get(&id).is_some_and(|peer| !peer.endpoints.is_empty()));
    assert_eq!(
        watcher.map.peers[&id].endpoints,
        ["10.1.2.3:7".parse().unwrap()],
        "loopback, as seen here, is left out"
    );
    let version = watcher.fresh_map(&coordinator).version;
    let same = ReportedEndpoints { listed: vec!["10.1.2.3:7".parse().unwrap()], ports: vec![7], observed: Vec::new() };
    let same = coordinator.state.set_endpoints(node.network, id, &same, "127.0.0.1".parse().unwrap());
    coordinator.wait(same).unwrap();
    assert_eq!(watcher.fresh_map(&coordinator).version, version);
}

/// A fixed sequence of pseudo-random changes. Every node applies the changes that it is sent, and ends with the map that a new node would get.
#[test]
fn changes_lead_to_the_whole_map() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut nodes: Vec<TestNode> = (0..4).map(|number| coordinator.join(&format!("n{number}"))).collect();
    let mut observer = coordinator.join("observer");
    let mut kept: Vec<NetworkMap> = vec![observer.map.clone()];
    let mut seed = 7_u64;
    for step in 0..90_u16 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pick = usize::try_from(seed >> 33).unwrap() % nodes.len();
        change(&coordinator, &mut nodes, pick, step, (seed >> 20) % 9);
        kept.push(observer.fresh_map(&coordinator));
    }
    let whole = observer.fresh_map(&coordinator);
    observer.hear_until(|observer| observer.map.version == whole.version);
    assert_eq!(observer.map, whole);
    assert_eq!(observer.wholes, 1, "changes came as changes");
    // The change from every earlier version to the present one leads to the same map.
    for old in kept {
        match coordinator.update_for(observer.network, observer.id(), old.version) {
            ToNode::Delta(delta) => assert_eq!(old.apply(&delta).unwrap(), whole),
            other => panic!("version {} was forgotten: {other:?}", old.version),
        }
    }
    // A node that changed itself gets a delta with its own entry, and ends with the whole map that a coordinator makes after a restart, too.
    let kept: Vec<(NetworkMap, ToNode)> = nodes
        .iter()
        .map(|node| (node.map.clone(), coordinator.update_for(node.network, node.id(), node.map.version)))
        .collect();
    coordinator.state.forget_views();
    assert_eq!(observer.fresh_map(&coordinator), whole);
    for (node, (old, update)) in nodes.iter().zip(kept) {
        let ToNode::Delta(delta) = update else { panic!("version {} was forgotten: {update:?}", old.version) };
        assert_eq!(old.apply(&delta).unwrap(), node.fresh_map(&coordinator));
    }
}

fn change(coordinator: &TestCoordinator, nodes: &mut Vec<TestNode>, pick: usize, step: u16, kind: u64) {
    let state = &coordinator.state;
    let (network, id) = (nodes[pick].network, nodes[pick].id());
    match kind {
        0 => nodes.push(coordinator.join("new")),
        1 if nodes.len() > 2 => {
            let gone = nodes.remove(pick);
            coordinator.wait(state.remove_node(None, &gone.id().to_string())).unwrap();
        }
        2 => drop(coordinator.wait(state.rename_node(None, &id.to_string(), &format!("r{step}"))).unwrap()),
        3 => {
            let listed = vec![format!("10.0.0.9:{}", step + 1).parse().unwrap()];
            let places = ReportedEndpoints { listed, ports: vec![1], observed: Vec::new() };
            coordinator.wait(state.set_endpoints(network, id, &places, "192.0.2.9".parse().unwrap())).unwrap();
        }
        4 => drop(coordinator.wait(state.set_bound(
            network,
            id,
            &[RelayId(u32::from(step % 3)), RelayId(u32::from(step % 2))],
        ))),
        5 => drop(coordinator.wait(state.add_relay(None, named(step)))),
        6 => drop(coordinator.wait(state.remove_relay(None, &format!("relay-{}", step % 5)))),
        7 => coordinator.wait(state.set_own_relay(step.is_multiple_of(2).then(own).as_ref())).unwrap(),
        _ => {
            let host = TestHost { node: TestHost::new().node, ..nodes[pick].host.clone() };
            // A node that changed its key too often is refused, which changes nothing.
            if let Ok(changed) = host.resume(coordinator, &coordinator.token(), None) {
                nodes[pick] = changed;
            }
        }
    }
}

#[test]
fn a_removed_node_is_refused_and_its_peers_forget_it() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut peer = coordinator.join("peer");
    let mut gone = coordinator.join("gone");
    let id = gone.id();
    peer.hear_until(|peer| peer.map.peers.contains_key(&id));
    coordinator.wait(coordinator.state.remove_node(None, "gone")).unwrap();
    peer.hear_until(|peer| !peer.map.peers.contains_key(&id));
    let refused = loop {
        match gone.channel.receive().expect("a refusal before the end") {
            ToNode::Refused(problem) => break problem,
            ToNode::Map(_)
            | ToNode::Delta(_)
            | ToNode::Presence { .. }
            | ToNode::Ticket { .. }
            | ToNode::Twin { .. }
            | ToNode::Waiting(_)
            | ToNode::Welcome { .. }
            | ToNode::Expiry { .. }
            | ToNode::Pong => {}
        }
    };
    assert_eq!(refused.code, ProblemCode::NotAMember);
    assert!(gone.channel.receive().is_none(), "the channel is closed");
    assert_eq!(gone.host.resume(&coordinator, &coordinator.token(), None).err().unwrap().code, ProblemCode::NotAMember);
    let again = gone.host.join(&coordinator, &coordinator.token(), "gone").unwrap();
    assert_ne!(again.id(), id, "numbers are not given twice");
}

#[test]
fn a_restart_resumes_with_changes() {
    let directory = Directory::new();
    let (token, one, two, map);
    {
        let coordinator = TestCoordinator::start(&directory);
        token = coordinator.token();
        let first = coordinator.join("one");
        two = coordinator.join("two").host;
        (one, map) = (first.host.clone(), first.fresh_map(&coordinator));
        coordinator.wait(coordinator.state.rename_node(None, "two", "three")).unwrap();
    }
    let coordinator = TestCoordinator::start(&directory);
    assert!(coordinator.first.is_none(), "only the first start is one");
    let node = one.resume(&coordinator, &token, Some(map)).unwrap();
    assert_eq!((node.wholes, node.deltas), (0, 1));
    assert_eq!(node.map, node.fresh_map(&coordinator));
    assert!(node.map.peers.values().any(|peer| peer.name == "three"));
    let unchanged = two.resume(&coordinator, &token, None).unwrap();
    let again = two.resume(&coordinator, &token, Some(unchanged.map.clone())).unwrap();
    assert_eq!((again.wholes, again.map), (0, unchanged.map), "nothing changed: an empty change says hello");
}

#[test]
fn a_restored_backup_sends_a_full_map_even_after_further_changes() {
    let directory = Directory::new();
    let (database, backup) = (directory.0.join("coordinator.db"), directory.0.join("backup"));
    let (token, host, map);
    {
        let coordinator = TestCoordinator::start(&directory);
        token = coordinator.token();
        host = coordinator.join("one").host;
    }
    std::fs::copy(&database, &backup).unwrap();
    {
        let coordinator = TestCoordinator::start(&directory);
        TestHost::new().join(&coordinator, &token, "lost").unwrap();
        map = host.resume(&coordinator, &token, None).unwrap().map;
        assert_eq!(map.peers.len(), 1);
    }
    std::fs::copy(&backup, &database).unwrap();
    let coordinator = TestCoordinator::start(&directory);
    let behind = host.resume(&coordinator, &token, Some(map.clone())).unwrap();
    assert_eq!((behind.wholes, behind.map.peers.len()), (1, 0), "the coordinator is behind the node");
    for name in ["a", "b", "c"] {
        TestHost::new().join(&coordinator, &token, name).unwrap();
    }
    let ahead = host.resume(&coordinator, &token, Some(map)).unwrap();
    assert_eq!((ahead.wholes, ahead.map), (1, behind.fresh_map(&coordinator)), "the coordinator has passed the node");
}

#[test]
fn fault_e10_a_poisoned_row_affects_only_its_own_node() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut good = coordinator.join("good");
    let bad = coordinator.join("bad");
    let id = bad.id();
    good.hear_until(|good| good.map.peers.contains_key(&id));
    let poison = "UPDATE nodes SET name = CAST(x'2e2e00ff' AS TEXT), endpoints = 'x' WHERE name = 'bad'";
    coordinator.wait(coordinator.state.store().edit(poison));
    coordinator.state.forget_views();
    assert!(!good.fresh_map(&coordinator).peers.contains_key(&id), "the map goes out without it");
    let third = coordinator.join("third");
    good.hear_until(|good| good.map.peers.contains_key(&third.id()));
    let refused = bad.host.resume(&coordinator, &coordinator.token(), None).err().unwrap();
    assert_eq!(refused.code, ProblemCode::Unavailable);
    // The operator repairs the row by the node's number.
    coordinator.wait(coordinator.state.rename_node(None, &id.to_string(), "healed")).unwrap();
    good.hear_until(|good| good.map.peers.get(&id).is_some_and(|peer| peer.name == "healed"));
    assert!(bad.host.resume(&coordinator, &coordinator.token(), None).is_ok());
}

#[test]
fn law_6_a_broken_database_does_not_lead_to_an_empty_map() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut node = coordinator.join("a");
    coordinator.join("b");
    node.hear_until(|node| node.map.peers.len() == 1);
    coordinator.wait(coordinator.state.store().edit("ALTER TABLE nodes RENAME TO hidden"));
    let mut channel = TestChannel::open(coordinator.address, &coordinator.token(), &node.host.machine).unwrap();
    channel.send(&node.host.hello(None, 0));
    match channel.receive() {
        Some(ToNode::Refused(problem)) => {
            assert_eq!(problem.code, ProblemCode::Unavailable);
            assert!(!problem.code.is_final());
        }
        other => panic!("{other:?}"),
    }
    coordinator.wait(coordinator.state.store().edit("ALTER TABLE hidden RENAME TO nodes"));
    let back = node.host.resume(&coordinator, &coordinator.token(), Some(node.map.clone())).unwrap();
    assert_eq!(back.map.peers.len(), 1);
}

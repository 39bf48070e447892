//! Enrolment: new members, returning members and refused machines.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Barrier;

use taut_netmap::{JoinToken, Problem, ProblemCode, ToCoordinator, ToNode};

use super::world::{Directory, TestChannel, TestCoordinator, TestHost, TestNode};
use crate::state::{Expiry, random};

fn altered(mut token: JoinToken, alter: impl FnOnce(&mut JoinToken)) -> JoinToken {
    alter(&mut token);
    token
}

fn code(result: Result<TestNode, Problem>) -> ProblemCode {
    result.err().expect("a refusal").code
}

#[test]
fn a_node_joins_and_gets_its_map() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let node = coordinator.join("Web-1.example");
    assert_eq!(node.map.me.name, "web-1");
    assert_eq!(node.map.me.key, node.host.node);
    assert_eq!(node.map.me.addresses[0].to_string(), "100.64.0.1");
    assert!(node.map.network.ipv6.contains(node.map.me.addresses[1]));
    assert!(node.online.contains(&node.id()));

    let mut first = node;
    let second = coordinator.join("web-1");
    assert_eq!(second.map.me.name, "web-1-2");
    assert_eq!(second.map.peers[&first.id()].key, first.host.node);
    first.hear_until(|node| node.map.peers.contains_key(&second.id()));
    assert_eq!(first.map.peers[&second.id()].name, "web-1-2");
}

#[test]
fn a_member_comes_back_as_itself_without_using_a_key() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (_, token) = coordinator.key(false, Expiry::Default);
    let host = TestHost::new();
    let first = host.join(&coordinator, &token, "a").unwrap();
    // The answer to its first attempt was lost, so it sends the used one-off key again.
    let again = host.join(&coordinator, &token, "a").unwrap();
    assert_eq!(again.map.me, first.map.me);
    let back = host.resume(&coordinator, &token, None).unwrap();
    assert_eq!(back.map.me, first.map.me);
}

#[test]
fn fault_e5_a_one_off_key_used_by_50_at_once_admits_one() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (_, token) = coordinator.key(false, Expiry::Default);
    let barrier = Barrier::new(50);
    let results: Vec<Result<(), ProblemCode>> = std::thread::scope(|scope| {
        let join = |number: u32| {
            let (coordinator, token, barrier) = (&coordinator, &token, &barrier);
            scope.spawn(move || {
                let host = TestHost::new();
                barrier.wait();
                host.join(coordinator, token, &format!("n{number}")).map(drop).map_err(|problem| problem.code)
            })
        };
        let threads: Vec<_> = (0..50).map(join).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(results.iter().filter(|result| **result == Err(ProblemCode::Enrolment)).count(), 49);
    assert_eq!(coordinator.wait(coordinator.state.nodes(None)).unwrap().len(), 1);
}

#[test]
fn parallel_joins_get_addresses_names_and_numbers_of_their_own() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let nodes: Vec<TestNode> = std::thread::scope(|scope| {
        let join = |_| scope.spawn(|| coordinator.join("same"));
        let threads: Vec<_> = (0..40).map(join).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let addresses: BTreeSet<IpAddr> = nodes.iter().flat_map(|node| node.map.me.addresses.clone()).collect();
    assert_eq!(addresses.len(), 80);
    assert_eq!(nodes.iter().map(|node| node.map.me.name.clone()).collect::<BTreeSet<_>>().len(), 40);
    assert_eq!(nodes.iter().map(TestNode::id).collect::<BTreeSet<_>>().len(), 40);
}

#[test]
fn expired_and_revoked_keys_admit_no_node() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (id, revoked) = coordinator.key(true, Expiry::Never);
    coordinator.wait(coordinator.state.revoke_key(id)).unwrap();
    let problem = TestHost::new().join(&coordinator, &revoked, "a").err().unwrap();
    assert_eq!(problem.code, ProblemCode::Enrolment);
    assert!(problem.message.contains("revoked") && problem.hint.contains("keys create"), "{problem}");

    let (_, expired) = coordinator.key(true, Expiry::Seconds(1000));
    assert!(TestHost::new().join(&coordinator, &expired, "a").is_ok());
    coordinator.wait(
        coordinator
            .state
            .store()
            .edit("UPDATE keys SET expires_at = unixepoch() WHERE expires_at < unixepoch() + 2000"),
    );
    let problem = TestHost::new().join(&coordinator, &expired, "a").err().unwrap();
    assert!(problem.message.contains("expired"), "{problem}");

    let (_, used) = coordinator.key(false, Expiry::Default);
    assert!(TestHost::new().join(&coordinator, &used, "a").is_ok());
    let problem = TestHost::new().join(&coordinator, &used, "a").err().unwrap();
    assert!(problem.message.contains("one node"), "{problem}");

    let unknown = altered(coordinator.token(), |token| token.secret = random());
    assert_eq!(code(TestHost::new().join(&coordinator, &unknown, "a")), ProblemCode::Enrolment);
}

#[test]
fn a_key_opens_its_own_network_only() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    coordinator.wait(coordinator.state.create_network("other", "10.0.0.0/24".parse().unwrap())).unwrap();
    let (_, _, token) = coordinator.wait(coordinator.state.create_key(Some("other"), true, Expiry::Default)).unwrap();
    let other: JoinToken = token.parse().unwrap();
    let crossed = altered(other.clone(), |token| token.secret = coordinator.token().secret);
    assert_eq!(code(TestHost::new().join(&coordinator, &crossed, "a")), ProblemCode::Enrolment);
    let nowhere = altered(coordinator.token(), |token| token.network = [9; 16]);
    assert_eq!(code(TestHost::new().join(&coordinator, &nowhere, "a")), ProblemCode::Enrolment);

    // One machine may be a member of both, even with one key. Each network has its own addresses and its own map.
    let host = TestHost::new();
    let here = host.join(&coordinator, &coordinator.token(), "a").unwrap();
    let there = host.join(&coordinator, &other, "a").unwrap();
    assert_eq!(there.map.me.addresses[0].to_string(), "10.0.0.1");
    assert_ne!(here.id(), there.id());
    assert!(there.map.peers.is_empty());
}

#[test]
fn strangers_are_no_members() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    assert_eq!(code(TestHost::new().resume(&coordinator, &coordinator.token(), None)), ProblemCode::NotAMember);
    // With the key of another coordinator the handshake fails.
    let wrong = altered(coordinator.token(), |token| token.coordinator = TestHost::new().node);
    assert!(TestChannel::open(coordinator.address, &wrong, &TestHost::new().machine).is_none());
}

#[test]
fn fault_e6_another_machines_key_is_refused() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let victim = coordinator.join("victim");
    let thief = TestHost { node: victim.host.node, ..TestHost::new() };
    assert_eq!(code(thief.join(&coordinator, &coordinator.token(), "thief")), ProblemCode::KeyConflict);
    let mut member = coordinator.join("member").host;
    member.node = victim.host.node;
    assert_eq!(code(member.resume(&coordinator, &coordinator.token(), None)), ProblemCode::KeyConflict);
    let weak = TestHost { node: taut_base::PublicKey([0; 32]), ..TestHost::new() };
    assert_eq!(code(weak.join(&coordinator, &coordinator.token(), "weak")), ProblemCode::KeyConflict);
}

#[test]
fn a_machine_may_change_its_node_key() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut other = coordinator.join("other");
    let node = coordinator.join("node");
    let host = TestHost { node: TestHost::new().node, ..node.host.clone() };
    let changed = host.resume(&coordinator, &coordinator.token(), Some(node.map.clone())).unwrap();
    assert_eq!((changed.id(), changed.map.me.key), (node.id(), host.node));
    other.hear_until(|other| other.map.peers.get(&changed.id()).is_some_and(|peer| peer.key == host.node));
}

#[test]
fn fault_e10_no_name_harms_anybody() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut witness = coordinator.join("witness");
    for wish in ["", &"x".repeat(300), "😀", "..", "a\0b", "42", "'; DROP TABLE nodes;--"] {
        let node = coordinator.join(wish);
        assert!(taut_netmap::check_name(&node.map.me.name).is_ok(), "{wish:?}");
        assert!(!node.map.me.name.bytes().all(|byte| byte.is_ascii_digit()), "{wish:?}");
        witness.hear_until(|witness| witness.map.peers.contains_key(&node.id()));
    }
    let long = coordinator.join(&"x".repeat(300));
    assert_eq!(long.map.me.name, format!("{}-2", "x".repeat(61)));
}

#[test]
fn fault_e20_no_node_and_no_network_gets_a_reserved_name() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    // Such a name is the host's name, or the choice of a user of release 0.1.0.
    let names: Vec<String> = ["localhost", "LOCALHOST.localdomain", "wpad", "ip6-allnodes"]
        .iter()
        .map(|wish| coordinator.join(wish).map.me.name)
        .collect();
    assert_eq!(names, ["node", "node-2", "node-3", "node-4"]);
    let token = Some(coordinator.operator_token());
    for name in ["localhost", "isatap", "ip6-loopback", "broadcasthost"] {
        let body = format!(r#"{{"name":"{name}"}}"#);
        for (method, path) in [("PATCH", "nodes/node"), ("POST", "networks")] {
            let (status, answer) = coordinator.ask(method, &format!("/api/v1/{path}"), token, Some(&body));
            assert_eq!((status, answer["error"]["code"].as_str()), (400, Some("bad-name")), "{method} {name}");
            assert!(answer["error"]["message"].as_str().unwrap().contains("reserved"), "{answer}");
        }
    }
    for name in ["com", "de"] {
        let (status, answer) =
            coordinator.ask("POST", "/api/v1/networks", token, Some(&format!(r#"{{"name":"{name}"}}"#)));
        assert_eq!((status, answer["error"]["code"].as_str()), (400, Some("bad-name")), "{name}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("top-level domain"), "{answer}");
    }
}

#[test]
fn fault_e20_a_member_with_a_reserved_name_is_renamed_at_the_start() {
    let directory = Directory::new();
    let (token, mut nodes) = {
        let coordinator = TestCoordinator::start(&directory);
        let nodes: Vec<TestNode> = ["a", "b", "c"].map(|name| coordinator.join(name)).into();
        let taken = format!("node-{}", nodes[0].id());
        coordinator.wait(coordinator.state.rename_node(None, "c", &taken)).unwrap();
        let store = coordinator.state.store();
        coordinator.wait(store.edit("UPDATE nodes SET name = 'localhost' WHERE name = 'a'"));
        coordinator.wait(store.edit("UPDATE nodes SET name = 'wpad' WHERE name = 'b'"));
        (coordinator.token(), nodes)
    };
    let coordinator = TestCoordinator::start(&directory);
    // A node with an earlier map gets a change.
    let back = nodes[2].host.resume(&coordinator, &token, Some(nodes[2].map.clone())).unwrap();
    assert_eq!((back.wholes, back.deltas), (0, 1));
    let [first, second] = [0, 1].map(|number: usize| nodes[number].id());
    let names = [&back.map.peers[&first].name, &back.map.peers[&second].name];
    assert_eq!(names, [&format!("node-{first}-2"), &format!("node-{second}")], "what another node has stays its own");
    let own = nodes.remove(0).host.resume(&coordinator, &token, None).unwrap();
    assert_eq!(own.map.me.name, format!("node-{first}-2"));
    let version = own.fresh_map(&coordinator).version;
    drop((own, back, nodes, coordinator));
    let again = TestCoordinator::start(&directory);
    assert_eq!(again.wait(again.state.networks()).unwrap()[0].row.version, version, "once");
}

#[test]
fn a_full_network_refuses_and_freed_addresses_are_assigned_last() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start_with(&directory.0, "10.0.0.0/29");
    let nodes: Vec<TestNode> = (0..6).map(|_| coordinator.join("n")).collect();
    let problem = TestHost::new().join(&coordinator, &coordinator.token(), "n").err().unwrap();
    assert!(problem.message.contains("full"), "{problem}");
    for gone in [&nodes[4], &nodes[1]] {
        coordinator.wait(coordinator.state.remove_node(None, &gone.id().to_string())).unwrap();
    }
    // The cursor is at .6, so the next free addresses are .2 and .5.
    assert_eq!(coordinator.join("n").map.me.addresses[0].to_string(), "10.0.0.2");
    assert_eq!(coordinator.join("n").map.me.addresses[0].to_string(), "10.0.0.5");
}

#[test]
fn a_given_back_address_is_not_the_next_one() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let gone = coordinator.join("gone");
    coordinator.wait(coordinator.state.remove_node(None, "gone")).unwrap();
    let next = coordinator.join("next");
    assert_eq!(next.map.me.addresses[0].to_string(), "100.64.0.2");
    assert!(next.id() > gone.id());
}

#[test]
fn a_machine_that_joins_again_has_its_addresses_again_unless_another_one_has_them() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start_with(&directory.0, "10.0.0.0/29");
    let remove =
        |node: &TestNode| coordinator.wait(coordinator.state.remove_node(None, &node.id().to_string())).unwrap();
    let first = coordinator.join("first");
    let second = coordinator.join("second");
    let (host, addresses) = (first.host.clone(), first.map.me.addresses.clone());
    remove(&first);
    let again = host.join(&coordinator, &coordinator.token(), "first").unwrap();
    assert_eq!((&again.map.me.addresses, again.id() > second.id()), (&addresses, true));
    // The place in the order of addresses is as before.
    assert_eq!(coordinator.join("third").map.me.addresses[0].to_string(), "10.0.0.3");
    remove(&again);
    for _ in 0..4 {
        coordinator.join("other");
    }
    remove(&second);
    let last = host.join(&coordinator, &coordinator.token(), "first").unwrap();
    assert_eq!(last.map.me.addresses[0].to_string(), "10.0.0.2", "its former address was the last one to be assigned");
}

#[test]
fn a_node_that_leaves_is_removed_and_its_peers_are_told() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut witness = coordinator.join("witness");
    let mut node = coordinator.join("node");
    let (id, host) = (node.id(), node.host.clone());
    witness.hear_until(|witness| witness.map.peers.contains_key(&id));
    for message in [ToCoordinator::Leave, ToCoordinator::Ping] {
        node.channel.send(&message);
    }
    let mut last = None;
    while let Some(message) = node.channel.receive() {
        last = Some(message);
    }
    // A coordinator that ignored the message would have answered the ping.
    assert!(matches!(&last, Some(ToNode::Refused(problem)) if problem.code == ProblemCode::NotAMember), "{last:?}");
    witness.hear_until(|witness| !witness.map.peers.contains_key(&id) && !witness.online.contains(&id));
    assert_eq!(coordinator.wait(coordinator.state.nodes(None)).unwrap().len(), 1);
    assert_eq!(code(host.resume(&coordinator, &coordinator.token(), None)), ProblemCode::NotAMember);
    assert!(
        host.join(&coordinator, &coordinator.token(), "node").unwrap().id() > id,
        "with a token it is a new member"
    );
}

//! Limits per machine, per enrolment key and per network.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use taut_netmap::{Enrol, Hello, JoinToken, ProblemCode, SCHEMA, ToCoordinator, ToNode};
use tokio::task::JoinSet;

use super::world::{Directory, TestChannel, TestCoordinator, TestHost};
use crate::state::{Expiry, ReportedEndpoints, StateError, random};
use crate::store::{Origin, Party};

/// The address from which the machines of these tests join.
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Changes of one network that wait at the same time, as after a move of as many members.
const CROWD: u16 = 60;

#[test]
fn fault_e21_changes_of_one_network_do_not_delay_other_networks() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    coordinator.wait(coordinator.state.create_network("small", "10.0.0.0/24".parse().unwrap())).unwrap();
    let (_, _, token) = coordinator.wait(coordinator.state.create_key(Some("small"), true, Expiry::Default)).unwrap();
    let token: JoinToken = token.parse().unwrap();
    let large = coordinator.join("large");
    let small = TestHost::new().join(&coordinator, &token, "small").unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    coordinator.wait(async {
        let held = coordinator.state.store().write(Party::Coordinator).await.unwrap();
        let mut waiting = JoinSet::new();
        let mut change = |network, node, port: u16| {
            let (state, order) = (Arc::clone(&coordinator.state), Arc::clone(&order));
            let places = ReportedEndpoints {
                listed: vec![([10, 9, 9, 9], port).into()],
                ports: Vec::new(),
                observed: Vec::new(),
            };
            waiting.spawn(async move {
                state.set_endpoints(network, node, &places, [192, 0, 2, 9].into()).await.unwrap();
                order.lock().unwrap().push(node);
            });
        };
        for port in 1..=CROWD {
            change(large.network, large.id(), port);
        }
        // All of them are in the queue before the other one.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        change(small.network, small.id(), 1);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        drop(held);
        while let Some(done) = waiting.join_next().await {
            done.unwrap();
        }
    });
    let order = order.lock().unwrap();
    let place = order.iter().position(|node| *node == small.id()).unwrap();
    assert_eq!(order.len(), usize::from(CROWD) + 1);
    assert!(place <= 3, "the only change of its network was number {place} of {}", order.len());
}

#[test]
fn fault_e21_a_machine_changes_its_key_a_few_times_and_then_no_map_changes() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (token, witness) = (coordinator.token(), coordinator.join("witness"));
    let with_new_key = |host: &TestHost| TestHost { node: TestHost::new().node, ..host.clone() };
    let mut host = coordinator.join("n").host;
    for _ in 0..4 {
        host = with_new_key(&host);
        host.resume(&coordinator, &token, None).unwrap();
    }
    let before = witness.fresh_map(&coordinator);
    for _ in 0..3 {
        let problem = with_new_key(&host).resume(&coordinator, &token, None).err().unwrap();
        assert!(problem.code == ProblemCode::TooOften && !problem.code.is_final(), "{problem}");
        assert!(problem.message.contains("too often"), "{problem}");
    }
    assert_eq!(witness.fresh_map(&coordinator), before);
    let network = witness.network;
    drop((coordinator, witness));
    let coordinator = TestCoordinator::start(&directory);
    let problem = with_new_key(&host).resume(&coordinator, &token, None).err().unwrap();
    assert_eq!(problem.code, ProblemCode::TooOften, "a restart gives nothing back");
    let member = host.resume(&coordinator, &token, None).unwrap();
    assert_eq!((member.map.me.key, member.network), (host.node, network), "it is a member with the key that it had");
    // Six hours later.
    coordinator.wait(coordinator.state.store().edit("UPDATE nodes SET keys_full_at = keys_full_at - 21600"));
    host = with_new_key(&host);
    assert_eq!(host.resume(&coordinator, &token, None).unwrap().map.me.key, host.node);
    assert!(with_new_key(&host).resume(&coordinator, &token, None).is_err(), "one, not four");
}

#[test]
fn fault_e21_a_new_program_version_with_each_hello_does_not_take_the_writer() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (token, host) = (coordinator.token(), coordinator.join("n").host);
    let held = coordinator.hold_writer();
    let mut channel = TestChannel::open(coordinator.address, &token, &host.machine).unwrap();
    let ToCoordinator::Hello(hello) = host.hello(None, 0) else { unreachable!() };
    channel.send(&ToCoordinator::Hello(Hello { version: String::from("9.9.9"), ..hello }));
    assert!(matches!(channel.receive(), Some(ToNode::Map(_))), "although nothing can be written");
    let program =
        |coordinator: &TestCoordinator| coordinator.wait(coordinator.state.nodes(None)).unwrap()[0].row.program.clone();
    assert_eq!(program(&coordinator), "9.9.9");
    drop((held, channel));
    drop(coordinator);
    assert_eq!(program(&TestCoordinator::start(&directory)), "9.9.9", "it was written at the end");
}

#[test]
fn fault_e21_refused_machines_do_not_occupy_the_writer() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (good, mut unknown, mut nowhere) = (coordinator.token(), coordinator.token(), coordinator.token());
    unknown.secret = random();
    nowhere.network = [9; 16];
    let held = coordinator.hold_writer();
    for token in [&unknown, &nowhere] {
        assert_eq!(TestHost::new().join(&coordinator, token, "x").err().unwrap().code, ProblemCode::Enrolment);
    }
    for token in [&good, &nowhere] {
        assert_eq!(TestHost::new().resume(&coordinator, token, None).err().unwrap().code, ProblemCode::NotAMember);
    }
    drop(held);
}

#[test]
fn fault_e21_joins_with_one_enrolment_key_are_limited_in_rate() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (_, other) = coordinator.key(true, Expiry::Default);
    let network = coordinator.network();
    let crowded = coordinator.wait(async {
        // These machines do not become members. They are more than the burst of 256 and the 2.5 per second during the loop.
        let held = coordinator.state.store().write(Party::Coordinator).await.unwrap();
        let mut asked = JoinSet::new();
        for _ in 0..1_000 {
            let (state, hello) = (Arc::clone(&coordinator.state), hello(&coordinator.token()));
            asked.spawn(async move { state.admit(network, TestHost::new().node, &hello, HERE).await.map(drop) });
        }
        let first = asked.join_next().await.unwrap().unwrap();
        asked.shutdown().await;
        drop(held);
        first
    });
    assert!(matches!(crowded, Err(StateError::Crowd)), "{crowded:?}");
    let joined = coordinator.wait(coordinator.state.admit(network, TestHost::new().node, &hello(&other), HERE));
    assert!(joined.is_ok(), "another key is not concerned");
}

/// Returns the hello of a new host with this token.
fn hello(token: &JoinToken) -> Hello {
    let secret = taut_base::encode_base64url(&token.secret);
    let ToCoordinator::Hello(hello) = TestHost::new().hello(Some(Enrol { secret, name: String::from("n") }), 0) else {
        unreachable!()
    };
    assert_eq!(hello.schema, SCHEMA);
    hello
}

/// Inserts marks as 16,384 removed nodes leave them that joined with the first key from 127.0.0.1.
const TURNOVER: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 16384) \
    INSERT INTO nodes (network, machine_key, node_key, name, ipv4, ipv6, version, created_at, last_seen_at, removed_at, joined_key, joined_host, joined_site) \
    SELECT (SELECT id FROM networks), randomblob(32), randomblob(32), 'n' || i, randomblob(4), randomblob(16), 1, unixepoch(), unixepoch(), unixepoch(), \
    (SELECT min(id) FROM keys), x'000000047f000001', x'000000047f000000' FROM n";

#[test]
fn fault_e21_marks_of_nodes_that_left_are_bounded_per_key_and_address() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (token, network) = (coordinator.token(), coordinator.network());
    let (_, other) = coordinator.key(true, Expiry::Default);
    let member = coordinator.join("member").host;
    coordinator.wait(coordinator.state.store().edit(TURNOVER));
    let ask = |coordinator: &TestCoordinator, token: &JoinToken, from: [u8; 4]| {
        coordinator.wait(coordinator.state.admit(network, TestHost::new().node, &hello(token), from.into())).map(drop)
    };
    drop(coordinator);
    let coordinator = TestCoordinator::start(&directory);
    let problem = TestHost::new().join(&coordinator, &token, "n").err().unwrap();
    assert!(
        problem.code == ProblemCode::TooOften && problem.message.contains("have left"),
        "after a restart, too: {problem}"
    );
    assert!(matches!(ask(&coordinator, &token, [127, 0, 0, 1]), Err(StateError::Turnover)));
    assert!(ask(&coordinator, &token, [127, 0, 0, 2]).is_ok(), "another address has room");
    assert!(ask(&coordinator, &other, [127, 0, 0, 1]).is_ok(), "another key has room");
    assert!(member.resume(&coordinator, &token, None).is_ok(), "members are not concerned");
    // Three days later.
    coordinator.wait(coordinator.state.store().edit("UPDATE nodes SET removed_at = removed_at - 73 * 3600 - 60"));
    assert!(ask(&coordinator, &token, [127, 0, 0, 1]).is_ok());
}

#[test]
fn fault_e21_a_node_that_leaves_counts_for_its_key_and_address() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    for name in ["a", "b"] {
        coordinator.join(name);
        coordinator.wait(coordinator.state.remove_node(None, name)).unwrap();
    }
    let marks = |from: [u8; 4], key| {
        coordinator.wait(async {
            let mut tx = coordinator.state.store().read(Party::Coordinator).await.unwrap();
            let marks = tx.marks(key, &Origin::new(from.into()), 0).await.unwrap();
            (marks.key, marks.site, marks.host)
        })
    };
    assert_eq!(
        [marks([127, 0, 0, 1], 1), marks([127, 0, 0, 9], 1), marks([127, 1, 0, 1], 1)],
        [(2, 2, 2), (2, 2, 0), (2, 0, 0)]
    );
    assert_eq!(marks([127, 0, 0, 1], 2), (0, 0, 0));
}

//! Devices: approval, disabling, expiry, tags, enrolment keys, ephemeral nodes.

use std::sync::Barrier;
use std::time::Duration;

use serde_json::json;
use taut_netmap::{JoinToken, ProblemCode, ToCoordinator, ToNode, WaitingFor};

use super::world::{Directory, TestChannel, TestCoordinator, TestHost, TestNode};
use crate::clock::unix_now;
use crate::contract::{NodeList, NodeState};
use crate::state::{DeviceChange, Expiry};
use crate::store::Grants;

fn change(coordinator: &TestCoordinator, name: &str, change: DeviceChange) {
    coordinator.wait(coordinator.state.change_device(None, name, change)).unwrap();
}

fn disable(coordinator: &TestCoordinator, name: &str, disabled: bool) {
    change(coordinator, name, DeviceChange { disabled: Some(disabled), ..DeviceChange::default() });
}

/// Creates a reusable key with grants.
fn key(coordinator: &TestCoordinator, grants: Grants) -> JoinToken {
    let create = coordinator.state.create_key_with(None, true, Expiry::Default, grants);
    coordinator.wait(create).unwrap().2.parse().unwrap()
}

fn states(coordinator: &TestCoordinator) -> Vec<(String, NodeState)> {
    let list: NodeList = coordinator.ask_for("GET", "/api/v1/nodes", None);
    list.nodes.into_iter().map(|node| (node.name, node.state)).collect()
}

/// Opens a channel with a hello, and returns its first answer.
fn first_answer(
    coordinator: &TestCoordinator,
    token: &JoinToken,
    host: &TestHost,
    hello: &ToCoordinator,
) -> (TestChannel, ToNode) {
    let mut channel = TestChannel::open(coordinator.address, token, &host.machine).expect("an open channel");
    channel.send(hello);
    let answer = channel.receive().expect("an answer");
    (channel, answer)
}

fn enrolling(host: &TestHost, token: &JoinToken, name: &str) -> ToCoordinator {
    let enrol = taut_netmap::Enrol { secret: taut_base::encode_base64url(&token.secret), name: String::from(name) };
    host.hello(Some(enrol), 0)
}

/// Receives messages until a map comes.
fn next_map(channel: &mut TestChannel) -> taut_netmap::NetworkMap {
    loop {
        if let ToNode::Map(map) = channel.receive().expect("a map") {
            return map;
        }
    }
}

#[test]
fn fault_e18_a_disabled_device_is_in_no_map_and_comes_back_on_its_open_channel() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (mut one, mut two) = (coordinator.join("one"), coordinator.join("two"));
    let three = coordinator.join("three");
    one.hear_until(|node| node.map.peers.len() == 2);
    two.hear_until(|node| node.map.peers.len() == 2);
    disable(&coordinator, "two", true);
    one.hear_until(|node| !node.map.peers.contains_key(&two.id()));
    assert_eq!((one.map.peers.len(), one.wholes), (1, 1), "by a delta");
    two.hear_until(|node| node.waiting.is_some());
    assert!(two.map.peers.is_empty() && two.map.relays.is_empty(), "it knows nobody any more");
    assert_eq!(two.waiting.as_ref().unwrap().reason, WaitingFor::Enabling);
    assert_eq!(states(&coordinator)[1], (String::from("two"), NodeState::Disabled));
    // A disabled node hears of no change, and no other node hears what it reports.
    coordinator.wait(coordinator.state.rename_node(None, "three", "other")).unwrap();
    one.hear_until(|node| node.map.peers[&three.id()].name == "other");
    assert!(two.fresh(&coordinator).is_none(), "also without a map it would get none");
    disable(&coordinator, "two", false);
    two.hear_until(|node| node.map.peers.len() == 2);
    assert_eq!(two.map.peers[&three.id()].name, "other");
    one.hear_until(|node| node.map.peers.contains_key(&two.id()));
    // A node that was offline when it was disabled gets a map without peers when it returns.
    disable(&coordinator, "two", true);
    one.hear_until(|node| !node.map.peers.contains_key(&two.id()));
    let back = two.host.resume(&coordinator, &coordinator.token(), Some(two.map.clone())).unwrap();
    assert!(back.map.peers.is_empty());
}

#[test]
fn fault_e18_no_ticket_is_signed_for_a_device_that_was_disabled() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let node = coordinator.join("one");
    let bind = node.host.node;
    let ticket = || coordinator.wait(coordinator.state.ticket(node.network, node.id(), bind));
    assert!(ticket().is_ok());
    disable(&coordinator, "one", true);
    assert!(ticket().is_err());
    let revoked = coordinator.wait(coordinator.state.revocations(node.network, 0)).unwrap().expect("a revocation").0;
    assert_eq!((revoked.len(), revoked[0].node), (1, Some(node.id())), "relays refuse the earlier ones");
    disable(&coordinator, "one", false);
    let after = ticket().unwrap();
    assert!(after.expires > revoked[0].at, "{} {}", after.expires, revoked[0].at);
}

#[test]
fn a_device_waits_for_its_approval_and_gets_in_without_a_restart() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut member = coordinator.join("member");
    coordinator.wait(coordinator.state.set_admission(None, Some(true), None)).unwrap();
    assert_eq!(states(&coordinator), [(String::from("member"), NodeState::Active)], "members stay");
    let (token, host) = (coordinator.token(), TestHost::new());
    let (mut channel, answer) = first_answer(&coordinator, &token, &host, &enrolling(&host, &token, "new"));
    let ToNode::Waiting(waiting) = answer else { panic!("{answer:?}") };
    assert_eq!((waiting.reason, waiting.code), (WaitingFor::Approval, None));
    // The waiting node is in no delta and in no full map of another node.
    coordinator.wait(coordinator.state.rename_node(None, "member", "renamed")).unwrap();
    member.hear_until(|node| node.map.me.name == "renamed");
    assert!(member.map.peers.is_empty() && member.fresh_map(&coordinator).peers.is_empty());
    // The node repeats its hello after a lost answer: it waits as before, and the repetition does not count as a use of the key.
    let (_second, answer) = first_answer(&coordinator, &token, &host, &enrolling(&host, &token, "new"));
    assert!(matches!(answer, ToNode::Waiting(_)), "{answer:?}");
    assert_eq!(coordinator.wait(coordinator.state.keys(None)).unwrap()[0].1.used, 2);
    // The first channel was replaced by the second one.
    while channel.receive().is_some() {}
    let (mut channel, _) = first_answer(&coordinator, &token, &host, &enrolling(&host, &token, "new"));
    change(&coordinator, "new", DeviceChange { approve: true, ..DeviceChange::default() });
    assert_eq!(next_map(&mut channel).peers.len(), 1);
    member.hear_until(|node| node.map.peers.len() == 1);
    // A key that approves in advance lets in a new machine, and one that waits.
    let approving = key(&coordinator, Grants { approves: true, ..Grants::default() });
    assert!(TestHost::new().join(&coordinator, &approving, "at-once").is_ok());
    let late = TestHost::new();
    let (_channel, answer) = first_answer(&coordinator, &token, &late, &enrolling(&late, &token, "late"));
    assert!(matches!(answer, ToNode::Waiting(_)), "{answer:?}");
    assert!(late.join(&coordinator, &approving, "late").is_ok());
}

#[test]
fn fault_m6_a_membership_expires_at_all_peers_and_is_renewed_as_itself() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (mut peer, life) = (coordinator.join("peer"), 30 * 86_400);
    coordinator.wait(coordinator.state.set_admission(None, None, Some(Some(life)))).unwrap();
    let mut node = coordinator.join("node");
    node.hear_until(|node| node.expires_in.is_some());
    assert!(node.expires_in.unwrap() <= life as u64 && node.expires_in.unwrap() > life as u64 - 60);
    peer.hear_until(|peer| peer.map.peers.len() == 1);
    let (now, ticks) = (unix_now(), |now| coordinator.wait(coordinator.state.end_memberships(now)).unwrap());
    assert_eq!(ticks(now + life - 120), 0);
    assert_eq!(ticks(now + life + 1), 1);
    // A second coordinator whose clock is five minutes behind changes nothing about it, and neither does the next tick.
    assert_eq!((ticks(now + life - 300), ticks(now + life + 300)), (0, 0));
    peer.hear_until(|peer| peer.map.peers.is_empty());
    node.hear_until(|node| node.waiting.is_some());
    assert_eq!(node.waiting.as_ref().unwrap().reason, WaitingFor::Renewal);
    assert!(node.map.peers.is_empty());
    assert_eq!(states(&coordinator)[1].1, NodeState::Expired);
    assert_eq!(states(&coordinator)[0].1, NodeState::Active, "devices from before the setting never expire");
    // A used key does not renew it, and a valid one does, once.
    let (_, used) = coordinator.key(false, Expiry::Default);
    assert!(TestHost::new().join(&coordinator, &used, "x").is_ok());
    assert_eq!(node.host.join(&coordinator, &used, "node").err().unwrap().code, ProblemCode::Enrolment);
    let (_, once) = coordinator.key(false, Expiry::Default);
    let renewed = node.host.join(&coordinator, &once, "another-name").unwrap();
    assert_eq!(renewed.map.me, node.map.me, "number, name, key and addresses stay");
    peer.hear_until(|peer| peer.map.peers.contains_key(&renewed.id()));
    assert_eq!(TestHost::new().join(&coordinator, &once, "y").err().unwrap().code, ProblemCode::Enrolment);
    // The node repeats its join after a lost answer: the repetition succeeds without another use of the key.
    assert!(node.host.join(&coordinator, &once, "node").is_ok());
}

#[test]
fn fault_m6_what_expires_while_no_coordinator_runs_ends_when_one_is_back() {
    let directory = Directory::new();
    let (mut node, token) = {
        let coordinator = TestCoordinator::start(&directory);
        coordinator.wait(coordinator.state.set_admission(None, None, Some(Some(3600)))).unwrap();
        (coordinator.join("node"), coordinator.token())
    };
    let coordinator = TestCoordinator::start(&directory);
    let mut peer = TestHost::new().join(&coordinator, &token, "peer").unwrap();
    assert_eq!(peer.map.peers.len(), 1, "grace: nobody has ended it");
    node = node.host.resume(&coordinator, &token, Some(node.map.clone())).unwrap();
    assert_eq!(coordinator.wait(coordinator.state.end_memberships(unix_now() + 7_200)).unwrap(), 2);
    node.hear_until(|node| node.waiting.is_some());
    peer.hear_until(|peer| peer.waiting.is_some());
    assert!(node.map.peers.is_empty() && peer.map.peers.is_empty());
    change(&coordinator, "peer", DeviceChange { approve: true, ..DeviceChange::default() });
    peer.hear_until(|peer| peer.waiting.is_none());
    assert!(peer.map.peers.is_empty(), "the other one has still expired");
}

#[test]
fn the_life_of_one_device_differs_from_its_networks() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut node = coordinator.join("node");
    let life = |life| DeviceChange { key_life: Some(life), ..DeviceChange::default() };
    change(&coordinator, "node", life(Some(7_200)));
    node.hear_until(|node| node.expires_in.is_some());
    change(&coordinator, "node", life(Some(0)));
    node.hear_until(|node| node.expires_in.is_none());
    change(&coordinator, "node", DeviceChange { expire: true, ..DeviceChange::default() });
    node.hear_until(|node| node.waiting.is_some());
    change(&coordinator, "node", DeviceChange { approve: true, ..DeviceChange::default() });
    node.hear_until(|node| node.waiting.is_none());
    for bad in [1, 3_599, i64::MAX, -1] {
        assert!(coordinator.wait(coordinator.state.change_device(None, "node", life(Some(bad)))).is_err(), "{bad}");
        assert!(coordinator.wait(coordinator.state.set_admission(None, None, Some(Some(bad)))).is_err(), "{bad}");
    }
}

#[test]
fn fault_e5_a_key_for_three_nodes_used_by_50_at_once_admits_three() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let token = key(&coordinator, Grants { most_uses: Some(3), ..Grants::default() });
    assert_eq!(joined(&[&coordinator], &token, 50), 3);
    assert_eq!(states(&coordinator).len(), 3);
}

/// Returns how many of `hosts` new machines join with a key at the same time, each at the next of these coordinators.
pub(super) fn joined(coordinators: &[&TestCoordinator], token: &JoinToken, hosts: usize) -> usize {
    let barrier = Barrier::new(hosts);
    std::thread::scope(|scope| {
        let join = |number: usize| {
            let (coordinator, barrier) = (coordinators[number % coordinators.len()], &barrier);
            scope.spawn(move || {
                let host = TestHost::new();
                barrier.wait();
                loop {
                    match host.join(coordinator, token, "n") {
                        Ok(_) => return true,
                        // The join failed because the database was busy.
                        Err(problem) if problem.code == ProblemCode::Unavailable => {}
                        Err(problem) => {
                            assert_eq!(problem.code, ProblemCode::Enrolment, "{problem}");
                            return false;
                        }
                    }
                }
            })
        };
        let threads: Vec<_> = (0..hosts).map(join).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|joined| *joined).count()
    })
}

#[test]
fn a_key_gives_tags_and_an_owner() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let tags = vec![String::from("tag:web"), String::from("tag:db")];
    let token = key(&coordinator, Grants { tags, owner: Some(String::from("ann@example.com")), ..Grants::default() });
    TestHost::new().join(&coordinator, &token, "web").unwrap();
    let list: NodeList = coordinator.ask_for("GET", "/api/v1/nodes", None);
    assert_eq!(list.nodes[0].tags, ["tag:db", "tag:web"]);
    assert_eq!(list.nodes[0].owner.as_deref(), Some("ann@example.com"));
    let body = r#"{"name":"db","tags":["tag:db"],"owner":null}"#;
    let operator = Some(coordinator.operator_token());
    let (status, answer) = coordinator.ask("PATCH", "/api/v1/nodes/web", operator, Some(body));
    assert_eq!((status, &answer["node"]["name"], &answer["node"]["owner"]), (200, &json!("db"), &json!(null)));
    for (body, code) in [
        (r#"{"tags":["web"]}"#, "bad-tag"),
        (r#"{"owner":"a\nb"}"#, "bad-request"),
        (r#"{"approved":false}"#, "bad-request"),
        (r#"{"key_expiry":5}"#, "bad-expiry"),
        (r#"{"name":"9"}"#, "bad-name"),
    ] {
        let (status, answer) = coordinator.ask("PATCH", "/api/v1/nodes/db", operator, Some(body));
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(code)), "{body}");
    }
    assert_eq!(states(&coordinator), [(String::from("db"), NodeState::Active)], "nothing of a bad request was done");
}

/// Counts absence as if a coordinator had been up for this time since the last count.
fn count(coordinator: &TestCoordinator, up: u64) {
    coordinator.wait(coordinator.state.store().edit("DELETE FROM meta WHERE name = 'absence-counted'"));
    coordinator.wait(coordinator.state.count_absence(Duration::from_secs(up))).unwrap();
}

/// Ends a node's channel, and waits until it is offline.
fn leave(coordinator: &TestCoordinator, mut node: TestNode) -> TestHost {
    node.channel.send(&ToCoordinator::Goodbye);
    while node.channel.receive().is_some() {}
    let id = node.id();
    while coordinator.wait(coordinator.state.nodes(None)).unwrap().iter().any(|view| view.row.id == id && view.online) {
        std::thread::sleep(Duration::from_millis(10));
    }
    node.host
}

#[test]
fn fault_n12_an_ephemeral_device_is_removed_after_its_absence_and_never_before_its_first_map() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut peer = coordinator.join("peer");
    let token = key(&coordinator, Grants { ephemeral: Some(300), ..Grants::default() });
    let node = TestHost::new().join(&coordinator, &token, "short").unwrap();
    peer.hear_until(|peer| peer.map.peers.len() == 1);
    (0..20).for_each(|_| count(&coordinator, 90));
    assert_eq!(states(&coordinator).len(), 2, "it is online");
    let host = leave(&coordinator, node);
    // One count adds 90 s at most, so four counts after the node left are less than its limit of 300 s.
    (0..4).for_each(|_| count(&coordinator, 1_000_000));
    assert_eq!(states(&coordinator).len(), 2);
    // The node returns and leaves at once: its earlier absence no longer counts.
    leave(&coordinator, host.resume(&coordinator, &token, None).unwrap());
    (0..4).for_each(|_| count(&coordinator, 90));
    assert_eq!(states(&coordinator).len(), 2);
    // A coordinator that was away counts nothing of that time.
    coordinator.wait(coordinator.state.count_absence(Duration::from_secs(90))).unwrap();
    assert_eq!(states(&coordinator).len(), 2, "counted a moment ago");
    count(&coordinator, 90);
    peer.hear_until(|peer| peer.map.peers.is_empty());
    assert_eq!(states(&coordinator), [(String::from("peer"), NodeState::Active)]);
    assert_eq!(host.resume(&coordinator, &token, None).err().unwrap().code, ProblemCode::NotAMember);
    assert!(host.join(&coordinator, &token, "short").is_ok());
}

#[test]
fn fault_n12_a_device_that_is_admitted_has_no_count() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let token = key(&coordinator, Grants { ephemeral: Some(300), ..Grants::default() });
    let host = leave(&coordinator, TestHost::new().join(&coordinator, &token, "short").unwrap());
    (0..4).for_each(|_| count(&coordinator, 90));
    // The node is admitted but has no channel yet: the next count must not remove it.
    let ToCoordinator::Hello(hello) = host.hello(None, 0) else { panic!() };
    let machine = taut_noise::public_key(&host.machine);
    let from = std::net::IpAddr::from([127, 0, 0, 1]);
    let network = coordinator.network();
    coordinator.wait(coordinator.state.admit(network, machine, &hello, from)).unwrap();
    (0..3).for_each(|_| count(&coordinator, 90));
    assert_eq!(states(&coordinator).len(), 1);
}

#[test]
fn fault_e10_a_machine_with_an_illegal_name_harms_only_itself() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut member = coordinator.join("member");
    let (token, long) = (coordinator.token(), "x".repeat(300));
    let names = ["", long.as_str(), "\u{1f600}", "..", "a\0b", "localhost", "7"];
    for name in names {
        let node = TestHost::new().join(&coordinator, &token, name).unwrap();
        assert!(taut_netmap::check_name(&node.map.me.name).is_ok(), "{name:?}");
    }
    member.hear_until(|node| node.map.peers.len() == names.len());
}

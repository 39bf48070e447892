//! Subnet routes: proposals of nodes, approvals by operators and by the policy, and what maps and filters say of them.

use std::net::IpAddr;

use serde_json::{Value, json};
use taut_base::Prefix;
use taut_netmap::{ToCoordinator, Verdict};
use taut_policy::Packet;

use super::policy::decide;
use super::world::{Directory, TestCoordinator, TestHost, TestNode};
use crate::state::{DeviceChange, Expiry};

const LAN: &str = "192.168.10.0/24";

fn prefixes(texts: &[&str]) -> Vec<Prefix> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn advertise(node: &mut TestNode, routes: &[&str]) {
    node.channel.send(&ToCoordinator::Routes { prefixes: prefixes(routes) });
}

fn change(coordinator: &TestCoordinator, name: &str, body: &Value) -> (u16, Value) {
    let path = format!("/api/v1/nodes/{name}");
    coordinator.ask("PATCH", &path, Some(coordinator.operator_token()), Some(&body.to_string()))
}

/// Waits until the coordinator lists these advertised and approved routes of a node.
fn wait_listed(coordinator: &TestCoordinator, name: &str, advertised: &[&str], approved: &[&str]) {
    loop {
        let nodes = coordinator.wait(coordinator.state.nodes(None)).unwrap();
        let row = nodes.into_iter().map(|node| node.row).find(|row| row.name == name).expect("a member");
        if row.advertised == prefixes(advertised) && row.device.routes == prefixes(approved) {
            return;
        }
        std::thread::yield_now();
    }
}

fn routes_of(node: &TestNode, peer: &TestNode) -> Vec<Prefix> {
    node.map.peers[&peer.id()].routes.clone()
}

fn lets_in(to: &TestNode, src: IpAddr, dst: &str) -> bool {
    let packet = Packet { src, dst: dst.parse().unwrap(), proto: 6, port: 443 };
    to.map.filter.as_ref().is_some_and(|filter| filter.allows(&packet))
}

fn apply(coordinator: &TestCoordinator, text: &str) {
    let body = json!({ "text": text, "comment": "" }).to_string();
    let (status, answer) = coordinator.ask("POST", "/api/v1/policy", Some(coordinator.operator_token()), Some(&body));
    assert_eq!(status, 201, "{answer}");
}

#[test]
fn fault_g10_a_route_is_in_maps_and_filters_while_it_is_advertised_and_approved() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (mut router, mut client) = (coordinator.join("router"), coordinator.join("client"));
    client.hear_until(|node| node.map.peers.len() == 1);
    let source = client.map.me.addresses[0];
    advertise(&mut router, &[LAN, "10.9.0.0/16"]);
    wait_listed(&coordinator, "router", &["10.9.0.0/16", LAN], &[]);
    // A proposal is in no map. What a node is told next shows that it was not told before.
    coordinator.wait(coordinator.state.rename_node(None, "client", "laptop")).unwrap();
    router.hear_until(|node| node.map.peers.get(&client.id()).is_some_and(|peer| peer.name == "laptop"));
    assert!(router.map.me.routes.is_empty() && !lets_in(&router, source, "192.168.10.7"));
    let (status, answer) = change(&coordinator, "router", &json!({ "approve_routes": [LAN] }));
    assert_eq!((status, &answer["node"]["approved_routes"]), (200, &json!([LAN])), "{answer}");
    router.hear_until(|node| node.map.me.routes == prefixes(&[LAN]));
    router.hear_until(|node| lets_in(node, source, "192.168.10.7"));
    assert!(!lets_in(&router, source, "10.9.0.1"), "the other one is not approved");
    client.hear_until(|node| routes_of(node, &router) == prefixes(&[LAN]));

    // The router ceases to advertise it, and advertises it again: the approval is still there.
    advertise(&mut router, &[]);
    client.hear_until(|node| routes_of(node, &router).is_empty());
    wait_listed(&coordinator, "router", &[], &[LAN]);
    advertise(&mut router, &[LAN]);
    client.hear_until(|node| routes_of(node, &router) == prefixes(&[LAN]));
    let (status, _) = change(&coordinator, "router", &json!({ "revoke_routes": [LAN] }));
    assert_eq!(status, 200);
    client.hear_until(|node| routes_of(node, &router).is_empty());
    router.hear_until(|node| node.map.me.routes.is_empty());
    // A whole map has the filter of a network without routes.
    let map = router.fresh_map(&coordinator);
    assert!(map.me.routes.is_empty());
    let packet = Packet { src: source, dst: "192.168.10.7".parse().unwrap(), proto: 6, port: 443 };
    assert!(!map.filter.unwrap().allows(&packet));
}

#[test]
fn only_advertised_routes_are_approved_and_only_approved_ones_revoked() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut router = coordinator.join("router");
    // Neither a part of the overlay, nor one that is no place for hosts.
    advertise(&mut router, &[LAN, "100.64.1.0/24", "169.254.0.0/16", LAN]);
    wait_listed(&coordinator, "router", &[LAN], &[]);
    for (body, word) in [
        (json!({ "approve_routes": ["192.168.11.0/24"] }), "it advertises 192.168.10.0/24"),
        (json!({ "revoke_routes": [LAN] }), "is not approved"),
    ] {
        let (status, answer) = change(&coordinator, "router", &body);
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("no-such-route")), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(word), "{answer}");
    }
    assert_eq!(change(&coordinator, "router", &json!({ "approve_routes": ["lan"] })).0, 400);
    let many: Vec<String> = (0..100).map(|number| format!("10.{number}.0.0/16")).collect();
    advertise(&mut router, &many.iter().map(String::as_str).collect::<Vec<_>>());
    let kept: Vec<&str> = many[..taut_netmap::MAX_ROUTES].iter().map(String::as_str).collect();
    let mut kept: Vec<Prefix> = prefixes(&kept);
    kept.sort_unstable();
    let kept: Vec<String> = kept.iter().map(Prefix::to_string).collect();
    wait_listed(&coordinator, "router", &kept.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
}

#[test]
fn the_policy_approves_routes_when_they_are_advertised_when_it_is_applied_and_when_a_tag_is_given() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [mut one, mut two, mut client] = ["one", "two", "client"].map(|name| coordinator.join(name));
    client.hear_until(|node| node.map.peers.len() == 2);
    let tag = |name: &str| {
        let change = DeviceChange { tags: Some(vec![String::from("tag:router")]), ..DeviceChange::default() };
        coordinator.wait(coordinator.state.change_device(None, name, change)).unwrap();
    };
    tag("one");
    advertise(&mut one, &[LAN]);
    wait_listed(&coordinator, "one", &[LAN], &[]);
    apply(
        &coordinator,
        r#"{"tagOwners": {"tag:router": []}, "autoApprovers": {"routes": {"192.168.0.0/16": ["tag:router"]}}, "grants": [{"src": ["*"], "dst": ["*"], "ip": ["*"]}]}"#,
    );
    client.hear_until(|node| routes_of(node, &one) == prefixes(&[LAN]));
    // A node without the tag waits, until it has it.
    advertise(&mut two, &["192.168.20.0/24", "10.0.0.0/8"]);
    wait_listed(&coordinator, "two", &["10.0.0.0/8", "192.168.20.0/24"], &[]);
    tag("two");
    client.hear_until(|node| routes_of(node, &two) == prefixes(&["192.168.20.0/24"]));
    // With the tag a new route is approved when it is advertised, if it is a part of the policy's prefix.
    advertise(&mut one, &[LAN, "192.168.30.0/24", "172.16.0.0/12"]);
    client.hear_until(|node| routes_of(node, &one) == prefixes(&[LAN, "192.168.30.0/24"]));
    let (_, audit) = coordinator.ask("GET", "/api/v1/audit", Some(coordinator.operator_token()), None);
    assert!(audit.to_string().contains("autoApprovers"), "{audit}");
}

#[test]
fn approvals_outlive_a_restart_and_go_with_the_node() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut router = coordinator.join("router");
    advertise(&mut router, &[LAN]);
    wait_listed(&coordinator, "router", &[LAN], &[]);
    assert_eq!(change(&coordinator, "router", &json!({ "approve_routes": [LAN] })).0, 200);
    drop((router, coordinator));
    let coordinator = TestCoordinator::start(&directory);
    wait_listed(&coordinator, "router", &[LAN], &[LAN]);
    coordinator.wait(coordinator.state.remove_node(None, "router")).unwrap();
    let (_, token) = coordinator.key(true, Expiry::Default);
    let mut again = TestHost::new().join(&coordinator, &token, "router").unwrap();
    advertise(&mut again, &[LAN]);
    wait_listed(&coordinator, "router", &[LAN], &[]);
}

#[test]
fn a_node_whose_routes_the_policy_approves_does_not_fill_its_row_and_loses_no_approval() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut router = coordinator.join("router");
    coordinator
        .wait(coordinator.state.change_device(
            None,
            "router",
            DeviceChange { tags: Some(vec![String::from("tag:router")]), ..DeviceChange::default() },
        ))
        .unwrap();
    apply(
        &coordinator,
        r#"{"tagOwners": {"tag:router": []}, "autoApprovers": {"routes": {"10.0.0.0/8": ["tag:router"]}}, "grants": []}"#,
    );
    let mut all: Vec<Prefix> = Vec::new();
    for round in 1..=3 {
        let mut routes: Vec<Prefix> =
            (0..taut_netmap::MAX_ROUTES).map(|number| format!("10.{round}.{number}.0/24").parse().unwrap()).collect();
        routes.sort_unstable();
        let texts: Vec<String> = routes.iter().map(Prefix::to_string).collect();
        advertise(&mut router, &texts.iter().map(String::as_str).collect::<Vec<_>>());
        // The third round finds no room.
        if round < 3 {
            all.extend(&routes);
            all.sort_unstable();
        }
        let approved: Vec<String> = all.iter().map(Prefix::to_string).collect();
        let strs = |texts: &[String]| texts.iter().map(|text| &**text).collect::<Vec<_>>().join(",");
        let (advertised, approved) = (strs(&texts), strs(&approved));
        wait_listed(
            &coordinator,
            "router",
            &advertised.split(',').collect::<Vec<_>>(),
            &approved.split(',').collect::<Vec<_>>(),
        );
    }
    let (status, answer) = change(&coordinator, "router", &json!({ "approve_routes": ["10.3.0.0/24"] }));
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("full")), "{answer}");
    let (status, answer) =
        change(&coordinator, "router", &json!({ "approve_routes": ["10.3.0.0/24"], "revoke_routes": ["10.1.0.0/24"] }));
    assert_eq!(status, 200, "{answer}");
}

const EXIT: [&str; 2] = ["0.0.0.0/0", "::/0"];

#[test]
fn an_exit_node_is_approved_as_one_thing_and_told_to_those_that_may_use_it() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [mut exit, mut client, mut other] = ["exit", "client", "other"].map(|name| coordinator.join(name));
    client.hear_until(|node| node.map.peers.len() == 2);
    let source = client.map.me.addresses[0];
    // One of the default routes means both.
    advertise(&mut exit, &["::/0", LAN]);
    wait_listed(&coordinator, "exit", &[EXIT[0], LAN, EXIT[1]], &[]);
    assert_eq!(change(&coordinator, "exit", &json!({ "approve_routes": [EXIT[0]] })).0, 200);
    wait_listed(&coordinator, "exit", &[EXIT[0], LAN, EXIT[1]], &EXIT);
    for node in [&mut client, &mut other] {
        node.hear_until(|node| routes_of(node, &exit) == prefixes(&EXIT));
    }
    exit.hear_until(|node| node.map.me.routes == prefixes(&EXIT));
    exit.hear_until(|node| lets_in(node, source, "203.0.113.7") && lets_in(node, source, "2001:db8::7"));
    for private in ["10.0.0.1", "192.168.10.7", "100.100.0.1", "fd00::1"] {
        assert!(!lets_in(&exit, source, private), "{private}");
    }
    // One member may use it, the other one may only reach the node.
    let all = r#"{"src": ["*"], "dst": ["tag:exit"], "ip": ["22"]}"#;
    let tag = DeviceChange { tags: Some(vec![String::from("tag:exit")]), ..DeviceChange::default() };
    coordinator.wait(coordinator.state.change_device(None, "exit", tag)).unwrap();
    let text = |rules: &str| {
        format!(r#"{{"tagOwners": {{"tag:exit": []}}, "hosts": {{"client": "{source}"}}, "grants": [{all}{rules}]}}"#)
    };
    apply(&coordinator, &text(r#", {"src": ["client"], "dst": ["autogroup:internet"], "ip": ["443"]}"#));
    other.hear_until(|node| node.map.peers.contains_key(&exit.id()) && routes_of(node, &exit).is_empty());
    assert_eq!(routes_of(&client, &exit), prefixes(&EXIT));
    exit.hear_until(|node| !lets_in(node, other.map.me.addresses[0], "203.0.113.7"));
    assert!(lets_in(&exit, source, "203.0.113.7"));
    // A whole map says the same as the changes.
    assert!(other.fresh_map(&coordinator).peers[&exit.id()].routes.is_empty());
    assert_eq!(client.fresh_map(&coordinator).peers[&exit.id()].routes, prefixes(&EXIT));
    // A change of the exit node itself tells the one nothing new, either.
    coordinator.wait(coordinator.state.rename_node(None, "exit", "gate")).unwrap();
    other.hear_until(|node| node.map.peers[&exit.id()].name == "gate");
    assert!(routes_of(&other, &exit).is_empty());
    client.hear_until(|node| node.map.peers[&exit.id()].name == "gate");
    assert_eq!(routes_of(&client, &exit), prefixes(&EXIT));
    // The policy is revoked: the node stays visible, the exit node does not.
    apply(&coordinator, &text(""));
    client.hear_until(|node| node.map.peers.contains_key(&exit.id()) && routes_of(node, &exit).is_empty());
    // The approval is taken back as one thing, too.
    assert_eq!(change(&coordinator, "gate", &json!({ "revoke_routes": [EXIT[1]] })).0, 200);
    wait_listed(&coordinator, "gate", &[EXIT[0], LAN, EXIT[1]], &[]);
    let (status, answer) = change(&coordinator, "gate", &json!({ "revoke_routes": [EXIT[1]] }));
    assert_eq!(status, 404);
    assert!(answer["error"]["message"].as_str().unwrap().contains("exit-node"), "{answer}");
}

#[test]
fn a_node_asks_about_addresses_behind_those_routers_alone_that_it_is_told_of() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [mut gate, mut exit, mut client, mut other] =
        ["gate", "exit", "client", "other"].map(|name| coordinator.join(name));
    for (router, name, routes) in [(&mut gate, "gate", &[LAN][..]), (&mut exit, "exit", &EXIT)] {
        advertise(router, routes);
        wait_listed(&coordinator, name, routes, &[]);
        assert_eq!(change(&coordinator, name, &json!({ "approve_routes": routes })).0, 200);
    }
    let [v4, v6] = client.map.me.addresses[..] else { panic!("two addresses") };
    // The other one reaches the exit node itself, and nothing behind it.
    apply(
        &coordinator,
        &format!(
            r#"{{"hosts": {{"client4": "{v4}", "client6": "{v6}", "exit": "{}"}},
 "grants": [
  {{"src": ["client4"], "dst": ["{LAN}"], "ip": ["tcp:443"]}},
  {{"src": ["client4", "client6"], "dst": ["autogroup:internet"], "ip": ["tcp:80"]}},
  {{"src": ["*"], "dst": ["exit"], "ip": ["tcp:22"]}}
 ]}}"#,
            exit.map.me.addresses[0]
        ),
    );
    client.hear_until(|node| node.map.peers.len() == 2 && routes_of(node, &exit) == prefixes(&EXIT));
    other.hear_until(|node| node.map.peers.len() == 1);
    let verdict = |node: &mut TestNode, address: &str, port| {
        let decision = decide(node, address, port);
        (decision.verdict, decision.rules.iter().map(|rule| rule.line).collect::<Vec<_>>())
    };
    assert_eq!(verdict(&mut client, "192.168.10.7", 443), (Verdict::Allowed, vec![3]));
    assert_eq!(verdict(&mut client, "192.168.10.7", 22), (Verdict::Denied, vec![3]));
    assert_eq!(verdict(&mut client, "203.0.113.9", 80), (Verdict::Allowed, vec![4]));
    assert_eq!(verdict(&mut client, "2001:db8::9", 80), (Verdict::Allowed, vec![4]));
    assert_eq!(verdict(&mut client, "203.0.113.9", 25), (Verdict::Denied, vec![4]));
    let unknown = (Verdict::NoSuchPeer, Vec::new());
    assert_eq!(verdict(&mut client, "192.168.11.7", 443), unknown, "nobody leads there");
    for address in ["192.168.10.7", "203.0.113.9", "2001:db8::9"] {
        assert_eq!(verdict(&mut other, address, 443), unknown, "{address}: a router that this node is not told of");
    }
}

#[test]
fn the_policy_approves_exit_nodes_by_a_list_of_their_own() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [mut exit, mut client] = ["exit", "client"].map(|name| coordinator.join(name));
    client.hear_until(|node| node.map.peers.len() == 1);
    apply(
        &coordinator,
        r#"{"tagOwners": {"tag:exit": [], "tag:router": []}, "autoApprovers": {"routes": {"0.0.0.0/0": ["tag:router"]}, "exitNode": ["tag:exit"]}, "grants": [{"src": ["*"], "dst": ["*"], "ip": ["*"]}]}"#,
    );
    advertise(&mut exit, &EXIT);
    wait_listed(&coordinator, "exit", &EXIT, &[]);
    let tag = DeviceChange { tags: Some(vec![String::from("tag:exit")]), ..DeviceChange::default() };
    coordinator.wait(coordinator.state.change_device(None, "exit", tag)).unwrap();
    client.hear_until(|node| routes_of(node, &exit) == prefixes(&EXIT));
}

//! Policies: applying them, and the filters and peers that nodes get.

use std::time::Duration;

use serde_json::{Value, json};
use taut_netmap::{Connection, Decision, ToCoordinator, ToNode, Verdict};
use taut_policy::Filter;

use super::world::{Directory, TestCoordinator, TestNode};
use crate::state::DeviceChange;

const POLICY: &str = "/api/v1/policy";

/// A policy in which all nodes with `tag:web` may reach port 443 of `tag:db`, and nothing else is allowed.
const WEB_TO_DB: &str = r#"{
    "tagOwners": {"tag:web": [], "tag:db": []},
    "acls": [{"action": "accept", "src": ["tag:web"], "dst": ["tag:db:443"]}],
    "tests": [{"src": "tag:web", "accept": ["tag:db:443"], "deny": ["tag:db:22"]}],
}"#;

fn apply(coordinator: &TestCoordinator, text: &str) -> (u16, Value) {
    let body = json!({ "text": text, "comment": "a test" }).to_string();
    coordinator.ask("POST", POLICY, Some(coordinator.operator_token()), Some(&body))
}

fn tag(coordinator: &TestCoordinator, node: &TestNode, tag: &str) {
    let change = DeviceChange { tags: Some(vec![String::from(tag)]), ..DeviceChange::default() };
    coordinator.wait(coordinator.state.change_device(None, &node.map.me.name, change)).unwrap();
}

fn filter(node: &TestNode) -> &Filter {
    node.map.filter.as_ref().expect("each map has a filter")
}

/// Returns true if the filter of `to` lets a packet from `from` open a connection to this port.
fn lets_in(to: &TestNode, from: &TestNode, port: u16) -> bool {
    let (src, dst) = (from.map.me.addresses[0], to.map.me.addresses[0]);
    filter(to).allows(&taut_policy::Packet { src, dst, proto: 6, port })
}

#[test]
fn a_new_network_has_one_visible_rule_that_lets_members_reach_members() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (one, two) = (coordinator.join("one"), coordinator.join("two"));
    assert!(lets_in(&two, &one, 22) && lets_in(&one, &two, 22));
    let (status, answer) = coordinator.ask("GET", POLICY, Some(coordinator.operator_token()), None);
    assert_eq!((status, &answer["policy"]["version"]), (200, &json!(1)));
    assert!(answer["text"].as_str().unwrap().contains("All members reach all members"), "{answer}");
    assert_eq!(answer["inventory"]["nodes"][1]["name"], "two");
}

#[test]
fn fault_g8_a_policy_separates_members_at_once_and_each_learns_only_its_own_part() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [mut web, mut db, mut other] = ["web", "db", "other"].map(|name| coordinator.join(name));
    tag(&coordinator, &web, "tag:web");
    tag(&coordinator, &db, "tag:db");
    for node in [&mut web, &mut db, &mut other] {
        node.hear_until(|node| node.map.peers.len() == 2);
    }
    let (status, answer) = apply(&coordinator, WEB_TO_DB);
    assert_eq!((status, &answer["policy"]["version"]), (201, &json!(2)), "{answer}");
    other.hear_until(|node| node.map.peers.is_empty());
    web.hear_until(|node| node.map.peers.len() == 1);
    db.hear_until(|node| node.map.peers.len() == 1);
    assert!(lets_in(&db, &web, 443) && !lets_in(&db, &web, 22) && !lets_in(&web, &db, 443));
    assert_eq!((filter(&web).rules.len(), filter(&other).rules.len()), (0, 0));
    let text = serde_json::to_string(filter(&db)).unwrap();
    assert!(!text.contains("tag:") && !text.contains(&other.map.me.addresses[0].to_string()), "{text}");

    // A node that takes on the tag is let in, by deltas: the others keep their maps.
    let wholes = (db.wholes, web.wholes);
    tag(&coordinator, &other, "tag:web");
    other.hear_until(|node| node.map.peers.len() == 1);
    db.hear_until(|node| node.map.peers.len() == 2 && node.map.filter.as_ref().unwrap().rules[0].src.len() >= 4);
    assert!(lets_in(&db, &other, 443));
    assert_eq!((db.wholes, web.wholes), wholes);
    // The node loses its access together with the tag.
    tag(&coordinator, &other, "tag:none");
    db.hear_until(|node| node.map.peers.len() == 1);
    assert!(!lets_in(&db, &other, 443));
}

#[test]
fn a_change_that_does_not_concern_a_filter_is_told_without_it() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [mut web, mut db] = ["web", "db"].map(|name| coordinator.join(name));
    tag(&coordinator, &web, "tag:web");
    tag(&coordinator, &db, "tag:db");
    assert_eq!(apply(&coordinator, WEB_TO_DB).0, 201);
    db.hear_until(|node| !lets_nobody(node));
    web.hear_until(|node| node.map.filter.as_ref().is_some_and(|filter| filter.rules.is_empty()));
    let before = (db.wholes, filter(&db).clone());
    coordinator.wait(coordinator.state.rename_node(None, "web", "www")).unwrap();
    db.hear_until(|node| node.map.peers[&web.id()].name == "www");
    assert_eq!((db.wholes, filter(&db).clone()), before);
}

fn lets_nobody(node: &TestNode) -> bool {
    node.map.filter.as_ref().is_none_or(|filter| filter.rules.iter().any(|rule| rule.dst[0].ports == [(0, 65_535)]))
}

#[test]
fn a_bad_policy_says_where_and_why_and_the_old_one_stays() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (one, two) = (coordinator.join("one"), coordinator.join("two"));
    let failing = WEB_TO_DB.replace("\"deny\": [\"tag:db:22\"]", "\"deny\": [\"tag:db:443\"]");
    let cases = [
        (r#"{"acls": [}"#, 400, "bad-policy", "line 1, column 11"),
        (r#"{"acls": [], "aclss": []}"#, 400, "bad-policy", "aclss"),
        (r#"{"groups": {}}"#, 400, "bad-policy", "acls"),
        (failing.as_str(), 409, "policy-refused", "line 4"),
    ];
    for (text, status, code, word) in cases {
        let (answered, answer) = apply(&coordinator, text);
        assert_eq!((answered, answer["error"]["code"].as_str().unwrap()), (status, code), "{text}: {answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(word), "{text}: {answer}");
    }
    let (_, answer) = coordinator.ask("GET", POLICY, Some(coordinator.operator_token()), None);
    assert_eq!(answer["policy"]["version"], 1);
    assert!(lets_in(&two, &one, 22));
}

#[test]
fn versions_are_kept_with_their_authors_and_a_stale_change_is_refused() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (token, open) =
        (coordinator.operator_token(), r#"{"acls": [{"action": "accept", "src": ["*"], "dst": ["*:*"]}]}"#);
    assert_eq!(apply(&coordinator, WEB_TO_DB).0, 201);
    let body = json!({ "text": open, "based_on": 1 }).to_string();
    let (status, answer) = coordinator.ask("POST", POLICY, Some(token), Some(&body));
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("policy-refused")), "{answer}");
    let body = json!({ "text": open, "based_on": 2 }).to_string();
    assert_eq!(coordinator.ask("POST", POLICY, Some(token), Some(&body)).0, 201);
    let (_, answer) = coordinator.ask("GET", "/api/v1/policy/versions", Some(token), None);
    let seen: Vec<_> = answer["versions"].as_array().unwrap().iter().map(|one| one["version"].clone()).collect();
    assert_eq!(seen, [json!(3), json!(2), json!(1)]);
    assert_eq!(answer["versions"][1]["comment"], "a test");
    assert!(answer["versions"][1]["author"].as_str().unwrap().starts_with("operator token"), "{answer}");
    let (_, answer) = coordinator.ask("GET", "/api/v1/policy/versions/2", Some(token), None);
    assert_eq!(answer["text"], WEB_TO_DB);
    let (status, answer) = coordinator.ask("GET", "/api/v1/policy/versions/9", Some(token), None);
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("no-such-policy")));
}

#[test]
fn nodes_that_are_too_old_are_named_and_need_force() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let old = coordinator.join("old");
    coordinator.state.set_program(old.id(), "0.1.0");
    let (status, answer) = apply(&coordinator, WEB_TO_DB);
    assert_eq!(status, 409, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("old"), "{answer}");
    let body = json!({ "text": WEB_TO_DB, "force": true }).to_string();
    let (status, answer) = coordinator.ask("POST", POLICY, Some(coordinator.operator_token()), Some(&body));
    assert_eq!((status, &answer["too_old"]), (201, &json!(["old"])), "{answer}");
}

#[test]
fn a_coordinator_that_starts_again_tells_each_node_what_it_missed() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [web, db] = ["web", "db"].map(|name| coordinator.join(name));
    tag(&coordinator, &web, "tag:web");
    tag(&coordinator, &db, "tag:db");
    let (host, known) = (db.host.clone(), db.map.clone());
    drop(db);
    assert_eq!(apply(&coordinator, WEB_TO_DB).0, 201);
    let token = coordinator.token();
    drop(coordinator);
    let coordinator = TestCoordinator::start(&directory);
    let db = host.resume(&coordinator, &token, Some(known)).unwrap();
    assert!(lets_in(&db, &web, 443) && !lets_in(&db, &web, 22));
}

/// Asks the coordinator about a connection of a node.
pub(super) fn decide(node: &mut TestNode, peer: &str, port: u16) -> Decision {
    node.channel.send(&ToCoordinator::Explain(Connection { peer: String::from(peer), protocol: 6, port }));
    loop {
        match node.channel.receive().expect("an answer") {
            ToNode::Decision(decision) => return decision,
            other => node.handle(other),
        }
    }
}

#[test]
fn a_node_asks_which_rule_decides_and_learns_nothing_of_hidden_nodes() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [mut web, mut db, mut other] = ["web", "db", "other"].map(|name| coordinator.join(name));
    let first = decide(&mut web, "DB", 22);
    assert_eq!(
        (first.verdict, first.policy, first.rules.len()),
        (Verdict::Allowed, 1, 1),
        "everybody reaches everybody"
    );
    tag(&coordinator, &web, "tag:web");
    tag(&coordinator, &db, "tag:db");
    assert_eq!(apply(&coordinator, WEB_TO_DB).0, 201);
    web.hear_until(|node| node.map.peers.len() == 1);
    let allowed = decide(&mut web, "db", 443);
    assert_eq!((allowed.verdict, allowed.policy, allowed.rules[0].line), (Verdict::Allowed, 2, 3));
    let denied = decide(&mut web, &db.map.me.addresses[1].to_string(), 22);
    assert_eq!((denied.verdict, denied.rules.len(), &*denied.rules[0].section), (Verdict::Denied, 1, "acls"));
    let reverse = decide(&mut db, "web", 443);
    assert_eq!((reverse.verdict, reverse.rules.len()), (Verdict::Denied, 0), "the rule has one direction");
    // A hidden node, one that does not exist, the node itself, and a name that is too long.
    for peer in ["db", "nobody", "other", &"x".repeat(1000)] {
        let decision = decide(&mut other, peer, 443);
        assert_eq!((decision.verdict, decision.rules.len()), (Verdict::NoSuchPeer, 0), "{peer}");
    }
}

/// Returns a policy that opens one port of `tag:db` to `tag:web`.
fn only(port: u16) -> String {
    WEB_TO_DB.replace("deny\": [\"tag:db:22\"]", "deny\": [\"tag:db:1\"]").replace("443", &port.to_string())
}

/// Returns the ports that a map's filter opens to the other node; a filter that is wider than both the old and the new policy has two.
fn open_ports(map: &taut_netmap::NetworkMap, from: &TestNode) -> Vec<u16> {
    let (src, dst) = (from.map.me.addresses[0], map.me.addresses[0]);
    let opens =
        |port: &u16| map.filter.as_ref().unwrap().allows(&taut_policy::Packet { src, dst, proto: 6, port: *port });
    [22, 443].into_iter().filter(opens).collect()
}

#[test]
fn fault_g14_changes_that_are_lost_doubled_or_out_of_order_end_at_the_newest_and_are_never_wider() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [web, mut db] = ["web", "db"].map(|name| coordinator.join(name));
    tag(&coordinator, &web, "tag:web");
    tag(&coordinator, &db, "tag:db");
    assert_eq!(apply(&coordinator, &only(22)).0, 201);
    db.hear_until(|node| open_ports(&node.map, &web) == [22]);
    let (mut maps, mut deltas) = (vec![db.map.clone()], Vec::new());
    for round in 0..24_u32 {
        let port = if round % 2 == 0 { 443 } else { 22 };
        assert_eq!(apply(&coordinator, &only(port)).0, 201);
        match round % 3 {
            // The node hears of it, whatever came before.
            0 => loop {
                match db.channel.receive().expect("an open channel") {
                    ToNode::Delta(delta) => {
                        db.map = db.map.apply(&delta).unwrap();
                        deltas.push(delta);
                    }
                    ToNode::Map(map) => db.map = map,
                    _ => {}
                }
                let open = open_ports(&db.map, &web);
                assert_eq!(open.len(), 1, "wider than the old and the new policy, or narrower than both: {open:?}");
                if open == [port] {
                    break;
                }
            },
            // It is not told, and comes back with its map, or with one that it had long before.
            1 => db = db.host.resume(&coordinator, &coordinator.token(), Some(db.map.clone())).unwrap(),
            _ => {
                let old = maps[round as usize % maps.len()].clone();
                db = db.host.resume(&coordinator, &coordinator.token(), Some(old)).unwrap();
            }
        }
        assert_eq!(open_ports(&db.map, &web).len(), 1);
        // A change that comes again, or too late, changes nothing.
        for delta in deltas.iter().filter(|delta| delta.from != db.map.version) {
            assert!(db.map.apply(delta).is_err());
        }
        maps.push(db.map.clone());
    }
    db.hear_until(|node| open_ports(&node.map, &web) == [22]);
    assert_eq!(db.map.filter, db.fresh_map(&coordinator).filter);
}

#[test]
fn fault_g8_a_map_that_this_coordinator_did_not_make_is_replaced_as_a_whole() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [web, db, other] = ["web", "db", "other"].map(|name| coordinator.join(name));
    tag(&coordinator, &web, "tag:web");
    tag(&coordinator, &db, "tag:db");
    assert_eq!(apply(&coordinator, WEB_TO_DB).0, 201);
    drop(coordinator);
    // Without channels, this coordinator reads the rows only when it is asked.
    let coordinator = TestCoordinator::start(&directory);
    let version = || coordinator.wait(coordinator.state.networks()).unwrap()[0].row.version;
    let update = |have| coordinator.update_for(db.network, db.id(), have);
    let first = version();
    assert!(matches!(update(first), ToNode::Delta(_)));
    // Another coordinator may make a map of the version in which the filter is wider.
    tag(&coordinator, &other, "tag:web");
    let wider = version();
    tag(&coordinator, &other, "tag:none");
    let ToNode::Map(map) = update(wider) else { panic!("the filter of this version is not known") };
    let src = other.map.me.addresses[0];
    let packet = taut_policy::Packet { src, dst: map.me.addresses[0], proto: 6, port: 443 };
    assert!(!map.filter.unwrap().allows(&packet));
    assert!(matches!(update(first), ToNode::Delta(delta) if delta.filter.is_none()));
    assert!(matches!(update(version()), ToNode::Delta(_)));
}

#[test]
fn fault_g8_a_node_whose_filter_is_too_large_accepts_nothing() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [web, db] = ["web", "db"].map(|name| coordinator.join(name));
    tag(&coordinator, &web, "tag:web");
    tag(&coordinator, &db, "tag:db");
    // The policy became too large after it was applied.
    let rule = |number: u32| {
        let ports = (0..20_000_u32).filter(|place| *place != number).map(|place| (place * 3 + 1).to_string());
        let dst = format!("tag:db:{}", ports.collect::<Vec<_>>().join(","));
        json!({ "action": "accept", "src": [format!("100.64.1.{number}")], "dst": [dst] })
    };
    let rules: Vec<Value> =
        (0..6).map(rule).chain([json!({ "action": "accept", "src": ["tag:db"], "dst": ["tag:web:22"] })]).collect();
    let text = json!({ "tagOwners": { "tag:web": [], "tag:db": [] }, "acls": rules });
    let change = format!("UPDATE policies SET text = '{text}'").leak();
    coordinator.wait(coordinator.state.store().edit(change));
    coordinator.state.forget_views();
    assert_eq!(db.fresh_map(&coordinator).filter, Some(Filter::default()));
    assert_eq!(web.fresh_map(&coordinator).filter.unwrap().rules.len(), 1, "other nodes are not affected");
}

#[test]
fn fault_o9_nodes_keep_their_channels_while_the_stored_policy_cannot_be_read() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let (mut one, mut two) = (coordinator.join("one"), coordinator.join("two"));
    one.hear_until(|node| node.map.peers.len() == 1);
    assert_eq!(apply(&coordinator, WEB_TO_DB).0, 201);
    one.hear_until(|node| node.map.peers.is_empty());
    two.hear_until(|node| node.map.peers.is_empty());
    let edit = |text: &'static str| coordinator.wait(coordinator.state.store().edit(text));
    edit("UPDATE policies SET text = 'none' || text");
    coordinator.state.forget_views();
    tag(&coordinator, &two, "tag:db");
    tag(&coordinator, &one, "tag:web");
    // Both sessions try to read the network meanwhile.
    std::thread::sleep(Duration::from_millis(500));
    for node in [&mut one, &mut two] {
        node.channel.send(&ToCoordinator::Ping);
        assert_eq!(node.channel.receive(), Some(ToNode::Pong));
    }
    edit("UPDATE policies SET text = substr(text, 5)");
    one.hear_until(|node| node.map.peers.len() == 1);
}

#[test]
fn a_second_policy_is_not_tried_while_the_first_one_is() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let turn = coordinator.state.hub(coordinator.network()).try_policy().expect("nobody else tries");
    let (status, answer) = apply(&coordinator, WEB_TO_DB);
    assert_eq!((status, &answer["error"]["code"]), (429, &json!("busy")), "{answer}");
    drop(turn);
    assert_eq!(apply(&coordinator, WEB_TO_DB).0, 201);
}

#[test]
fn fault_e4_under_an_open_policy_too_only_nodes_that_take_part_learn_of_each_other() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let [mut one, mut two] = ["one", "two"].map(|name| coordinator.join(name));
    one.hear_until(|node| node.map.peers.len() == 1);
    let disable = DeviceChange { disabled: Some(true), ..DeviceChange::default() };
    coordinator.wait(coordinator.state.change_device(None, "two", disable)).unwrap();
    one.hear_until(|node| node.map.peers.is_empty());
    two.hear_until(|node| node.waiting.is_some());
    assert_eq!(decide(&mut one, "two", 22).verdict, Verdict::NoSuchPeer);
    two.channel.send(&ToCoordinator::Explain(Connection { peer: String::from("one"), protocol: 6, port: 22 }));
    two.channel.send(&ToCoordinator::Ping);
    loop {
        match two.channel.receive().expect("an answer") {
            ToNode::Pong => break,
            ToNode::Decision(decision) => panic!("{decision:?}"),
            _ => {}
        }
    }
}

//! Names that an operator chooses: what the API takes, and what nodes learn of it.

use serde_json::{Value, json};
use taut_netmap::Naming;

use super::world::{Directory, TestCoordinator};

const NAMES: &str = "/api/v1/names";

fn change(coordinator: &TestCoordinator, body: &Value) -> (u16, Value) {
    coordinator.ask("PATCH", NAMES, Some(coordinator.operator_token()), Some(&body.to_string()))
}

fn record(name: &str, addresses: &[&str]) -> Value {
    json!({ "set_records": [{ "name": name, "addresses": addresses }] })
}

fn domain(domain: &str, servers: &[&str]) -> Value {
    json!({ "set_domains": [{ "domain": domain, "servers": servers }] })
}

#[test]
fn names_reach_running_nodes_and_those_that_come_back() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut node = coordinator.join("a");
    assert_eq!(node.map.network.naming, Naming::default());
    assert_eq!(change(&coordinator, &record("printer", &["10.1.0.7", "fd01::7"])).0, 200);
    let (status, answer) = change(&coordinator, &domain("Corp.Example.", &["10.1.0.53"]));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["domains"], json!([{ "domain": "corp.example", "servers": ["10.1.0.53"] }]));
    assert_eq!(answer["domain"], "default.taut.internal");
    node.hear_until(|node| node.map.network.naming.domains.len() == 1);
    assert_eq!(node.map.network.naming.records[0].name, "printer");
    // A name below the network's own domain is stored as one label, so it follows another base domain.
    let (_, answer) = change(&coordinator, &record("nas.default.taut.internal", &["10.1.0.8"]));
    assert_eq!(answer["records"][0]["name"], "nas");
    let (_, answer) = change(&coordinator, &json!({ "base_domain": "corp.example" }));
    assert_eq!(answer["domain"], "default.corp.example");
    node.hear_until(|node| node.map.network.zone(&[]) == "default.corp.example");
    // A delta for another reason says nothing of them; a whole map does.
    let known = node.map.network.naming.clone();
    let other = coordinator.join("b");
    node.hear_until(|node| node.map.peers.len() == 1);
    assert_eq!((&node.map.network.naming, &other.map.network.naming), (&known, &known));
    let (_, answer) = change(
        &coordinator,
        &json!({ "base_domain": null, "remove_records": ["nas"], "remove_domains": ["corp.example"] }),
    );
    assert_eq!((answer["records"].as_array().unwrap().len(), &answer["base_domain"]), (1, &Value::Null));
    node.hear_until(|node| node.map.network.naming.domains.is_empty() && node.map.network.naming.base_domain.is_none());
    let audit = coordinator.ask("GET", "/api/v1/audit", Some(coordinator.operator_token()), None).1;
    let entries = audit["entries"].as_array().unwrap();
    assert_eq!(entries.iter().filter(|entry| entry["action"] == "names-changed").count(), 5, "{audit}");
}

#[test]
fn what_no_node_would_use_is_refused_and_what_needs_consent_is_named() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let _node = coordinator.join("nas");
    let many: Vec<Value> = (0..300).map(|n| json!({ "name": format!("n{n}"), "addresses": ["10.1.0.1"] })).collect();
    for (body, status, code) in [
        (record("a b", &["10.1.0.1"]), 400, "bad-domain"),
        (record("x..example", &["10.1.0.1"]), 400, "bad-domain"),
        (record("printer", &[]), 400, "bad-domain"),
        (record("printer", &["127.0.0.1"]), 400, "bad-domain"),
        (record("printer", &["10.1.0.1", "169.254.169.254"]), 400, "bad-domain"),
        (record("printer", &["x"]), 400, "bad-request"),
        (record("nas", &["10.1.0.1"]), 409, "name-taken"),
        (domain(".", &["10.1.0.53"]), 400, "bad-domain"),
        (domain("corp.example", &["10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4"]), 400, "bad-domain"),
        (json!({ "base_domain": "a b" }), 400, "bad-domain"),
        (json!({ "remove_records": ["none"] }), 404, "no-such-name"),
        (json!({ "remove_domains": ["none.example"] }), 404, "no-such-name"),
        (json!({ "set_records": many }), 409, "full"),
    ] {
        let (got, answer) = change(&coordinator, &body);
        assert_eq!((got, &answer["error"]["code"]), (status, &json!(code)), "{body} {answer}");
    }
    let (status, answer) = change(&coordinator, &domain("co.uk", &["10.1.0.53"]));
    assert_eq!((status, &answer["need_consent"][0]["domain"]), (200, &json!("co.uk")), "{answer}");
    assert!(answer["need_consent"][0]["reason"].as_str().unwrap().contains("public suffix"));
}

#[test]
fn a_change_of_another_version_is_refused() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let names = |change| coordinator.wait(coordinator.state.change_names(None, change, None)).unwrap();
    let change = |name: &str| crate::state::NamesChange {
        set_records: vec![taut_netmap::NameRecord {
            name: String::from(name),
            addresses: vec!["10.1.0.1".parse().unwrap()],
        }],
        ..crate::state::NamesChange::default()
    };
    let version = names(change("a")).network.names_version;
    let based = |version| coordinator.wait(coordinator.state.change_names(None, change("b"), Some(version)));
    assert!(based(version - 1).is_err());
    assert!(based(version).is_ok() && based(version).is_err(), "it was changed by the first one");
}

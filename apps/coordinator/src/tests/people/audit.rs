//! The audit log.

use serde_json::{Value, json};
use taut_base::parse_time;

use super::super::world::{Directory, TestCoordinator};
use super::client::{Client, person};
use crate::clock::unix_now;
use crate::state::new_operator_token;

const RELAY: &str = "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=";

fn entries(client: &Client<'_>) -> Vec<Value> {
    client.done("GET", "/api/v1/audit?limit=500", &Value::Null)["entries"].as_array().unwrap().clone()
}

#[test]
fn every_change_is_recorded_with_who_when_from_where_before_and_after() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "ann", None, Some("owner"));
    let ann = Client::of(&coordinator, "ann");
    let begin = entries(&ann).len();
    let node = coordinator.join("old").id().0;
    ann.done("PATCH", &format!("/api/v1/nodes/{node}"), &json!({ "name": "new" }));
    ann.done("DELETE", "/api/v1/nodes/new", &Value::Null);
    ann.done("POST", "/api/v1/networks", &json!({ "name": "lab" }));
    ann.done("PATCH", "/api/v1/networks/lab", &json!({ "approval": true }));
    ann.done("PATCH", "/api/v1/networks/lab", &json!({ "approval": true }));
    let key = ann.done("POST", "/api/v1/keys", &json!({ "network": "lab" }))["key"]["id"].clone();
    ann.done("DELETE", &format!("/api/v1/keys/{key}"), &Value::Null);
    let relay = json!({ "network": "lab", "name": "far", "key": RELAY, "endpoints": ["203.0.113.7:3478"] });
    ann.done("POST", "/api/v1/relays", &relay);
    ann.done("DELETE", "/api/v1/relays/far", &Value::Null);
    coordinator.wait(new_operator_token(&directory.database())).unwrap();
    ann.done("DELETE", "/api/v1/operator-tokens/2", &Value::Null);
    let token = ann.done("POST", "/api/v1/tokens", &json!({ "name": "t", "scopes": "read" }))["token"]["id"].clone();
    ann.done("DELETE", &format!("/api/v1/tokens/{token}"), &Value::Null);
    ann.done("POST", "/api/v1/users", &json!({ "name": "bob" }));
    ann.done("PATCH", "/api/v1/users/bob", &json!({ "display_name": "Bob" }));
    ann.done("POST", "/api/v1/users/bob/role", &json!({ "role": "admin" }));
    ann.done("DELETE", "/api/v1/users/bob", &Value::Null);
    ann.done("DELETE", "/api/v1/networks/lab", &Value::Null);
    let entries = &entries(&ann)[begin..];
    let actions: Vec<&str> = entries.iter().map(|entry| entry["action"].as_str().unwrap()).collect();
    let expected = [
        "node-renamed",
        "node-removed",
        "network-created",
        "network-changed",
        "key-created",
        "key-revoked",
        "relay-added",
        "relay-removed",
        "operator-token-created",
        "operator-token-revoked",
        "token-created",
        "token-revoked",
        "user-created",
        "user-changed",
        "role-changed",
        "user-removed",
        "network-removed",
    ];
    assert_eq!(actions, expected);
    for entry in entries {
        let is_command = entry["action"] == "operator-token-created";
        let actor = json!({ "kind": "person", "id": 1, "name": "ann" });
        assert_eq!(
            entry["actor"],
            if is_command { json!({ "kind": "command", "id": null, "name": "" }) } else { actor }
        );
        let source = ann.source.borrow().clone();
        assert_eq!(entry["source"], json!(if is_command { String::new() } else { source }), "{entry}");
        assert_eq!(entry["request_id"].as_str().unwrap().is_empty(), is_command, "{entry}");
        let time = parse_time(entry["time"].as_str().unwrap()).unwrap().as_secs();
        assert!(unix_now().unsigned_abs().abs_diff(time) < 3_600 && entry["time"].as_str().unwrap().ends_with('Z'));
    }
    assert_eq!((&entries[0]["before"], &entries[0]["after"]), (&json!({ "name": "old" }), &json!({ "name": "new" })));
    assert_eq!((&entries[0]["object"], &entries[0]["network"]), (&json!(format!("node {node}")), &json!("default")));
    let change = (&entries[3]["before"], &entries[3]["after"]);
    assert_eq!(change, (&json!({ "approval": false }), &json!({ "approval": true })));
    assert_eq!(entries[14]["after"]["role"], json!(null), "erased with the person");
    let token = Client::with_token(&coordinator, coordinator.operator_token());
    token.done("POST", "/api/v1/keys", &json!({}));
    let last = self::entries(&ann).pop().unwrap();
    assert_eq!(last["actor"], json!({ "kind": "operator-token", "id": 1, "name": "" }));
}

#[test]
fn a_change_that_is_refused_leaves_no_entry() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    for name in ["one", "two"] {
        coordinator.join(name);
    }
    let begin = entries(&operator);
    for (method, path, body) in [
        ("PATCH", "nodes/one", json!({ "name": "two" })),
        ("POST", "networks", json!({ "name": "default" })),
        ("DELETE", "networks/default", Value::Null),
        ("DELETE", "operator-tokens/1", Value::Null),
        ("DELETE", "nodes/three", Value::Null),
        ("POST", "keys", json!({ "expires_in": -1 })),
    ] {
        assert!(operator.send(method, &format!("/api/v1/{path}"), &body).status >= 400, "{path}");
    }
    assert_eq!(entries(&operator), begin);
}

#[test]
fn an_entry_that_cannot_be_stored_takes_its_change_back() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    let before = operator.done("GET", "/api/v1/keys", &Value::Null);
    // The table of entries is gone, as with a disk that fails between the two.
    coordinator.wait(coordinator.state.store().edit("ALTER TABLE audit RENAME TO elsewhere"));
    assert_eq!(operator.send("POST", "/api/v1/keys", &json!({})).status, 503);
    coordinator.wait(coordinator.state.store().edit("ALTER TABLE elsewhere RENAME TO audit"));
    assert_eq!(operator.done("GET", "/api/v1/keys", &Value::Null), before);
}

#[test]
fn fault_e13_failed_attempts_are_one_entry_per_source_and_minute() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "ann", None, None);
    let operator = Client::operator(&coordinator);
    let (one, two) = (Client::new(&coordinator), Client::new(&coordinator));
    let body = |name: &str| json!({ "name": name, "password": "a secret that was typed" });
    for _ in 0..5 {
        one.send("POST", "/api/v1/sign-in", &body("ann"));
    }
    two.send("POST", "/api/v1/sign-in", &body("my password in the wrong field"));
    let begin = entries(&operator).len();
    coordinator.wait(coordinator.state.write_failed_sign_ins());
    coordinator.wait(coordinator.state.write_failed_sign_ins());
    let entries = &entries(&operator)[begin..];
    let facts: Vec<_> = entries.iter().map(|entry| (entry["source"].clone(), entry["after"].clone())).collect();
    let of = |client: &Client<'_>| json!(*client.source.borrow());
    let expected = [(of(&one), json!({ "count": 5, "users": [1] })), (of(&two), json!({ "count": 1, "users": [] }))];
    assert_eq!(facts, expected);
    assert!(entries.iter().all(|entry| entry["actor"]["kind"] == "nobody" && entry["action"] == "sign-ins-failed"));
}

#[test]
fn old_entries_are_forgotten_after_the_retention_time() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    operator.done("POST", "/api/v1/keys", &json!({}));
    Client::new(&coordinator).send("POST", "/api/v1/sign-in", &json!({ "name": "x", "password": "y" }));
    coordinator.wait(coordinator.state.write_failed_sign_ins());
    let (all, day) = (entries(&operator).len(), 24 * 3600);
    let forget = |days: i64| coordinator.wait(coordinator.state.forget_people_marks(unix_now() + days * day)).unwrap();
    forget(29);
    assert_eq!(entries(&operator).len(), all);
    forget(31);
    let kept = entries(&operator);
    assert!(kept.len() == all - 1 && kept.iter().all(|entry| entry["actor"]["kind"] != "nobody"), "{kept:?}");
    forget(364);
    assert_eq!(entries(&operator).len(), all - 1);
    forget(366);
    assert_eq!(entries(&operator).len(), 0);
}

#[test]
fn entries_come_in_pages_and_by_time() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    for _ in 0..5 {
        operator.done("POST", "/api/v1/keys", &json!({}));
    }
    let (mut seen, mut after) = (Vec::new(), json!(0));
    while !after.is_null() {
        let page = operator.done("GET", &format!("/api/v1/audit?limit=2&after={after}"), &Value::Null);
        seen.extend(page["entries"].as_array().unwrap().clone());
        after = page["next"].clone();
    }
    assert_eq!(seen, entries(&operator));
    coordinator.wait(coordinator.state.store().edit("UPDATE audit SET at = 1000 WHERE id = 2"));
    let old = operator.done("GET", "/api/v1/audit?since=1000&until=1001", &Value::Null);
    assert_eq!(old["entries"].as_array().unwrap().len(), 1);
}

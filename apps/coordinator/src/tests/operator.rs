//! The operator's API.

use serde_json::{Value, json};

use super::world::{Coordinator, Directory, Host};
use crate::state::Secret;

/// Every route, and what a good request to it needs.
const ROUTES: [(&str, &str, Option<&str>, u16); 11] = [
    ("GET", "/api/v1/networks", None, 200),
    ("POST", "/api/v1/networks", Some(r#"{"name":"lab"}"#), 201),
    ("GET", "/api/v1/networks/lab", None, 200),
    ("GET", "/api/v1/keys", None, 200),
    ("POST", "/api/v1/keys", Some(r#"{"network":"lab"}"#), 201),
    ("DELETE", "/api/v1/keys/2", None, 200),
    ("GET", "/api/v1/nodes", None, 200),
    ("PATCH", "/api/v1/nodes/old?network=default", Some(r#"{"name":"new"}"#), 200),
    ("DELETE", "/api/v1/nodes/new?network=default", None, 200),
    ("GET", "/api/v1/nothing", None, 404),
    ("PUT", "/api/v1/keys", None, 405),
];

#[test]
fn fault_e2_every_route_needs_the_token() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    coordinator.join("old");
    let good = coordinator.operator_token().to_owned();
    let join_token = coordinator.first.as_ref().unwrap().join_token.clone();
    let foreign = Secret::new().expose_operator_token();
    let cut = &good[..good.len() - 1];
    for (method, path, body, status) in ROUTES {
        for wrong in [None, Some(""), Some("tautop-"), Some(cut), Some(foreign.as_str()), Some(join_token.as_str())] {
            let (status, answer) = coordinator.ask(method, path, wrong, body);
            assert_eq!((status, &answer["error"]["code"]), (401, &json!("unauthorized")), "{method} {path} {wrong:?}");
        }
        let (answered, answer) = coordinator.ask(method, path, Some(&good), body);
        assert_eq!((answered, &answer["schema"]), (status, &json!(1)), "{method} {path} {answer}");
    }
    assert_eq!(
        coordinator.ask("GET", "/healthz", None, None),
        (200, json!({ "schema": 1, "status": "ok", "warnings": [] }))
    );
    assert_eq!(coordinator.ask("GET", "/", None, None).0, 404);
}

#[test]
fn bad_requests_say_what_why_and_what_to_do() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    coordinator.join("a");
    coordinator.join("b");
    let deep = "[".repeat(10_000);
    let large = format!(r#"{{"name":"{}"}}"#, "x".repeat(70_000));
    let cases: [(&str, &str, &str, u16, &str); 17] = [
        ("POST", "networks", "", 400, "bad-request"),
        ("POST", "networks", "{}", 400, "bad-request"),
        ("POST", "networks", &deep, 400, "bad-request"),
        ("POST", "networks", r#"{"name":"A"}"#, 400, "bad-name"),
        ("POST", "networks", r#"{"name":"default"}"#, 409, "network-exists"),
        ("POST", "networks", r#"{"name":"x","ipv4_prefix":"8.8.8.0/24"}"#, 400, "bad-prefix"),
        ("POST", "networks", r#"{"name":"x","ipv4_prefix":"x"}"#, 400, "bad-request"),
        ("GET", "networks/none", "", 404, "no-such-network"),
        ("POST", "keys", r#"{"expires_in":0}"#, 400, "bad-expiry"),
        ("POST", "keys", r#"{"network":"none"}"#, 404, "no-such-network"),
        ("DELETE", "keys/99", "", 404, "no-such-key"),
        ("DELETE", "keys/x", "", 400, "bad-request"),
        ("DELETE", "nodes/none", "", 404, "no-such-node"),
        ("DELETE", "nodes/99999999999999999999", "", 404, "no-such-node"),
        ("PATCH", "nodes/a", r#"{"name":"b"}"#, 409, "name-taken"),
        ("PATCH", "nodes/a", r#"{"name":"7"}"#, 400, "bad-name"),
        ("PATCH", "nodes/a", r#"{"name":"a.b"}"#, 400, "bad-name"),
    ];
    let token = coordinator.operator_token();
    for (method, path, body, status, code) in cases {
        let (answered, answer) = coordinator.ask(method, &format!("/api/v1/{path}"), Some(token), Some(body));
        assert_eq!((answered, &answer["error"]["code"]), (status, &json!(code)), "{method} {path} {answer}");
        assert!(answer["error"]["message"].is_string() && answer["error"]["hint"].is_string());
    }
    let unreadable = [
        ("POST", "networks", large.as_str(), 413),
        ("GET", "nodes?network=a&network=b", "", 400),
        ("DELETE", "nodes/%ff", "", 400),
    ];
    for (method, path, body, status) in unreadable {
        let (answered, answer) = coordinator.ask(method, &format!("/api/v1/{path}"), Some(token), Some(body));
        assert_eq!((answered, &answer["schema"]), (status, &json!(1)), "{method} {path} {answer}");
    }
    let unknown = r#"{"name":"c","id":1,"role":"admin","addresses":["10.0.0.1"]}"#;
    let (status, answer) = coordinator.ask("PATCH", "/api/v1/nodes/a", Some(token), Some(unknown));
    assert_eq!((status, &answer["node"]["addresses"][0]), (200, &json!("100.64.0.1")), "fault E3");
}

#[test]
fn keys_are_made_listed_and_ended() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let token = coordinator.operator_token();
    let make = |body: &str| coordinator.ask("POST", "/api/v1/keys", Some(token), Some(body)).1;
    let one_off = make(r#"{"one_off":true,"expires_in":3600}"#);
    assert_eq!(make(r#"{"expires_in":null}"#)["key"]["expires_at"], Value::Null);
    assert!(make("{}")["key"]["expires_at"].is_i64(), "90 days unless told otherwise");
    let join = one_off["join_token"].as_str().unwrap().parse().unwrap();
    Host::new().join(&coordinator, &join, "n").unwrap();
    assert_eq!(coordinator.ask("DELETE", "/api/v1/keys/3", Some(token), None).0, 200);
    let (_, answer) = coordinator.ask("GET", "/api/v1/keys", Some(token), None);
    let states: Vec<&str> =
        answer["keys"].as_array().unwrap().iter().map(|key| key["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["valid", "used", "revoked", "valid"]);
}

#[test]
fn fault_e4_no_answer_holds_a_secret() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let token = coordinator.operator_token();
    coordinator.join("n");
    let secret = taut_base::encode_base64url(&coordinator.token().secret);
    for path in ["networks", "keys", "nodes", "networks/default"] {
        let (_, answer) = coordinator.ask("GET", &format!("/api/v1/{path}"), Some(token), None);
        let text = answer.to_string();
        assert!(!text.contains(&secret) && !text.contains("tautop-") && !text.contains("hash"), "{path}");
    }
    let files: Vec<u8> = ["coordinator.db", "coordinator.db-wal"]
        .iter()
        .flat_map(|file| std::fs::read(directory.0.join(file)).unwrap_or_default())
        .collect();
    let raw = coordinator.token().secret;
    assert!(!files.windows(32).any(|window| window == raw), "only the hash is stored");
    assert!(files.windows(32).any(|window| window == taut_noise::hash(&[&raw])), "the search itself works");
}

#[test]
fn nodes_are_found_by_name_and_by_number() {
    let directory = Directory::new();
    let coordinator = Coordinator::start(&directory);
    let token = coordinator.operator_token();
    let node = coordinator.join("a");
    coordinator.wait(coordinator.state.create_network("lab", "10.0.0.0/24".parse().unwrap())).unwrap();
    let by_number = format!("/api/v1/nodes/{}", node.id());
    let (status, answer) = coordinator.ask("PATCH", &by_number, Some(token), Some(r#"{"name":"b"}"#));
    assert_eq!((status, &answer["node"]["name"]), (200, &json!("b")));
    assert_eq!(coordinator.ask("DELETE", &format!("{by_number}?network=lab"), Some(token), None).0, 404);
    let (status, answer) = coordinator.ask("DELETE", "/api/v1/nodes/b", Some(token), None);
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("which-network")));
    assert_eq!(coordinator.ask("DELETE", "/api/v1/nodes/b?network=default", Some(token), None).0, 200);
}

//! Commands that open the database themselves.

use serde_json::{Value, json};

use super::super::world::{Directory, TestCoordinator};
use super::client::{Client, person};
use crate::state::new_api_token;

#[test]
fn an_api_token_of_the_operator_has_its_scopes() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let database = directory.database();
    let token = coordinator.wait(new_api_token(&database, "ci", "keys:write nodes:read", Some(60))).unwrap();
    let client = Client::with_token(&coordinator, &token);
    assert_eq!(client.send("POST", "/api/v1/keys", &json!({})).status, 201);
    assert_eq!(client.send("GET", "/api/v1/nodes", &Value::Null).status, 200);
    assert_eq!(client.send("DELETE", "/api/v1/nodes/1", &Value::Null).code(), "forbidden");
    let listed = Client::operator(&coordinator).done("GET", "/api/v1/tokens", &Value::Null);
    assert_eq!((&listed["tokens"][0]["name"], &listed["tokens"][0]["user"]), (&json!("ci"), &Value::Null));
    for (name, scopes, life) in [
        ("", "all", None),
        ("x", "", None),
        ("x", "everything", None),
        ("x", "all", Some(0)),
        ("x", "all", Some(i64::MAX)),
    ] {
        assert!(coordinator.wait(new_api_token(&database, name, scopes, life)).is_err(), "{name} {scopes} {life:?}");
    }
}

#[test]
fn fault_e2_a_token_sees_only_its_own_persons_tokens_and_ends_only_itself() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "ann", None, None);
    let ann = Client::of(&coordinator, "ann");
    let [one, two] = ["one", "two"].map(|name| {
        let made = ann.done("POST", "/api/v1/tokens", &json!({ "name": name, "scopes": "all" }));
        let client = Client::with_token(&coordinator, made["secret"].as_str().unwrap());
        (format!("/api/v1/tokens/{}", made["token"]["id"]), client)
    });
    let text = coordinator.wait(new_api_token(&directory.database(), "ci", "nodes:read", None)).unwrap();
    let of_operator = Client::with_token(&coordinator, &text);
    assert_eq!(of_operator.done("GET", "/api/v1/tokens", &Value::Null)["tokens"], json!([]));
    for client in [&two.1, &of_operator] {
        assert_eq!(client.send("DELETE", &one.0, &Value::Null).code(), "no-such-token");
    }
    two.1.done("DELETE", &two.0, &Value::Null);
    assert_eq!(two.1.send("GET", "/api/v1/session", &Value::Null).status, 401);
    ann.done("DELETE", &one.0, &Value::Null);
}

//! Commands that open the database themselves.

use serde_json::{Value, json};

use super::super::world::{Directory, TestCoordinator};
use super::client::Client;
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

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

#[test]
fn tokens_that_ended_do_not_count_and_are_forgotten_a_month_later() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "ann", None, Some("owner"));
    let ann = Client::of(&coordinator, "ann");
    let create = |life: i64| {
        let body = json!({ "name": "robot", "scopes": "all", "expires_in": life });
        ann.send("POST", "/api/v1/tokens", &body)
    };
    let first = create(3_600);
    let robot = Client::with_token(&coordinator, first.body["secret"].as_str().unwrap());
    robot.done("POST", "/api/v1/keys", &json!({}));
    (1..100).for_each(|_| assert_eq!(create(3_600).status, 201));
    assert_eq!(create(3_600).code(), "full");
    coordinator.wait(coordinator.state.store().edit("UPDATE tokens SET expires_at = 1000"));
    assert_eq!(create(3_600).status, 201, "expired ones do not count");
    coordinator.wait(coordinator.state.forget_people_marks(1_000 + 30 * 24 * 3_600)).unwrap();
    let listed = || ann.done("GET", "/api/v1/tokens?limit=500", &Value::Null)["tokens"].as_array().unwrap().len();
    assert_eq!(listed(), 101);
    coordinator.wait(coordinator.state.forget_people_marks(1_001 + 30 * 24 * 3_600)).unwrap();
    assert_eq!(listed(), 2, "a valid one, and one that changed something");
    // The record of a forgotten token is erased with its person.
    let operator = Client::operator(&coordinator);
    let audit = || operator.done("GET", "/api/v1/audit?limit=500", &Value::Null).to_string();
    assert!(audit().contains("robot"));
    person(&coordinator, "bob", None, Some("owner"));
    operator.done("DELETE", "/api/v1/users/ann", &Value::Null);
    assert!(!audit().contains("robot"), "{}", audit());
}

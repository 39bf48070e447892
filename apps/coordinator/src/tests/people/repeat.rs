//! Idempotency keys.

use serde_json::{Value, json};

use super::super::world::{Directory, TestCoordinator, dump};
use super::client::{Client, person};

#[test]
fn a_repeated_creation_creates_nothing_and_has_the_same_answer() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    person(&coordinator, "ann", None, Some("owner"));
    let (operator, ann) = (Client::operator(&coordinator), Client::of(&coordinator, "ann"));
    let create = |client: &Client<'_>, key: &str, body: Value| {
        client.send_with("POST", "/api/v1/keys", &body, &[("idempotency-key", key)])
    };
    let first = create(&operator, "k1", json!({}));
    let again = create(&operator, "k1", json!({}));
    assert_eq!((first.status, &first.body), (again.status, &again.body));
    assert_eq!((first.status, first.body["join_token"].is_string()), (201, true), "also what is not stored");
    let other = create(&operator, "k1", json!({ "one_off": true }));
    assert_eq!((other.status, other.code()), (409, "repeated-key"));
    assert_ne!(create(&operator, "k2", json!({})).body["key"]["id"], first.body["key"]["id"]);
    assert_ne!(create(&ann, "k1", json!({})).body["key"]["id"], first.body["key"]["id"], "keys of others are others");
    let failed = create(&operator, "k3", json!({ "network": "nothing" }));
    assert_eq!(failed.status, 404);
    operator.done("POST", "/api/v1/networks", &json!({ "name": "nothing" }));
    assert_eq!(
        create(&operator, "k3", json!({ "network": "nothing" })).status,
        201,
        "what changed nothing is not kept"
    );
    for key in ["", "a b", &"x".repeat(129)] {
        assert_eq!(create(&operator, key, json!({ "network": "default" })).code(), "bad-request", "{key:?}");
    }
    let keys = operator.done("GET", "/api/v1/keys", &Value::Null);
    assert_eq!(keys["keys"].as_array().unwrap().len(), 5, "the first start's and four");
    // The kept answer does not reveal the secret in it.
    let token = first.body["join_token"].as_str().unwrap();
    let bytes = token.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    assert!(!dump(&directory.database()).join("\n").contains(&bytes));
}

#[test]
fn a_request_that_was_interrupted_is_not_repeated_blindly() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    let create = || operator.send_with("POST", "/api/v1/keys", &json!({}), &[("idempotency-key", "k")]);
    create();
    // The database looks as if the coordinator had been killed before it kept the answer.
    coordinator.wait(coordinator.state.store().edit("UPDATE answers SET status = NULL, sealed = NULL"));
    let answer = create();
    assert_eq!((answer.status, answer.code()), (409, "repeated-key"), "{}", answer.body);
}

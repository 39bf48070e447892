//! What members do with devices of their own, and what they cannot do with others.

use serde_json::{Value, json};
use taut_netmap::{Hello, Request, ToCoordinator};
use taut_noise::public_key;

use super::super::world::{Directory, TestCoordinator, TestHost};
use super::client::{Client, person};
use crate::state::Asked;

/// A host asks to join; returns its code.
fn ask(coordinator: &TestCoordinator, host: &TestHost, name: &str) -> String {
    let ToCoordinator::Hello(hello) = host.hello(None, 0) else { panic!() };
    let hello = Hello { request: Some(Request { name: String::from(name) }), ..hello };
    let asked = coordinator.state.ask_to_join(public_key(&host.machine), &hello, [192, 0, 2, 1].into());
    match coordinator.wait(asked).unwrap() {
        Asked::Waits(row) => row.code,
        other => panic!("{other:?}"),
    }
}

fn approve(client: &Client<'_>, code: &str, body: &Value) -> (u16, Value) {
    let answer = client.send("POST", &format!("/api/v1/requests/{code}/approve"), body);
    (answer.status, answer.body)
}

fn names(client: &Client<'_>) -> Vec<String> {
    let nodes = client.done("GET", "/api/v1/nodes", &Value::Null)["nodes"].clone();
    nodes.as_array().unwrap().iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn fault_e2_a_member_approves_renames_and_removes_devices_of_its_own_and_no_others() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    operator.done("POST", "/api/v1/networks", &json!({ "name": "lab" }));
    coordinator.join("server");
    person(&coordinator, "ann", Some("default"), Some("member"));
    person(&coordinator, "bob", Some("default"), Some("member"));
    let (ann, bob) = (Client::of(&coordinator, "ann"), Client::of(&coordinator, "bob"));
    let laptop = TestHost::new();
    let code = ask(&coordinator, &laptop, "laptop");
    let shown = ann.done("GET", &format!("/api/v1/requests/{code}"), &Value::Null);
    assert_eq!((&shown["request"]["name"], &shown["networks"]), (&json!("laptop"), &json!(["default"])));
    // Neither for somebody else, nor into another network, nor with a tag that the policy does not let the person give.
    for (body, status) in
        [(json!({ "owner": "bob" }), 403), (json!({ "network": "lab" }), 404), (json!({ "tags": ["tag:server"] }), 403)]
    {
        assert_eq!(approve(&ann, &code, &body).0, status, "{body}");
    }
    let (status, answer) = approve(&ann, &code, &json!({}));
    assert_eq!((status, &answer["node"]["owner"], &answer["node"]["state"]), (201, &json!("ann"), &json!("active")));
    assert_eq!((names(&ann), names(&bob)), (vec![String::from("laptop")], vec![]));
    assert_eq!(names(&operator).len(), 2);

    let change = |client: &Client<'_>, name: &str, body: Value| {
        client.send("PATCH", &format!("/api/v1/nodes/{name}"), &body).status
    };
    assert_eq!(change(&bob, "laptop", json!({ "name": "mine" })), 404, "another member's device does not exist");
    assert_eq!(change(&ann, "server", json!({ "name": "mine" })), 404);
    for body in [
        json!({ "owner": "bob" }),
        json!({ "disabled": false }),
        json!({ "approved": true }),
        json!({ "key_expiry": 0 }),
        json!({ "approve_routes": ["192.168.10.0/24"] }),
        json!({ "revoke_routes": ["192.168.10.0/24"] }),
    ] {
        assert_eq!(change(&ann, "laptop", body.clone()), 403, "{body}");
    }
    assert_eq!(change(&ann, "laptop", json!({ "name": "notebook" })), 200);
    assert_eq!(change(&ann, "notebook", json!({ "expired": true })), 200);
    // The owner renews its own device; nobody else can.
    let again = ask_again(&coordinator, &laptop);
    assert_eq!(approve(&bob, &again, &json!({})).0, 404);
    assert_eq!(approve(&ann, &again, &json!({})).1["node"]["state"], "active");
    assert_eq!(bob.send("DELETE", "/api/v1/nodes/notebook", &Value::Null).status, 404);
    assert_eq!(ann.send("DELETE", "/api/v1/nodes/notebook", &Value::Null).status, 200);
    assert!(names(&ann).is_empty());
}

/// The host of a member whose membership has expired asks for its renewal.
fn ask_again(coordinator: &TestCoordinator, host: &TestHost) -> String {
    let ToCoordinator::Hello(hello) = host.hello(None, 0) else { panic!() };
    let hello = Hello { request: Some(Request { name: String::from("laptop") }), ..hello };
    let (network, machine) = (coordinator.network(), public_key(&host.machine));
    let asked = coordinator.state.ask_again(network, machine, &hello, [192, 0, 2, 1].into());
    coordinator.wait(asked).unwrap().code
}

#[test]
fn a_members_device_waits_for_an_administrator_where_new_nodes_wait_for_approval() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    operator.done("PATCH", "/api/v1/networks/default", &json!({ "approval": true }));
    person(&coordinator, "ann", Some("default"), Some("member"));
    person(&coordinator, "eve", Some("default"), Some("admin"));
    let (ann, eve) = (Client::of(&coordinator, "ann"), Client::of(&coordinator, "eve"));
    let host = TestHost::new();
    let code = ask(&coordinator, &host, "laptop");
    let (status, answer) = approve(&ann, &code, &json!({}));
    assert_eq!((status, &answer["node"]["state"]), (201, &json!("unapproved")));
    // The person cannot approve it a second time either.
    let again = ask_again(&coordinator, &host);
    assert_eq!(approve(&ann, &again, &json!({})).1["node"]["state"], "unapproved");
    assert_eq!(ann.send("PATCH", "/api/v1/nodes/laptop", &json!({ "approved": true })).status, 403);
    let approved = eve.done("PATCH", "/api/v1/nodes/laptop", &json!({ "approved": true }));
    assert_eq!((&approved["node"]["state"], &approved["node"]["owner"]), (&json!("active"), &json!("ann")));
}

#[test]
fn tag_owners_of_the_policy_decide_which_tags_a_member_gives() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    person(&coordinator, "ann", Some("default"), Some("member"));
    person(&coordinator, "aud", Some("default"), Some("auditor"));
    let policy = r#"{"tagOwners": {"tag:ci": ["ann@"], "tag:audit": ["autogroup:auditor"]},
        "acls": [{"action": "accept", "src": ["autogroup:auditor"], "dst": ["tag:ci:22"]}]}"#;
    operator.done("POST", "/api/v1/policy", &json!({ "text": policy }));
    let (ann, aud) = (Client::of(&coordinator, "ann"), Client::of(&coordinator, "aud"));
    let hosts = [TestHost::new(), TestHost::new(), TestHost::new()];
    let [first, second, third] = hosts.each_ref().map(|host| ask(&coordinator, host, "runner"));
    assert_eq!(approve(&ann, &first, &json!({ "tags": ["tag:audit"] })).0, 403);
    let (status, answer) = approve(&ann, &first, &json!({ "tags": ["tag:ci"] }));
    assert_eq!((status, &answer["node"]["tags"]), (201, &json!(["tag:ci"])));
    // A tagged device belongs to its tags and not to the person any more.
    assert!(names(&ann).is_empty());
    assert_eq!(approve(&aud, &second, &json!({ "tags": ["tag:audit"] })).0, 201);
    // The role of a person selects its devices in rules, and ceases to when the role ends.
    assert_eq!(approve(&aud, &third, &json!({ "name": "desk" })).0, 201);
    let desk = hosts[2].resume(&coordinator, &coordinator.token(), None).unwrap();
    let reaches = |map: &taut_netmap::NetworkMap| {
        let dst = map.me.addresses[0];
        let packet = taut_policy::Packet { src: desk.map.me.addresses[0], dst, proto: 6, port: 22 };
        map.filter.as_ref().unwrap().allows(&packet)
    };
    let mut runner = hosts[0].resume(&coordinator, &coordinator.token(), None).unwrap();
    runner.hear_until(|node| reaches(&node.map));
    operator.done("POST", "/api/v1/users/aud/role", &json!({ "network": "default", "role": "member" }));
    runner.hear_until(|node| !reaches(&node.map));
}

#[test]
fn fault_e2_nobody_inherits_the_devices_of_a_person_that_was_removed() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    person(&coordinator, "ann", Some("default"), Some("member"));
    let code = ask(&coordinator, &TestHost::new(), "desk");
    assert_eq!(approve(&Client::of(&coordinator, "ann"), &code, &json!({})).0, 201);
    operator.done("DELETE", "/api/v1/users/ann", &Value::Null);
    person(&coordinator, "ann", Some("default"), Some("member"));
    assert!(names(&Client::of(&coordinator, "ann")).is_empty());
    let nodes = operator.done("GET", "/api/v1/nodes", &Value::Null)["nodes"].clone();
    assert_eq!((&nodes[0]["name"], &nodes[0]["owner"]), (&json!("desk"), &Value::Null));
}

#[test]
fn fault_e2_the_devices_of_a_disabled_person_are_cut_off_and_renewed_by_it_later() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    let mut server = coordinator.join("server");
    person(&coordinator, "ann", Some("default"), Some("member"));
    let host = TestHost::new();
    let code = ask(&coordinator, &host, "laptop");
    assert_eq!(approve(&Client::of(&coordinator, "ann"), &code, &json!({})).0, 201);
    server.hear_until(|node| node.map.peers.len() == 1);
    operator.done("PATCH", "/api/v1/users/ann", &json!({ "disabled": true }));
    server.hear_until(|node| node.map.peers.is_empty());
    let again = ask_again(&coordinator, &host);
    operator.done("PATCH", "/api/v1/users/ann", &json!({ "disabled": false }));
    let nodes = operator.done("GET", "/api/v1/nodes", &Value::Null)["nodes"].clone();
    assert_eq!((&nodes[1]["state"], &nodes[1]["owner"]), (&json!("expired"), &json!("ann")));
    assert_eq!(approve(&Client::of(&coordinator, "ann"), &again, &json!({})).1["node"]["state"], "active");
    server.hear_until(|node| node.map.peers.len() == 1);
}

#[test]
fn fault_e2_a_disabled_device_is_not_removed_by_its_owner_to_let_it_in_again() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    person(&coordinator, "ann", Some("default"), Some("member"));
    let ann = Client::of(&coordinator, "ann");
    let code = ask(&coordinator, &TestHost::new(), "laptop");
    assert_eq!(approve(&ann, &code, &json!({})).0, 201);
    operator.done("PATCH", "/api/v1/nodes/laptop", &json!({ "disabled": true }));
    assert_eq!(ann.send("DELETE", "/api/v1/nodes/laptop", &Value::Null).status, 403);
    operator.done("PATCH", "/api/v1/nodes/laptop", &json!({ "disabled": false }));
    assert_eq!(ann.send("DELETE", "/api/v1/nodes/laptop", &Value::Null).status, 200);
}

#[test]
fn the_role_of_a_new_person_selects_devices_that_have_its_login_already() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::operator(&coordinator);
    let [mut desk, _server] = ["desk", "server"].map(|name| coordinator.join(name));
    desk.hear_until(|node| node.map.peers.len() == 1);
    operator.done("PATCH", "/api/v1/nodes/desk", &json!({ "owner": "zed" }));
    let policy = r#"{"acls": [{"action": "accept", "src": ["autogroup:auditor"], "dst": ["*:22"]}]}"#;
    operator.done("POST", "/api/v1/policy", &json!({ "text": policy }));
    desk.hear_until(|node| node.map.peers.is_empty());
    operator.done("POST", "/api/v1/users", &json!({ "name": "zed", "role": "auditor" }));
    desk.hear_until(|node| node.map.peers.len() == 1);
}

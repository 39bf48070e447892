//! Groups of the provider in policies.

use serde_json::{Value, json};

use super::super::super::world::{Directory, TestCoordinator, TestNode};
use super::super::client::Client;
use super::provider::{FakeProvider, Refresh};
use super::{own, refreshed, sign_in, users};
use crate::state::DeviceChange;

/// A policy in which nodes of people of the provider's group `staff` may reach port 443 of `tag:db`.
const STAFF_TO_DB: &str = r#"{
    "tagOwners": {"tag:db": []},
    "acls": [{"action": "accept", "src": ["group:staff@example.com"], "dst": ["tag:db:443"]}],
    "tests": [{"src": "group:staff@example.com", "accept": ["tag:db:443"]}, {"src": "new@example.com", "deny": ["tag:db:443"]}],
}"#;

/// Starts a laptop of ann and a database, and applies the policy.
fn laptop_and_database(coordinator: &TestCoordinator) -> [TestNode; 2] {
    let nodes = ["laptop", "db"].map(|name| coordinator.join(name));
    let owner = DeviceChange { owner: Some(Some(String::from("ann@example.com"))), ..DeviceChange::default() };
    let tag = DeviceChange { tags: Some(vec![String::from("tag:db")]), ..DeviceChange::default() };
    for (name, change) in [("laptop", owner), ("db", tag)] {
        coordinator.wait(coordinator.state.change_device(None, name, change)).unwrap();
    }
    policy(coordinator, STAFF_TO_DB);
    nodes
}

fn policy(coordinator: &TestCoordinator, text: &str) {
    Client::operator(coordinator).done("POST", "/api/v1/policy", &json!({ "text": text }));
}

/// Waits until the database lets the laptop in, or does not.
fn expect_access([laptop, database]: &mut [TestNode; 2], is_let_in: bool) {
    let (src, dst) = (laptop.map.me.addresses[0], database.map.me.addresses[0]);
    let packet = taut_policy::Packet { src, dst, proto: 6, port: 443 };
    let lets_in = |node: &TestNode| node.map.filter.as_ref().is_some_and(|filter| filter.allows(&packet));
    database.hear_until(|node| lets_in(node) == is_let_in && node.map.peers.len() == usize::from(is_let_in));
    laptop.hear_until(|node| node.map.peers.len() == usize::from(is_let_in));
}

fn groups_in_force(operator: &Client<'_>) -> Value {
    operator.done("GET", "/api/v1/policy", &Value::Null)["inventory"]["users"].clone()
}

#[test]
fn groups_of_the_provider_are_groups_of_the_policy_and_follow_each_refresh() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let mut nodes = laptop_and_database(&coordinator);
    expect_access(&mut nodes, false);
    // The provider spells the address in another case.
    provider.script().email = json!("Ann@example.com");
    let mut browser = Client::new(&coordinator);
    sign_in(&mut browser, &provider);
    expect_access(&mut nodes, true);
    let expected = json!([{ "name": "ann@example.com", "role": "member", "groups": ["staff"] }]);
    assert_eq!(groups_in_force(&Client::operator(&coordinator)), expected);
    for (groups, is_let_in) in [(json!(["guests"]), false), (json!(["guests", "staff"]), true)] {
        provider.script().groups = groups.clone();
        refreshed(&coordinator, || own(&browser)["groups"] == groups);
        expect_access(&mut nodes, is_let_in);
    }
    // While the provider does not answer, nothing changes.
    provider.script().refresh = Refresh::Broken;
    refreshed(&coordinator, || true);
    assert_eq!(groups_in_force(&Client::operator(&coordinator)).as_array().unwrap().len(), 1);
    provider.script().refresh = Refresh::Removed;
    refreshed(&coordinator, || own(&browser) == Value::Null);
    expect_access(&mut nodes, false);
}

#[test]
fn fault_e14_a_login_has_groups_only_if_the_provider_confirms_it_and_one_person_has_it() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let anyone = crate::oidc::OidcOptions { domains: vec![String::from("*")], ..provider.options() };
    let coordinator = TestCoordinator::start_with_provider(&directory, anyone);
    let mut nodes = laptop_and_database(&coordinator);
    provider.script().is_confirmed = false;
    sign_in(&mut Client::new(&coordinator), &provider);
    assert_eq!(groups_in_force(&Client::operator(&coordinator)), json!([]), "anyone can write an address");
    expect_access(&mut nodes, false);
    provider.script().is_confirmed = true;
    sign_in(&mut Client::new(&coordinator), &provider);
    expect_access(&mut nodes, true);
    // Another person with the same address: it is not known whose laptop it is.
    provider.script().subject = String::from("another");
    sign_in(&mut Client::new(&coordinator), &provider);
    expect_access(&mut nodes, false);
    let other = users(&coordinator).iter().find(|user| user["name"] == "another").unwrap()["id"].clone();
    let operator = Client::operator(&coordinator);
    operator.done("PATCH", &format!("/api/v1/users/{other}"), &json!({ "disabled": true }));
    expect_access(&mut nodes, true);
    operator.done("PATCH", &format!("/api/v1/users/{other}"), &json!({ "disabled": false }));
    expect_access(&mut nodes, false);
    operator.done("DELETE", &format!("/api/v1/users/{other}"), &Value::Null);
    expect_access(&mut nodes, true);
}

#[test]
fn a_group_that_the_policy_defines_is_not_the_providers() {
    let (directory, provider) = (Directory::new(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let mut nodes = laptop_and_database(&coordinator);
    sign_in(&mut Client::new(&coordinator), &provider);
    expect_access(&mut nodes, true);
    let defined = "{\"groups\": {\"group:staff@example.com\": [\"bob@example.com\"]},";
    policy(&coordinator, &STAFF_TO_DB.replacen('{', defined, 1));
    expect_access(&mut nodes, false);
}

#[test]
fn people_of_a_former_provider_have_no_groups() {
    let (directory, provider, other) = (Directory::new(), FakeProvider::start(), FakeProvider::start());
    let coordinator = TestCoordinator::start_with_provider(&directory, provider.options());
    let mut nodes = laptop_and_database(&coordinator);
    sign_in(&mut Client::new(&coordinator), &provider);
    expect_access(&mut nodes, true);
    let token = coordinator.operator_token().to_owned();
    drop((nodes, coordinator));
    let coordinator = TestCoordinator::start_with_provider(&directory, other.options());
    coordinator.wait(coordinator.state.lapse_former_people()).unwrap();
    assert_eq!(groups_in_force(&Client::with_token(&coordinator, &token)), json!([]));
}

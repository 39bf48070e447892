//! The operator's API.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use taut_netmap::{JoinToken, ProblemCode, ToNode};

use super::world::{Directory, TestCoordinator, TestHost};
use crate::api::document;
use crate::contract::{CreateKey, CreatedKey, KeyList, KeyState, RevokedKey};
use crate::state::{Expiry, Secret, findings, new_operator_token};

/// The client of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    Anybody,
    Operator,
}
use Who::{Anybody, Operator};

/// All requests: method, path, client, parameter, body and status of the answer. In this order each request finds what it needs.
type Row = (&'static str, &'static str, Who, &'static str, Option<&'static str>, u16);
const ROUTES: [Row; 35] = [
    ("GET", "/healthz", Anybody, "", None, 200),
    ("GET", "/readyz", Anybody, "", None, 200),
    ("GET", "/api/v1/openapi.json", Operator, "", None, 200),
    ("GET", "/api/v1/networks", Operator, "", None, 200),
    ("POST", "/api/v1/networks", Operator, "", Some(r#"{"name":"lab"}"#), 201),
    ("GET", "/api/v1/networks/{name}", Operator, "lab", None, 200),
    ("PATCH", "/api/v1/networks/{name}", Operator, "lab", Some(r#"{"approval":true,"key_expiry":86400}"#), 200),
    ("GET", "/api/v1/keys", Operator, "", None, 200),
    ("POST", "/api/v1/keys", Operator, "", Some(r#"{"network":"lab"}"#), 201),
    ("DELETE", "/api/v1/keys/{id}", Operator, "2", None, 200),
    ("GET", "/api/v1/nodes", Operator, "", None, 200),
    ("PATCH", "/api/v1/nodes/{name}", Operator, "old?network=default", Some(r#"{"name":"new"}"#), 200),
    ("DELETE", "/api/v1/nodes/{name}", Operator, "new?network=default", None, 200),
    ("GET", "/api/v1/requests", Operator, "", None, 200),
    ("GET", "/api/v1/requests/{code}", Operator, "BCDF-GHJK", None, 404),
    ("POST", "/api/v1/requests/{code}/approve", Operator, "BCDF-GHJK/approve", Some("{}"), 404),
    ("DELETE", "/api/v1/requests/{code}", Operator, "BCDF-GHJK", None, 404),
    ("GET", "/api/v1/relays", Operator, "", None, 200),
    ("POST", "/api/v1/relays", Operator, "", Some(RELAY), 201),
    ("DELETE", "/api/v1/relays/{name}", Operator, "far?network=lab", None, 200),
    ("GET", "/api/v1/relay-token", Operator, "", None, 200),
    ("GET", "/api/v1/ticket-key", Operator, "", None, 200),
    ("DELETE", "/api/v1/networks/{name}", Operator, "lab?force=true", None, 200),
    ("GET", "/api/v1/names", Operator, "", None, 200),
    (
        "PATCH",
        "/api/v1/names",
        Operator,
        "",
        Some(r#"{"set_domains":[{"domain":"corp.example","servers":["10.1.0.53"]}]}"#),
        200,
    ),
    ("GET", "/api/v1/policy", Operator, "", None, 200),
    ("POST", "/api/v1/policy", Operator, "", Some(r#"{"text":"{\"acls\":[]}"}"#), 201),
    ("GET", "/api/v1/policy/versions", Operator, "", None, 200),
    ("GET", "/api/v1/policy/versions/{version}", Operator, "1", None, 200),
    ("GET", "/api/v1/webhooks", Operator, "", None, 200),
    ("POST", "/api/v1/webhooks", Operator, "", Some(r#"{"url":"https://hooks.example.com/","events":["none"]}"#), 201),
    ("POST", "/api/v1/webhooks/{id}/test", Operator, "999/test", None, 404),
    ("DELETE", "/api/v1/webhooks/{id}", Operator, "1", None, 200),
    ("GET", "/api/v1/operator-tokens", Operator, "", None, 200),
    ("DELETE", "/api/v1/operator-tokens/{id}", Operator, "2", None, 200),
];

/// A relay to add.
const RELAY: &str = r#"{"network":"lab","name":"far","key":"CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk=","endpoints":["203.0.113.7:3478"]}"#;

/// Unknown paths and methods. Below `/api` they need a token as well.
const NOTHING: [(&str, &str, Who, u16); 8] = [
    ("GET", "/api/v1/nothing", Operator, 404),
    ("GET", "/api", Operator, 404),
    ("GET", "/api/v2/keys", Operator, 404),
    ("PUT", "/api/v1/keys", Operator, 405),
    ("POST", "/healthz", Anybody, 405),
    ("POST", "/readyz", Anybody, 405),
    ("GET", "/metrics", Anybody, 404),
    ("GET", "/", Anybody, 404),
];

#[test]
fn fault_e2_every_route_needs_the_token() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let node = coordinator.join("old");
    let another = || coordinator.wait(new_operator_token(&directory.database())).unwrap();
    let good = coordinator.operator_token().to_owned();
    let join = coordinator.token();
    let dressed = |bytes: &[u8]| format!("tautop-{}", taut_base::encode_base64url(bytes));
    let (ended, spare) = (another(), another());
    coordinator.wait(coordinator.state.revoke_operator(2)).unwrap();
    // The table revokes token 3.
    let path_of = |template: &str, place: &str| match template.split_once('{') {
        Some((path, _)) => format!("{path}{}", if template.contains("tokens") { "3" } else { place }),
        None => String::from(template),
    };
    let roles: [(&str, String); 12] = [
        ("an empty token", String::new()),
        ("the prefix alone", String::from("tautop-")),
        ("a token that was cut", good[..good.len() - 1].to_owned()),
        ("a token and more", format!("{good}A")),
        ("another coordinator's token", Secret::new().expose_operator_token()),
        ("a token that was revoked", ended),
        ("a join token", join.encode()),
        ("a join token's secret", dressed(&join.secret)),
        ("a node's machine key", dressed(node.host.machine.expose())),
        ("a node's WireGuard key", dressed(&node.host.node.0)),
        ("what is stored of the token", dressed(&taut_noise::hash(&[&decode(&good)]))),
        ("the coordinator's public key", dressed(&join.coordinator.0)),
    ];
    let listed: BTreeSet<(String, String)> = document()["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| item.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())))
        .collect();
    // Requests about people have a table of their own (people/matrix.rs).
    const OF_PEOPLE: [&str; 7] = ["account", "audit", "password", "session", "set-up", "sign-in", "tokens"];
    let is_of_people = |path: &str| {
        let first = path.strip_prefix("/api/v1/").and_then(|path| path.split('/').next());
        first.is_some_and(|first| first == "users" || OF_PEOPLE.contains(&first))
    };
    let listed: BTreeSet<_> = listed.into_iter().filter(|(_, path)| !is_of_people(path)).collect();
    let rows: BTreeSet<(String, String)> = ROUTES.iter().map(|row| (row.0.to_owned(), row.1.to_owned())).collect();
    assert_eq!(rows, listed, "each request of the API has its row here");
    let requests = ROUTES
        .iter()
        .map(|(method, path, who, place, body, status)| (*method, path_of(path, place), *who, *body, *status));
    let nothing = NOTHING.iter().map(|(method, path, who, status)| (*method, String::from(*path), *who, None, *status));
    for (method, path, who, body, status) in requests.chain(nothing) {
        for (what, token) in
            std::iter::once(("no token", None)).chain(roles.iter().map(|(what, token)| (*what, Some(token.as_str()))))
        {
            let (answered, answer) = coordinator.ask(method, &path, token, body);
            let wanted = if who == Operator { 401 } else { status };
            assert_eq!(answered, wanted, "{method} {path} with {what}: {answer}");
        }
        let (answered, answer) = coordinator.ask_unchecked(method, &path, Some(&good), body);
        assert_eq!(answered, status, "{method} {path} {answer}");
        if path != "/api/v1/openapi.json" {
            super::document::check_answer(method, &path, answered, &answer);
        }
    }
    assert_eq!(coordinator.ask("GET", "/api/v1/keys", Some(&spare), None).0, 401, "the table revoked it");
    assert_eq!(coordinator.ask("GET", "/api/v1/keys", Some(&good), None).0, 200);
}

fn decode(token: &str) -> Vec<u8> {
    taut_base::decode_base64url(token.strip_prefix("tautop-").unwrap()).unwrap()
}

#[test]
fn operator_tokens_are_listed_and_revoked_except_the_last_one() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let first = coordinator.operator_token();
    let second = coordinator.wait(new_operator_token(&directory.database())).unwrap();
    let ask = |method: &str, path: &str, token: &str| {
        coordinator.ask(method, &format!("/api/v1/operator-tokens{path}"), Some(token), None)
    };
    let shown = |token: &str| {
        let (_, answer) = ask("GET", "", token);
        let row = |row: &Value| (row["id"].clone(), row["state"].clone(), row["current"] == true);
        answer["operator_tokens"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    assert_eq!(shown(&second), [(json!(1), json!("valid"), false), (json!(2), json!("valid"), true)]);
    assert_eq!(ask("DELETE", "/1", &second), (200, json!({ "schema": 1, "revoked": 1, "current": false })));
    assert_eq!(ask("GET", "", first).0, 401, "at once");
    assert_eq!(ask("DELETE", "/1", &second).0, 200, "again is no error");
    assert_eq!(shown(&second), [(json!(1), json!("revoked"), false), (json!(2), json!("valid"), true)]);
    let (status, answer) = ask("DELETE", "/2", &second);
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("last-token")));
    assert_eq!(ask("DELETE", "/3", &second).1["error"]["code"], "no-such-token");
    assert_eq!(ask("DELETE", "/x", &second).0, 400);
    let third = coordinator.wait(new_operator_token(&directory.database())).unwrap();
    assert_eq!(ask("DELETE", "/2", &second).1["current"], true, "one's own, too");
    assert_eq!(ask("GET", "", &third).0, 200);
}

#[test]
fn fault_e13_tokens_are_random_and_a_similar_token_is_refused() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let good = decode(coordinator.operator_token());
    let open = |bytes: &[u8]| {
        let token = format!("tautop-{}", taut_base::encode_base64url(bytes));
        coordinator.wait(coordinator.state.operator(&token)).unwrap()
    };
    assert_eq!(open(&good), Some(1));
    for bit in 0..256 {
        let mut near = good.clone();
        near[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(open(&near), None, "bit {bit}");
    }
    for other in [&good[..31], &[&good[..], &[0]].concat(), &[0; 32]] {
        assert_eq!(open(other), None);
    }
    // Another base64url text of the same bytes is not accepted.
    let token = coordinator.operator_token();
    let (all, last) = token.split_at(token.len() - 1);
    for spelled in ('A'..='Z').chain('a'..='z').chain('0'..='9').map(|letter| format!("{all}{letter}")) {
        let number = coordinator.wait(coordinator.state.operator(&spelled)).unwrap();
        assert_eq!(number.is_some(), spelled.ends_with(last), "{spelled}");
    }
    // 256 secrets: no two are equal, and each bit is set in about half of them (the chance of less than 64 or more than 192 is 2^-50).
    let secrets: BTreeSet<[u8; 32]> = (0..256).map(|_| *Secret::new().expose()).collect();
    assert_eq!(secrets.len(), 256);
    for bit in 0..256 {
        let set = secrets.iter().filter(|secret| secret[bit / 8] >> (bit % 8) & 1 == 1).count();
        assert!((64..=192).contains(&set), "bit {bit} is set in {set} of 256");
    }
    // Each of several tokens is found by its own number.
    for number in 2..10 {
        let another = decode(&coordinator.wait(new_operator_token(&directory.database())).unwrap());
        assert_eq!((open(&good), open(&another)), (Some(1), Some(number)));
    }
}

#[test]
fn errors_say_what_happened_why_and_what_to_do() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    coordinator.join("a");
    coordinator.join("b");
    let deep = "[".repeat(10_000);
    let large = format!(r#"{{"name":"{}"}}"#, "x".repeat(70_000));
    let cases: [(&str, &str, &str, u16, &str); 25] = [
        ("POST", "networks", "", 400, "bad-request"),
        ("POST", "networks", "{}", 400, "bad-request"),
        ("POST", "networks", &deep, 400, "bad-request"),
        ("POST", "networks", r#"{"name":"A"}"#, 400, "bad-name"),
        ("POST", "networks", r#"{"name":"default"}"#, 409, "network-exists"),
        ("POST", "networks", r#"{"name":"x","ipv4_prefix":"8.8.8.0/24"}"#, 400, "bad-prefix"),
        ("POST", "networks", r#"{"name":"x","ipv4_prefix":"x"}"#, 400, "bad-request"),
        ("GET", "networks/none", "", 404, "no-such-network"),
        ("POST", "keys", r#"{"expires_in":0}"#, 400, "bad-expiry"),
        ("POST", "keys", r#"{"expires_in":0.5}"#, 400, "bad-request"),
        ("POST", "keys", r#"{"expires_in":1e300}"#, 400, "bad-request"),
        ("POST", "keys", r#"{"network":"none"}"#, 404, "no-such-network"),
        ("DELETE", "keys/99", "", 404, "no-such-key"),
        ("DELETE", "keys/x", "", 400, "bad-request"),
        ("DELETE", "nodes/none", "", 404, "no-such-node"),
        ("DELETE", "nodes/99999999999999999999", "", 404, "no-such-node"),
        ("PATCH", "nodes/a", r#"{"name":"b"}"#, 409, "name-taken"),
        ("PATCH", "nodes/a", r#"{"name":"7"}"#, 400, "bad-name"),
        ("PATCH", "nodes/a", r#"{"name":"a.b"}"#, 400, "bad-name"),
        // Null differs from an absent field.
        ("PATCH", "nodes/a", r#"{"name":null}"#, 400, "bad-request"),
        ("PATCH", "nodes/a", r#"{"tags":null}"#, 400, "bad-request"),
        ("PATCH", "nodes/a", r#"{"disabled":null}"#, 400, "bad-request"),
        ("PATCH", "nodes/a", r#"{"approved":null}"#, 400, "bad-request"),
        ("PATCH", "networks/default", r#"{"approval":null}"#, 400, "bad-request"),
        ("POST", "policy", r#"{"text":"","based_on":null}"#, 400, "bad-request"),
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
}

#[test]
fn fault_e3_unknown_fields_are_ignored() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let token = coordinator.operator_token();
    let id = coordinator.join("a").id();
    let unknown = r#"{"name":"c","id":99,"role":"admin","addresses":["10.0.0.1"],"network":"other"}"#;
    let (status, answer) = coordinator.ask("PATCH", "/api/v1/nodes/a", Some(token), Some(unknown));
    assert_eq!((status, &answer["node"]["name"], &answer["node"]["id"]), (200, &json!("c"), &json!(id.0)));
    assert_eq!(answer["node"]["addresses"][0], "100.64.0.1");
    let unknown = r#"{"one_off":true,"reusable":true,"used":-1,"id":99,"secret":"x"}"#;
    let (status, answer) = coordinator.ask("POST", "/api/v1/keys", Some(token), Some(unknown));
    assert_eq!((status, &answer["key"]["id"], &answer["key"]["one_off"]), (201, &json!(2), &json!(true)));
    let unknown = r#"{"name":"lab","id":"00112233445566778899aabbccddeeff","version":7,"ipv6":"fd00::/64"}"#;
    let (status, answer) = coordinator.ask("POST", "/api/v1/networks", Some(token), Some(unknown));
    assert_eq!(status, 201);
    assert_ne!(answer["network"]["id"], "00112233445566778899aabbccddeeff");
    assert_ne!(answer["network"]["ipv6"], "fd00::/64");
}

#[test]
fn keys_are_made_listed_and_ended() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let create = |body: &str| coordinator.ask_for::<CreatedKey>("POST", "/api/v1/keys", Some(body));
    let one_off = create(r#"{"one_off":true,"expires_in":3600}"#);
    assert_eq!(create(r#"{"expires_in":null}"#).key.expires_at, None);
    assert!(create("{}").key.expires_at.is_some(), "90 days by default");
    let in_an_hour = create(r#"{"expires_in":3600.0}"#).key;
    assert_eq!(in_an_hour.expires_at, Some(in_an_hour.created_at + 3600));
    TestHost::new().join(&coordinator, &one_off.join_token.parse().unwrap(), "n").unwrap();
    assert_eq!(coordinator.ask_for::<RevokedKey>("DELETE", "/api/v1/keys/3", None).revoked, 3);
    let keys = coordinator.ask_for::<KeyList>("GET", "/api/v1/keys", None).keys;
    let states: Vec<KeyState> = keys.iter().map(|key| key.state).collect();
    assert_eq!(states, [KeyState::Valid, KeyState::Used, KeyState::Revoked, KeyState::Valid, KeyState::Valid]);
}

#[test]
fn requests_of_the_commands_are_read_back_by_the_server() {
    for (expires_in, text) in [
        (None, r#"{"one_off":true}"#),
        (Some(None), r#"{"one_off":true,"expires_in":null}"#),
        (Some(Some(60)), r#"{"one_off":true,"expires_in":60}"#),
    ] {
        let body = serde_json::to_string(&CreateKey { one_off: true, expires_in, ..CreateKey::default() }).unwrap();
        assert_eq!(body, text);
        assert_eq!(serde_json::from_str::<CreateKey>(&body).unwrap().expires_in, expires_in);
    }
}

#[test]
fn fault_e4_no_answer_holds_a_secret() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let token = coordinator.operator_token();
    coordinator.join("n");
    let secret = taut_base::encode_base64url(&coordinator.token().secret);
    for path in ["networks", "keys", "nodes", "networks/default", "operator-tokens"] {
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
    let coordinator = TestCoordinator::start(&directory);
    let token = coordinator.operator_token();
    let node = coordinator.join("a");
    coordinator.wait(coordinator.state.create_network("lab", "10.0.0.0/24".parse().unwrap())).unwrap();
    let by_number = format!("/api/v1/nodes/{}", node.id());
    let (status, answer) = coordinator.ask("PATCH", &by_number, Some(token), Some(r#"{"name":"b"}"#));
    assert_eq!((status, &answer["node"]["name"]), (200, &json!("b")));
    assert_eq!(coordinator.ask("DELETE", &format!("{by_number}?network=lab"), Some(token), None).0, 404);
    // A name that only one network has needs no network.
    let (status, answer) = coordinator.ask("PATCH", "/api/v1/nodes/b", Some(token), Some(r#"{"name":"c"}"#));
    assert_eq!((status, &answer["node"]["network"]), (200, &json!("default")));
    let (_, _, join) = coordinator.wait(coordinator.state.create_key(Some("lab"), true, Expiry::Default)).unwrap();
    TestHost::new().join(&coordinator, &join.parse().unwrap(), "c").unwrap();
    for (method, body) in [("PATCH", Some(r#"{"name":"d"}"#)), ("DELETE", None)] {
        let (status, answer) = coordinator.ask(method, "/api/v1/nodes/c", Some(token), body);
        assert_eq!((status, &answer["error"]["code"]), (409, &json!("which-network")));
        let said = answer["error"].to_string();
        assert!(said.contains("default, lab") && said.contains("--network"), "{said}");
    }
    assert_eq!(coordinator.ask("DELETE", "/api/v1/nodes/c?network=default", Some(token), None).0, 200);
    assert_eq!(coordinator.ask("DELETE", "/api/v1/nodes/c", Some(token), None).1["removed"]["network"], "lab");
    assert_eq!(coordinator.ask("DELETE", "/api/v1/nodes/c", Some(token), None).0, 404);
}

#[test]
fn relays_are_found_by_a_name_that_only_one_network_has() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let token = Some(coordinator.operator_token());
    coordinator.wait(coordinator.state.create_network("lab", "10.0.0.0/24".parse().unwrap())).unwrap();
    let add = |network: &str| {
        let (status, answer) = coordinator.ask("POST", "/api/v1/relays", token, Some(&RELAY.replace("lab", network)));
        assert_eq!(status, 201, "{answer}");
        answer["relay"]["id"].to_string()
    };
    let remove = |name: &str| coordinator.ask("DELETE", &format!("/api/v1/relays/{name}"), token, None);
    add("lab");
    assert_eq!(remove("far").1["removed"]["network"], "lab");
    let (first, _) = (add("default"), add("lab"));
    let (status, answer) = remove("far");
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("which-network")));
    assert_eq!(remove(&first).1["removed"]["network"], "default", "by number");
    assert_eq!((remove("far").0, remove("far").0), (200, 404));
    assert_eq!(remove("coordinator").1["error"]["code"], "own-relay");
}

#[test]
fn a_network_is_removed_with_its_members_when_told_so() {
    let directory = Directory::new();
    let (join, hosts) = {
        let coordinator = TestCoordinator::start(&directory);
        let token = Some(coordinator.operator_token());
        let ask = |method: &str, path: &str| coordinator.ask(method, &format!("/api/v1/networks{path}"), token, None);
        coordinator.wait(coordinator.state.create_network("lab", "10.0.0.0/24".parse().unwrap())).unwrap();
        let (_, key, join) = coordinator.wait(coordinator.state.create_key(Some("lab"), true, Expiry::Never)).unwrap();
        let join: JoinToken = join.parse().unwrap();
        let mut bystander = coordinator.join("bystander");
        let before = bystander.fresh_map(&coordinator);
        let mut nodes = ["a", "b"].map(|name| TestHost::new().join(&coordinator, &join, name).unwrap());
        coordinator.ask("POST", "/api/v1/relays", token, Some(RELAY));
        let (status, answer) = ask("DELETE", "/lab");
        assert_eq!((status, &answer["error"]["code"]), (409, &json!("network-not-empty")));
        assert!(answer["error"].to_string().contains("--force"), "{answer}");
        assert_eq!(ask("DELETE", "/lab?force=perhaps").0, 400);
        assert_eq!(ask("GET", "/lab").1["network"]["nodes"], 2, "nothing was removed");

        let (status, answer) = ask("DELETE", "/lab?force=true");
        assert_eq!((status, &answer["removed"]["name"], &answer["removed"]["nodes"]), (200, &json!("lab"), &json!(2)));
        for node in &mut nodes {
            let told = std::iter::from_fn(|| node.channel.receive()).find_map(|said| match said {
                ToNode::Refused(problem) => Some(problem.code),
                _ => None,
            });
            assert_eq!(told, Some(ProblemCode::NotAMember));
        }
        assert_eq!(ask("DELETE", "/lab?force=true").0, 404);
        assert_eq!(ask("GET", "").1["networks"].as_array().unwrap().len(), 1);
        let keys = coordinator.wait(coordinator.state.keys(None)).unwrap();
        assert!(keys.iter().all(|(_, row)| row.id != key.id), "its keys are listed no more");
        assert_eq!(bystander.fresh_map(&coordinator), before, "another network is not concerned");
        bystander.channel.send(&taut_netmap::ToCoordinator::Ping);
        bystander.hear();
        // Another network may use the name.
        assert_eq!(coordinator.ask("POST", "/api/v1/networks", token, Some(r#"{"name":"lab"}"#)).0, 201);
        assert_eq!(ask("DELETE", "/lab").0, 200, "it has no members");
        (join, nodes.map(|node| node.host))
    };
    let coordinator = TestCoordinator::start(&directory);
    let refused = |host: &TestHost| host.resume(&coordinator, &join, None).err().unwrap().code;
    assert_eq!(refused(&hosts[0]), ProblemCode::NotAMember, "after a restart, too");
    assert_eq!(TestHost::new().join(&coordinator, &join, "c").err().unwrap().code, ProblemCode::Enrolment);
    assert_eq!(coordinator.wait(findings(&directory.database())).unwrap(), [""; 0]);
    // Three days later its rows are deleted.
    let count = "UPDATE networks SET removed_at = removed_at - 72 * 3600 - 1 WHERE removed_at IS NOT NULL";
    coordinator.wait(coordinator.state.store().edit(count));
    coordinator.wait(coordinator.state.forget_marks(crate::clock::unix_now())).unwrap();
    assert_eq!(coordinator.wait(findings(&directory.database())).unwrap(), [""; 0]);
    assert_eq!(refused(&hosts[1]), ProblemCode::NotAMember);
    assert_eq!(coordinator.wait(coordinator.state.nodes(None)).unwrap().len(), 1, "of the other network");
}

#[test]
fn the_last_network_can_be_removed_and_another_one_created() {
    let directory = Directory::new();
    {
        let coordinator = TestCoordinator::start(&directory);
        let token = Some(coordinator.operator_token());
        assert_eq!(coordinator.ask("DELETE", "/api/v1/networks/default", token, None).0, 200);
        let (status, answer) = coordinator.ask("POST", "/api/v1/keys", token, Some("{}"));
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("no-such-network")));
        assert!(answer["error"].to_string().contains("networks create"), "{answer}");
        assert_eq!(coordinator.ask("DELETE", "/api/v1/nodes/x", token, None).0, 404);
    }
    let coordinator = TestCoordinator::start(&directory);
    assert!(coordinator.first.is_none() && coordinator.wait(coordinator.state.networks()).unwrap().is_empty());
    coordinator.wait(coordinator.state.create_network("new", "10.0.0.0/24".parse().unwrap())).unwrap();
    let (_, token) = coordinator.key(true, Expiry::Default);
    assert!(TestHost::new().join(&coordinator, &token, "a").is_ok());
}

//! Webhooks, with a server that gets them.

mod receiver;

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::people::{Client, person};
use super::world::{Directory, TestCoordinator, dump};
use crate::clock::unix_now;
use receiver::Receiver;

const HOOKS: &str = "/api/v1/webhooks";

fn start(directory: &Directory) -> TestCoordinator {
    TestCoordinator::start_with_webhooks(directory, &directory.database())
}

/// Creates a webhook. Returns its number and secret.
fn create(client: &Client<'_>, url: &str, more: &Value) -> (i64, String) {
    let mut body = json!({ "url": url });
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    let created = client.done("POST", HOOKS, &body);
    (created["webhook"]["id"].as_i64().unwrap(), created["secret"].as_str().unwrap().to_owned())
}

/// Waits until a webhook is as wanted, and returns it.
fn webhook(client: &Client<'_>, id: i64, reached: impl Fn(&Value) -> bool) -> Value {
    let begin = Instant::now();
    loop {
        let listed = client.done("GET", HOOKS, &Value::Null);
        let found = listed["webhooks"].as_array().unwrap().iter().find(|webhook| webhook["id"] == id).unwrap().clone();
        if reached(&found) {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{found}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn add_key(client: &Client<'_>, network: &str) {
    client.done("POST", "/api/v1/keys", &json!({ "network": network }));
}

/// Runs the program of docs/webhooks.md that checks a signature. Returns true if it accepts it.
fn is_accepted_by_the_documented_program(secret: &str, signature: &str, body: &str) -> bool {
    let page = include_str!("../../../../../docs/webhooks.md");
    let (_, program) = page.split_once("```python\n").unwrap();
    let (program, _) = program.split_once("```").unwrap();
    let call = "import sys\nsys.exit(0 if is_genuine(sys.argv[1], sys.argv[2], sys.argv[3].encode()) else 7)\n";
    let done =
        Command::new("python3").args(["-c", &format!("{program}\n{call}"), secret, signature, body]).status().unwrap();
    assert!([Some(0), Some(7)].contains(&done.code()), "{done}");
    done.success()
}

#[test]
fn entries_arrive_in_order_with_a_signature_that_the_documented_program_accepts() {
    let (directory, receiver) = (Directory::new(), Receiver::start());
    let coordinator = start(&directory);
    let operator = Client::operator(&coordinator);
    operator.done("POST", "/api/v1/networks", &json!({ "name": "lab" }));
    let (id, secret) = create(&operator, &receiver.url(), &json!({ "network": "lab", "events": ["key-created"] }));
    for network in ["default", "lab", "default", "lab"] {
        add_key(&operator, network);
    }
    let all =
        |requests: &[receiver::Received]| requests.iter().flat_map(receiver::Received::events).collect::<Vec<_>>();
    let requests = receiver.wait(|requests| all(requests).len() >= 2);
    assert_eq!(all(&requests), ["key-created key 3", "key-created key 5"], "its network and its events only");
    let audit = operator.done("GET", "/api/v1/audit?limit=500", &Value::Null);
    let body = requests[0].body();
    assert_eq!((&body["schema"], &body["webhook"]), (&json!(1), &json!(id)));
    assert!(audit["entries"].as_array().unwrap().contains(&body["events"][0]), "as the API prints it: {body}");
    let (signature, text) = (&requests[0].signature, &requests[0].text);
    assert!(is_accepted_by_the_documented_program(&secret, signature, text));
    assert!(!is_accepted_by_the_documented_program(&secret, signature, &format!("{text} ")), "another body");
    assert!(!is_accepted_by_the_documented_program("tautwh-other", signature, text), "another secret");
    let (time, code) = signature.strip_prefix("t=").unwrap().split_once(',').unwrap();
    let earlier = format!("t={},{code}", time.parse::<i64>().unwrap() - 1);
    assert!(!is_accepted_by_the_documented_program(&secret, &earlier, text), "another time");
    let listed = operator.done("GET", HOOKS, &Value::Null).to_string();
    assert!(!listed.contains(&secret), "only the first answer has it");
}

#[test]
fn after_failures_and_a_restart_nothing_is_lost() {
    let (directory, receiver) = (Directory::new(), Receiver::start());
    let coordinator = start(&directory);
    let operator = Client::operator(&coordinator);
    let token = coordinator.operator_token().to_owned();
    let (id, _) = create(&operator, &receiver.url(), &json!({ "events": ["key-created"] }));
    receiver.answer(&["500 Internal Server Error", "503 Service Unavailable"]);
    add_key(&operator, "default");
    let failing = webhook(&operator, id, |webhook| webhook["state"] == "failing");
    assert_eq!((&failing["failures"], &failing["last_error"]), (&json!(1), &json!("it answers 500")));
    let pause = failing["next_try_at"].as_i64().unwrap() - unix_now();
    assert!((1..=12).contains(&pause), "{pause} s");
    add_key(&operator, "default");
    coordinator.wait(coordinator.state.store().edit("UPDATE webhooks SET next_try_at = 0"));
    let failing = webhook(&operator, id, |webhook| webhook["failures"] == 2);
    drop(coordinator);
    let coordinator = start(&directory);
    let operator = Client::with_token(&coordinator, &token);
    coordinator.wait(coordinator.state.store().edit("UPDATE webhooks SET next_try_at = 0"));
    let requests = receiver.wait(|requests| requests.len() >= 3);
    assert_eq!(requests[2].events(), ["key-created key 2", "key-created key 3"]);
    let active = webhook(&operator, id, |webhook| webhook["state"] == "active");
    assert!(active["cursor"].as_i64() > failing["cursor"].as_i64(), "{active}");
    add_key(&operator, "default");
    let requests = receiver.wait(|requests| requests.len() >= 4);
    assert_eq!(requests[3].events(), ["key-created key 4"], "what was delivered does not come again");
}

#[test]
fn fault_e15_redirects_are_not_followed() {
    let (directory, receiver, other) = (Directory::new(), Receiver::start(), Receiver::start());
    let coordinator = start(&directory);
    let operator = Client::operator(&coordinator);
    let (id, _) = create(&operator, &receiver.url(), &json!({ "events": ["none"] }));
    for status in [301, 302, 307, 308] {
        receiver.answer(&[&format!("{status} Elsewhere\r\nlocation: {}", other.url())]);
        let tested = operator.done("POST", &format!("{HOOKS}/{id}/test"), &Value::Null);
        assert_eq!((&tested["status"], tested["error"].as_str().unwrap().contains("redirects")), (&Value::Null, true));
    }
    assert_eq!((receiver.received().len(), other.received().len()), (4, 0));
}

#[test]
fn fault_e15_private_addresses_need_the_flag_and_the_own_port_is_refused_with_it() {
    let (directory, receiver) = (Directory::new(), Receiver::start());
    let coordinator = start(&directory);
    let operator = Client::operator(&coordinator);
    let token = coordinator.operator_token().to_owned();
    let (id, _) = create(&operator, &receiver.url(), &json!({ "events": ["none"] }));
    let (own, _) =
        create(&operator, &format!("http://{}/api/v1/keys", coordinator.address), &json!({ "events": ["none"] }));
    let error = |client: &Client<'_>, id: i64| {
        client.done("POST", &format!("{HOOKS}/{id}/test"), &Value::Null)["error"].as_str().map(String::from)
    };
    assert_eq!(error(&operator, id), None);
    assert!(error(&operator, own).unwrap().contains("webhooks are not sent"));
    for url in ["http://169.254.169.254/", "https://[fe80::1]/", "file:///etc/passwd", "gopher://127.0.0.1/"] {
        let answer = operator.send("POST", HOOKS, &json!({ "url": url }));
        assert_eq!((answer.status, answer.code()), (400, "bad-webhook"), "{url} with the flag");
    }
    drop(coordinator);
    let coordinator = TestCoordinator::start(&directory);
    let operator = Client::with_token(&coordinator, &token);
    for url in [receiver.url(), format!("https://{}/", receiver.address), String::from("https://10.0.0.1/")] {
        let answer = operator.send("POST", HOOKS, &json!({ "url": url }));
        assert_eq!((answer.status, answer.code()), (400, "bad-webhook"), "{url}");
    }
    assert!(error(&operator, id).unwrap().contains("http"), "a webhook that the flag allowed once");
    let (named, _) =
        create(&operator, &format!("https://localhost:{}/", receiver.address.port()), &json!({ "events": ["none"] }));
    let refused = error(&operator, named).unwrap();
    assert!(refused.contains("webhooks are not sent") && !refused.contains("127.0.0.1"), "{refused}");
    assert_eq!(receiver.received().len(), 1, "one before the restart");
}

#[test]
fn three_days_of_failures_disable_a_webhook_until_a_test_succeeds() {
    let (directory, receiver) = (Directory::new(), Receiver::start());
    let coordinator = start(&directory);
    let operator = Client::operator(&coordinator);
    let (id, _) = create(&operator, &receiver.url(), &json!({ "events": ["key-created"] }));
    receiver.answer(&["500 Internal Server Error"; 3]);
    add_key(&operator, "default");
    webhook(&operator, id, |webhook| webhook["failures"] == 1);
    let edit = |sql| coordinator.wait(coordinator.state.store().edit(sql));
    edit("UPDATE webhooks SET failing_since = 0, next_try_at = 0");
    webhook(&operator, id, |webhook| webhook["failures"] == 2 && webhook["state"] == "failing");
    edit("UPDATE webhooks SET failures = 60, next_try_at = 0");
    webhook(&operator, id, |webhook| webhook["state"] == "disabled");
    let audit = operator.done("GET", "/api/v1/audit?limit=500", &Value::Null);
    let last = audit["entries"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["action"], &last["actor"]["kind"]), (&json!("webhook-disabled"), &json!("coordinator")));
    assert_eq!(operator.done("POST", &format!("{HOOKS}/{id}/test"), &Value::Null)["status"], 204);
    let requests = receiver.wait(|requests| requests.len() >= 5);
    assert_eq!(requests[3].events(), [format!("test webhook {id}")]);
    assert_eq!(requests[4].events(), ["key-created key 2"], "it goes on where it was");
}

#[test]
fn fault_e2_an_owner_of_one_network_has_webhooks_of_that_network_only() {
    let directory = Directory::new();
    let coordinator = start(&directory);
    let operator = Client::operator(&coordinator);
    operator.done("POST", "/api/v1/networks", &json!({ "name": "lab" }));
    person(&coordinator, "lee", Some("lab"), Some("owner"));
    let lee = Client::of(&coordinator, "lee");
    let (url, none) = ("https://hooks.example.com/secret", json!({ "events": ["none"] }));
    let (of_all, _) = create(&operator, url, &none);
    assert_eq!(lee.send("POST", HOOKS, &json!({ "url": url })).status, 403, "all changes");
    assert_eq!(lee.send("POST", HOOKS, &json!({ "url": url, "network": "default" })).status, 404);
    assert_eq!(lee.send("DELETE", &format!("{HOOKS}/{of_all}"), &Value::Null).status, 404);
    assert_eq!(lee.send("POST", &format!("{HOOKS}/{of_all}/test"), &Value::Null).status, 404);
    for _ in 0..16 {
        create(&lee, url, &json!({ "events": ["none"], "network": "lab" }));
    }
    let full = lee.send("POST", HOOKS, &json!({ "url": url, "network": "lab" }));
    assert_eq!((full.status, full.code()), (409, "full"));
    assert_eq!(lee.done("GET", HOOKS, &Value::Null)["webhooks"].as_array().unwrap().len(), 16);
    for events in [json!([]), json!(["No Action"]), json!(vec!["a"; 65])] {
        let answer = operator.send("POST", HOOKS, &json!({ "url": url, "events": events }));
        assert_eq!((answer.status, answer.code()), (400, "bad-webhook"));
    }
    let audit = operator.done("GET", "/api/v1/audit?limit=500", &Value::Null).to_string();
    assert!(audit.contains("hooks.example.com") && !audit.contains("/secret"), "the audit log has no secret");
    operator.done("DELETE", "/api/v1/networks/lab", &Value::Null);
    assert_eq!(operator.done("GET", HOOKS, &Value::Null)["webhooks"].as_array().unwrap().len(), 1);
    drop(coordinator);
    assert_eq!(dump(&directory.database()).iter().filter(|row| row.starts_with("webhooks [")).count(), 1);
}

#[test]
#[ignore = "needs a PostgreSQL server: tools/with_postgres"]
fn on_server_several_coordinators_deliver_each_entry_once() {
    let (directory, receiver) = (Directory::new(), Receiver::start());
    let database = directory.database();
    let first = start(&directory);
    let folder = Directory::new();
    let _second = TestCoordinator::start_with_webhooks(&folder, &database);
    let operator = Client::operator(&first);
    create(&operator, &receiver.url(), &json!({ "events": ["key-created"] }));
    for _ in 0..40 {
        add_key(&operator, "default");
        std::thread::sleep(Duration::from_millis(100));
    }
    let all =
        |requests: &[receiver::Received]| requests.iter().flat_map(receiver::Received::events).collect::<Vec<_>>();
    let requests = receiver.wait(|requests| all(requests).len() >= 40);
    let expected: Vec<String> = (2..42).map(|key| format!("key-created key {key}")).collect();
    assert_eq!(all(&requests), expected);
}

//! Fills a coordinator's database with something of everything, for the dumps of released databases: tools/dumps runs this test with the program of a release, and
//! writes what it leaves behind as SQL. Without tools/dumps the test shows that today's program can be filled.
//!
//! - `TAUT_DUMP_PROGRAM`: the coordinator's program, by default this build's.
//! - `TAUT_DUMP_STATE`: the state directory, which stays; by default one that is removed.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]
#![expect(clippy::panic, reason = "the same")]

#[path = "../kill/client.rs"]
#[expect(dead_code, reason = "the test of kills uses all of it")]
mod client;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use taut_base::{PublicKey, RelayId};
use taut_netmap::{JoinToken, NetworkMap, ToCoordinator, ToNode};

use client::{Operator, PROGRAM, Serve, TestHost, create_database, random, set_database};

/// Members of the first network, 6: enough that some are renamed, removed or have another key, and few enough that a dump stays small.
const MEMBERS: usize = 6;

/// The state directory.
struct Directory {
    path: PathBuf,
    stays: bool,
}

impl Directory {
    fn new() -> Self {
        let kept = std::env::var_os("TAUT_DUMP_STATE").map(PathBuf::from);
        let stays = kept.is_some();
        let own = || std::env::temp_dir().join(format!("taut-dump-{}", std::process::id()));
        Self { path: kept.unwrap_or_else(own), stays }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.stays {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

fn program() -> Command {
    Command::new(std::env::var_os("TAUT_DUMP_PROGRAM").unwrap_or_else(|| PROGRAM.into()))
}

#[test]
fn a_database_is_filled_with_something_of_everything() {
    let directory = Directory::new();
    // tools/dumps makes it itself.
    if !directory.stays {
        create_database(&directory.path);
    }
    let serve = Serve::start_by(program(), &directory.path);
    let (operator, join) = serve.tokens.clone().expect("the tokens of a first start");
    let operator = Operator::new(&serve, &operator);
    add_tokens(&directory, &operator);
    let keys = add_keys(&operator);
    let relay = add_relays(&operator);
    add_members(&serve, &operator, &join, &keys, relay);
    add_networks(&serve, &operator);
    add_people(&directory, &operator);
    add_webhooks(&operator);
    add_names(&operator);
    assert!(operator.get("nodes")["nodes"].as_array().unwrap().len() >= MEMBERS);
    serve.kill();
}

/// Three operator tokens, of which one is revoked.
fn add_tokens(directory: &Directory, operator: &Operator) {
    for _ in 0..2 {
        let mut create = program();
        set_database(&mut create, &directory.path);
        let done = create.args(["operator-token", "create", "--state"]).arg(&directory.path).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    done(operator, "DELETE", "operator-tokens/2", &Value::Null);
}

/// Users with roles and links, an API token, and what was recorded of all changes before. Dumps of releases without users leave this out.
fn add_people(directory: &Directory, operator: &Operator) {
    if std::env::var_os("TAUT_DUMP_PROGRAM").is_some() {
        return;
    }
    for (name, role) in [("ann", json!("owner")), ("bob", json!("admin")), ("eve", Value::Null)] {
        done(operator, "POST", "users", &json!({ "name": name, "display_name": name.to_uppercase(), "role": role }));
    }
    done(operator, "POST", "users/eve/role", &json!({ "network": "default", "role": "auditor" }));
    done(operator, "PATCH", "users/eve", &json!({ "email": "eve@example.com", "disabled": true }));
    let mut create = program();
    set_database(&mut create, &directory.path);
    let made = create
        .args(["tokens", "create", "ci", "--scopes", "nodes:read", "--state"])
        .arg(&directory.path)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

/// A webhook of one network and one of all, which get nothing. Dumps of releases without webhooks leave this out.
fn add_webhooks(operator: &Operator) {
    if std::env::var_os("TAUT_DUMP_PROGRAM").is_some() {
        return;
    }
    for network in [json!("default"), Value::Null] {
        let webhook = json!({ "url": "https://hooks.example.com/taut", "network": network, "events": ["none"] });
        done(operator, "POST", "webhooks", &webhook);
    }
}

/// A record and a split domain. Dumps of releases without them leave this out.
fn add_names(operator: &Operator) {
    if std::env::var_os("TAUT_DUMP_PROGRAM").is_some() {
        return;
    }
    let record = json!({ "name": "copier", "addresses": ["10.1.0.7"] });
    let split = json!({ "domain": "corp.example", "servers": ["10.1.0.53"] });
    done(operator, "PATCH", "names?network=default", &json!({ "set_records": [record], "set_domains": [split] }));
}

/// Keys of each kind. Returns the join tokens of one that is reusable, and of one that is not.
fn add_keys(operator: &Operator) -> [String; 2] {
    let create = |one_off: bool, expires_in: Value| {
        done(operator, "POST", "keys", &json!({ "network": "default", "one_off": one_off, "expires_in": expires_in }))
    };
    let token = |answer: Value| answer["join_token"].as_str().unwrap().to_owned();
    let kept = [token(create(false, Value::Null)), token(create(true, json!(3_600)))];
    let revoked = create(false, json!(86_400))["key"]["id"].as_i64().unwrap();
    done(operator, "DELETE", &format!("keys/{revoked}"), &Value::Null);
    // Expired by the time that somebody reads the dump.
    create(true, json!(1));
    kept
}

/// Two relays, one with a WebSocket, and one that was removed. Returns the number of the first.
fn add_relays(operator: &Operator) -> RelayId {
    let add = |name: &str, more: Value| {
        let mut relay = json!({ "network": "default", "name": name, "key": PublicKey(random()) });
        relay.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        done(operator, "POST", "relays", &relay)["relay"]["id"].as_u64().unwrap()
    };
    let first = add("near", json!({ "endpoints": ["203.0.113.7:3478", "[2001:db8::7]:3478"], "stun_port": 3479 }));
    add("gone", json!({ "endpoints": ["203.0.113.8:3478"] }));
    add("web", json!({ "endpoints": ["203.0.113.9:3478"], "web": "wss://relay.example/relay" }));
    done(operator, "DELETE", "relays/gone", &Value::Null);
    RelayId(u32::try_from(first).unwrap())
}

/// Members that joined with different keys, reported endpoints and relays, and have other names and keys than at first; one that was removed.
fn add_members(serve: &Serve, operator: &Operator, join: &str, keys: &[String; 2], relay: RelayId) {
    for number in 0..MEMBERS {
        let token = if number == 0 { &keys[1] } else { [join, &keys[0]][number % 2] };
        let mut host = TestHost::new(&token.parse::<JoinToken>().unwrap(), format!("host-{number}"));
        member(serve, &host, &[relay]);
        if number == 1 {
            host.node = PublicKey(random());
            member(serve, &host, &[]);
        }
    }
    let rename = |from: &str, to: &str| done(operator, "PATCH", &format!("nodes/{from}"), &json!({ "name": to }));
    rename("host-2", "printer");
    rename("host-3", "host-2");
    done(operator, "DELETE", "nodes/host-4", &Value::Null);
    let again: JoinToken = join.parse().unwrap();
    // The name of a mark is free.
    member(serve, &TestHost::new(&again, String::from("host-4")), &[]);
}

/// Connects a host as a member, and reports its endpoints and relays. Returns its map.
fn member(serve: &Serve, host: &TestHost, relays: &[RelayId]) -> NetworkMap {
    let (mut channel, answer) = host.hello(&serve.address, 0).expect("an answer");
    let ToNode::Map(map) = answer else { panic!("{answer:?}") };
    let port = 1_024 + u16::from_be_bytes([host.node.0[0] >> 1, host.node.0[1]]);
    let endpoints = vec![SocketAddr::from(([10, 1, 2, 3], port))];
    channel.send(&ToCoordinator::Relays { ids: relays.to_vec() }).unwrap();
    channel.send(&ToCoordinator::Endpoints { endpoints, ports: Vec::new(), observed: Vec::new() }).unwrap();
    // The change of the map says that both are stored: they are stored in their order.
    loop {
        match channel.receive().expect("a change") {
            ToNode::Delta(delta) if delta.me.is_some() => return map,
            ToNode::Refused(refused) => panic!("{refused:?}"),
            _ => {}
        }
    }
}

/// A network of another prefix with a member and a relay, an empty one, and one that was removed with its member, if the program can do that.
fn add_networks(serve: &Serve, operator: &Operator) {
    for (name, prefix) in [("office", "10.77.0.0/16"), ("empty", "100.100.0.0/24"), ("closed", "10.78.0.0/24")] {
        done(operator, "POST", "networks", &json!({ "name": name, "ipv4_prefix": prefix }));
        if name != "empty" {
            let key = done(operator, "POST", "keys", &json!({ "network": name }));
            let token: JoinToken = key["join_token"].as_str().unwrap().parse().unwrap();
            member(serve, &TestHost::new(&token, String::from("host-1")), &[]);
        }
    }
    let relay =
        json!({ "network": "office", "name": "near", "key": PublicKey(random()), "endpoints": ["198.51.100.1:3478"] });
    done(operator, "POST", "relays", &relay);
    let (status, answer) = operator.ask("DELETE", "networks/closed?force=true", &Value::Null).unwrap();
    // Release 0.1.0 cannot remove a network.
    assert!([200, 404, 405].contains(&status), "{answer}");
}

/// Sends a request that must succeed. Returns the answer.
fn done(operator: &Operator, method: &str, path: &str, body: &Value) -> Value {
    let (status, answer) = operator.ask(method, path, body).expect("an answer");
    assert!((200..300).contains(&status), "{method} {path}: {answer}");
    answer
}

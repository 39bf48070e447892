//! Relays and tickets: a relay that the operator adds is sent to every member, and only members get tickets.

use std::time::Duration;

use serde_json::{Value, json};
use taut_base::{PrivateKey, PublicKey, RelayId, decode_base64url};
use taut_netmap::{Hello, Relay, SCHEMA, ToCoordinator, ToNode};
use taut_noise::public_key;
use taut_relay::{NetworkTag, Ticket};

use super::world::{Directory, TestChannel, TestCoordinator, TestHost};
use crate::clock::unix_now;
use crate::state::{RelayToAdd, backup, findings, random, restore};

/// A valid relay. Every fifth one has the same name.
pub(super) fn named(number: u16) -> RelayToAdd {
    let [high, low] = number.to_be_bytes();
    let endpoints = vec![format!("192.0.2.{low}:3478").parse().unwrap()];
    RelayToAdd {
        name: format!("relay-{}", number % 5),
        key: PublicKey([high | 1; 32]),
        endpoints,
        stun_port: 3479,
        web: None,
    }
}

/// The coordinator's own relay, at an unspecified address.
pub(super) fn own() -> Relay {
    let endpoints = vec!["[::]:3478".parse().unwrap(), "0.0.0.0:3478".parse().unwrap()];
    let (name, key) = (String::from("coordinator"), PublicKey([77; 32]));
    Relay { id: RelayId(0), name, key, endpoints, stun_port: 3479, web: None, busy: false }
}

fn ids(relays: &[Relay]) -> Vec<u32> {
    relays.iter().map(|relay| relay.id.0).collect()
}

/// Opens the channel of a member with a bind key. Returns it with the text and the expiry of its ticket.
pub(super) fn with_ticket(
    coordinator: &TestCoordinator,
    host: &TestHost,
    bind: PublicKey,
) -> (TestChannel, String, u64) {
    let mut channel = TestChannel::open(coordinator.address, &coordinator.token(), &host.machine).unwrap();
    let (node_key, bind_key) = (host.node, Some(bind));
    let hello = Hello {
        schema: SCHEMA,
        node_key,
        bind_key,
        enrol: None,
        have: 0,
        version: String::from("test"),
        request: None,
        run: 0,
    };
    channel.send(&ToCoordinator::Hello(hello));
    assert!(matches!(channel.receive(), Some(ToNode::Map(_))), "the map comes first");
    let (text, expires) = next_ticket(&mut channel);
    (channel, text, expires)
}

fn next_ticket(channel: &mut TestChannel) -> (String, u64) {
    let (ticket, _, expires) = next_tickets(channel);
    (ticket, expires)
}

/// Receives the next ticket, in both versions, and its expiry.
pub(super) fn next_tickets(channel: &mut TestChannel) -> (String, String, u64) {
    loop {
        if let ToNode::Ticket { ticket, numbered, expires } = channel.receive().expect("a ticket") {
            return (ticket, numbered.expect("in version 2, too"), expires);
        }
    }
}

pub(super) fn read(ticket: &str) -> Ticket {
    Ticket::from_bytes(&decode_base64url(ticket).unwrap()).unwrap()
}

pub(super) fn now() -> Duration {
    Duration::from_secs(u64::try_from(unix_now()).unwrap())
}

#[test]
fn the_operators_relays_reach_every_member_and_go_again() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut node = coordinator.join("a");
    assert_eq!(node.map.relays, []);
    let first = coordinator.wait(coordinator.state.add_relay(None, named(1))).unwrap().relay;
    node.hear_until(|node| !node.map.relays.is_empty());
    assert_eq!(node.map.relays, std::slice::from_ref(&first));
    coordinator.wait(coordinator.state.set_own_relay(Some(&own()))).unwrap();
    node.hear_until(|node| node.map.relays.len() == 2);
    assert_eq!(node.map.relays, [own(), first.clone()]);
    assert_eq!(coordinator.join("b").map.relays, node.map.relays, "in whole maps, too");
    coordinator.wait(coordinator.state.remove_relay(None, "relay-1")).unwrap();
    node.hear_until(|node| node.map.relays.len() == 1);
    let next = coordinator.wait(coordinator.state.add_relay(None, named(1))).unwrap().relay;
    assert_eq!((ids(&node.map.relays), next.id.0 > first.id.0), (vec![0], true), "no number is given twice");
    assert_eq!((node.wholes, node.map.relays.clone()), (1, vec![own()]));
}

#[test]
fn maps_change_only_when_the_own_relay_changed() {
    let directory = Directory::new();
    let map = {
        let coordinator = TestCoordinator::start(&directory);
        coordinator.wait(coordinator.state.set_own_relay(Some(&own()))).unwrap();
        let node = coordinator.join("a");
        coordinator.wait(coordinator.state.set_own_relay(Some(&own()))).unwrap();
        assert_eq!(node.fresh_map(&coordinator).version, node.map.version);
        node.map
    };
    let coordinator = TestCoordinator::start(&directory);
    let other = coordinator.wait(coordinator.state.networks()).unwrap()[0].row.version;
    coordinator.wait(coordinator.state.set_own_relay(Some(&own()))).unwrap();
    assert_eq!((map.version, ids(&map.relays)), (other, vec![0]), "the same after a restart is no change");
    coordinator.wait(coordinator.state.set_own_relay(None)).unwrap();
    let after = coordinator.update_for(coordinator.network(), map.me.id, map.version);
    let ToNode::Delta(delta) = after else { panic!("{after:?}") };
    assert_eq!(map.apply(&delta).unwrap().relays, []);
}

#[test]
fn members_hear_where_others_are_bound() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut watcher = coordinator.join("watcher");
    let mut node = coordinator.join("node");
    let said = [3, 0, 3, 7].map(RelayId).to_vec();
    node.channel.send(&ToCoordinator::Relays { ids: said });
    let id = node.id();
    watcher.hear_until(|watcher| watcher.map.peers.get(&id).is_some_and(|peer| !peer.relays.is_empty()));
    assert_eq!(watcher.map.peers[&id].relays, [RelayId(3), RelayId(0)], "two, and none twice");
    let version = watcher.fresh_map(&coordinator).version;
    coordinator.wait(coordinator.state.set_bound(node.network, id, &[RelayId(3), RelayId(0)])).unwrap();
    assert_eq!(watcher.fresh_map(&coordinator).version, version, "the same again is no change");
    node.channel.send(&ToCoordinator::Relays { ids: Vec::new() });
    watcher.hear_until(|watcher| watcher.map.peers[&id].relays.is_empty());
}

#[test]
fn a_member_gets_a_ticket_for_its_own_keys_alone() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let mut host = coordinator.join("a").host;
    // A node without a bind key gets no ticket: presence follows the map directly.
    let mut old = host.resume(&coordinator, &coordinator.token(), None).unwrap();
    old.channel.send(&ToCoordinator::Ping);
    old.hear();
    let bind = public_key(&PrivateKey::from_bytes(random()));
    let (_channel, text, expires) = with_ticket(&coordinator, &host, bind);
    let ticket = read(&text);
    let trusted = [coordinator.state.ticket_key()];
    assert_eq!(ticket.verify(&trusted, now()), Ok(&trusted[0]));
    let terms = ticket.terms();
    assert_eq!((terms.node, terms.bind, terms.expires), (host.node, bind, expires));
    assert_eq!(terms.network, NetworkTag(coordinator.token().network));
    assert_eq!(terms.expires - terms.not_before, 48 * 3600);
    // Keys of low order are refused (fault A8).
    host.node = TestHost::new().node;
    let mut channel = TestChannel::open(coordinator.address, &coordinator.token(), &host.machine).unwrap();
    let (node_key, bind_key) = (host.node, Some(PublicKey([0; 32])));
    let hello = Hello {
        schema: SCHEMA,
        node_key,
        bind_key,
        enrol: None,
        have: 0,
        version: String::new(),
        request: None,
        run: 0,
    };
    channel.send(&ToCoordinator::Hello(hello));
    assert!(matches!(channel.receive(), Some(ToNode::Refused(_))));
}

#[test]
fn fault_c7_a_removed_node_gets_no_new_ticket() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let node = coordinator.join("a");
    let bind = public_key(&PrivateKey::from_bytes(random()));
    let (mut channel, text, _) = with_ticket(&coordinator, &node.host, bind);
    coordinator.wait(coordinator.state.remove_node(None, "a")).unwrap();
    assert!(coordinator.wait(coordinator.state.ticket(node.network, node.id(), bind)).is_err());
    let refused = std::iter::from_fn(|| channel.receive()).find(|said| matches!(said, ToNode::Refused(_)));
    assert!(refused.is_some(), "and the channel ends");
    let trusted = [coordinator.state.ticket_key()];
    let later = now() + Duration::from_secs(48 * 3600);
    assert!(read(&text).verify(&trusted, later).is_err(), "the last one ends by itself");
}

#[test]
fn a_ticket_is_renewed_when_half_of_its_life_is_over() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start_with_tickets(&directory, 4);
    let host = coordinator.join("a").host;
    let bind = public_key(&PrivateKey::from_bytes(random()));
    let (mut channel, _, first) = with_ticket(&coordinator, &host, bind);
    let (text, second) = next_ticket(&mut channel);
    assert!(second > first);
    let trusted = [coordinator.state.ticket_key()];
    assert!(read(&text).verify(&trusted, now()).is_ok());
}

#[test]
fn the_key_that_signs_tickets_survives_restart_and_restore() {
    let directory = Directory::new();
    let file = directory.0.join("saved.db");
    let (key, relay_key);
    {
        let coordinator = TestCoordinator::start(&directory);
        (key, relay_key) = (coordinator.state.ticket_key(), public_key(coordinator.state.relay_key()));
        coordinator.wait(coordinator.state.add_relay(None, named(1))).unwrap();
        coordinator.wait(backup(&directory.0, &file)).unwrap();
    }
    let other = Directory::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(restore(&other.0, &file, false)).unwrap();
    for directory in [&directory, &other] {
        let coordinator = TestCoordinator::start(directory);
        assert_eq!((coordinator.state.ticket_key(), public_key(coordinator.state.relay_key())), (key, relay_key));
        let next = coordinator.wait(coordinator.state.add_relay(None, named(257))).err();
        assert!(next.is_some(), "the name is taken: the relay is there");
        let number = coordinator.wait(coordinator.state.add_relay(None, named(514))).unwrap().relay.id.0;
        assert!(number == 2 || number > 1_000, "a restore leaves out what may have been given: {number}");
        assert_eq!(coordinator.wait(findings(&directory.database())).unwrap(), [""; 0]);
    }
}

#[test]
fn fault_l5_a_database_of_a_version_without_relays_is_sound_and_brought_up_to_date() {
    let directory = Directory::new();
    let token;
    {
        let coordinator = TestCoordinator::start(&directory);
        token = coordinator.token();
        for sql in [
            "DROP TABLE relays",
            "ALTER TABLE networks DROP COLUMN relays_version",
            "ALTER TABLE nodes DROP COLUMN relays",
            "DELETE FROM meta WHERE name IN ('ticket-key', 'relay-key', 'own-relay')",
            "DROP TABLE revocations",
            "DELETE FROM _sqlx_migrations WHERE version IN (3, 7)",
        ] {
            coordinator.wait(coordinator.state.store().edit(sql));
        }
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    assert_eq!(runtime.block_on(findings(&directory.database())).unwrap(), [""; 0]);
    let coordinator = TestCoordinator::start(&directory);
    let node = TestHost::new().join(&coordinator, &token, "a").unwrap();
    coordinator.wait(coordinator.state.add_relay(None, named(1))).unwrap();
    assert_eq!(ids(&node.fresh_map(&coordinator).relays), [1]);
    coordinator.wait(coordinator.state.store().edit("DELETE FROM meta WHERE name = 'ticket-key'"));
    let found = coordinator.wait(findings(&directory.database())).unwrap();
    assert!(found.len() == 1 && found[0].contains("no key that signs"), "{found:?}");
    coordinator.wait(coordinator.state.store().edit("INSERT INTO meta VALUES ('ticket-key', x'00')"));
    assert!(coordinator.wait(findings(&directory.database())).unwrap()[0].contains("wrong length"));
}

#[test]
fn fault_e10_a_damaged_relay_row_does_not_block_maps() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let node = coordinator.join("a");
    coordinator.wait(coordinator.state.add_relay(None, named(1))).unwrap();
    coordinator.wait(coordinator.state.add_relay(None, named(514))).unwrap();
    coordinator.wait(coordinator.state.store().edit("UPDATE relays SET endpoints = '[\"127.0.0.1:1\"]' WHERE id = 1"));
    coordinator.state.forget_views();
    assert_eq!(ids(&node.fresh_map(&coordinator).relays), [2]);
    coordinator.wait(coordinator.state.store().edit("UPDATE relays SET name = '../x', endpoints = 'x' WHERE id = 2"));
    coordinator.state.forget_views();
    assert_eq!(ids(&node.fresh_map(&coordinator).relays), [0_u32; 0]);
}

#[test]
fn the_api_says_why_a_relay_is_not_taken() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    coordinator.wait(coordinator.state.set_own_relay(Some(&own()))).unwrap();
    let token = Some(coordinator.operator_token());
    let ask = |method: &str, path: &str, body: Option<Value>| {
        let body = body.map(|body| body.to_string());
        let (status, answer) = coordinator.ask(method, &format!("/api/v1/{path}"), token, body.as_deref());
        (status, answer["error"]["code"].as_str().unwrap_or_default().to_owned(), answer)
    };
    let good =
        json!({ "name": "far", "key": PublicKey([9; 32]), "endpoints": ["203.0.113.7:3478"], "stun_port": 3479 });
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        let (status, code, _) = ask("POST", "relays", Some(body));
        (status, code)
    };
    let is = |status: u16, code: &str| (status, String::from(code));
    assert_eq!(with("name", json!("Far")), is(400, "bad-name"));
    assert_eq!(with("name", json!("12")), is(400, "bad-name"));
    assert_eq!(with("key", json!("short")), is(400, "bad-request"));
    assert_eq!(with("stun_port", json!(65_536)), is(400, "bad-request"));
    assert_eq!(with("endpoints", json!(["relay.example:3478"])), is(400, "bad-request"));
    assert_eq!(with("endpoints", json!(["127.0.0.1:3478"])), is(400, "bad-relay"));
    assert_eq!(with("endpoints", json!(vec!["203.0.113.7:3478"; 9])), is(400, "bad-relay"));
    assert_eq!(with("endpoints", json!([])), is(400, "bad-relay"));
    assert_eq!(with("web", json!("https://relay.example")), is(400, "bad-relay"));
    assert_eq!(with("network", json!("other")), is(404, "no-such-network"));
    assert_eq!(with("name", json!("coordinator")), is(409, "relay-exists"));
    assert_eq!(with("key", json!(own().key)), is(409, "relay-exists"));
    assert_eq!(with("web", json!("wss://relay.example/relay")), (201, String::new()));
    assert_eq!(with("stun_port", json!(1)), is(409, "relay-exists"));
    let (_, _, listed) = ask("GET", "relays", None);
    let seen =
        |field: &str| listed["relays"].as_array().unwrap().iter().map(|relay| relay[field].clone()).collect::<Vec<_>>();
    assert_eq!(
        (seen("name"), seen("own")),
        (vec![json!("coordinator"), json!("far")], vec![json!(true), json!(false)])
    );
    assert_eq!(ask("DELETE", "relays/coordinator", None).1, "own-relay");
    assert_eq!(ask("DELETE", "relays/nobody", None).1, "no-such-relay");
    assert_eq!(ask("DELETE", "relays/far", None).2["removed"]["name"], "far");
    let (status, _, key) = ask("GET", "ticket-key", None);
    assert_eq!((status, key["ticket_key"].as_str()), (200, Some(coordinator.state.ticket_key().to_string().as_str())));
}

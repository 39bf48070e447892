//! Channels of relays: real relays and members that are bound to them, over real sockets.

use std::time::{Duration, Instant};

use taut_base::{PrivateKey, PublicKey};
use taut_netmap::{RelayLoad, RelayToken, ToCoordinator};
use taut_noise::public_key;
use taut_relay_server::{CoordinatorLink, RelayConfig, RelayServer};

use super::cutoff::{Member, credentials, is_refused};
use super::world::{Directory, TestCoordinator, TestHost};
use crate::contract::{RelayEntry, RelayList};
use crate::state::{RelayToAdd, random};

/// Longest wait for what a relay is told. Only a failing test reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(180);

/// Starts a relay on free ports, for `clients` clients.
pub(super) fn relay(clients: usize) -> RelayServer {
    let mut config = RelayConfig::new(PrivateKey::from_bytes(random()));
    (config.port, config.stun_port, config.workers) = (0, 0, 1);
    config.limits.clients = clients;
    RelayServer::start(&config).unwrap()
}

/// Adds the relay to the coordinator's only network.
pub(super) fn name(coordinator: &TestCoordinator, relay: &RelayServer) {
    let (key, endpoints) = (relay.key(), vec![format!("203.0.113.7:{}", relay.port()).parse().unwrap()]);
    let named = RelayToAdd { name: String::from("far"), key, endpoints, stun_port: 0, web: None };
    coordinator.wait(coordinator.state.add_relay(None, named)).unwrap();
}

pub(super) fn connect(coordinator: &TestCoordinator, relay: &RelayServer) -> CoordinatorLink {
    let urls = vec![format!("http://{}", coordinator.address)];
    let token = RelayToken { urls, ..coordinator.state.relay_token() };
    relay.connect(token, "1.2.3", 1_000_000).unwrap()
}

/// Waits until something holds.
#[track_caller]
pub(super) fn until(holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TEST_TIMEOUT, "nothing came of it");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(super) fn listed(coordinator: &TestCoordinator, key: PublicKey) -> RelayEntry {
    let list: RelayList = coordinator.ask_for("GET", "/api/v1/relays", None);
    list.relays.into_iter().find(|relay| relay.key == key).expect("the relay")
}

#[test]
fn fault_f17_a_relay_with_a_channel_cuts_a_removed_node_off_at_once() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let relay = relay(16);
    name(&coordinator, &relay);
    let _link = connect(&coordinator, &relay);
    until(|| relay.stats().coordinators == 1);
    let (node, other) = (coordinator.join("a"), coordinator.join("b"));
    let (_channel, removed) = credentials(&coordinator, &coordinator.token(), &node.host);
    let (_channel, stays) = credentials(&coordinator, &coordinator.token(), &other.host);
    let [mut member, mut rest] = [&removed, &stays].map(|one| Member::new(&relay, one.clone()));
    member.run(|_| relay.stats().tally.clients == 1);
    rest.run(|_| relay.stats().tally.clients == 2);
    coordinator.wait(coordinator.state.remove_node(None, "a")).unwrap();
    member.run(|member| !member.client.is_ready());
    is_refused(&relay, &removed);
    assert_eq!(relay.stats().tally.clients, 1, "the other one stays");
}

#[test]
fn fault_f17_a_relay_that_was_away_is_told_of_all_removed_nodes_and_former_keys() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let relay = relay(16);
    name(&coordinator, &relay);
    let (gone, mut changed) = (coordinator.join("gone"), coordinator.join("changed"));
    let (_channel, of_removed) = credentials(&coordinator, &coordinator.token(), &gone.host);
    let (_channel, of_former_key) = credentials(&coordinator, &coordinator.token(), &changed.host);
    coordinator.wait(coordinator.state.remove_node(None, "gone")).unwrap();
    changed.host.node = public_key(&PrivateKey::from_bytes(random()));
    let (_channel, of_new_key) = credentials(&coordinator, &coordinator.token(), &changed.host);
    let _link = connect(&coordinator, &relay);
    until(|| relay.stats().revocations == 2);
    is_refused(&relay, &of_removed);
    // Its ticket without a number names the former key only.
    let plain = taut_relay::Credentials { numbered: None, ..of_former_key };
    let before = relay.stats().tally.cut_off;
    Member::new(&relay, plain).run(|_| relay.stats().tally.cut_off > before);
    Member::new(&relay, of_new_key).run(|member| member.client.is_ready());
}

#[test]
fn a_machine_that_joins_again_is_served_by_relays_that_were_told_of_its_removal() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let relay = relay(16);
    name(&coordinator, &relay);
    let _link = connect(&coordinator, &relay);
    let node = coordinator.join("a");
    coordinator.wait(coordinator.state.remove_node(None, "a")).unwrap();
    until(|| relay.stats().revocations == 1);
    let back = node.host.join(&coordinator, &coordinator.token(), "a").unwrap();
    let (_channel, credentials) = credentials(&coordinator, &coordinator.token(), &back.host);
    Member::new(&relay, credentials).run(|member| member.client.is_ready());
}

#[test]
fn a_relay_that_no_network_lists_is_refused_until_one_does() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let relay = relay(16);
    let _link = connect(&coordinator, &relay);
    until(|| coordinator.wait(coordinator.state.networks_of_relay(relay.key())).is_err());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(relay.stats().coordinators, 0);
    name(&coordinator, &relay);
    until(|| relay.stats().coordinators == 1);
    coordinator.wait(coordinator.state.remove_relay(None, "far")).unwrap();
    until(|| relay.stats().coordinators == 0);
}

#[test]
fn an_operator_sees_a_relays_load_and_nodes_see_that_it_is_busy() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let relay = relay(1);
    name(&coordinator, &relay);
    assert!(listed(&coordinator, relay.key()).channel.is_none());
    let mut node = coordinator.join("a");
    let member = TestHost::new().join(&coordinator, &coordinator.token(), "b").unwrap();
    let (_channel, credentials) = credentials(&coordinator, &coordinator.token(), &member.host);
    let _link = connect(&coordinator, &relay);
    until(|| listed(&coordinator, relay.key()).channel.is_some_and(|channel| channel.load.is_some()));
    let entry = listed(&coordinator, relay.key());
    let channel = entry.channel.unwrap();
    let load = channel.load.unwrap();
    assert_eq!((channel.version.as_str(), load.clients, load.clients_max, load.capacity), ("1.2.3", 0, 1, 1_000_000));
    assert!(!entry.busy);
    let mut member = Member::new(&relay, credentials);
    member.run(|_| relay.stats().tally.clients == 1);
    // The next report says that its only place is taken.
    node.hear_until(|node| node.map.relays.iter().any(|named| named.key == relay.key() && named.busy));
    until(|| listed(&coordinator, relay.key()).busy);
    drop(_link);
    until(|| listed(&coordinator, relay.key()).channel.is_none());
    node.channel.send(&ToCoordinator::Goodbye);
}

#[test]
fn two_relays_with_one_key_do_not_displace_each_other_without_end() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let key = PrivateKey::from_bytes(random());
    let [one, other] = [key.clone(), key].map(|key| {
        let mut config = RelayConfig::new(key);
        (config.port, config.stun_port, config.workers) = (0, 0, 1);
        RelayServer::start(&config).unwrap()
    });
    name(&coordinator, &one);
    let _links = [connect(&coordinator, &one), connect(&coordinator, &other)];
    // The one that came second stays; the first was told, and waits.
    until(|| one.stats().coordinators + other.stats().coordinators == 1);
    let before = coordinator.state.next_connection();
    std::thread::sleep(Duration::from_secs(3));
    assert!(coordinator.state.next_connection() <= before + 2, "no channel was opened meanwhile");
}

#[test]
fn fault_f17_a_coordinator_cannot_revoke_the_members_of_another_one() {
    let (directory, other) = (Directory::new(), Directory::new());
    let (coordinator, hostile) = (TestCoordinator::start(&directory), TestCoordinator::start(&other));
    // A forged relay token: the attacker's own key and URL, with the key for tickets of the other coordinator, which anyone can read in a relay token.
    let (own, foreign) = (hostile.state.relay_token(), coordinator.state.relay_token());
    for proof in [own.proof, foreign.proof] {
        let forged = RelayToken { tickets: foreign.tickets, proof, ..own.clone() };
        let refused = relay(16).connect(forged, "1", 0).err().expect("a forged token is refused");
        assert!(refused.to_string().contains("forged"), "{refused}");
    }
}

#[test]
fn fault_f17_a_machine_that_joined_again_stays_bound_when_the_relay_is_told_of_everything_again() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let relay = relay(16);
    name(&coordinator, &relay);
    let node = coordinator.join("a");
    coordinator.wait(coordinator.state.remove_node(None, "a")).unwrap();
    let back = node.host.join(&coordinator, &coordinator.token(), "a").unwrap();
    let link = connect(&coordinator, &relay);
    until(|| relay.stats().revocations == 1);
    let (_channel, credentials) = credentials(&coordinator, &coordinator.token(), &back.host);
    let mut member = Member::new(&relay, credentials);
    member.run(|_| relay.stats().tally.clients == 1);
    drop(link);
    let _link = connect(&coordinator, &relay);
    until(|| relay.stats().revocations == 2);
    assert_eq!(relay.stats().tally.clients, 1, "its ticket is later than the removal");
}

#[test]
fn fault_f17_a_relay_that_was_away_while_a_network_was_removed_is_told_of_its_members() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let relay = relay(16);
    name(&coordinator, &relay);
    coordinator.join("a");
    coordinator.wait(coordinator.state.remove_network("default", true)).unwrap();
    let _link = connect(&coordinator, &relay);
    until(|| relay.stats().revocations == 1);
}

#[test]
fn a_new_channel_brings_no_new_budget_for_busy() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let relay = relay(16);
    name(&coordinator, &relay);
    let load = |processor| RelayLoad { processor, ..RelayLoad::default() };
    let version = || coordinator.wait(coordinator.state.networks()).unwrap()[0].row.version;
    let before = version();
    for round in 0..6 {
        let membership = coordinator.state.enter_relay(relay.key(), "").unwrap();
        coordinator.wait(membership.note(load(if round % 2 == 0 { 1_000 } else { 0 }))).unwrap();
    }
    assert_eq!(version() >> 20, (before >> 20) + 1, "one change of the map");
}

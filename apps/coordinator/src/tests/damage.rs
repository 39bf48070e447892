//! Rows that no version should have written: each harms only itself, is named, and a command helps (fault O9).

mod values;

use std::collections::BTreeSet;
use std::time::Duration;

use taut_base::NodeId;
use taut_netmap::ProblemCode;
use tokio::runtime::Runtime;

use super::relays::{named, own};
use super::world::{Directory, TestCoordinator, TestHost};
use crate::clock::unix_now;
use crate::state::{Expiry, damaged_rows};
use crate::store::NetworkId;
use values::{
    Damages, EMPTY, FIRST, KEYS, MARKS, MEMBERS, NEGATIVE, NETWORKS, NULL, OPERATORS, RELAYS, REVOCATIONS, SHORT,
};

/// Returns the numbers of a table's rows that are named as damaged.
fn numbers(found: &[String], table: &str) -> BTreeSet<u64> {
    let of_table = format!("of the table `{table}`");
    let rows = found.iter().filter(|row| row.contains(&of_table));
    rows.map(|row| row.split(' ').nth(2).unwrap().parse().unwrap()).collect()
}

#[test]
fn fault_o9_damaged_rows_harm_only_themselves_and_are_named_with_the_command_that_helps() {
    let (directory, runtime) = (Directory::new(), Runtime::new().unwrap());
    let database = directory.database();
    let (token, operator, good, far_token, far);
    {
        let coordinator = TestCoordinator::start(&directory);
        coordinator.wait(coordinator.state.create_network("other", "10.9.0.0/16".parse().unwrap())).unwrap();
        let key = coordinator.wait(coordinator.state.create_key(Some("other"), true, Expiry::Never)).unwrap();
        far_token = key.2.parse().unwrap();
        token = coordinator.token();
        operator = coordinator.operator_token().to_owned();
        good = coordinator.join("good");
        far = TestHost::new().join(&coordinator, &far_token, "far").unwrap();
        coordinator.wait(coordinator.state.add_relay(Some("default"), named(1))).unwrap();
    }
    let mut damages = Damages::new(&database);
    let of_default = "SELECT id FROM networks WHERE name = 'default'";
    let members = damages.damage("nodes", &MEMBERS, FIRST, |damages, number| damages.member(number, "NULL"));
    let marks = damages.damage("nodes", &MARKS, 2 * FIRST, |damages, number| damages.member(number, "1800000000"));
    let relays = damages.damage("relays", &RELAYS, FIRST, |damages, number| {
        let key = damages.random(32);
        format!(
            "INSERT INTO relays (id, network, name, key, endpoints, stun_port, created_at) \
             SELECT {number}, id, 'bad-{number}', {key}, '[\"203.0.113.7:1\"]', 0, 0 FROM networks WHERE name = 'default'"
        )
    });
    let keys = damages.damage("keys", &KEYS, FIRST, |damages, number| {
        let hash = damages.random(32);
        format!(
            "INSERT INTO keys (id, network, hash, reusable, created_at) VALUES ({number}, ({of_default}), {hash}, 1, 0)"
        )
    });
    let operators = damages.damage("operators", &OPERATORS, FIRST, |damages, number| {
        format!("INSERT INTO operators (id, hash, created_at) VALUES ({number}, {}, 0)", damages.random(32))
    });
    damages.damage("revocations", &REVOCATIONS, FIRST, |damages, number| {
        let key = damages.random(32);
        format!("INSERT INTO revocations (id, network, node, node_key, revoked_at) VALUES ({number}, ({of_default}), {number}, {key}, 5)")
    });
    damages.damage("networks", &NETWORKS, FIRST, |damages, number| {
        let id = damages.bytes(&format!("{number:032x}"));
        format!(
            "INSERT INTO networks (id, name, ipv4, ipv6, version, cursor, created_at) \
             VALUES ({id}, 'bad-{number}', '10.1.0.0/16', 'fd00:{number:x}::/64', 1048576, 0, 0); \
             INSERT INTO history (network, version) VALUES ({id}, 1048576)"
        )
    });
    damages.statements.push(format!(
        "UPDATE keys SET used = 100000 WHERE id = 1; INSERT INTO history (network, version) VALUES (({of_default}), -5)"
    ));
    damages.make(&database);

    let coordinator = TestCoordinator::start(&directory);
    let state = &coordinator.state;
    let (revocations, _) = coordinator.wait(state.revocations(NetworkId(token.network), 0)).unwrap().unwrap();
    assert_eq!(revocations.len(), 2, "those that can be read: {revocations:?}");
    let mut back = good.host.resume(&coordinator, &token, None).expect("a sound member is served");
    assert_eq!(far.host.resume(&coordinator, &far_token, None).expect("another network is served").map.me, far.map.me);
    coordinator.wait(state.set_own_relay(Some(&own()))).expect("all other networks learn of the relay");
    coordinator.wait(state.forget_marks(1_900_000_000)).expect("old marks of others are forgotten");
    let new = TestHost::new().join(&coordinator, &token, "new").expect("a node joins");
    let also = TestHost::new().join(&coordinator, &token, "bad-1000").expect("with the name of a damaged row");
    back.hear_until(|back| [&new, &also].iter().all(|node| back.map.peers.contains_key(&node.id())));
    for path in ["nodes", "keys", "networks", "relays", "operator-tokens"] {
        let (status, answer) = coordinator.ask_unchecked("GET", &format!("/api/v1/{path}"), Some(&operator), None);
        assert_eq!(status, 200, "{path}: {answer}");
    }
    assert_eq!(coordinator.ask("GET", "/healthz", None, None).0, 200);

    // Each damaged row is in use or is named.
    let map = back.fresh_map(&coordinator);
    let found = runtime.block_on(damaged_rows(&database)).unwrap();
    let named_nodes = numbers(&found, "nodes");
    let in_map: BTreeSet<u64> = map.peers.keys().map(|node: &NodeId| node.0).collect();
    assert!(named_nodes.is_disjoint(&in_map), "{:?}", named_nodes.intersection(&in_map));
    let lost: Vec<_> = members.iter().filter(|node| !in_map.contains(node) && !named_nodes.contains(node)).collect();
    assert!(lost.is_empty(), "in no map, and named by nobody: {lost:?}");
    assert!(named_nodes.is_disjoint(&marks));
    let in_relays: BTreeSet<u64> = map.relays.iter().map(|relay| u64::from(relay.id.0)).collect();
    assert!(relays.iter().all(|relay| in_relays.contains(relay) != numbers(&found, "relays").contains(relay)));
    assert!(in_relays.contains(&1) && in_relays.contains(&0));
    assert!(keys.intersection(&numbers(&found, "keys")).count() >= 7, "{found:?}");
    assert!(operators.intersection(&numbers(&found, "operators")).count() >= 2, "{found:?}");
    let of_networks = found.iter().filter(|row| row.contains("of the table `networks`")).count();
    assert!(of_networks >= 14, "{of_networks} of the networks are named: {found:?}");

    // The commands that are named help.
    for row in found.iter().filter(|row| !row.contains("`networks`")) {
        let command: Vec<&str> = row.rsplit('(').next().unwrap().split(['`', ' ']).collect();
        let (table, verb, number) = (command[2], command[3], command[4]);
        match (table, verb) {
            ("nodes", "remove") => drop(coordinator.wait(state.remove_node(None, number)).expect(row)),
            ("nodes", "rename") => {
                drop(coordinator.wait(state.rename_node(None, number, &format!("n{number}"))).expect(row));
            }
            ("relays", "remove") => drop(coordinator.wait(state.remove_relay(None, number)).expect(row)),
            ("keys", "revoke") => coordinator.wait(state.revoke_key(number.parse().unwrap())).expect(row),
            ("operator-token", "revoke") => {
                coordinator.wait(state.revoke_operator(number.parse().unwrap())).expect(row);
            }
            _ => panic!("no command in: {row}"),
        }
    }
    let found = runtime.block_on(damaged_rows(&database)).unwrap();
    assert!(found.iter().all(|row| row.contains("of the table `networks`")), "{found:?}");
    let renamed = map.peers.len();
    back.hear_until(|back| back.map.peers.len() >= renamed);
    let last = TestHost::new().join(&coordinator, &token, "last").unwrap();
    back.hear_until(|back| back.map.peers.contains_key(&last.id()));
    assert_eq!(back.map, back.fresh_map(&coordinator));
}

#[test]
fn fault_o9_a_member_whose_row_is_damaged_is_told_to_wait_and_not_that_it_is_none() {
    for (column, value) in
        [("ipv6", SHORT), ("machine_key", SHORT), ("version", NEGATIVE), ("name", EMPTY), ("node_key", NULL)]
    {
        let directory = Directory::new();
        let database = directory.database();
        let (token, victim, good, first);
        {
            let coordinator = TestCoordinator::start(&directory);
            (token, first) = (coordinator.token(), coordinator.join("first"));
            good = coordinator.join("good");
            victim = coordinator.join("victim");
        }
        let mut damages = Damages::new(&database);
        let value = if damages.on_server { value.1.unwrap() } else { value.0 };
        damages.statements.push(format!("UPDATE nodes SET {column} = {value} WHERE name = 'victim'"));
        damages.make(&database);
        let coordinator = TestCoordinator::start(&directory);
        let back = good.host.resume(&coordinator, &token, None).unwrap();
        assert_eq!(back.map.peers.keys().copied().collect::<Vec<_>>(), [first.id()], "{column}");
        let refused = victim.host.resume(&coordinator, &token, Some(victim.map.clone())).err().unwrap();
        assert!(refused.code == ProblemCode::Unavailable && !refused.code.is_final(), "{column}: {refused}");
    }
}

#[test]
fn fault_o9_memberships_end_and_absence_is_counted_beside_damaged_rows() {
    let directory = Directory::new();
    let database = directory.database();
    {
        let coordinator = TestCoordinator::start(&directory);
        ["damaged", "lost", "good"].into_iter().for_each(|name| drop(coordinator.join(name)));
    }
    let mut damages = Damages::new(&database);
    let short = if damages.on_server { SHORT.1.unwrap() } else { SHORT.0 };
    let nowhere = damages.random(16);
    damages.statements.extend([
        String::from("UPDATE nodes SET expires_at = 1, ephemeral = 300, absent = 299"),
        format!("UPDATE nodes SET ipv6 = {short} WHERE name = 'damaged'"),
        format!("UPDATE nodes SET network = {nowhere} WHERE name = 'lost'"),
    ]);
    damages.make(&database);
    let coordinator = TestCoordinator::start(&directory);
    let state = &coordinator.state;
    assert_eq!(coordinator.wait(state.end_memberships(unix_now())).unwrap(), 1);
    // With PostgreSQL, nodes can still count as online for a while after their coordinator has ended.
    while coordinator.wait(state.nodes(None)).unwrap().iter().any(|view| view.online) {
        std::thread::sleep(Duration::from_millis(10));
    }
    coordinator.wait(state.count_absence(Duration::from_secs(90))).unwrap();
    assert!(coordinator.wait(state.nodes(None)).unwrap().is_empty(), "the good node was absent for long enough");
}

//! Rows that no version should have written: each harms only itself, is named, and a command helps (fault O9).

use std::collections::BTreeSet;

use taut_base::NodeId;
use taut_netmap::ProblemCode;
use tokio::runtime::Runtime;

use super::relays::{named, own};
use super::world::{Directory, TestCoordinator, TestHost};
use crate::state::{Expiry, damaged_rows};
use crate::store::{Location, execute, execute_on_file};

/// Values that damage a column: for SQLite, and for PostgreSQL if its types allow them there.
type Bad = (&'static str, Option<&'static str>);

const NULL: Bad = ("NULL", Some("NULL"));
const SHORT: Bad = ("x'00'", Some("'\\x00'"));
const NO_UTF8: Bad = ("CAST(x'2e00ff' AS TEXT)", None);
const EMPTY: Bad = ("''", Some("''"));
const NONSENSE: Bad = ("'[{'", Some("'[{'"));
const HUGE: Bad = ("printf('%.*c', 1048576, 'x')", Some("repeat('x', 1048576)"));
const NEGATIVE: Bad = ("-1", Some("-1"));
const LARGEST: Bad = ("9223372036854775807", Some("9223372036854775807"));
const WORD: Bad = ("'x'", None);
const FOREIGN: Bad = ("x'08080808'", Some("'\\x08080808'"));
const STRANGE: Bad = ("x'00112233445566778899aabbccddeeff'", Some("'\\x00112233445566778899aabbccddeeff'"));
/// A key, or an address, of the member that has to be served.
const OF_GOOD: Bad =
    ("(SELECT o.{} FROM nodes o WHERE o.name = 'good')", Some("(SELECT o.{} FROM nodes o WHERE o.name = 'good')"));

/// Damages of members.
const MEMBERS: [(&str, &[Bad]); 15] = [
    ("network", &[NULL, SHORT, STRANGE]),
    ("machine_key", &[NULL, SHORT]),
    ("node_key", &[NULL, SHORT, OF_GOOD]),
    ("name", &[NULL, NO_UTF8, EMPTY, NONSENSE, HUGE]),
    ("ipv4", &[NULL, SHORT, FOREIGN, OF_GOOD]),
    ("ipv6", &[NULL, SHORT, STRANGE, OF_GOOD]),
    ("endpoints", &[NULL, NO_UTF8, EMPTY, NONSENSE, HUGE]),
    ("program", &[NULL, NO_UTF8, HUGE]),
    ("version", &[NULL, NEGATIVE, LARGEST, WORD]),
    ("created_at", &[NULL, NEGATIVE, LARGEST, WORD]),
    ("last_seen_at", &[NULL, NEGATIVE, LARGEST, WORD]),
    ("relays", &[NULL, NO_UTF8, NONSENSE, HUGE]),
    ("keys_full_at", &[NULL, NEGATIVE, LARGEST, WORD]),
    ("joined_key", &[NULL, NEGATIVE, WORD]),
    ("joined_host", &[SHORT, NEGATIVE_BYTES]),
];

/// Bytes of another length.
const NEGATIVE_BYTES: Bad = ("x''", Some("'\\x'"));

/// Damages of marks of removed nodes.
const MARKS: [(&str, &[Bad]); 5] = [
    ("network", &[NULL, SHORT, STRANGE]),
    ("node_key", &[NULL, SHORT]),
    ("ipv4", &[NULL, SHORT]),
    ("removed_at", &[NEGATIVE, LARGEST, WORD]),
    ("version", &[NULL, NEGATIVE, LARGEST]),
];

const RELAYS: [(&str, &[Bad]); 7] = [
    ("network", &[NULL, STRANGE]),
    ("name", &[NULL, NO_UTF8, EMPTY, HUGE]),
    ("key", &[NULL, SHORT]),
    ("endpoints", &[NULL, NONSENSE, HUGE]),
    ("stun_port", &[NULL, NEGATIVE, LARGEST]),
    ("web", &[NONSENSE, HUGE]),
    ("created_at", &[NULL, WORD]),
];

const KEYS: [(&str, &[Bad]); 7] = [
    ("network", &[NULL, SHORT, STRANGE]),
    ("hash", &[NULL, SHORT]),
    ("reusable", &[NULL, LARGEST, WORD]),
    ("expires_at", &[NEGATIVE, LARGEST, WORD]),
    ("used", &[NULL, NEGATIVE, LARGEST]),
    ("created_at", &[NULL, NEGATIVE, WORD]),
    ("revoked_at", &[NEGATIVE, LARGEST, WORD]),
];

const OPERATORS: [(&str, &[Bad]); 3] =
    [("hash", &[NULL, SHORT]), ("created_at", &[NULL, NEGATIVE, WORD]), ("revoked_at", &[NEGATIVE, WORD])];

const NETWORKS: [(&str, &[Bad]); 8] = [
    ("id", &[SHORT]),
    // No index of PostgreSQL has room for the huge one.
    ("name", &[NO_UTF8, EMPTY, (HUGE.0, None)]),
    ("ipv4", &[NULL, EMPTY, ("'8.8.8.0/24'", Some("'8.8.8.0/24'")), ("'fd00::/64'", Some("'fd00::/64'"))]),
    ("ipv6", &[EMPTY, ("'10.0.0.0/8'", Some("'10.0.0.0/8'"))]),
    ("version", &[NULL, NEGATIVE, LARGEST, WORD]),
    ("cursor", &[NEGATIVE, LARGEST]),
    ("created_at", &[NULL, WORD]),
    ("relays_version", &[NULL, NEGATIVE, LARGEST]),
];

/// Number of the first damaged row of each table.
const FIRST: u64 = 1_000;

/// Removes the rules of the tables: types, values, keys and references.
const LOOSEN_FILE: &str = "DROP INDEX nodes_machine; DROP INDEX nodes_node_key; DROP INDEX nodes_name; DROP INDEX nodes_ipv4; DROP INDEX nodes_ipv6; \
     DROP INDEX relays_name; DROP INDEX relays_key; PRAGMA writable_schema = ON; \
     UPDATE sqlite_schema SET sql = replace(replace(replace(sql, ') STRICT', ')'), ' NOT NULL', ''), 'CHECK (', 'CHECK (1 OR ') \
     WHERE type = 'table' AND name IN ('nodes', 'relays', 'keys', 'operators', 'networks', 'history'); PRAGMA writable_schema = RESET";

const LOOSEN_SERVER: &str = "DROP INDEX nodes_machine, nodes_node_key, nodes_name, nodes_ipv4, nodes_ipv6, relays_name, relays_key; \
     DO $$ DECLARE r RECORD; BEGIN \
     FOR r IN SELECT conrelid::regclass AS t, conname FROM pg_constraint WHERE contype IN ('c', 'f') AND connamespace = 'public'::regnamespace \
     LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', r.t, r.conname); END LOOP; \
     FOR r IN SELECT table_name AS t, column_name AS c FROM information_schema.columns WHERE table_schema = 'public' AND is_nullable = 'NO' \
     AND table_name IN ('nodes', 'relays', 'keys', 'operators', 'networks') AND column_name <> 'id' \
     LOOP EXECUTE format('ALTER TABLE %I ALTER COLUMN %I DROP NOT NULL', r.t, r.c); END LOOP; END $$";

/// The statements that damage a database.
struct Damages {
    on_server: bool,
    statements: Vec<String>,
}

impl Damages {
    fn new(location: &Location) -> Self {
        let on_server = matches!(location, Location::Server(_));
        let loosen = if on_server { LOOSEN_SERVER } else { LOOSEN_FILE };
        Self { on_server, statements: vec![String::from(loosen)] }
    }

    /// Returns random bytes in the words of the database.
    fn random(&self, length: usize) -> String {
        if self.on_server {
            format!("substring(sha256(CAST(CAST(gen_random_uuid() AS TEXT) AS BYTEA)) FROM 1 FOR {length})")
        } else {
            format!("randomblob({length})")
        }
    }

    /// Returns a number as bytes in the words of the database.
    fn bytes(&self, hex: &str) -> String {
        if self.on_server { format!("'\\x{hex}'::BYTEA") } else { format!("x'{hex}'") }
    }

    /// Makes a row for each damage by `insert`, which is given its number, and damages it. Returns the numbers.
    fn damage(
        &mut self,
        table: &str,
        damages: &[(&str, &[Bad])],
        first: u64,
        insert: impl Fn(&Self, u64) -> String,
    ) -> BTreeSet<u64> {
        let all = damages.iter().flat_map(|(column, values)| values.iter().map(move |value| (*column, *value)));
        let mut made = BTreeSet::new();
        for (number, (column, (on_file, on_server))) in (first..).zip(all) {
            let Some(value) = (if self.on_server { on_server } else { Some(on_file) }) else { continue };
            let insert = insert(self, number);
            let value = value.replace("{}", column);
            let key = if table == "networks" { self.bytes(&format!("{number:032x}")) } else { number.to_string() };
            self.statements.push(insert);
            self.statements.push(format!("UPDATE {table} SET {column} = {value} WHERE id = {key}"));
            made.insert(number);
        }
        made
    }

    fn member(&self, number: u64, removed: &str) -> String {
        let (machine, key, [ipv4, ipv6]) = (self.random(32), self.random(32), self.addresses(number));
        format!(
            "INSERT INTO nodes (id, network, machine_key, node_key, name, ipv4, ipv6, version, created_at, last_seen_at, removed_at) \
             SELECT {number}, network, {machine}, {key}, 'bad-{number}', {ipv4}, {ipv6}, version, 0, 0, {removed} FROM nodes WHERE name = 'good'"
        )
    }

    /// Returns addresses of the network that no other node has.
    fn addresses(&self, number: u64) -> [String; 2] {
        let ipv4 = self.bytes(&format!("6440{number:04x}"));
        let ipv6 = if self.on_server {
            format!("set_byte(set_byte(ipv6, 14, {}), 15, {})", number >> 8, number & 0xff)
        } else {
            format!("unhex(substr(hex(ipv6), 1, 28) || '{number:04x}')")
        };
        [ipv4, ipv6]
    }

    fn make(self, location: &Location) {
        let statements = self.statements.join("; ");
        Runtime::new().unwrap().block_on(async {
            match location {
                Location::Directory(directory) => execute_on_file(directory, &statements).await,
                Location::Server(_) => execute(location, &statements).await.unwrap(),
            }
        });
    }
}

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

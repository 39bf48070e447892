//! Damaged values for each column, and the statements that write them.

use std::collections::BTreeSet;

use tokio::runtime::Runtime;

use crate::store::{Location, execute, execute_on_file};

/// Values that damage a column: for SQLite, and for PostgreSQL if its types allow them there.
pub(super) type Bad = (&'static str, Option<&'static str>);

pub(super) const NULL: Bad = ("NULL", Some("NULL"));
pub(super) const SHORT: Bad = ("x'00'", Some("'\\x00'"));
const NO_UTF8: Bad = ("CAST(x'2e00ff' AS TEXT)", None);
pub(super) const EMPTY: Bad = ("''", Some("''"));
const NONSENSE: Bad = ("'[{'", Some("'[{'"));
const HUGE: Bad = ("printf('%.*c', 1048576, 'x')", Some("repeat('x', 1048576)"));
pub(super) const NEGATIVE: Bad = ("-1", Some("-1"));
const LARGEST: Bad = ("9223372036854775807", Some("9223372036854775807"));
const WORD: Bad = ("'x'", None);
const FOREIGN: Bad = ("x'08080808'", Some("'\\x08080808'"));
const STRANGE: Bad = ("x'00112233445566778899aabbccddeeff'", Some("'\\x00112233445566778899aabbccddeeff'"));
/// A key, or an address, of the member that has to be served.
const OF_GOOD: Bad =
    ("(SELECT o.{} FROM nodes o WHERE o.name = 'good')", Some("(SELECT o.{} FROM nodes o WHERE o.name = 'good')"));

/// Damages of members.
pub(super) const MEMBERS: [(&str, &[Bad]); 23] = [
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
    ("owner", &[NO_UTF8, EMPTY, HUGE]),
    ("tags", &[NULL, NO_UTF8, EMPTY, NONSENSE, HUGE]),
    ("approved", &[NULL, NEGATIVE, WORD]),
    ("disabled", &[NULL, NEGATIVE, WORD]),
    ("expires_at", &[NEGATIVE, LARGEST, WORD]),
    ("expired", &[NULL, NEGATIVE, WORD]),
    ("absent", &[NEGATIVE, LARGEST, WORD]),
    ("part_version", &[NULL, NEGATIVE, LARGEST, WORD]),
];

/// Bytes of another length.
const NEGATIVE_BYTES: Bad = ("x''", Some("'\\x'"));

/// Damages of marks of removed nodes.
pub(super) const MARKS: [(&str, &[Bad]); 5] = [
    ("network", &[NULL, SHORT, STRANGE]),
    ("node_key", &[NULL, SHORT]),
    ("ipv4", &[NULL, SHORT]),
    ("removed_at", &[NEGATIVE, LARGEST, WORD]),
    ("version", &[NULL, NEGATIVE, LARGEST]),
];

pub(super) const RELAYS: [(&str, &[Bad]); 7] = [
    ("network", &[NULL, STRANGE]),
    ("name", &[NULL, NO_UTF8, EMPTY, HUGE]),
    ("key", &[NULL, SHORT]),
    ("endpoints", &[NULL, NONSENSE, HUGE]),
    ("stun_port", &[NULL, NEGATIVE, LARGEST]),
    ("web", &[NONSENSE, HUGE]),
    ("created_at", &[NULL, WORD]),
];

pub(super) const KEYS: [(&str, &[Bad]); 11] = [
    ("network", &[NULL, SHORT, STRANGE]),
    ("hash", &[NULL, SHORT]),
    ("reusable", &[NULL, LARGEST, WORD]),
    ("expires_at", &[NEGATIVE, LARGEST, WORD]),
    ("used", &[NULL, NEGATIVE, LARGEST]),
    ("created_at", &[NULL, NEGATIVE, WORD]),
    ("revoked_at", &[NEGATIVE, LARGEST, WORD]),
    ("most_uses", &[NEGATIVE, LARGEST, WORD]),
    ("ephemeral", &[NEGATIVE, LARGEST, WORD]),
    ("tags", &[NULL, NO_UTF8, NONSENSE, HUGE]),
    ("approves", &[NULL, NEGATIVE, WORD]),
];

pub(super) const OPERATORS: [(&str, &[Bad]); 3] =
    [("hash", &[NULL, SHORT]), ("created_at", &[NULL, NEGATIVE, WORD]), ("revoked_at", &[NEGATIVE, WORD])];

pub(super) const NETWORKS: [(&str, &[Bad]); 13] = [
    ("id", &[SHORT]),
    // No index of PostgreSQL has room for the huge one.
    ("name", &[NO_UTF8, EMPTY, (HUGE.0, None)]),
    ("ipv4", &[NULL, EMPTY, ("'8.8.8.0/24'", Some("'8.8.8.0/24'")), ("'fd00::/64'", Some("'fd00::/64'"))]),
    ("ipv6", &[EMPTY, ("'10.0.0.0/8'", Some("'10.0.0.0/8'"))]),
    ("version", &[NULL, NEGATIVE, LARGEST, WORD]),
    ("cursor", &[NEGATIVE, LARGEST]),
    ("created_at", &[NULL, WORD]),
    ("relays_version", &[NULL, NEGATIVE, LARGEST]),
    ("groups_version", &[NULL, NEGATIVE, LARGEST]),
    ("names", &[NULL, NONSENSE, HUGE]),
    ("names_version", &[NULL, NEGATIVE, LARGEST]),
    ("approval", &[NULL, NEGATIVE]),
    ("key_life", &[NEGATIVE, LARGEST]),
];

/// Damages of revocations.
pub(super) const REVOCATIONS: [(&str, &[Bad]); 4] = [
    ("network", &[NULL, SHORT, STRANGE]),
    ("node", &[NEGATIVE, WORD]),
    ("node_key", &[NULL, SHORT]),
    ("revoked_at", &[NULL, NEGATIVE, LARGEST, WORD]),
];

/// Number of the first damaged row of each table.
pub(super) const FIRST: u64 = 1_000;

/// Removes the rules of the tables: types, values, keys and references.
const LOOSEN_FILE: &str = "DROP INDEX nodes_machine; DROP INDEX nodes_node_key; DROP INDEX nodes_name; DROP INDEX nodes_ipv4; DROP INDEX nodes_ipv6; \
     DROP INDEX relays_name; DROP INDEX relays_key; PRAGMA writable_schema = ON; \
     UPDATE sqlite_schema SET sql = replace(replace(replace(sql, ') STRICT', ')'), ' NOT NULL', ''), 'CHECK (', 'CHECK (1 OR ') \
     WHERE type = 'table' AND name IN ('nodes', 'relays', 'keys', 'operators', 'networks', 'history', 'revocations'); PRAGMA writable_schema = RESET";

const LOOSEN_SERVER: &str = "DROP INDEX nodes_machine, nodes_node_key, nodes_name, nodes_ipv4, nodes_ipv6, relays_name, relays_key; \
     DO $$ DECLARE r RECORD; BEGIN \
     FOR r IN SELECT conrelid::regclass AS t, conname FROM pg_constraint WHERE contype IN ('c', 'f') AND connamespace = 'public'::regnamespace \
     LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', r.t, r.conname); END LOOP; \
     FOR r IN SELECT table_name AS t, column_name AS c FROM information_schema.columns WHERE table_schema = 'public' AND is_nullable = 'NO' \
     AND table_name IN ('nodes', 'relays', 'keys', 'operators', 'networks', 'revocations') AND column_name <> 'id' \
     LOOP EXECUTE format('ALTER TABLE %I ALTER COLUMN %I DROP NOT NULL', r.t, r.c); END LOOP; END $$";

/// The statements that damage a database.
pub(super) struct Damages {
    pub(super) on_server: bool,
    pub(super) statements: Vec<String>,
}

impl Damages {
    pub(super) fn new(location: &Location) -> Self {
        let on_server = matches!(location, Location::Server(_));
        let loosen = if on_server { LOOSEN_SERVER } else { LOOSEN_FILE };
        Self { on_server, statements: vec![String::from(loosen)] }
    }

    /// Returns random bytes in the words of the database.
    pub(super) fn random(&self, length: usize) -> String {
        if self.on_server {
            format!("substring(sha256(CAST(CAST(gen_random_uuid() AS TEXT) AS BYTEA)) FROM 1 FOR {length})")
        } else {
            format!("randomblob({length})")
        }
    }

    /// Returns a number as bytes in the words of the database.
    pub(super) fn bytes(&self, hex: &str) -> String {
        if self.on_server { format!("'\\x{hex}'::BYTEA") } else { format!("x'{hex}'") }
    }

    /// Makes a row for each damage by `insert`, which is given its number, and damages it. Returns the numbers.
    pub(super) fn damage(
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

    pub(super) fn member(&self, number: u64, removed: &str) -> String {
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

    pub(super) fn make(self, location: &Location) {
        let statements = self.statements.join("; ");
        Runtime::new().unwrap().block_on(async {
            match location {
                Location::Directory(directory) => execute_on_file(directory, &statements).await,
                Location::Server(_) => execute(location, &statements).await.unwrap(),
            }
        });
    }
}

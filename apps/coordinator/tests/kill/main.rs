//! `taut-coordinator serve`, killed by SIGKILL while many clients write: every acknowledged change is complete in the database.
//!
//! 50 kills, or the number in `TAUT_KILLS` (`make chaos`: 1,000), spread over coordinators that run side by side. With `TAUT_TEST_POSTGRES` (tools/with_postgres)
//! the database is on that server, and 20 kills are the default (`make chaos`: 200), because each coordinator waits for the server twice.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]
#![expect(clippy::panic, reason = "the same")]

mod client;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use taut_netmap::{JoinToken, NetworkMap, ToNode};
use taut_testkit::Seeded;

use client::{Operator, PROGRAM, Serve, TestHost, create_database, random, set_database};
use writer::Ledger;

/// Default number of kills, 50; `TAUT_KILLS` overrides it.
const KILLS: u32 = 50;

/// The same with PostgreSQL.
const KILLS_ON_SERVER: u32 = 12;

/// Number of coordinators that run at the same time, 4.
const SIDE_BY_SIDE: u32 = 4;

/// Number of clients that write to one coordinator at the same time, 6.
const WRITERS: usize = 6;

/// Longest time from a start to its kill, in milliseconds: enough for some hundred changes.
const LONGEST: usize = 400;

/// Number of maps from which a node resumes after each kill, 8.
const RESUMED: usize = 8;

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A coordinator that is killed many times.
struct Life {
    directory: Directory,
    random_numbers: Seeded,
    operator: String,
    join: JoinToken,
    ledgers: Vec<Ledger>,
    /// Every address that was ever assigned, with its node.
    addresses: BTreeMap<String, u64>,
    version: u64,
}

#[test]
fn fault_n3_o1_acknowledged_writes_survive_a_kill_completely() {
    let usual = if on_server() { KILLS_ON_SERVER } else { KILLS };
    let kills = std::env::var("TAUT_KILLS").ok().map_or(usual, |text| text.parse().expect("TAUT_KILLS is a number"));
    let (left, done) = (AtomicU32::new(kills), AtomicU32::new(0));
    let acknowledged: u64 = thread::scope(|scope| {
        let lives: Vec<_> = (0..SIDE_BY_SIDE)
            .map(|number| {
                let (left, done) = (&left, &done);
                scope.spawn(move || {
                    let mut life = Life::begin(number);
                    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                        life.round();
                        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                        if done.is_multiple_of(50) {
                            eprintln!("{done} of {kills} kills");
                        }
                    }
                    life.ledgers.iter().map(|ledger| ledger.acknowledged).sum::<u64>()
                })
            })
            .collect();
        lives.into_iter().map(|life| life.join().unwrap()).sum()
    });
    eprintln!("{acknowledged} acknowledged writes");
    eprintln!("{kills} passed, 0 failed");
}

impl Life {
    /// Kills some starts as well. The tokens of the first completed start are in its file.
    fn begin(number: u32) -> Self {
        let name = format!("taut-kill-{}-{number}", std::process::id());
        let directory = Directory(std::env::temp_dir().join(name));
        let seed = u64::from_le_bytes(random()[..8].try_into().unwrap());
        eprintln!("coordinator {number}: seed {seed}");
        let mut random_numbers = Seeded::new(seed);
        create_database(&directory.0);
        for _ in 0..3 {
            kill_at_start(&directory.0, &mut random_numbers);
        }
        let serve = Serve::start(&directory.0);
        let (operator, join) = serve.tokens.clone().expect("no kill loses the first start's tokens (fault E23)");
        assert_eq!(Operator::new(&serve, &operator).get("nodes")["schema"], 1, "they are those that were stored");
        serve.kill();
        check(&directory.0);
        let ledgers = (0..WRITERS).map(|_| Ledger::default()).collect();
        let join = join.parse().unwrap();
        Self { directory, random_numbers, operator, join, ledgers, addresses: BTreeMap::new(), version: 0 }
    }

    fn round(&mut self) {
        let path = self.directory.0.clone();
        if self.random_numbers.index(4) == 0 {
            kill_at_start(&path, &mut self.random_numbers);
        }
        let serve = Serve::start(&path);
        thread::scope(|scope| {
            let (join, serve) = (&self.join, &serve);
            for (number, ledger) in self.ledgers.iter_mut().enumerate() {
                let operator = Operator::new(serve, &self.operator);
                let mut random_numbers = Seeded::new(self.random_numbers.next_u64());
                let host = move || TestHost::new(join, format!("writer-{number}"));
                scope.spawn(move || ledger.write(&operator, &serve.address, host, &mut random_numbers));
            }
            thread::sleep(Duration::from_millis(5 + self.random_numbers.index(LONGEST) as u64));
            signal_kill(serve);
        });
        serve.kill();
        check(&path);
        let serve = Serve::start(&path);
        self.verify(&serve);
        serve.kill();
    }

    /// Compares the database with the acknowledged changes.
    fn verify(&mut self, serve: &Serve) {
        let operator = Operator::new(serve, &self.operator);
        for ledger in &mut self.ledgers {
            // A join without an answer is repeated. It succeeds whether or not the first attempt was stored.
            for host in std::mem::take(&mut ledger.joining) {
                ledger.join(&serve.address, host).expect("an answer to a repeated join");
            }
        }
        self.verify_nodes(&operator.get("nodes"));
        self.verify_keys(&operator.get("keys"));
        let version = operator.get("networks/default")["network"]["version"].as_u64().unwrap();
        assert!(version >= self.version, "the version fell from {} to {version}", self.version);
        self.version = version;
        self.verify_maps(serve);
    }

    fn verify_nodes(&mut self, answer: &Value) {
        let nodes: BTreeMap<u64, &Value> =
            answer["nodes"].as_array().unwrap().iter().map(|node| (node["id"].as_u64().unwrap(), node)).collect();
        let mut known = BTreeSet::new();
        for ledger in &mut self.ledgers {
            for removed in ledger.removed.drain(..) {
                assert!(!nodes.contains_key(&removed), "node {removed} was removed and is there");
            }
            ledger.members.retain(|id, member| {
                let Some(node) = nodes.get(id) else {
                    assert!(member.removing, "node {id} was acknowledged and is not there");
                    return false;
                };
                known.insert(*id);
                let name = node["name"].as_str().unwrap().to_owned();
                assert!(member.names.contains(&name), "node {id} is {name}, not one of {:?}", member.names);
                let endpoints = serde_json::from_value(node["endpoints"].clone()).unwrap();
                assert!(member.endpoints.contains(&endpoints), "{endpoints:?}: none of {:?}", member.endpoints);
                assert_eq!(node["addresses"][0], member.address.as_str(), "node {id}");
                let first = *self.addresses.entry(member.address.clone()).or_insert(*id);
                assert_eq!(first, *id, "{} was given twice", member.address);
                (member.names, member.endpoints, member.removing) = (vec![name], vec![endpoints], false);
                true
            });
        }
        let unknown: Vec<_> = nodes.keys().filter(|id| !known.contains(id)).collect();
        assert!(unknown.is_empty(), "nodes that nobody asked for: {unknown:?}");
        let names: BTreeSet<&str> = nodes.values().map(|node| node["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), nodes.len(), "a name twice");
    }

    fn verify_keys(&mut self, answer: &Value) {
        let mut states: BTreeMap<i64, &str> = BTreeMap::new();
        for key in answer["keys"].as_array().unwrap() {
            states.insert(key["id"].as_i64().unwrap(), key["state"].as_str().unwrap());
        }
        let used: u64 = answer["keys"].as_array().unwrap().iter().map(|key| key["used"].as_u64().unwrap()).sum();
        // Each join used a key once. SQLite's numbers are consecutive, so the last number is the number of joins; PostgreSQL leaves out those of joins that
        // were not committed.
        let last = self.ledgers.iter().map(|ledger| ledger.last).max().unwrap_or_default();
        let least = if on_server() { self.addresses.len() as u64 } else { last };
        assert!((least..=last).contains(&used), "node {last} joined last, and keys were used {used} times");
        let mut known = BTreeSet::from([1]);
        let mut creating = 0;
        for ledger in &mut self.ledgers {
            creating += std::mem::take(&mut ledger.creating);
            for (id, ended) in &mut ledger.keys {
                let is_ended = *states.get(id).expect("an acknowledged key is there") == "revoked";
                assert!(ended.is_none_or(|ended| ended == is_ended), "key {id}: {ended:?}, but {is_ended}");
                *ended = Some(is_ended);
                known.insert(*id);
            }
        }
        let unknown: Vec<i64> = states.keys().filter(|id| !known.contains(id)).copied().collect();
        assert!(unknown.len() <= creating, "keys that nobody asked for: {unknown:?}");
        // No writer revokes these keys, because no writer received their numbers.
        self.ledgers[0].keys.extend(unknown.into_iter().map(|id| (id, Some(false))));
    }

    /// Checks that the changes from a map that a node got before the kill lead to the present full map.
    fn verify_maps(&mut self, serve: &Serve) {
        let mut given: Vec<(TestHost, NetworkMap)> = Vec::new();
        for ledger in &mut self.ledgers {
            for (id, map) in std::mem::take(&mut ledger.maps) {
                given.extend(ledger.members.get(&id).map(|member| (member.host.clone(), map)));
            }
        }
        for _ in 0..RESUMED.min(given.len()) {
            let (host, map) = given.swap_remove(self.random_numbers.index(given.len()));
            let (_, change) = host.hello(&serve.address, map.version).expect("an answer");
            let (_, whole) = host.hello(&serve.address, 0).expect("an answer");
            match (change, whole) {
                (ToNode::Delta(delta), ToNode::Map(whole)) => assert_eq!(map.apply(&delta).unwrap(), whole),
                (change, _) => panic!("version {} was given and is forgotten: {change:?}", map.version),
            }
        }
    }
}

/// Returns true if the database is PostgreSQL.
fn on_server() -> bool {
    std::env::var_os("TAUT_TEST_POSTGRES").is_some()
}

/// Starts the program, and kills it within 40 ms.
fn kill_at_start(path: &Path, random_numbers: &mut Seeded) {
    let mut child = Serve::spawn(path);
    thread::sleep(Duration::from_millis(random_numbers.index(40) as u64));
    child.kill().unwrap();
    child.wait().unwrap();
}

fn signal_kill(serve: &Serve) {
    let status = Command::new("kill").args(["-KILL", &serve.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Panics if the kill left a damaged database.
fn check(path: &Path) {
    let mut command = Command::new(PROGRAM);
    set_database(&mut command, path);
    let output = command.arg("check").arg("--state").arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

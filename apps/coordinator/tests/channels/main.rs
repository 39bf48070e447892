//! Very many control channels at one `taut-coordinator serve` (fault N6). With `TAUT_TEST_POSTGRES` (tools/with_postgres) the database is on that server.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]
#![expect(clippy::panic, reason = "the same")]

#[path = "../kill/client.rs"]
#[expect(dead_code, reason = "the tests that kill need more of it")]
mod client;

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use taut_netmap::{JoinToken, ProblemCode, ToCoordinator, ToNode};

use client::{Operator, PROGRAM, Serve, TestChannel, TestHost, create_database, set_database};

/// Open files of the coordinator that has too few, 256: about a third of them is for channels.
const FILES: u32 = 256;

/// Hosts that want a channel of it.
const HOSTS: usize = 200;

/// Longest wait for a place, 60 s.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let directory = Self(std::env::temp_dir().join(format!("taut-channels-{name}-{}", std::process::id())));
        create_database(&directory.0);
        directory
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn fault_n6_all_of_1200_channels_are_served_and_hear_of_every_change() {
    let directory = Directory::new("many");
    let nodes = taut_testkit::count(1_200, 10_000).to_string();
    let mut command = Command::new(PROGRAM);
    set_database(&mut command, &directory.0);
    let plan = ["simulate", "--nodes", &nodes, "--visible", "20", "--changes", "40", "--seconds", "3", "--json"];
    let output = command.args(plan).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    for what in ["lost_updates", "differing_maps", "misfit_deltas"] {
        assert_eq!(json[what], 0, "{json}");
    }
    assert_eq!(json["nodes"].to_string(), nodes);
    assert!(json["changes"].as_u64().unwrap() > 60, "{json}");
}

/// A program that has a tenth of the processor's time, because it is stopped in between. It runs freely again when this is dropped.
struct Throttled {
    process: u32,
    turns: Child,
}

impl Throttled {
    fn new(process: u32) -> Self {
        let script = "while kill -STOP $0; do sleep 0.045; kill -CONT $0; sleep 0.005; done";
        let turns =
            Command::new("sh").args(["-c", script, &process.to_string()]).stderr(Stdio::null()).spawn().unwrap();
        Self { process, turns }
    }
}

impl Drop for Throttled {
    fn drop(&mut self) {
        let _ = self.turns.kill();
        let _ = self.turns.wait();
        let _ = Command::new("kill").args(["-CONT", &self.process.to_string()]).status();
    }
}

#[test]
fn fault_p1_with_few_descriptors_little_memory_and_a_slow_processor_it_is_slower_and_never_stuck() {
    let directory = Directory::new("poor");
    let mut command = Command::new("sh");
    // In KiB, of addresses: a few dozen MiB of memory, and the stacks of all threads.
    command.args(["-c", "ulimit -n 64 && ulimit -v 1500000 && exec \"$0\" \"$@\"", PROGRAM]);
    let serve = Serve::start_by(command, &directory.0);
    let (token, join) = serve.tokens.clone().unwrap();
    let (operator, join) = (Operator::new(&serve, &token), join.parse::<JoinToken>().unwrap());
    let throttled = Throttled::new(serve.id());
    // Connections without a word occupy descriptors as well.
    let idle: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(&serve.address).unwrap()).collect();
    let (mut served, mut refused, until) = (Vec::new(), 0, Instant::now() + TEST_TIMEOUT);
    for number in 0..24 {
        loop {
            match TestHost::new(&join, format!("n{number}")).hello(&serve.address, 0) {
                Some((channel, ToNode::Map(_))) => served.push(channel),
                Some((_, ToNode::Refused(problem))) if problem.code == ProblemCode::Unavailable => refused += 1,
                Some((_, other)) => panic!("{other:?}"),
                // The idle ones are evicted or time out, and nodes try again.
                None if Instant::now() < until => continue,
                None => panic!("node {number} is not served; {} are", served.len()),
            }
            break;
        }
        served.iter_mut().for_each(is_served);
    }
    println!("{} channels were served, {refused} refused", served.len());
    assert!(served.len() >= 8, "{} channels", served.len());
    let (status, answer) = operator.ask("POST", "keys", &serde_json::json!({})).expect("an answer");
    assert_eq!(status, 201, "{answer}");
    drop((throttled, idle));
    served.iter_mut().for_each(is_served);
    assert!(operator.get("nodes")["nodes"].as_array().unwrap().len() >= served.len());
}

/// Asserts that a channel is open, and that it answers.
#[track_caller]
fn is_served(channel: &mut TestChannel) {
    let sent = channel.send(&ToCoordinator::Ping);
    let is_answered = std::iter::from_fn(|| channel.receive()).any(|message| message == ToNode::Pong);
    assert!(sent.is_some() && is_answered, "an open channel was closed");
}

#[test]
fn fault_n6_more_channels_than_descriptors_are_refused_with_words_and_the_others_stay() {
    let directory = Directory::new("few");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {FILES} && exec \"$0\" \"$@\""), PROGRAM]);
    let serve = Serve::start_by(command, &directory.0);
    let join: JoinToken = serve.tokens.as_ref().unwrap().1.parse().unwrap();
    let hello = |name: String| TestHost::new(&join, name).hello(&serve.address, 0).expect("an answer");
    let (mut served, mut refused) = (Vec::new(), 0);
    for number in 0..HOSTS {
        match hello(format!("n{number}")) {
            (channel, ToNode::Map(_)) => served.push(channel),
            (_, ToNode::Refused(problem)) => {
                assert!(problem.code == ProblemCode::Unavailable && !problem.code.is_final(), "{problem}");
                assert!(problem.message.contains("as many control channels as it has descriptors"), "{problem}");
                refused += 1;
            }
            (_, other) => panic!("{other:?}"),
        }
        if number % 20 == 19 {
            served.iter_mut().for_each(is_served);
        }
    }
    println!("{} channels were served, {refused} refused", served.len());
    assert!(served.len() >= 40 && refused >= 40, "{} were served, {refused} refused", served.len());
    // A place that becomes free is used again.
    served.truncate(served.len() / 2);
    let until = Instant::now() + TEST_TIMEOUT;
    let (mut late, first) = loop {
        let (channel, first) = hello(String::from("late"));
        if matches!(first, ToNode::Map(_)) {
            break (channel, first);
        }
        assert!(Instant::now() < until, "{first:?}");
    };
    assert!(matches!(first, ToNode::Map(_)));
    is_served(&mut late);
    served.iter_mut().for_each(is_served);
}

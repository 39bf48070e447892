//! Very many control channels at one `taut-coordinator serve` (fault N6). With `TAUT_TEST_POSTGRES` (tools/with_postgres) the database is on that server.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]
#![expect(clippy::panic, reason = "the same")]

#[path = "../kill/client.rs"]
#[expect(dead_code, reason = "the tests that kill need more of it")]
mod client;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use taut_netmap::{JoinToken, ProblemCode, ToCoordinator, ToNode};

use client::{PROGRAM, Serve, TestChannel, TestHost, create_database, set_database};

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

//! A graceful restart under load: no answered change is lost, and no change is made without an answer.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]
#![expect(clippy::panic, reason = "the same")]

#[path = "../kill/client.rs"]
#[expect(dead_code, reason = "the tests that kill need more of it")]
mod client;

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taut_netmap::JoinToken;
use tungstenite::{Message, WebSocket};

use client::{Operator, PROGRAM, Serve, TestHost};

/// Clients that create keys all the time.
const CLIENTS: usize = 8;

/// Restarts in a row.
const ROUNDS: usize = 3;

/// Answered changes before each signal.
const CHANGES: usize = 40;

/// Nodes whose channels are open when the coordinator stops.
const CHANNELS: usize = 150;

/// Longest wait; only a failing test reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("taut-restart-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        client::create_database(&path);
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn signal(serve: &Serve) {
    assert!(Command::new("kill").args(["-TERM", &serve.id().to_string()]).status().unwrap().success());
}

/// Waits for the end of the program, which is a zombie until it is waited for.
fn wait_for_end(serve: &Serve) {
    let (process, begin) = (format!("/proc/{}/stat", serve.id()), Instant::now());
    while !std::fs::read_to_string(&process).unwrap().contains(") Z ") {
        assert!(begin.elapsed() < TEST_TIMEOUT, "SIGTERM does not end the program");
        sleep(Duration::from_millis(10));
    }
}

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < TEST_TIMEOUT, "waited in vain for {what}");
        sleep(Duration::from_millis(10));
    }
}

fn keys(operator: &Operator) -> BTreeSet<i64> {
    operator.get("keys")["keys"].as_array().unwrap().iter().map(|key| key["id"].as_i64().unwrap()).collect()
}

/// Creates keys until the coordinator does not answer. Returns the numbers of those that were answered.
fn create(operator: &Operator, count: &AtomicU32) -> Vec<i64> {
    let mut made = Vec::new();
    while let Some((status, answer)) = operator.ask("POST", "keys", &json!({})) {
        assert_eq!(status, 201, "{answer}");
        made.push(answer["key"]["id"].as_i64().unwrap());
        count.fetch_add(1, Ordering::Relaxed);
    }
    made
}

#[test]
fn fault_o2_a_restart_under_load_loses_no_answered_change_and_makes_none_unanswered() {
    let directory = Directory::new();
    let mut serve = Serve::start(&directory.0);
    let token = serve.tokens.clone().unwrap().0;
    let mut expected = keys(&Operator::new(&serve, &token));
    for round in 0..ROUNDS {
        let (operator, count) = (Operator::new(&serve, &token), AtomicU32::new(0));
        let made: Vec<i64> = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| create(&operator, &count))).collect();
            wait_for("changes", || count.load(Ordering::Relaxed) as usize >= CHANGES);
            signal(&serve);
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        wait_for_end(&serve);
        serve = Serve::start(&directory.0);
        expected.extend(made);
        assert_eq!(
            keys(&Operator::new(&serve, &token)),
            expected,
            "round {round}: what is stored, and what was answered"
        );
    }
}

#[test]
fn while_it_drains_it_serves_and_a_balancer_is_told() {
    let directory = Directory::new();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$0\" \"$@\" --drain 600", PROGRAM]);
    let serve = Serve::start_by(command, &directory.0);
    let operator = Operator::new(&serve, &serve.tokens.clone().unwrap().0);
    let ask = |path: &str| -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        let mut answer = agent.get(format!("http://{}{path}", serve.address)).call().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_json().unwrap())
    };
    assert_eq!(ask("/readyz").0, 200);
    signal(&serve);
    wait_for("/readyz to say that it stops", || ask("/readyz").0 == 503);
    assert_eq!(ask("/readyz").1["error"]["message"], "this coordinator stops");
    assert_eq!(ask("/healthz").0, 200);
    assert_eq!(operator.ask("POST", "keys", &json!({})).unwrap().0, 201);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            wait_for_end(&serve);
            ended.store(true, Ordering::Relaxed);
        });
        assert!(!ended.load(Ordering::Relaxed));
        // The second one ends the wait.
        signal(&serve);
    });
    assert!(ended.load(Ordering::Relaxed));
}

/// Reads to the end of a channel. Returns true if the coordinator closed the WebSocket, and false if the connection broke.
fn was_closed(mut socket: WebSocket<TcpStream>) -> bool {
    loop {
        match socket.read() {
            Ok(Message::Close(_)) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

#[test]
fn channels_are_closed_before_the_end_and_not_cut() {
    let directory = Directory::new();
    let serve = Serve::start(&directory.0);
    let token: JoinToken = serve.tokens.clone().unwrap().1.parse().unwrap();
    let join = |number| TestHost::new(&token, format!("n{number}")).hello(&serve.address, 0).expect("a channel").0;
    let channels: Vec<_> = (0..CHANNELS).map(join).collect();
    signal(&serve);
    let cut = channels.into_iter().map(|channel| was_closed(channel.socket)).filter(|closed| !closed).count();
    assert_eq!(cut, 0, "channels that were cut");
    wait_for_end(&serve);
}

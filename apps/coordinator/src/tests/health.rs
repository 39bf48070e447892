//! Liveness, readiness, and the end of a coordinator: what was applied is answered, and channels are closed.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::world::{Directory, TestCoordinator};
use crate::api;

const KEYS: &str = "/api/v1/keys";

/// Longest wait; only a failing test reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// More than the time that last answers have after the last work.
const LONG_WORK: Duration = Duration::from_secs(5);

fn wait_for(what: &str, done: impl Fn() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < TEST_TIMEOUT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_coordinator_whose_database_is_silent_is_ready_with_a_warning() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let ask = |path: &str| coordinator.ask("GET", path, None, None);
    assert_eq!(ask("/readyz"), (200, json!({ "schema": 1, "status": "ready", "warnings": [] })));
    coordinator.wait(coordinator.state.store().close());
    let is_told = |(status, answer): (u16, Value)| {
        assert_eq!(status, 200, "members get their maps from memory: {answer}");
        answer["warnings"].as_array().unwrap().iter().any(|warning| warning.as_str().unwrap().contains("from memory"))
    };
    // A check is reused for a second.
    wait_for("the silence to be told", || is_told(ask("/readyz")));
    assert_eq!(ask("/healthz").0, 200);
}

#[test]
fn a_coordinator_that_cannot_answer_nodes_is_not_ready_and_lives() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let ask = |path: &str| coordinator.ask("GET", path, None, None);
    assert_eq!(ask("/readyz").0, 200);
    coordinator.wait(coordinator.state.store().edit("ALTER TABLE networks RENAME TO elsewhere"));
    wait_for("the damage to be told", || ask("/readyz").0 == 503);
    let error = ask("/readyz").1["error"].clone();
    assert_eq!(error["message"], "the database fails", "no text of the database, which anyone could read: {error}");
    assert!(!error["hint"].as_str().unwrap().contains("networks"), "{error}");
    assert_eq!(ask("/healthz").0, 200, "to kill it would help nobody");
}

#[test]
fn a_coordinator_that_is_about_to_stop_serves_and_is_not_ready() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    assert_eq!(coordinator.ask("GET", "/readyz", None, None).0, 200);
    coordinator.leave.send_replace(true);
    let (status, answer) = coordinator.ask("GET", "/readyz", None, None);
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("unavailable")), "at once");
    assert_eq!(answer["error"]["message"], "this coordinator stops");
    assert_eq!(coordinator.ask("GET", "/healthz", None, None).0, 200);
    assert_eq!(coordinator.ask("POST", KEYS, Some(coordinator.operator_token()), Some("{}")).0, 201);
    coordinator.join("a");
}

/// A start whose database is not open yet.
struct SlowStart {
    runtime: Runtime,
    address: String,
    listener: Arc<TcpListener>,
    open: oneshot::Sender<u32>,
    starting: JoinHandle<Result<u32, oneshot::error::RecvError>>,
}

impl SlowStart {
    fn begin() -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = Arc::new(runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap());
        let address = listener.local_addr().unwrap().to_string();
        let (open, opened) = oneshot::channel();
        let starting = runtime.spawn({
            let listener = Arc::clone(&listener);
            async move { api::while_starting(&[listener], None, opened).await }
        });
        Self { runtime, address, listener, open, starting }
    }

    fn ask(&self, path: &str) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        let mut answer = agent.get(format!("http://{}{path}", self.address)).call().unwrap();
        (answer.status().as_u16(), answer.body_mut().read_json::<Value>().unwrap())
    }
}

#[test]
fn a_database_that_opens_slowly_is_a_start_that_is_not_ready() {
    let start = SlowStart::begin();
    assert_eq!(start.ask("/healthz").0, 200);
    let (status, answer) = start.ask("/readyz");
    assert_eq!(
        (status, &answer["error"]["message"]),
        (503, &json!("this coordinator starts: its database is not open yet"))
    );
    assert_eq!(start.ask(KEYS).0, 503);
    start.open.send(7).unwrap();
    assert_eq!(start.runtime.block_on(start.starting).unwrap().unwrap(), 7);
    // The listener belongs to the coordinator now.
    let waiting = TcpStream::connect(&start.address).unwrap();
    let (_, peer) = start.runtime.block_on(start.listener.accept()).unwrap();
    assert_eq!(peer, waiting.local_addr().unwrap());
}

#[test]
fn fault_e11_half_a_request_of_a_stranger_does_not_delay_a_slow_start() {
    let start = SlowStart::begin();
    assert_eq!(start.ask("/healthz").0, 200);
    let mut half = TcpStream::connect(&start.address).unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nhost:").unwrap();
    // Connections are accepted in order, so the answer to a later one shows that the first was accepted.
    assert_eq!(start.ask("/healthz").0, 200);
    start.open.send(7).unwrap();
    // The timeout is half of the time that a client has for the headers of its request.
    let opened = start.runtime.block_on(async { timeout(LONG_WORK, start.starting).await });
    assert_eq!(opened.expect("the start waits for the client").unwrap().unwrap(), 7);
    drop(half);
}

#[test]
fn fault_o2_the_end_waits_for_a_change_that_is_being_made_and_answers_it() {
    let directory = Directory::new();
    let coordinator = TestCoordinator::start(&directory);
    let held = coordinator.hold_writer();
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| coordinator.ask("POST", KEYS, Some(coordinator.operator_token()), Some("{}")));
        wait_for("the request to wait for its turn", || coordinator.state.store().waiting_writers() == 1);
        coordinator.begin_stop();
        std::thread::sleep(LONG_WORK);
        assert!(!coordinator.has_stopped());
        drop(held);
        asked.join().unwrap()
    });
    assert_eq!(answer.0, 201, "{}", answer.1);
    wait_for("the end", || coordinator.has_stopped());
}

//! The log of `taut-coordinator serve`: its fields, its levels, and the absence of secrets.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]
#![expect(clippy::panic, reason = "the same")]

#[path = "../kill/client.rs"]
#[expect(dead_code, reason = "the tests that kill need more of it")]
mod client;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taut_base::encode_base64url;
use taut_netmap::{JoinToken, ToCoordinator};

use client::{Operator, PROGRAM, Serve, TestHost};

/// Longest wait for a line; only a failing test reaches it.
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A running coordinator whose log goes to a file.
struct Logging {
    serve: Serve,
    directory: PathBuf,
}

impl Logging {
    /// Returns a new directory.
    fn directory() -> PathBuf {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("taut-coordinator-log-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).unwrap();
        directory
    }

    fn start(options: &str) -> Self {
        let directory = Self::directory();
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$@\" {options} 2>\"$0\"")]).arg(directory.join("log")).arg(PROGRAM);
        Self { serve: Serve::start_by(command, &directory.join("state")), directory }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap()
    }

    /// Waits for a line that contains `part`, and returns it.
    fn line(&self, part: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some(line) = self.text().lines().find(|line| line.contains(part)) {
                return String::from(line);
            }
            assert!(start.elapsed() < TEST_TIMEOUT, "no line has {part}:\n{}", self.text());
            sleep(Duration::from_millis(20));
        }
    }

    fn tokens(&self) -> (String, String) {
        self.serve.tokens.clone().unwrap()
    }

    /// Sends SIGUSR1, which raises the levels.
    fn raise(&self) {
        self.signal("-USR1");
    }

    /// Sends SIGTERM, and waits for the end of the program.
    fn stop(&self) {
        self.signal("-TERM");
        let (process, start) = (format!("/proc/{}/stat", self.serve.id()), Instant::now());
        // The program is a zombie until it is waited for.
        while !std::fs::read_to_string(&process).unwrap().contains(") Z ") {
            assert!(start.elapsed() < TEST_TIMEOUT, "SIGTERM does not end the program");
            sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: &str) {
        let process = self.serve.id().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
    }

    /// Sends a request with headers. Returns the request id in the answer's header, and the answer.
    fn ask(&self, path: &str, headers: &[(&str, &str)]) -> (String, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
        let mut request = ureq::http::Request::builder().uri(format!("http://{}{path}", self.serve.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = agent.run(request.body(String::new()).unwrap()).unwrap();
        let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        (id, response.body_mut().read_json().unwrap())
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn no_line_contains_a_secret_and_every_line_has_its_fields() {
    let logging = Logging::start("--log-format json --log-level trace");
    let (token, join) = logging.tokens();
    let operator = Operator::new(&logging.serve, &token);
    let (_, created) = operator.ask("POST", "keys", &json!({ "one_off": true })).unwrap();
    let another = created["join_token"].as_str().unwrap();
    let host = TestHost::new(&join.parse::<JoinToken>().unwrap(), String::from("a"));
    let (mut channel, _) = host.hello(&logging.serve.address, 0).unwrap();
    channel.send(&ToCoordinator::Goodbye).unwrap();
    // Sends valid tokens in wrong places, and invalid tokens.
    let wrong = format!("tautop-{}", encode_base64url(&client::random()));
    let wrong_operator = Operator::new(&logging.serve, &wrong);
    assert_eq!(wrong_operator.ask("GET", "nodes", &Value::Null).unwrap().0, 401);
    for secret in [&token, &join, another, &wrong] {
        assert_eq!(operator.ask("DELETE", &format!("nodes/{secret}"), &Value::Null).unwrap().0, 404);
        assert_eq!(operator.ask("POST", "networks", &json!({ "name": secret })).unwrap().0, 400);
        assert_eq!(logging.ask(&format!("/{secret}"), &[]).1["error"]["code"], "no-such-path");
    }
    logging.line("\"event\":\"disconnected\"");
    let (last, _) = logging.ask("/healthz", &[("authorization", &format!("Bearer {token}"))]);
    logging.line(&last);
    let text = logging.text();
    let secrets = [&join, another].map(|token| encode_base64url(&token.parse::<JoinToken>().unwrap().secret));
    for secret in [&token, &join, another, &wrong, &secrets[0], &secrets[1]] {
        let bare = secret.trim_start_matches("tautop-").trim_start_matches("taut1-");
        assert!(!text.contains(bare), "{secret} is in the log:\n{text}");
    }
    for line in text.lines() {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let time = object["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z') && &time[10..11] == "T", "{line}");
        assert!(["level", "area", "event"].iter().all(|field| object[*field].is_string()), "{line}");
    }
    for event in ["started", "key-created", "joined", "connected", "disconnected", "request"] {
        assert!(text.contains(&format!("\"event\":\"{event}\"")), "{event}");
    }
}

#[test]
fn an_answer_and_its_log_lines_have_one_id_that_only_a_trusted_proxy_chooses() {
    let logging = Logging::start("--log-level info,api=debug");
    let (id, answer) = logging.ask("/nothing", &[("x-request-id", "chosen-by-a-stranger")]);
    assert_eq!((id.len(), &answer["error"]["request_id"]), (16, &json!(id)));
    let line = logging.line(&format!("request_id={id}"));
    for part in ["level=debug area=api event=request", "method=GET", "status=404", "reason=no-such-path"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!logging.text().contains("chosen-by-a-stranger"));
    let behind = Logging::start("--log-level debug --trusted-proxy 127.0.0.0/8");
    let (id, answer) = behind.ask("/nothing", &[("x-request-id", "chosen-by-the-proxy")]);
    assert_eq!((id.as_str(), &answer["error"]["request_id"]), ("chosen-by-the-proxy", &json!("chosen-by-the-proxy")));
    behind.line("request_id=chosen-by-the-proxy");
    // A control channel has the id of the request that opened it.
    let host = TestHost::new(&behind.tokens().1.parse::<JoinToken>().unwrap(), String::from("a"));
    let _channel = host.hello(&behind.serve.address, 0).unwrap();
    assert!(behind.line("event=connected").contains("request_id="));
}

#[test]
fn levels_change_while_it_runs() {
    let logging = Logging::start("");
    logging.ask("/healthz", &[]);
    logging.line("event=descriptors");
    assert!(!logging.text().contains("event=request "), "{}", logging.text());
    logging.raise();
    logging.line("event=levels-changed levels=debug");
    let (id, _) = logging.ask("/healthz", &[]);
    logging.line(&format!("request_id={id}"));
    logging.raise();
    logging.line("levels=trace");
    logging.raise();
    logging.line("levels=info");
    let (id, _) = logging.ask("/healthz", &[]);
    logging.raise();
    let text = logging.text();
    assert!(!text.contains(&id), "{text}");
}

#[test]
fn a_hangup_is_logged_and_does_not_end_the_program() {
    let logging = Logging::start("--log-level warn,daemon=info");
    logging.signal("-HUP");
    logging.line("event=hangup-ignored");
    logging.ask("/healthz", &[]);
}

#[test]
fn fault_e19_a_proxy_header_of_a_client_that_is_no_trusted_proxy_is_logged_with_what_to_do() {
    let logging = Logging::start("--log-format json");
    for first in
        [&b"PROXY TCP4 203.0.113.7 10.0.0.1 1 2\r\nGET / HTTP/1.1\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"]
    {
        for _ in 0..40 {
            let mut proxy = TcpStream::connect(&logging.serve.address).unwrap();
            proxy.write_all(first).unwrap();
            // The connection ends, because this is no HTTP.
            let _ = proxy.read_to_end(&mut Vec::new());
        }
    }
    let line: Value = serde_json::from_str(&logging.line("untrusted-proxy-header")).unwrap();
    assert_eq!(line["address"], "127.0.0.1");
    assert!(line["hint"].as_str().unwrap().contains("--trusted-proxy"), "{line}");
    logging.stop();
    let lines = logging.text().lines().filter(|line| line.contains("\"event\":\"untrusted-proxy-header\"")).count();
    assert!((1..40).contains(&lines), "{lines} lines of 80 connections");
}

#[test]
fn fault_p5_unauthenticated_requests_do_not_fill_the_log() {
    let logging = Logging::start("--log-level debug");
    let wrong = Operator::new(&logging.serve, &format!("tautop-{}", encode_base64url(&client::random())));
    for _ in 0..30 {
        logging.ask("/nothing", &[]);
        assert_eq!(wrong.ask("GET", "nodes", &Value::Null).unwrap().0, 401);
    }
    logging.stop();
    let text = logging.text();
    for (of, cause) in
        [("request", "no-such-path"), ("request", "unauthorized"), ("operator-refused", "\"unknown token\"")]
    {
        let written = text
            .lines()
            .filter(|line| line.contains(&format!("event={of} ")) && line.contains(&format!("reason={cause}")));
        let written = written.inspect(|line| assert!(line.contains("address=127.0.0.1"), "{line}")).count();
        let report = format!("area=api event=events-suppressed of={of} cause={cause} count=");
        let suppressed = text.lines().filter_map(|line| line.split_once(&report)?.1.parse::<usize>().ok());
        assert_eq!(written + suppressed.sum::<usize>(), 30, "{of} {cause}:\n{text}");
        assert!((15..=20).contains(&written), "{written} lines for 30 requests");
    }
}

#[test]
fn fault_p5_a_reader_of_the_log_that_stalls_stops_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    let filled = Arc::new(AtomicU32::new(0));
    let filler = std::thread::spawn({
        let (mut writer, filled) = (writer.try_clone().unwrap(), Arc::clone(&filled));
        move || {
            while writer.write_all(b"a line that nobody reads\n").is_ok() {
                filled.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let mut before = None;
    while before != Some(filled.load(Ordering::Relaxed)) {
        before = Some(filled.load(Ordering::Relaxed));
        sleep(Duration::from_millis(200));
    }
    // From here on each write to the pipe blocks.
    let directory = Logging::directory();
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" --log-level trace 2>&0", "sh", PROGRAM]).stdin(writer);
    let logging = Logging { serve: Serve::start_by(command, &directory.join("state")), directory };
    for _ in 0..20 {
        assert_eq!(logging.ask("/nothing", &[]).1["error"]["code"], "no-such-path");
    }
    logging.stop();
    drop(reader);
    filler.join().unwrap();
}

#[test]
fn a_token_in_the_place_of_the_method_is_not_logged() {
    let logging = Logging::start("--log-level trace");
    let (token, _) = logging.tokens();
    for line in [format!("{token} / HTTP/1.1"), format!("GET /{token} HTTP/1.1"), String::from("HEAD / HTTP/1.1")] {
        let mut stream = TcpStream::connect(&logging.serve.address).unwrap();
        write!(stream, "{line}\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        stream.read_to_string(&mut String::new()).unwrap();
    }
    logging.line("method=HEAD");
    let text = logging.text();
    assert!(text.contains("method=other") && !text.contains(&token), "{text}");
}

#[test]
fn a_signal_that_raises_the_levels_is_handled_before_the_state_is_opened() {
    let directory = Logging::directory();
    let mut child = Serve::spawn(&directory.join("state"));
    let start = Instant::now();
    while !directory.join("state").exists() {
        assert!(start.elapsed() < TEST_TIMEOUT, "no state directory");
        sleep(Duration::from_millis(1));
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    for (name, number) in [("SIGINT", 2), ("SIGUSR1", 10), ("SIGTERM", 15)] {
        assert!(caught & (1 << (number - 1)) != 0, "{name} is not handled yet: {caught:x}");
    }
}

#[test]
fn unknown_levels_areas_and_formats_are_refused() {
    for (option, value, part) in [
        ("--log-level", "loud", "`loud` is not a level"),
        ("--log-level", "info,web=debug", "there is no area `web`; the areas are daemon, api, "),
        ("--log-format", "xml", "text or json"),
    ] {
        let output = Command::new(PROGRAM).args(["serve", "--state", "/nonexistent", option, value]).output().unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert!(complaint.contains(part) && complaint.contains(option), "{complaint}");
    }
}

#[test]
fn every_event_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("../../docs/log.md")).unwrap();
    let (_, section) = document.split_once("## Coordinator and relay").unwrap();
    let mut events = BTreeSet::new();
    let mut folders = vec![root.join("src"), root.join("../relay/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let code = std::fs::read_to_string(path).unwrap();
            let found = code.split("event = \"").skip(1).filter_map(|rest| rest.split('"').next());
            events.extend(found.map(String::from));
        }
    }
    assert!(events.len() > 30, "{events:?}");
    let missing: Vec<_> = events.iter().filter(|event| !section.contains(&format!("`{event}`"))).collect();
    assert!(missing.is_empty(), "not in docs/log.md: {missing:?}");
}

//! The relay program as its users start it: its output and exit status.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_taut-relay");

/// Runs the program with these words. Returns its exit status, standard output and standard error.
fn answer(line: &str) -> (i32, String, String) {
    let output = Command::new(PROGRAM).args(line.split_whitespace()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn with_json_a_failure_is_reported_as_a_json_object() {
    for (line, wanted) in [
        ("status --json --metrics 127.0.0.1:1", 1),
        ("key --json --key /proc/version/key", 1),
        ("status --json --metrics here", 2),
        ("nonsense --json", 2),
        ("--json", 2),
    ] {
        let (code, stdout, stderr) = answer(line);
        assert_eq!(code, wanted, "{line}: {stderr}");
        let object: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{line}: {error}"));
        let message = object["error"]["message"].as_str().unwrap();
        assert!(object["schema"] == 1 && stderr.contains(message), "{line}: {object}");
        assert_eq!(object["error"]["hint"].is_null(), code == 1, "{line}: {object}");
    }
    let version: Value = serde_json::from_str(&answer("version --json").1).unwrap();
    assert_eq!(version, json!({ "schema": 1, "version": env!("CARGO_PKG_VERSION") }));
    assert_eq!(answer("version").1, concat!("taut-relay ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn a_rate_that_is_none_or_of_no_use_is_refused_with_the_name_of_its_option() {
    for text in ["abc", "10", "1.5G"] {
        let (code, _, stderr) = answer(&format!("serve --rate {text}"));
        assert!(code == 2 && stderr.contains(&format!("--rate `{text}`: a rate is a number of bits")), "{stderr}");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure_but_a_closed_pipe_is_not() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(PROGRAM).arg("help").stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("the output cannot be written: No space left on device"), "{stderr}");
    let mut child = Command::new(PROGRAM).arg("help").stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A running relay with a WebSocket port.
struct Serve {
    child: Child,
    log: BufReader<ChildStderr>,
    web: String,
}

impl Serve {
    fn start(key: &Path) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut command = Command::new(PROGRAM);
        command
            .args(["serve", "--listen", "0", "--stun-port", "0", "--threads", "1", "--web", &free, "--key"])
            .arg(key);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let mut serve = Self { child, log, web: free };
        serve.line("event=started");
        serve
    }

    /// Reads the log up to a line that contains `part`, and returns it.
    fn line(&mut self, part: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "the log ends without {part}");
            if line.contains(part) {
                return line;
            }
        }
    }

    fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_hangup_does_not_end_the_relay_and_a_proxy_header_of_a_stranger_is_logged() {
    let key = std::env::temp_dir().join(format!("taut-relay-program-{}", std::process::id()));
    let mut serve = Serve::start(&key);
    serve.signal("-HUP");
    serve.line("event=hangup-ignored");
    let mut proxy = TcpStream::connect(&serve.web).unwrap();
    proxy.write_all(b"PROXY TCP4 203.0.113.7 10.0.0.1 1 2\r\n").unwrap();
    let line = serve.line("event=untrusted-proxy-header");
    assert!(line.contains("address=127.0.0.1") && line.contains("--trusted-proxy"), "{line}");
    serve.signal("-TERM");
    assert_eq!(serve.child.wait().unwrap().code(), Some(0));
    std::fs::remove_file(&key).unwrap();
}

#[test]
fn files_that_are_none_are_refused_without_waiting() {
    let folder = std::env::temp_dir().join(format!("taut-relay-files-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let pipe = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (pipe, key) = (pipe.display(), folder.join("key"));
    let web = format!("--web 127.0.0.1:0 --web-cert {pipe} --web-key {pipe} --key {}", key.display());
    for options in [format!("--key {pipe}"), web] {
        let line = format!("-s KILL 20 {PROGRAM} serve --listen 0 --stun-port 0 {options}");
        // A program that waits for a writer of the pipe would wait without end.
        let output = Command::new("timeout").args(line.split_whitespace()).output().unwrap();
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{options}: {complaint}");
        assert!(complaint.contains("it is not a regular file"), "{options}: {complaint}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

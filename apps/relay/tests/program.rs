//! The relay program as its users start it: its output and exit status.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]

use std::fs::OpenOptions;
use std::process::{Command, Stdio};

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

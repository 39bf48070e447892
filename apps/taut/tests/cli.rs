//! Runs the built program with right and wrong command lines, without a daemon.
#![expect(clippy::unwrap_used, reason = "the helpers of tests may stop at the first surprise, as tests do")]

use std::path::PathBuf;
use std::process::{Command, Output};

const NOWHERE: &str = "/nonexistent/taut.sock";

fn taut(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_taut"))
        .args(line.split_whitespace())
        .env("TAUT_SOCKET", NOWHERE)
        .env_remove("TAUT_AUTHKEY")
        .env_remove("TAUT_STATE_DIR")
        .output()
        .unwrap()
}

/// Runs a command line. Returns exit code, stdout and stderr.
fn answer(line: &str) -> (i32, String, String) {
    let output = taut(line);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

const VERBS: [&str; 14] = [
    "up",
    "down",
    "leave",
    "status",
    "ping",
    "why",
    "netcheck",
    "log",
    "bugreport",
    "hosts",
    "ip",
    "metrics",
    "daemon",
    "version",
];

#[test]
fn a_usage_error_has_status_2_and_the_usage_of_the_verb_on_stderr() {
    for verb in VERBS {
        let (code, stdout, stderr) = answer(&format!("{verb} --no-such-flag"));
        assert_eq!((code, stdout.as_str()), (2, ""), "{verb}");
        assert!(
            stderr.contains("no flag `--no-such-flag`") && stderr.contains(&format!("usage: taut {verb}")),
            "{stderr}"
        );
    }
    for line in [
        "",
        "fly",
        "help fly",
        "ping",
        "ping a b",
        "ip -4 -6",
        "up --mtu 1",
        "up --hostname A.B",
        "ping a -c 0",
        "why",
        "why a b",
        "netcheck ftp://x",
        "netcheck 127.0.0.1:port",
        "metrics x",
        "daemon --metrics here",
        "status x",
        "log x",
        "log --level loud",
        "log --since soon",
        "daemon --log-level paths=debug",
        "bugreport x",
    ] {
        let (code, stdout, stderr) = answer(line);
        assert_eq!((code, stdout.as_str()), (2, ""), "{line}");
        assert!(stderr.contains("usage: taut "), "{line}: {stderr}");
    }
}

#[test]
fn help_has_status_0_and_goes_to_stdout() {
    for line in ["help", "--help", "-h"] {
        let (code, stdout, stderr) = answer(line);
        assert_eq!((code, stderr.as_str()), (0, ""), "{line}");
        for verb in VERBS {
            assert!(stdout.contains(&format!("\n  {verb} ")), "{line} lists {verb}");
        }
    }
    for line in ["help help", "help --help", "help -h"] {
        assert_eq!(answer(line), answer("help"), "{line}");
    }
    for verb in VERBS {
        let (_, by_help, _) = answer(&format!("help {verb}"));
        for line in [format!("{verb} --help"), format!("{verb} -h")] {
            assert_eq!(answer(&line), (0, by_help.clone(), String::new()), "{line}");
        }
        assert!(by_help.contains(&format!("usage: taut {verb}")));
    }
}

#[test]
fn without_a_daemon_the_error_says_what_to_do() {
    for line in ["down", "status", "ping n2", "why n2", "metrics", "hosts", "ip", "ip n2"] {
        let (code, stdout, stderr) = answer(line);
        assert_eq!((code, stdout.as_str()), (1, ""), "{line}");
        assert!(
            stderr.contains("taut is not running") && stderr.contains("start it with `taut up`"),
            "{line}: {stderr}"
        );
        assert!(stderr.contains(NOWHERE), "{line}: names the socket");
    }
    let (code, _, stderr) = answer("leave --state /nonexistent");
    assert!(code == 1 && stderr.contains("not a member") && stderr.contains("/nonexistent"), "{stderr}");
}

#[test]
fn with_json_a_failure_is_an_object() {
    let object = |line: &str| {
        let (code, stdout, stderr) = answer(line);
        let json: serde_json::Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{line}: {error}"));
        let error = &json["error"];
        let hint = &error["hint"];
        assert!(json["schema"] == 1 && error["message"].is_string(), "{line}: {json}");
        assert!(hint.is_null() || hint.as_str().is_some_and(|hint| !hint.is_empty()), "{line}: {json}");
        assert!(stderr.contains(error["message"].as_str().unwrap()), "{line}: people read the same");
        (code, json)
    };
    for line in [
        "down --json",
        "ping n2 --json",
        "why n2 --json",
        "hosts --json",
        "ip --json",
        "leave --json --state /nonexistent",
    ] {
        let (code, json) = object(line);
        assert!(code == 1 && json.get("state").is_none(), "{line}: {json}");
    }
    let (code, json) = object("status --json");
    assert_eq!((code, &json["state"]), (1, &"no-daemon".into()));
    assert!(json["error"]["hint"].as_str().unwrap().contains("taut up"), "{json}");
    for line in ["status --json --fast", "up --json --join hello --mtu 1", "fly --json"] {
        assert_eq!(object(line).0, 2, "{line}");
    }
    let (code, json) = object("up --json --join hello");
    assert!(code == 1 && json["error"]["hint"].is_null(), "no hint: {json}");
}

#[test]
fn a_mistyped_word_is_recognised() {
    for (line, meant) in [("staus", "did you mean `status`?"), ("up --hostnme a", "did you mean `--hostname`?")] {
        let (code, _, stderr) = answer(line);
        assert!(code == 2 && stderr.contains(meant), "{stderr}");
    }
}

#[test]
fn the_version_needs_no_daemon() {
    let version = env!("CARGO_PKG_VERSION");
    let (code, stdout, _) = answer("version --json");
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let without = json["without"].clone();
    let names: Vec<&str> = without.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert_eq!(names.contains(&"tls"), !cfg!(feature = "tls"));
    assert_eq!(
        (code, json),
        (0, serde_json::json!({"schema": 1, "version": version, "without": without, "daemon": null}))
    );
    let lacks = if names.is_empty() { String::new() } else { format!(" (tiny: without {})", names.join(", ")) };
    assert_eq!(answer("version"), (0, format!("taut {version}{lacks}\ndaemon not running\n"), String::new()));
    assert_eq!(answer("--version").1, answer("version").1);
}

#[test]
fn netcheck_needs_a_server_but_no_daemon() {
    let (code, stdout, stderr) = answer("netcheck --state /nonexistent");
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("no relay is known") && stderr.contains("taut netcheck http://"), "{stderr}");
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (code, stdout, stderr) = answer(&format!("netcheck --json --relay {}", silent.local_addr().unwrap()));
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, stderr.as_str()), (1, ""), "nothing was reached");
    assert_eq!((&json["schema"], &json["udp"], &json["ipv4"]["state"]), (&1.into(), &false.into(), &"silent".into()));
    // A coordinator that is named by its URL is also tried by TCP.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (code, stdout, _) = answer(&format!("netcheck --json {url}"));
    let json: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &json["coordinators"][0]["url"]), (0, &url.clone().into()));
    assert!(json["coordinators"][0]["endpoints"][0]["latency_ms"].is_number(), "{json}");
    assert_eq!(json["relays"][0]["endpoints"][0]["endpoint"], "127.0.0.1:3478");
    drop(listener);
    let (code, stdout, _) = answer(&format!("netcheck {url}"));
    // If a coordinator runs on this host, its relay answers at port 3478.
    let by_udp = stdout.lines().any(|line| line.starts_with("UDP ") && line.ends_with("works"));
    assert_eq!(code, i32::from(!by_udp), "{stdout}");
    assert!(stdout.contains("not reached by TCP: Connection refused"), "{stdout}");
    assert!(stdout.contains("Check that it runs"), "{stdout}");
}

#[test]
fn a_token_is_checked_before_any_change() {
    let state: PathBuf = std::env::temp_dir().join(format!("taut-cli-{}", std::process::id()));
    for (given, part) in
        [("hello", "not a join token"), ("taut1-AAAA", "damaged"), ("file:/nonexistent/token", "/nonexistent/token")]
    {
        for flag in ["--join", "--auth-key"] {
            let (code, stdout, stderr) = answer(&format!("up {flag} {given} --state {}", state.display()));
            assert_eq!((code, stdout.as_str()), (1, ""), "{given}");
            assert!(stderr.contains(part), "{given}: {stderr}");
        }
    }
    assert!(!state.exists(), "nothing was created");
}

#[test]
fn a_flag_in_place_of_a_value_is_named() {
    for flag in ["--join", "--auth-key"] {
        let (code, _, stderr) = answer(&format!("up {flag} --timeout 15"));
        assert!(code == 2 && stderr.contains("`--timeout` is not a join token"), "{stderr}");
    }
    for count in ["0", "-1", "99999999999", "x"] {
        let (code, _, stderr) = answer(&format!("ping n2 -c {count}"));
        let expected = format!("-c {count}: write a number from 1 to 65535");
        assert!(code == 2 && stderr.contains(&expected), "{stderr}");
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let netcheck = format!("netcheck http://{}", listener.local_addr().unwrap());
    for line in ["help", "help up", "up --help", "version", "version --json", &netcheck] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_taut"));
        command.args(line.split_whitespace()).env("TAUT_SOCKET", NOWHERE).stdout(full);
        let output = command.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}: {stderr}");
        assert!(stderr.contains("the output cannot be written: No space left on device"), "{line}: {stderr}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_taut")).arg("help").stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

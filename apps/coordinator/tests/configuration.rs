//! The configuration of the program: its file, `config check`, and the example that ships with it.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_taut-coordinator");

/// A directory that is removed after its test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("taut-configuration-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn write(&self, text: &str) -> String {
        let path = self.0.join("coordinator.toml");
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn program(words: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TAUT_") {
            command.env_remove(name);
        }
    }
    command.args(words).envs(variables.iter().copied());
    command
}

fn run(words: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = program(words, variables).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/coordinator.toml")
}

#[test]
fn config_check_prints_each_setting_with_its_source_and_no_password() {
    let directory = Directory::new();
    let file =
        directory.write("database = 'postgres://taut:hunter2@db.example/taut'\nurl = ['https://a', 'https://b']\n");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let words = ["config", "check", "--config", &file, "--metrics", "127.0.0.1:9480"];
    let variables = [("TAUT_LISTEN", "127.0.0.1:8300"), ("TAUT_DRAIN", "5")];
    let (status, text, complaint) = run(&words, &variables);
    assert_eq!(status, Some(0), "{complaint}");
    let line =
        |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(line("database"), ["database", "postgres://taut:***@db.example/taut", "coordinator.toml,", "line", "1"]);
    assert_eq!(line("url"), ["url", "https://a", "https://b", "coordinator.toml,", "line", "2"]);
    assert_eq!(line("listen"), ["listen", "127.0.0.1:8300", "TAUT_LISTEN"]);
    assert_eq!(line("metrics"), ["metrics", "127.0.0.1:9480", "--metrics"]);
    assert_eq!(line("relay-port"), ["relay-port", "3478", "default"]);
    assert_eq!(line("trusted-proxy"), ["trusted-proxy", "-", "default"]);
    assert!(text.lines().last().unwrap().contains("run `chmod 600 "), "{text}");
    let (_, out, _) = run(&[&words[..], &["--json"]].concat(), &variables);
    let found: Value = serde_json::from_str(&out).unwrap();
    let of =
        |name: &str| found["settings"].as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap().clone();
    assert_eq!((&found["schema"], &found["file"]), (&json!(1), &json!(file)));
    assert_eq!(
        of("url"),
        json!({ "name": "url", "value": ["https://a", "https://b"], "source": "file", "variable": "TAUT_URL", "line": 2 })
    );
    assert_eq!((&of("drain")["value"], &of("drain")["source"]), (&json!(5), &json!("environment")));
    assert_eq!((&of("metrics")["source"], &of("no-relay")["value"]), (&json!("flag"), &json!(false)));
    assert_eq!(found["warnings"].as_array().unwrap().len(), 1);
    assert!(!text.contains("hunter2") && !out.contains("hunter2"));
}

#[test]
fn serve_and_check_refuse_the_same_values_with_the_same_words() {
    let directory = Directory::new();
    let state = directory.0.join("state");
    let file = directory.write("");
    for (name, value, part) in [
        ("ipv4-prefix", "10.1.2.3/8", "write 10.0.0.0/8"),
        ("ipv4-prefix", "192.0.2.0/24", "choose a /8 to /30"),
        ("ipv4-prefix", "fd00::/48", "choose a /8 to /30"),
        ("network", "Home", "lower-case letters"),
        ("network", "com", "choose another name"),
        ("trusted-proxy", "10.1.2.3/8", "write 10.0.0.0/8, or 10.1.2.3/32"),
        ("database", "postgres://a@127.0.0.1:1/taut?sslmod=disable", "`sslmod`, which is not known"),
        ("database", "postgres://a@127.0.0.1:1/taut?sslrootcert=/no/such", "/no/such, cannot be read"),
        ("database", "postgres://a@db.example/taut?sslmode=prefer", "may not be encrypted"),
        ("database", "postgres://a@127.0.0.1:x/taut", "database"),
    ] {
        let variable = format!("TAUT_{}", name.to_uppercase().replace('-', "_"));
        let complaint = |command: &[&str]| {
            let words = [command, &["--config", &file, "--state", state.to_str().unwrap()]].concat();
            let (status, _, complaint) = run(&words, &[(&variable, value)]);
            assert_eq!(status, Some(1), "{command:?} {name} = {value}: {complaint}");
            complaint
        };
        let (checked, served) = (complaint(&["config", "check"]), complaint(&["serve", "--listen", "127.0.0.1:0"]));
        assert_eq!(checked, served, "{name} = {value}");
        assert!(checked.contains(&variable) && checked.contains(part), "{checked}");
    }
    assert!(!state.exists(), "nothing was begun");
}

#[test]
fn a_check_that_fails_says_so_to_programs_and_names_every_value() {
    let directory = Directory::new();
    let file = directory.write("listen = 'x'\nmetrics = 'y'\n");
    let (status, out, complaint) = run(&["config", "check", "--config", &file, "--json"], &[]);
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &found["schema"], &found["ok"]), (Some(1), &json!(1), &json!(false)));
    let message = found["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("line 1, column 10: listen") && message.contains("line 2, column 11: metrics"),
        "{message}"
    );
    assert!(complaint.contains(message), "{complaint}");
}

#[test]
fn settings_of_https_that_contradict_each_other_are_refused() {
    for (variables, part) in [
        (&[("TAUT_TLS_CERT", "/a")][..], "tls-cert is set without tls-key"),
        (&[("TAUT_TLS_KEY", "/a")], "tls-key is set without tls-cert"),
        (&[("TAUT_ACME", "taut.example"), ("TAUT_TLS_CERT", "/a")], "acme and tls-cert are both set"),
        (&[("TAUT_ACME_HTTP", "[::]:80")], "acme-http is set without acme"),
        (&[("TAUT_ACME", "taut.example"), ("TAUT_DATABASE", "postgres://a@127.0.0.1/taut")], "several coordinators"),
        (&[("TAUT_TLS_CERT", "/no/such"), ("TAUT_TLS_KEY", "/no/such")], "/no/such cannot be read"),
        (&[("TAUT_ACME", "*.example")], "TAUT_ACME `*.example` is a wildcard"),
    ] {
        let complaint = |command: &[&str]| {
            let (status, _, complaint) = run(&[command, &["--config", "/dev/null"]].concat(), variables);
            assert!(status == Some(1) || status == Some(2), "{command:?} {variables:?}");
            String::from(complaint.lines().next().unwrap())
        };
        let (checked, served) = (complaint(&["config", "check"]), complaint(&["serve", "--listen", "127.0.0.1:0"]));
        assert_eq!(checked, served);
        assert!(checked.contains(part), "{checked}");
    }
}

#[test]
fn a_file_that_is_none_is_refused_at_once() {
    let directory = Directory::new();
    let pipe = directory.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    let with_certificate = format!("postgres://a@127.0.0.1:1/taut?sslrootcert={pipe}");
    for (words, variables) in [
        (vec!["config", "check", "--config", pipe], vec![]),
        (vec!["serve", "--config", pipe], vec![]),
        (vec!["check", "--config", pipe], vec![]),
        (vec!["config", "check", "--config", "/dev/zero"], vec![]),
        (vec!["config", "check", "--config", "/dev/null"], vec![("TAUT_DATABASE", &*with_certificate)]),
        (vec!["restore", pipe, "--config", "/dev/null", "--state", pipe], vec![]),
        (vec!["nodes", "list", "--api", "https://127.0.0.1:1", "--token", "tautop-x", "--ca", pipe], vec![]),
    ] {
        // A program that waits for a writer of the pipe would wait without end.
        let limited =
            Command::new("timeout").args(["-s", "KILL", "20", PROGRAM]).args(&words).envs(variables).output().unwrap();
        let complaint = String::from_utf8(limited.stderr).unwrap();
        assert_eq!(limited.status.code(), Some(1), "{words:?}: {complaint}");
        assert!(complaint.contains("it is not a regular file"), "{words:?}: {complaint}");
    }
    let file = directory.write(&"#\n".repeat(200 << 10));
    let (status, _, complaint) = run(&["config", "check", "--config", &file], &[]);
    assert!(status == Some(1) && complaint.contains("larger than 256 KiB"), "{complaint}");
}

#[test]
fn a_wrong_file_is_refused_by_every_command_that_reads_it() {
    let directory = Directory::new();
    let file = directory.write("lisen = '127.0.0.1:1'\n");
    for words in [
        &["config", "check"][..],
        &["serve"],
        &["check"],
        &["backup", "x"],
        &["restore", "x"],
        &["operator-token", "create"],
    ] {
        let (status, _, complaint) = run(&[words, &["--config", &file]].concat(), &[]);
        assert_eq!(status, Some(1), "{words:?}: {complaint}");
        let expected = format!("{file}, line 1, column 1: there is no key `lisen`; did you mean `listen`?");
        assert!(complaint.contains(&expected), "{words:?}: {complaint}");
    }
    let (status, out, _) = run(&["config", "check", "--json", "--config", &file], &[]);
    let failure: Value = serde_json::from_str(&out).unwrap();
    assert!(status == Some(1) && failure["error"]["message"].as_str().unwrap().contains("`lisen`"), "{out}");
    assert_eq!(run(&["config", "chek"], &[]).0, Some(2));
    let (status, _, complaint) = run(&["config", "check", "--config", "/dev/null", "--listen", "x"], &[]);
    assert!(status == Some(2) && complaint.contains("--listen `x`"), "{complaint}");
}

#[test]
fn serve_and_the_commands_for_its_database_follow_the_file() {
    let directory = Directory::new();
    let state = directory.0.join("state");
    let file = directory.write(&format!(
        "state = '{}'\nlisten = '127.0.0.1:0'\nurl = ['http://192.0.2.1:8288']\nno-relay = true\nlog-format = 'json'\n",
        state.display()
    ));
    let mut serve =
        program(&["serve"], &[("TAUT_CONFIG", &file)]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    let listens = lines.map_while(Result::ok).find(|line| line.starts_with("listening on "));
    let token = fs::read_to_string(state.join("first-tokens"));
    let (status, made, complaint) = run(&["operator-token", "create", "--config", &file], &[]);
    let checked = run(&["check"], &[("TAUT_CONFIG", &file)]);
    let _ = Command::new("kill").args(["-TERM", &serve.id().to_string()]).status();
    let mut log = String::new();
    serve.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(serve.wait().unwrap().code(), Some(0), "{log}");
    assert!(listens.is_some_and(|line| line.starts_with("listening on 127.0.0.1:")) && token.is_ok(), "{log}");
    assert_eq!((status, made.starts_with("operator-token: tautop-")), (Some(0), true), "{complaint}");
    assert_eq!((checked.0, &*checked.1), (Some(0), "ok\n"));
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let event = |name: &str| events.iter().find(|event| event["event"] == name);
    assert_eq!(event("configuration").unwrap()["file"], json!(file));
    assert!(event("derived-urls").is_none() && event("relay-started").is_none(), "{log}");
}

#[test]
fn the_example_is_valid_and_has_every_option_of_serve() {
    let text = fs::read_to_string(example()).unwrap();
    let (_, help, _) = run(&["serve", "--help"], &[]);
    let options: Vec<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  --")?.split(' ').next())
        .filter(|name| *name != "config")
        .collect();
    assert!(options.len() > 10, "{help}");
    let assigned = |line: &str| line.split_once(" = ").map(|(name, _)| String::from(name.trim_start_matches('#')));
    let keys: Vec<String> = text.lines().filter_map(assigned).collect();
    assert_eq!(keys, options, "each option once, in the order of the help");
    // As it is, it changes nothing; with all keys in use it is a file that `serve` accepts, but for the database, which excludes the own relay, and for files of
    // a certificate, which have to exist.
    const LEFT_OUT: [&str; 3] = ["database", "tls-cert", "tls-key"];
    let directory = Directory::new();
    assert_eq!(run(&["config", "check", "--config", example().to_str().unwrap()], &[]).0, Some(0));
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "nothing is set");
    let used = |line: &str| match assigned(line) {
        Some(name) if !LEFT_OUT.contains(&&*name) => String::from(line.trim_start_matches('#')),
        _ => String::from(line),
    };
    let secret = directory.0.join("oidc-secret");
    fs::write(&secret, "of-the-provider\n").unwrap();
    let text = text.replace("/etc/taut/oidc-secret", secret.to_str().unwrap());
    let file = directory.write(&text.lines().map(used).collect::<Vec<_>>().join("\n"));
    let (status, out, complaint) = run(&["config", "check", "--json", "--config", &file], &[]);
    assert_eq!(status, Some(0), "{complaint}");
    assert!(!out.contains("of-the-provider"), "{out}");
    let found: Value = serde_json::from_str(&out).unwrap();
    let from_file = found["settings"].as_array().unwrap().iter().filter(|entry| entry["source"] == "file").count();
    assert_eq!(from_file, options.len() - LEFT_OUT.len());
}

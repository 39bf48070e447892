//! The program as its users start it: output, exit codes, signals, files.
#![expect(clippy::unwrap_used, reason = "a test's helpers may stop at the first surprise, as the test itself may")]

use std::fs::metadata;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use taut_netmap::RELAY_PATH;
use taut_relay::frame::{Frame, data_header, parse};
use tungstenite::Message;

const PROGRAM: &str = env!("CARGO_BIN_EXE_taut-coordinator");

struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("taut-coordinator-program-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running `serve`, which is killed when this is dropped.
struct Serve {
    child: Child,
    /// The printed lines up to `listening on …`.
    printed: Vec<String>,
    /// The lines of the file with the first tokens.
    tokens: Vec<String>,
}

impl Serve {
    fn start(directory: &Directory, more: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg("--state").arg(&directory.0).args(["--listen", "127.0.0.1:0"]).args(more);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        let mut printed = Vec::new();
        while !printed.last().is_some_and(|line: &String| line.starts_with("listening on ")) {
            printed.push(lines.next().expect("a line that says where it listens").unwrap());
        }
        drop(lines);
        let file = printed.iter().find_map(|line| line.strip_prefix("first-tokens: "));
        let text = file.map(|file| std::fs::read_to_string(file).unwrap()).unwrap_or_default();
        Self { child, printed, tokens: text.lines().map(str::to_owned).collect() }
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.printed.iter().chain(&self.tokens).find_map(|line| line.strip_prefix(name))
    }

    fn api(&self) -> String {
        format!("http://{}", self.value("listening on ").unwrap())
    }

    /// Sends SIGTERM. Returns what the program printed afterwards, and its exit status.
    fn terminate(mut self) -> (String, Option<i32>) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let mut rest = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap().code())
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a `serve` that must fail, and returns its complaint. A `serve` that runs fails the test.
fn refusal(directory: &Directory, listen: &str) -> String {
    let mut command = Command::new(PROGRAM);
    command.arg("serve").arg("--state").arg(&directory.0).args(["--listen", listen]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut serve = Serve { child, printed: Vec::new(), tokens: Vec::new() };
    let mut line = String::new();
    BufReader::new(serve.child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "", "it runs");
    assert_eq!(serve.child.wait().unwrap().code(), Some(1));
    let mut complaint = String::new();
    serve.child.stderr.as_mut().unwrap().read_to_string(&mut complaint).unwrap();
    complaint
}

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_remove("TAUT_API").env_remove("TAUT_OPERATOR_TOKEN").envs(variables.iter().copied());
    command.output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn complaint(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn fault_e7_e23_only_the_first_start_makes_tokens_and_a_pipe_gets_their_file() {
    let directory = Directory::new();
    let first = Serve::start(&directory, &[]);
    let file = directory.0.join("first-tokens");
    assert_eq!(first.printed[..1], [format!("first-tokens: {}", file.display())]);
    assert_eq!((first.printed.len(), first.tokens.len()), (2, 3));
    assert!(first.value("operator-token: tautop-").is_some() && first.value("join-token: taut1-").is_some());
    assert!(first.value("set-up: http").is_some_and(|link| link.contains("/link#set-up.")));
    let tokens = first.tokens.clone();
    assert_eq!(first.terminate(), (String::new(), Some(0)));
    let elsewhere = Directory::new();
    let other = Serve::start(&elsewhere, &[]);
    assert!(tokens.iter().all(|line| !other.tokens.contains(line)), "no token is another coordinator's, too");
    let second = Serve::start(&directory, &[]);
    assert_eq!(second.printed.len(), 1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", tokens.join("\n")), "it stays");
    assert_eq!(metadata(&directory.0).unwrap().permissions().mode() & 0o777, 0o700);
    for file in std::fs::read_dir(&directory.0).unwrap() {
        let file = file.unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", file.file_name());
    }
}

#[test]
fn the_coordinators_own_relay_is_reached_by_websocket_at_its_port() {
    let ask = |serve: &Serve| {
        let address = String::from(serve.value("listening on ").unwrap());
        let tcp = TcpStream::connect(&address).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let asked = tungstenite::client(format!("ws://{address}{RELAY_PATH}"), tcp);
        asked.map(|(socket, _)| socket).map_err(|error| error.to_string())
    };
    let directory = Directory::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let serve = Serve::start(&directory, &["--relay-port", "0", "--relay-metrics", &free]);
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
    let figures = || agent.get(format!("http://{free}/metrics")).call().unwrap().body_mut().read_to_string().unwrap();
    assert!(figures().contains("taut_relay_websockets 0\n"));
    let mut socket = ask(&serve).unwrap();
    // The relay itself answers a frame of a client that is not bound.
    let frame = [&data_header(7)[..], &[4, 0, 0, 0], &[0; 28]].concat();
    socket.send(Message::binary(frame)).unwrap();
    let answer = socket.read().unwrap().into_data();
    assert!(matches!(parse(&answer), Ok(Frame::Again { .. })), "{answer:?}");
    let counted = figures();
    assert!(counted.contains("taut_relay_websockets 1\n") && counted.contains("{reason=\"unbound\"} 1\n"), "{counted}");
    assert_eq!(agent.get(format!("{}{RELAY_PATH}", serve.api())).call().unwrap().status(), 400);
    drop(socket);
    assert_eq!(serve.terminate().1, Some(0));
    let without = Serve::start(&directory, &["--no-relay"]);
    let refused = ask(&without).unwrap_err();
    assert!(refused.contains("404"), "{refused}");
}

#[test]
fn a_second_serve_on_the_same_state_refuses() {
    let directory = Directory::new();
    let _first = Serve::start(&directory, &[]);
    let complaint = refusal(&directory, "127.0.0.1:0");
    assert!(complaint.contains("another coordinator is running"), "{complaint}");
}

#[test]
fn a_taken_port_is_named_and_no_token_is_used_up() {
    let (one, two) = (Directory::new(), Directory::new());
    let first = Serve::start(&one, &[]);
    let address = first.value("listening on ").unwrap();
    let complaint = refusal(&two, address);
    assert!(complaint.contains(address), "{complaint}");
    assert_eq!(Serve::start(&two, &[]).tokens.len(), 3, "the tokens are still to be shown");
}

#[test]
fn the_operators_commands() {
    let directory = Directory::new();
    let serve = Serve::start(&directory, &["--network", "home", "--ipv4-prefix", "10.7.0.0/16", "--url", "http://a:1"]);
    let (api, token) = (serve.api(), serve.value("operator-token: ").unwrap());
    let variables = [("TAUT_API", api.as_str()), ("TAUT_OPERATOR_TOKEN", token)];
    let good = |arguments: &[&str]| {
        let output = run(arguments, &variables);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", complaint(&output));
        out(&output)
    };
    let bad = |arguments: &[&str], code: i32| {
        let output = run(arguments, &variables);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", complaint(&output));
        assert!(complaint(&output).starts_with("taut-coordinator: "), "{}", complaint(&output));
    };
    assert!(good(&["networks", "show", "home"]).contains("10.7.0.0/16"));
    assert!(good(&["networks", "create", "lab", "--ipv4-prefix", "10.8.0.0/24"]).contains("lab"));
    assert!(good(&["networks", "list"]).contains("10.8.0.0/24"));
    let overlapping = run(&["networks", "create", "wide", "--ipv4-prefix", "10.0.0.0/12"], &variables);
    let warning = complaint(&overlapping);
    assert!(overlapping.status.success() && warning.contains("10.0.0.0/12") && warning.contains("home (10.7.0.0/16)"));
    assert!(warning.contains("a host cannot join two networks if any of their addresses are equal"), "{warning}");
    good(&["networks", "remove", "wide"]);
    assert!(
        good(&["keys", "create", "--one-off", "--expires", "24h", "--network", "lab"])
            .starts_with("join-token: taut1-")
    );
    good(&["keys", "revoke", "2"]);
    assert!(good(&["keys", "list"]).contains("revoked"));
    assert!(good(&["nodes", "list"]).contains("no nodes"));
    let json: serde_json::Value = serde_json::from_str(&good(&["nodes", "list", "--json"])).unwrap();
    assert_eq!((&json["schema"], &json["nodes"]), (&1.into(), &serde_json::json!([])));
    for failing in [["nodes", "remove", "x", "--network=lab"], ["nodes", "remove", "x", "--token=tautop-x"]] {
        bad(&failing, 1);
    }
    bad(&["nodes", "list", "--api", "http://127.0.0.1:1"], 1);
    let wrong: [&[&str]; 9] = [
        &[],
        &["nonsense"],
        &["nodes"],
        &["nodes", "rename", "a"],
        &["nodes", "list", "--one-off"],
        &["keys", "create", "--expires", "soon"],
        &["keys", "revoke", "x"],
        &["networks", "list", "more"],
        &["serve", "--url", "ftp://x"],
    ];
    for arguments in wrong {
        bad(arguments, 2);
    }
    for (arguments, meant) in [
        (["nods", "list", ""], "nodes"),
        (["networks", "remvoe", "lab"], "remove"),
        (["nodes", "list", "--jsno"], "--json"),
        (["operator-tokens", "list", ""], "operator-token"),
    ] {
        let words: Vec<&str> = arguments.into_iter().filter(|word| !word.is_empty()).collect();
        let output = run(&words, &variables);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(complaint(&output).contains(&format!("did you mean `{meant}`?")), "{}", complaint(&output));
    }
    assert!(!complaint(&run(&["nonsense"], &variables)).contains("did you mean"));
    let message = |verb| String::from(complaint(&run(&["nodes", verb], &variables)).lines().next().unwrap());
    assert_eq!(message("lst"), "taut-coordinator: there is no `nodes lst`; did you mean `list`?");
    assert_eq!(message("nonsense"), "taut-coordinator: there is no `nodes nonsense`; `nodes` has list, rename, remove");
    assert!(good(&["networks", "remove", "lab"]).contains("network lab is removed"));
    bad(&["networks", "remove", "lab", "--force"], 1);
}

/// Runs a command with a first line of standard input.
fn run_with_input(arguments: &[&str], line: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).env_remove("TAUT_API").env_remove("TAUT_OPERATOR_TOKEN").stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{line}").unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn the_commands_about_people() {
    let directory = Directory::new();
    let serve = Serve::start(&directory, &["--no-relay"]);
    let (api, token) = (serve.api(), serve.value("operator-token: ").unwrap().to_owned());
    let variables = [("TAUT_API", api.as_str()), ("TAUT_OPERATOR_TOKEN", token.as_str())];
    let good = |arguments: &[&str]| {
        let output = run(arguments, &variables);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", complaint(&output));
        out(&output)
    };
    let bad = |arguments: &[&str], code: i32| {
        let output = run(arguments, &variables);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", complaint(&output));
        complaint(&output)
    };
    let here = |link: &str| format!("{api}/link{}", &link[link.find('#').unwrap()..]);
    let link = here(serve.value("set-up: ").unwrap());
    let used = run_with_input(&["users", "set-up", &link, "--name", "ann"], "correct horse battery");
    assert_eq!(out(&used), "user ann is an owner\n", "{}", complaint(&used));
    let again = run_with_input(&["users", "set-up", &link, "--name", "eve"], "correct horse battery");
    assert!(again.status.code() == Some(1) && complaint(&again).contains("was used"), "{}", complaint(&again));
    let made = good(&[
        "users",
        "create",
        "bob",
        "--role",
        "admin",
        "--display-name",
        "Bob Example",
        "--email",
        "bob@example.com",
    ]);
    let link = here(made.trim().strip_prefix("password-link: ").unwrap());
    assert!(good(&["users", "show", "bob"]).contains("no password yet"));
    assert!(run_with_input(&["users", "set-up", &link], "another horse battery").status.success());
    good(&["networks", "create", "lab"]);
    assert!(good(&["users", "role", "bob", "auditor", "--network", "lab"]).contains("admin auditor@lab"));
    good(&["users", "role", "bob", "none"]);
    assert!(good(&["users", "edit", "bob", "--display-name", "Robert"]).contains("Robert"));
    assert!(good(&["users", "disable", "bob"]).contains("disabled"));
    assert!(good(&["users", "enable", "bob"]).contains("valid"));
    assert!(good(&["users", "reset", "bob"]).starts_with("password-link: http"));
    assert!(good(&["users", "end-sessions", "bob"]).starts_with("sessions that were ended: "));
    good(&["users", "remove-codes", "bob"]);
    assert!(good(&["users", "export", "bob"]).contains("bob@example.com"));
    assert!(good(&["users", "list"]).contains("Robert"));
    assert!(good(&["users", "remove", "bob"]).contains("with all its data"));
    assert!(bad(&["users", "remove", "ann"], 1).contains("last owner"));
    assert!(good(&["users", "whoami"]).contains("kind: operator-token"));
    let state = directory.0.to_str().unwrap();
    let fresh = good(&["users", "set-up-link", "--url", "https://taut.example", "--state", state]);
    assert!(fresh.starts_with("set-up: https://taut.example/link#set-up."), "{fresh}");
    let made = good(&["tokens", "create", "ci", "--scopes", "nodes:read", "--expires", "30d", "--state", state]);
    let ci = made.trim().strip_prefix("token: ").unwrap();
    let limited = run(&["nodes", "list"], &[("TAUT_API", &api), ("TAUT_OPERATOR_TOKEN", ci)]);
    assert!(limited.status.success(), "{}", complaint(&limited));
    let refused = run(&["keys", "create"], &[("TAUT_API", &api), ("TAUT_OPERATOR_TOKEN", ci)]);
    assert!(complaint(&refused).contains("scopes of your token"), "{}", complaint(&refused));
    assert!(good(&["tokens", "list"]).contains("nodes:read"));
    good(&["tokens", "revoke", "1"]);
    assert!(good(&["audit", "list", "--since", "2026-01-01"]).contains("user-removed"));
    let exported = good(&["audit", "export"]);
    let actions: Vec<String> = exported
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["action"].as_str().unwrap().to_owned())
        .collect();
    assert!(actions.contains(&String::from("token-created")) && actions.len() > 10, "{actions:?}");
    for secret in ["correct horse", "another horse", ci, &token] {
        assert!(!exported.contains(secret));
    }
    let wrong: [&[&str]; 6] = [
        &["users"],
        &["users", "nonsense"],
        &["users", "set-up", "http://127.0.0.1/"],
        &["tokens", "create", "x"],
        &["tokens", "create", "x", "--scopes", "all", "--expires", "never"],
        &["audit", "list", "--since", "yesterday"],
    ];
    for arguments in wrong {
        bad(arguments, 2);
    }
}

#[test]
fn with_json_a_failure_is_an_object() {
    let directory = Directory::new();
    let serve = Serve::start(&directory, &["--no-relay"]);
    let (api, token) = (serve.api(), serve.value("operator-token: ").unwrap());
    let (state, nowhere) = (directory.0.to_str().unwrap(), Directory::new());
    let variables = [("TAUT_API", api.as_str()), ("TAUT_OPERATOR_TOKEN", token)];
    let failure = |arguments: &[&str], code: i32| {
        let output = run(arguments, &variables);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", complaint(&output));
        let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap_or_else(|error| {
            panic!("{arguments:?}: {error}");
        });
        let error = &json["error"];
        assert_eq!(json["schema"], 1, "{arguments:?}");
        let message = error["message"].as_str().unwrap();
        assert!(complaint(&output).contains(message), "{arguments:?}: people read the same: {json}");
        assert!(error["hint"].as_str().map_or(error["hint"].is_null(), |hint| !hint.is_empty()), "{json}");
        error.clone()
    };
    let told = failure(&["nodes", "list", "--json", "--network", "nope"], 1);
    assert!(told["message"].as_str().unwrap().contains("nope") && told["hint"].is_string(), "{told}");
    let told = failure(&["nodes", "list", "--json", "--token", "tautop-wrong"], 1);
    let message = told["message"].as_str().unwrap();
    assert!(message.starts_with("the token of --token or TAUT_OPERATOR_TOKEN is not known at http"), "{told}");
    assert!(failure(&["nodes", "list", "--json", "--api", "http://127.0.0.1:1"], 1)["hint"].is_null());
    failure(&["check", "--json", "--state", nowhere.0.to_str().unwrap()], 1);
    for (wrong, usage, help) in [
        (&["nonsense", "--json"][..], "COMMAND [OPTIONS]", "taut-coordinator --help"),
        (&["nodes", "list", "--json", "--jsno"], "nodes list [--network NAME]", "taut-coordinator nodes --help"),
        (&["nodes", "--json"], "nodes list [--network NAME]", "taut-coordinator nodes --help"),
    ] {
        let told = failure(wrong, 2);
        let hint = told["hint"].as_str().unwrap();
        assert!(hint.starts_with(&format!("usage: taut-coordinator {usage}")) && hint.contains(help), "{told}");
    }
    let good = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&out(&run(arguments, &variables))).unwrap_or_default()
    };
    let version = serde_json::json!({ "schema": 1, "version": env!("CARGO_PKG_VERSION") });
    assert_eq!((good(&["version", "--json"]), good(&["--version", "--json"])), (version.clone(), version));
    let sound = serde_json::json!({ "schema": 1, "ok": true });
    assert_eq!(good(&["check", "--json", "--state", state]), sound);
    let (saved, to) = (directory.0.join("saved.db").display().to_string(), nowhere.0.to_str().unwrap());
    let backup = serde_json::json!({ "schema": 1, "backup": saved });
    assert_eq!(good(&["backup", &saved, "--json", "--state", state]), backup);
    failure(&["backup", &saved, "--json", "--state", state], 1);
    for number in 0..2 {
        let restored = good(&["restore", &saved, "--json", "--force", "--state", to]);
        assert_eq!((&restored["schema"], &restored["restored"]), (&1.into(), &to.into()), "{restored}");
        assert_eq!(restored["replaced"].as_str().is_some_and(|name| name.starts_with(to)), number == 1, "{restored}");
        assert!(restored["to_check"][0]["what"].is_string() && restored["to_check"][0]["meaning"].is_string());
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure_and_a_lost_token_is_reported() {
    let directory = Directory::new();
    let serve = Serve::start(&directory, &["--no-relay"]);
    let state = directory.0.to_str().unwrap();
    let full = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("TAUT_API", serve.api());
        command.env("TAUT_OPERATOR_TOKEN", serve.value("operator-token: ").unwrap());
        command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", complaint(&output));
        let told = complaint(&output);
        assert!(told.contains("the output cannot be written: No space left on device"), "{arguments:?}: {told}");
        told
    };
    for words in [&["help"][..], &["version"], &["nodes", "list"], &["nodes", "list", "--json"], &["openapi"]] {
        full(words);
    }
    let told = full(&["keys", "create"]);
    assert!(told.contains("key 2 exists") && told.contains("taut-coordinator keys revoke 2"), "{told}");
    let told = full(&["operator-token", "create", "--state", state]);
    assert!(told.contains("the token exists") && told.contains("operator-token list"), "{told}");
    // A reader that closes the pipe is not a failure.
    let mut child = Command::new(PROGRAM).arg("openapi").stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_sign_in_whose_token_would_be_lost_is_refused() {
    for output in ["&-", "/dev/null"] {
        let script = format!("exec {PROGRAM} sign-in --api http://127.0.0.1:1 >{output}");
        let refused = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{output}");
        let told = complaint(&refused);
        assert!(told.contains("standard output is closed") && told.contains("--token-file"), "{output}: {told}");
    }
    let unwritable = Command::new("sh").args(["-c", &format!("exec {PROGRAM} version 1</dev/zero")]).output().unwrap();
    assert_eq!(unwritable.status.code(), Some(1));
}

#[test]
fn a_lost_operator_token_is_replaced() {
    let directory = Directory::new();
    let state = directory.0.to_str().unwrap();
    let none = run(&["operator-token", "create", "--state", state], &[]);
    assert_eq!(none.status.code(), Some(1), "there is no coordinator yet");
    assert!(!directory.0.exists());
    let serve = Serve::start(&directory, &[]);
    let made = out(&run(&["operator-token", "create", "--state", state], &[]));
    let token = made.strip_prefix("operator-token: ").unwrap().trim();
    let listed = run(&["nodes", "list", "--api", &serve.api(), "--token", token], &[]);
    assert_eq!(listed.status.code(), Some(0), "{}", complaint(&listed));
    let api = serve.api();
    let tokens = |words: &[&str]| run(&[&["operator-token"], words, &["--api", &api, "--token", token]].concat(), &[]);
    let json: serde_json::Value = serde_json::from_str(&out(&tokens(&["list", "--json"]))).unwrap();
    assert_eq!((&json["operator_tokens"][1]["id"], &json["operator_tokens"][1]["current"]), (&2.into(), &true.into()));
    assert!(out(&tokens(&["list"])).contains("token of this command"));
    assert!(out(&tokens(&["revoke", "1"])).contains("is revoked"));
    assert!(complaint(&tokens(&["revoke", "2"])).contains("the last operator token"));
    assert_eq!(tokens(&["revoke", "x"]).status.code(), Some(2));
    let lost = serve.value("operator-token: ").unwrap();
    assert_eq!(run(&["nodes", "list", "--api", &api, "--token", lost], &[]).status.code(), Some(1));
}

#[test]
fn the_description_of_the_api_is_printed() {
    let printed: serde_json::Value = serde_json::from_str(&out(&run(&["openapi"], &[]))).unwrap();
    assert_eq!(printed["openapi"], "3.1.0");
}

#[test]
fn help_and_version_succeed() {
    let helps: [&[&str]; 8] = [
        &["--help"],
        &["-h"],
        &["help"],
        &["serve", "--help"],
        &["nodes", "--help"],
        &["keys", "--help"],
        &["networks", "--help"],
        &["operator-token", "--help"],
    ];
    for arguments in helps {
        let output = run(arguments, &[]);
        assert_eq!(output.status.code(), Some(0));
        assert!(out(&output).contains("taut-coordinator"), "{arguments:?}");
    }
    assert!(out(&run(&["version"], &[])).starts_with("taut-coordinator 0."));
}

#[test]
fn figures_for_prometheus_are_at_an_address_of_their_own() {
    let directory = Directory::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let serve = Serve::start(&directory, &["--no-relay", "--metrics", &free]);
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
    let text = agent.get(format!("http://{free}/metrics")).call().unwrap().body_mut().read_to_string().unwrap();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is missing in\n{text}")).to_owned()
    };
    assert_eq!([value("taut_coordinator_networks"), value("taut_coordinator_well")], ["1", "1"]);
    assert!(value("taut_coordinator_database_seconds_count{step=\"commit\"}").parse::<u64>().unwrap() > 0);
    assert_eq!(serve.terminate().1, Some(0));
    let taken = TcpListener::bind(&free).unwrap();
    let refused = run(
        &[
            "serve",
            "--no-relay",
            "--metrics",
            &free,
            "--listen",
            "127.0.0.1:0",
            "--state",
            &directory.0.display().to_string(),
        ],
        &[],
    );
    assert!(String::from_utf8_lossy(&refused.stderr).contains("choose another --metrics"), "{refused:?}");
    drop(taken);
}

#[test]
fn simulated_nodes_hear_of_every_change_and_end_with_the_coordinators_maps() {
    // The last network has one member, whose changes concern nobody.
    let plan = ["simulate", "--nodes", "41", "--visible", "10", "--changes", "30", "--seconds", "2", "--json"];
    let output = run(&plan, &[]);
    assert!(output.status.success(), "{}", complaint(&output));
    let json: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&json["schema"], &json["nodes"]), (&1.into(), &41.into()));
    for what in ["lost_updates", "differing_maps", "misfit_deltas"] {
        assert_eq!(json[what], 0, "{json}");
    }
    assert!(json["changes"].as_u64().unwrap() > 20 && json["delta_ms"]["p99"].is_number(), "{json}");
    for wrong in [["--nodes", "1"], ["--changes", "many"], ["--seconds", "-1"]] {
        assert_eq!(run(&["simulate", wrong[0], wrong[1]], &[]).status.code(), Some(2), "{wrong:?}");
    }
}

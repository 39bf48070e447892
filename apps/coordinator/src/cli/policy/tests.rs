use std::fs;
use std::path::PathBuf;

use serde_json::json;
use taut_policy::{Inventory, Policy, compile};

use super::{check, compile as compile_command, diff as diff_command, explain, input, run};
use crate::cli::CommandError;
use crate::cli::arguments::Arguments;

const POLICY: &str = r#"{
  "tagOwners": {"tag:web": ["ann@example.com"]},
  "grants": [
    {"src": ["ann@example.com"], "dst": ["tag:web"], "ip": ["tcp:443"]},
    {"src": ["autogroup:member"], "dst": ["10.0.0.0/8"], "ip": ["*"]},
  ],
  "tests": [{"src": "ann@example.com", "accept": ["tag:web:443"], "deny": ["tag:web:22"]}],
}"#;

const NODES: &str = r#"{"nodes": [
  {"name": "web1", "addresses": ["100.64.0.1", "fd00::1"], "tags": ["tag:web"], "routes": ["10.1.0.0/16"]},
  {"name": "laptop", "addresses": ["100.64.0.2", "fd00::2"], "user": "ann@example.com"},
  {"name": "phone", "addresses": ["100.64.0.3"], "user": "bob@example.com"}
]}"#;

/// A directory with files, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("taut-policy-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn inventory() -> Inventory {
    serde_json::from_str(NODES).unwrap()
}

fn failure(words: &[&str]) -> String {
    match run(Arguments::of(words)) {
        Ok(()) => panic!("{words:?} succeeded"),
        Err(CommandError::Refused { message, hint }) => format!("{message} | {}", hint.unwrap_or_default()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn check_parses_and_runs_the_tests() {
    let folder = Folder::new("check");
    let file = folder.file("policy", POLICY);
    assert_eq!(check::outcome(&file, &Inventory::default()).unwrap(), (2, 2));
    assert_eq!(check::outcome(&file, &inventory()).unwrap(), (2, 2));
    let bad = folder.file("bad", POLICY.replace("tag:web:22", "tag:web:443"));
    let message = failure(&["check", &bad]);
    assert!(message.starts_with("1 of 2 tests failed"), "{message}");
    assert!(
        message.contains(
            "bad:7: deny ann@example.com -> tag:web:443: allowed from ann@example.com to tag:web by the rule at line 4"
        ),
        "{message}"
    );
    let broken = folder.file("broken", POLICY.replace("tag:web\"], \"ip", "tag:wep\"], \"ip"));
    let message = failure(&["check", &broken]);
    assert!(
        message.ends_with("broken:4:42: `tag:wep` is not defined in `tagOwners` | did you mean `tag:web`?"),
        "{message}"
    );
}

#[test]
fn files_that_are_none_are_reported() {
    let folder = Folder::new("files");
    let policy = folder.file("policy", POLICY);
    assert!(failure(&["check", "/nonexistent/policy"]).contains("cannot be read"));
    assert!(failure(&["check", &folder.file("latin", b"{\n\"\xe4\"}")]).ends_with("line 2 is not UTF-8"));
    assert!(failure(&["check", &folder.file("large", vec![b' '; (2 << 20) + 1])]).contains("the limit is 2097152"));
    let nodes = |text: &str| failure(&["check", &policy, "--nodes", &folder.file("nodes", text)]);
    assert!(nodes("[]").contains("has no nodes: "));
    assert!(nodes(&NODES.replace("\"laptop\"", "\"web1\"")).ends_with("two nodes are named `web1`"));
    assert!(nodes(&NODES.replace("tag:web", "web")).ends_with("the tag `web` of `web1` does not begin with `tag:`"));
}

#[test]
fn commands_need_their_words() {
    for words in
        [&["check"][..], &[], &["compile", "f"], &["explain", "f", "a"], &["diff", "f"], &["explain", "f", "a", "b:1"]]
    {
        assert!(matches!(run(Arguments::of(words)), Err(CommandError::Usage(_))), "{words:?}");
    }
    assert!(failure(&["chekc"]).contains("did you mean `check`?"));
    assert!(failure(&["check", "f", "--force"]).contains("no option `--force`"));
}

#[test]
fn compile_prints_the_filter_of_each_node() {
    let compiled = compile(&Policy::parse(POLICY).unwrap(), &inventory());
    let json: serde_json::Value =
        serde_json::from_str(&compile_command::as_json("web1", 0, &compiled).unwrap()).unwrap();
    assert_eq!(
        json,
        json!({"name": "web1", "rules": [
            {"src": ["100.64.0.2/32", "fd00::2/128"], "proto": [6],
             "dst": [{"prefix": "100.64.0.1/32", "ports": [[443, 443]]}, {"prefix": "fd00::1/128", "ports": [[443, 443]]}]},
            {"src": ["100.64.0.2/31", "fd00::2/128"], "dst": [{"prefix": "10.1.0.0/16", "ports": [[0, 65535]]}]}
        ]})
    );
    assert_eq!(compile_command::as_json("phone", 2, &compiled).unwrap(), r#"{"name":"phone","rules":[]}"#);
    let text = compile_command::as_text("web1", 0, &compiled).unwrap();
    assert!(text.contains("  from 100.64.0.2/32 fd00::2/128 (lines 4)\n    to 100.64.0.1/32 tcp:443\n"), "{text}");
    assert!(text.contains("(lines 5)\n    to 10.1.0.0/16 *\n"), "{text}");
    assert_eq!(compile_command::as_text("phone", 2, &compiled).unwrap(), "phone\n  nothing may reach it\n");
}

fn explained(src: &str, dst: &str, proto: u8) -> String {
    let inventory = inventory();
    let compiled = compile(&Policy::parse(POLICY).unwrap(), &inventory);
    let answers = explain::Question::new(src, dst, proto, &inventory).and_then(|question| question.ask(&compiled));
    match answers {
        Ok(answers) => answers.iter().map(|answer| answer.as_text("f", &inventory)).collect(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn explain_names_the_rule() {
    for (src, dst, proto, answer) in [
        (
            "laptop",
            "web1:443",
            6,
            "allowed: laptop (100.64.0.2) to web1 (100.64.0.1), tcp port 443\n  by f:4, rule 1 of grants\n",
        ),
        (
            "fd00::2",
            "[fd00::1]:443",
            6,
            "allowed: laptop (fd00::2) to web1 (fd00::1), tcp port 443\n  by f:4, rule 1 of grants\n",
        ),
        ("laptop", "web1", 1, "allowed: laptop (100.64.0.2) to web1 (100.64.0.1), icmp\n  by f:4, rule 1 of grants\n"),
        (
            "phone",
            "10.1.2.3:80",
            17,
            "allowed: phone (100.64.0.3) to 10.1.2.3 behind web1, udp port 80\n  by f:5, rule 2 of grants\n",
        ),
        (
            "phone",
            "web1:443",
            6,
            "denied: phone (100.64.0.3) to web1 (100.64.0.1), tcp port 443\n  no rule allows anything from there to web1\n",
        ),
        (
            "laptop",
            "web1:22",
            6,
            "denied: laptop (100.64.0.2) to web1 (100.64.0.1), tcp port 22\n  the rule of line 4 allows other ports or protocols from there to web1\n",
        ),
        (
            "laptop",
            "10.2.0.1:22",
            6,
            "denied: laptop (100.64.0.2) to 10.2.0.1, tcp port 22\n  no node has 10.2.0.1, and no approved route leads to it\n",
        ),
        ("laptop", "web1", 6, "`web1` has no port; write DST:PORT, such as web1:22 or [fd00::1]:22"),
        ("labtop", "web1:443", 6, "there is no node `labtop`"),
        ("phone", "fd00::1", 47, "source and destination have no address of the same family"),
    ] {
        assert_eq!(explained(src, dst, proto), answer, "{src} {dst}");
    }
}

#[test]
fn diff_names_pairs() {
    let inventory = inventory();
    let old = Policy::parse(POLICY).unwrap();
    let new = Policy::parse(&POLICY.replace("tcp:443", "tcp:80").replace("10.0.0.0/8", "10.1.2.0/24")).unwrap();
    let found = taut_policy::diff(&old, &new, &inventory, 100);
    let text = diff_command::as_text(&found, &inventory);
    assert!(text.contains("laptop -> web1: gains tcp:80; loses tcp:443\n"), "{text}");
    assert!(text.contains("phone -> 10.1.0.0/23 10.1.3.0/24"), "{text}");
    assert_eq!(
        diff_command::as_text(&taut_policy::diff(&old, &old, &inventory, 100), &inventory),
        "no pair gains or loses anything\n"
    );
    let json = diff_command::as_json(&found, &inventory);
    assert_eq!((json["schema"].clone(), json["more"].clone()), (json!(1), json!(0)));
    let few = taut_policy::diff(&old, &new, &inventory, 1);
    assert_eq!(few.more, found.changes.len() - 1);
    assert!(diff_command::as_text(&few, &inventory).ends_with(&format!("and {} further changes\n", few.more)));
    assert!(input::node("web", &inventory).is_err());
}

//! Precedence, names and words of the settings.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::arguments::Arguments;
use super::*;
use crate::cli::options::ServeOptions;

/// A configuration file that is removed after its test.
struct Written(PathBuf);

impl Written {
    fn new(text: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("taut-settings-{}-{}.toml", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn read(line: &[&str], environment: &[(&str, &str)], default_file: &Path) -> Result<Settings, CommandError> {
    let mut arguments = Arguments::of(line);
    let environment: BTreeMap<&str, &str> = environment.iter().copied().collect();
    let variable = |name: &str| environment.get(name).map(OsString::from);
    let names = KNOWN.map(|known| known.name);
    Settings::read_with(&mut arguments, &names, &names, variable, default_file)
}

fn words<T>(result: Result<T, CommandError>) -> String {
    result.err().expect("a failure").to_string()
}

fn texts(settings: &Settings, name: &str) -> Vec<String> {
    settings.get(name).into_iter().flat_map(|setting| &setting.entries).map(|entry| entry.text.clone()).collect()
}

#[test]
fn a_flag_comes_before_the_environment_and_that_before_the_file() {
    let file = Written::new("listen = '127.0.0.1:3'\nurl = ['http://c', 'http://d']\nno-relay = true\nstate = '/c'\n");
    let environment = [("TAUT_LISTEN", "127.0.0.1:2"), ("TAUT_URL", " http://b, http://e"), ("TAUT_NO_RELAY", "false")];
    let settings = read(&["--listen", "127.0.0.1:1"], &environment, &file.0).unwrap();
    let from = |name: &str| settings.get(name).map(|setting| setting.source);
    assert_eq!((settings.text("listen"), from("listen")), (Some("127.0.0.1:1"), Some(Source::Flag)));
    assert_eq!(
        (texts(&settings, "url"), from("url")),
        (vec!["http://b".into(), "http://e".into()], Some(Source::Environment))
    );
    assert!(!settings.is_on("no-relay"), "a variable switches off what the file switches on");
    assert_eq!((settings.text("state"), from("state")), (Some("/c"), Some(Source::File)));
    assert_eq!((settings.text("metrics"), from("metrics")), (None, None));
    let settings = read(&[], &[("TAUT_LISTEN", ""), ("TAUT_URL", ",")], &file.0).unwrap();
    assert_eq!(from_text(&settings), Some("127.0.0.1:3"), "an empty variable is none");
    assert_eq!(texts(&settings, "url"), [""; 0], "an empty list is one");
}

fn from_text(settings: &Settings) -> Option<&str> {
    settings.text("listen")
}

#[test]
fn the_file_is_the_named_one_or_the_default_one_or_none() {
    let [default, named, other] = ["state = '/a'", "state = '/b'", "state = '/c'"].map(Written::new);
    let (named, other) = (named.0.to_str().unwrap(), other.0.to_str().unwrap());
    let state = |line: &[&str], environment: &[(&str, &str)]| read(line, environment, &default.0).unwrap().state();
    assert_eq!(state(&[], &[]), Path::new("/a"));
    assert_eq!(state(&[], &[("TAUT_CONFIG", other)]), Path::new("/c"));
    assert_eq!(state(&["--config", named], &[("TAUT_CONFIG", other)]), Path::new("/b"));
    assert_eq!(state(&["--config", "/dev/null"], &[]), Path::new(known::DEFAULT_STATE));
    assert_eq!(read(&[], &[], Path::new("/nonexistent")).unwrap().state(), Path::new(known::DEFAULT_STATE));
    let missing = words(read(&["--config", "/nonexistent"], &[], &default.0));
    assert!(missing.contains("/nonexistent cannot be read") && missing.contains("--config"), "{missing}");
}

#[test]
fn every_bad_value_is_named_in_one_go() {
    let file = Written::new(
        "listen = 'x'\nurl = ['a', 'http://b', 'c']\naudit-days = 0\nrelay-rate = 'x'\nacme-http = 'x'\nacme-contact = 'x'\n",
    );
    let environment = [("TAUT_DRAIN", "x"), ("TAUT_NETWORK", "Home")];
    let found = words(read(&[], &environment, &file.0).and_then(|settings| ServeOptions::new(&settings)));
    let named = [
        "relay-rate",
        "listen",
        "url `a`",
        "url `c`",
        "acme-contact",
        "acme-http",
        "TAUT_DRAIN",
        "audit-days",
        "TAUT_NETWORK",
    ];
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), named.len(), "{found}");
    assert!(lines.iter().zip(named).all(|(line, name)| line.contains(name)), "{found}");
    let environment = [("TAUT_NO_RELAY", "x"), ("TAUT_OIDC_ALLOW_PRIVATE", "y")];
    let switches = words(read(&[], &environment, Path::new("/nonexistent")));
    assert!(switches.contains("TAUT_NO_RELAY") && switches.contains("TAUT_OIDC_ALLOW_PRIVATE"), "{switches}");
}

#[test]
fn a_bad_value_is_named_by_where_it_was_written() {
    let options = |line: &[&str], environment: &[(&str, &str)], text: &str| {
        let file = Written::new(text);
        let found = read(line, environment, &file.0).and_then(|settings| ServeOptions::new(&settings));
        words(found).replace(&*file.0.to_string_lossy(), "FILE")
    };
    let rest = "`x` is not an address and port; write 0.0.0.0:8288 or [::]:8288";
    assert_eq!(options(&["--listen", "x"], &[], ""), format!("--listen {rest}"));
    assert_eq!(options(&[], &[("TAUT_LISTEN", "x")], ""), format!("TAUT_LISTEN {rest}"));
    assert_eq!(options(&[], &[], "\n listen = 'x'"), format!("FILE, line 2, column 11: listen {rest}"));
    let second = options(&[], &[], "url = ['http://a',\n'b']");
    assert!(second.starts_with("FILE, line 2, column 1: url `b` is not a URL"), "{second}");
    let both = options(&[], &[], "listn = 'x'\nurls = []");
    assert_eq!(
        both,
        "FILE, line 1, column 1: there is no key `listn`; did you mean `listen`?\nFILE, line 2, column 1: there is no key `urls`; did you mean `url`?"
    );
    assert_eq!(options(&[], &[("TAUT_NO_RELAY", "yes")], ""), "TAUT_NO_RELAY `yes` is neither `true` nor `false`");
    for (name, value) in [
        ("TAUT_METRICS", "9480"),
        ("TAUT_DRAIN", "-1"),
        ("TAUT_RELAY_PORT", "70000"),
        ("TAUT_RELAY_ADDRESS", "host"),
        ("TAUT_RELAY_RATE", "fast"),
        ("TAUT_RELAY_METRICS", "1"),
        ("TAUT_TRUSTED_PROXY", "10.0.0.0/33"),
        ("TAUT_LOG_FORMAT", "xml"),
        ("TAUT_LOG_LEVEL", "loud"),
        ("TAUT_IPV4_PREFIX", "x"),
    ] {
        let found = options(&[], &[(name, value)], "");
        assert!(found.starts_with(&format!("{name} `{value}`")) || found.starts_with(&format!("{name}: ")), "{found}");
    }
}

#[test]
fn a_password_is_in_no_message_and_a_file_that_others_can_read_is_reported() {
    let url = "postgres://taut:secret@db.example/taut";
    let file = Written::new(&format!("database = '{url}'"));
    let open = |mode: u32, environment: &[(&str, &str)]| {
        fs::set_permissions(&file.0, Permissions::from_mode(mode)).unwrap();
        read(&[], environment, &file.0).unwrap().open_to_others()
    };
    assert_eq!(open(0o600, &[]), None);
    let hint = format!("chmod 600 {}", file.0.display());
    assert_eq!((open(0o640, &[]), open(0o604, &[])), (Some(hint.clone()), Some(hint)));
    assert_eq!(open(0o644, &[("TAUT_DATABASE", url)]), None, "the password in use is elsewhere");
    let plain = Written::new("database = 'postgres://taut@db.example/taut'");
    fs::set_permissions(&plain.0, Permissions::from_mode(0o644)).unwrap();
    assert_eq!(read(&[], &[], &plain.0).unwrap().open_to_others(), None);
    for wrong in ["mysql://taut:secret@db", "secret", ""] {
        let found = words(read(&[], &[("TAUT_DATABASE", wrong)], &plain.0).unwrap().database());
        assert!(found.starts_with("TAUT_DATABASE is not a URL of PostgreSQL") && !found.contains("secret"), "{found}");
    }
}

use std::ffi::OsString;

use super::*;

/// 2026-11-24T03:12:07Z.
const NOW: Duration = Duration::from_secs(1_795_489_927);

fn options(line: &str) -> Result<Options, Fault> {
    parse(Words::new(line.split_whitespace().map(OsString::from)), NOW)
}

fn refusal(line: &str) -> String {
    match options(line) {
        Err(Fault::Usage { message, .. }) => message,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn flags_choose_the_shown_events() {
    let all =
        options("-f -n 7 --since 10m --peer Nas.home --area path --level warn --json --record path=debug").unwrap();
    assert!(all.follow && all.json && all.lines == Some(7));
    assert_eq!(all.record.as_deref(), Some("info,path=debug"));
    let since = Some(NOW - Duration::from_secs(600));
    let peer = Some(String::from("Nas.home"));
    let filter = Filter { since, until: None, peer, area: Some(Area::Path), least: Some(Level::Warn) };
    assert_eq!(all.filter, filter);
    assert_eq!(options("--priority warn").unwrap(), options("--level warn").unwrap());
    for line in ["x", "--since", "--since soon", "--area paths", "--level loud", "--record loud", "--fast", "-n x"] {
        assert!(options(line).is_err(), "{line}");
    }
}

#[test]
fn options_without_effect_are_refused() {
    for line in
        ["--record info --since 5m", "--record info --level warn", "--record info -n 5", "--record info --peer a"]
    {
        assert!(refusal(line).contains("no effect"), "{line}");
    }
    assert!(options("--record info --json").is_ok() && options("-f --record info --since 5m").is_ok());
    assert!(refusal("-f --until 03:00").contains("--until"));
    assert!(refusal("--since 5m --until 10m").contains("later"));
}

#[test]
fn a_mistyped_word_is_recognised() {
    assert!(refusal("--area paths").starts_with("--area: there is no area `paths`; did you mean `path`?"));
    assert!(refusal("--record info,paths=debug").ends_with("; did you mean `path`?"));
    assert!(refusal("--record path=debgu").ends_with("; did you mean `debug`?"));
    assert!(refusal("--level wran").contains("did you mean `warn`?"));
    assert!(refusal("--level info,path=debug").contains("use --record"));
}

#[test]
fn a_filter_shows_only_matching_events() {
    let line = "{\"schema\":1,\"time\":\"2026-11-24T03:12:07.000Z\",\"level\":\"warn\",\"area\":\"path\",\"event\":\"e\",\"peer\":\"nas\"}";
    let entry = Entry::parse(line).unwrap();
    let shows = |words: &str| options(words).unwrap().filter.shows(&entry);
    let matching =
        ["", "--peer NAS", "--area path --level warn", "--since 1s", "--level info", "--until 2026-11-24T03:12:07"];
    assert!(matching.into_iter().all(shows));
    let other = ["--peer na", "--area map", "--level error", "--since 2026-11-24T03:12:08", "--until 03:12:06"];
    assert!(!other.into_iter().any(shows));
}

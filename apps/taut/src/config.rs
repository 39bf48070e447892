//! `taut config check`: the settings that a daemon would start with, and where each comes from.

use std::os::unix::fs::MetadataExt;

use serde::Serialize;
use taut_agent::api::{Failure, SCHEMA};
use taut_agent::settings::{Origin, SETTINGS};
use taut_base::closest;

use crate::config_file::PLACES;
use crate::fault::Fault;
use crate::flags::{DaemonFlags, Resolved, Word, Words, unexpected};
use crate::{output, table};

pub(crate) const ARGUMENTS: &str = "check [--json] [daemon flags]";

pub(crate) const DETAILS: &str = "\
Reads the configuration file, what `taut set` keeps and the environment as `taut daemon` with the same flags would, and prints what holds and
where it comes from. It changes nothing, and needs no daemon. `taut help daemon` explains the settings.

--json   print an object, with a schema version

Exit status: 0 if a daemon would start with these settings, 1 if something is wrong: each problem is printed with its line and column.";

/// Variables of the node that are no settings. Those that begin with `TAUT_TEST_` are for tests.
const VARIABLES: [&str; 11] = [
    "TAUT_AUTHKEY",
    "TAUT_STATE_DIR",
    "TAUT_SOCKET",
    "TAUT_CONFIG",
    "TAUT_COORDINATOR",
    // Of `taut-coordinator`, whose commands often run in the same shell.
    "TAUT_API",
    "TAUT_CA",
    "TAUT_DATABASE",
    "TAUT_OPERATOR_TOKEN",
    "TAUT_UPDATE_FROM",
    "TAUT_UPDATE_KEY",
];
/// Bits of a file's mode with which other users may change it.
const WRITABLE: u32 = 0o022;

/// The object that `--json` prints.
#[derive(Serialize)]
struct Checked {
    schema: u32,
    ok: bool,
    /// `null` if there is none.
    file: Option<String>,
    settings: Vec<Shown>,
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Shown {
    name: &'static str,
    value: String,
    source: &'static str,
    variable: String,
    /// The line of the file, if the value comes from there.
    line: Option<usize>,
}

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut flags, mut json) = (DaemonFlags::from_environment(), false);
    loop {
        match words.next()? {
            Some(Word::Value(word)) if word == "check" => break,
            Some(Word::Flag(flag)) if flag == "--json" => json = true,
            Some(other) => return Err(unexpected(&other)),
            None => return Err(Fault::usage("say what to do: `taut config check`")),
        }
    }
    while let Some(word) = words.next()? {
        match &word {
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flags.take(flag, &mut words)? => {}
            other => return Err(unexpected(other)),
        }
    }
    let resolved = flags.resolve()?;
    if let Some(Failure { message, hint }) = taut_agent::conflict(&resolved.config) {
        return Err(Fault::failed(message, hint));
    }
    let checked = check(&resolved);
    if json { output::print_json(&checked) } else { output::print(&text(&checked)) }
}

fn check(resolved: &Resolved) -> Checked {
    let Resolved { config, file, sources, notes } = resolved;
    let line = |name: &str, source: &str| {
        let value = file.get(name).filter(|_| source == Origin::File.name());
        value.map(|value| value.at.line)
    };
    let places = [config.state_dir.display().to_string(), config.socket.display().to_string()];
    let places = PLACES.into_iter().zip(places).zip(*sources).map(|((name, value), source)| {
        let variable = String::from(if name == "state" { "TAUT_STATE_DIR" } else { "TAUT_SOCKET" });
        Shown { name, value, source, variable, line: line(name, source) }
    });
    let settings = SETTINGS.iter().map(|setting| {
        let source = config.given.origin(setting.name).map_or("default", Origin::name);
        let line = line(setting.name, source);
        Shown { name: setting.name, value: setting.value(config), source, variable: setting.variable(), line }
    });
    let settings = places.chain(settings).collect();
    let open = file.path.as_deref().filter(|path| path.metadata().is_ok_and(|found| found.mode() & WRITABLE != 0));
    let open = open.map(|path| {
        format!("other users can change {0}, and the daemon runs as root; run `chmod go-w {0}`", path.display())
    });
    let unknown = std::env::vars_os().filter_map(|(name, _)| unknown_variable(name.to_str()?));
    let warnings = notes.iter().cloned().chain(open).chain(unknown).collect();
    Checked {
        schema: SCHEMA,
        ok: true,
        file: file.path.as_ref().map(|path| path.display().to_string()),
        settings,
        warnings,
    }
}

/// Returns the warning for a variable that looks like a setting and is none.
fn unknown_variable(name: &str) -> Option<String> {
    let known = || SETTINGS.iter().map(taut_agent::settings::Setting::variable).chain(VARIABLES.map(String::from));
    if !name.starts_with("TAUT_") || name.starts_with("TAUT_TEST_") || known().any(|known| known == name) {
        return None;
    }
    let known: Vec<String> = known().collect();
    let meant = closest(name, known.iter().map(String::as_str));
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    Some(format!("the variable {name} of the environment sets nothing{meant}"))
}

fn text(checked: &Checked) -> String {
    let mut rows = vec![["SETTING", "VALUE", "FROM"].map(String::from).to_vec()];
    rows.extend(checked.settings.iter().map(|shown| {
        let from = match (shown.source, shown.line) {
            ("file", Some(line)) => format!("line {line} of the file"),
            ("flag", _) => format!("--{}", shown.name),
            ("environment", _) => shown.variable.clone(),
            ("set", _) => String::from("taut set"),
            (source, _) => String::from(source),
        };
        vec![String::from(shown.name), shown.value.clone(), from]
    }));
    let warnings: String = checked.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    format!("configuration file: {}\n{}{warnings}", checked.file.as_deref().unwrap_or("none"), table::columns(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_variable_is_named() {
        let of = |name: &str| unknown_variable(name).unwrap_or_default();
        assert_eq!(of("TAUT_LANE"), "the variable TAUT_LANE of the environment sets nothing; did you mean TAUT_LANES?");
        assert_eq!(of("TAUT_NOTHING_LIKE_IT"), "the variable TAUT_NOTHING_LIKE_IT of the environment sets nothing");
        for known in ["TAUT_LANES", "TAUT_STATE_DIR", "TAUT_TEST_REKEY_AFTER_S", "HOME", "TAUT_LOG_LEVEL"] {
            assert_eq!(of(known), "", "{known}");
        }
    }
}

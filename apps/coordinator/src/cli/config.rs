//! `config check`: the settings in force, and where each comes from.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::options::ServeOptions;
use super::settings::{KNOWN, Kind, Known, Setting, Settings, Source, masked};
use super::table::table;
use super::tls_options::TlsOptions;
use super::{CommandError, no_verb, show};

pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    match arguments.need("check")?.as_str() {
        "check" => check(arguments),
        other => Err(no_verb("config", other, &["check"])),
    }
}

/// Reads the settings as `serve` with the same options would, and prints them.
fn check(mut arguments: Arguments) -> Result<(), CommandError> {
    let json = arguments.switch("json");
    let settings = Settings::read_all(&mut arguments)?;
    arguments.finish()?;
    let options = ServeOptions::new(&settings)?;
    let warnings = warnings(&settings, &options);
    show(&if json { as_json(&settings, &warnings) } else { as_text(&settings, &warnings) })
}

fn as_text(settings: &Settings, warnings: &[String]) -> String {
    let mut rows = vec![["SETTING", "VALUE", "FROM"].map(String::from).to_vec()];
    for known in &KNOWN {
        let (value, from) = match settings.get(known.name) {
            Some(setting) => (values(known, setting).join(" "), origin(settings, known, setting)),
            None => (String::from(known.default), String::from("default")),
        };
        let value = if value.is_empty() { String::from("-") } else { value };
        rows.push(vec![String::from(known.name), value, from]);
    }
    let file = settings.file().map_or_else(|| String::from("none"), |file| file.display().to_string());
    let warnings: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    format!("configuration file: {file}\n{}{warnings}", table(&rows))
}

fn as_json(settings: &Settings, warnings: &[String]) -> String {
    let entry = |known: &Known| {
        let setting = settings.get(known.name);
        let values = setting.map(|setting| values(known, setting));
        let source = match setting.map(|setting| setting.source) {
            Some(Source::Flag) => "flag",
            Some(Source::Environment) => "environment",
            Some(Source::File) => "file",
            None => "default",
        };
        let line = setting.and_then(|setting| setting.entries.first()?.at).map(|(line, _)| line);
        json!({ "name": known.name, "value": value(known, values), "source": source, "variable": known.variable(), "line": line })
    };
    let entries: Vec<Value> = KNOWN.iter().map(entry).collect();
    let file = settings.file().map(|file| file.display().to_string());
    format!("{:#}\n", json!({ "schema": 1, "ok": true, "file": file, "settings": entries, "warnings": warnings }))
}

/// Returns a value as JSON: by its kind, `null` for one that is not set and has no default.
fn value(known: &Known, values: Option<Vec<String>>) -> Value {
    let first = values.as_ref().and_then(|values| values.first()).map_or(known.default, String::as_str);
    match known.kind {
        Kind::List => json!(values.unwrap_or_default()),
        Kind::Switch => json!(first == "true"),
        Kind::Number => first.parse::<u64>().map_or(Value::Null, Value::from),
        Kind::Text if first.is_empty() => Value::Null,
        Kind::Text => json!(first),
    }
}

/// Returns the values of a setting, without passwords.
fn values(known: &Known, setting: &Setting) -> Vec<String> {
    let shown = |text: &String| if known.name == "database" { masked(text) } else { text.clone() };
    setting.entries.iter().map(|entry| shown(&entry.text)).collect()
}

fn origin(settings: &Settings, known: &Known, setting: &Setting) -> String {
    match setting.source {
        Source::Flag => format!("--{}", known.name),
        Source::Environment => known.variable(),
        Source::File => {
            let line = setting.entries.first().and_then(|entry| entry.at).map(|(line, _)| format!(", line {line}"));
            let name = settings.file().and_then(|file| file.file_name()).unwrap_or_default().to_string_lossy();
            format!("{name}{}", line.unwrap_or_default())
        }
    }
}

fn warnings(settings: &Settings, options: &ServeOptions) -> Vec<String> {
    let file = settings
        .open_to_others()
        .map(|command| format!("other users can read the file, which contains a password; run `{command}`"));
    let certificate = options.tls.iter().flat_map(TlsOptions::warnings);
    file.into_iter().chain(certificate).collect()
}

//! The settings of `serve` and of commands that open its database: from a flag, else from an environment variable, else from the configuration file, else the
//! default. All three sources have the same names (`--relay-port`, `TAUT_RELAY_PORT`, `relay-port = 3478`), from the table in [`known`].

mod faults;
mod file;
mod known;
mod mask;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use zeroize::Zeroize;

use super::CommandError;
use super::arguments::Arguments;
use crate::state::StateError;
use crate::store::Location;
pub(super) use faults::Faults;
use file::SettingsFile;
pub(super) use known::{KNOWN, Kind, Known};
pub(super) use mask::masked;

/// The configuration file that is read if it exists and no other one is named.
const DEFAULT_FILE: &str = "/etc/taut/coordinator.toml";

/// The environment variable that names another one.
const FILE_VARIABLE: &str = "TAUT_CONFIG";

/// The settings that a command needs to open the database.
pub(super) const DATABASE: [&str; 2] = ["state", "database"];

/// Where a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Flag,
    Environment,
    File,
}

/// The values of a setting, all from one source. Without `Debug`: one of them may be a password.
pub(super) struct Setting {
    pub(super) entries: Vec<Entry>,
    pub(super) source: Source,
}

/// One value.
pub(super) struct Entry {
    pub(super) text: String,
    /// Line and column in the file.
    pub(super) at: Option<(usize, usize)>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.text.zeroize();
    }
}

/// The settings that some source has.
pub(super) struct Settings {
    found: BTreeMap<&'static str, Setting>,
    file: Option<PathBuf>,
    is_file_open: bool,
}

impl Settings {
    /// Reads the settings of these names from the command line, the environment and the configuration file. The whole file is checked.
    pub(super) fn read(arguments: &mut Arguments, names: &[&str]) -> Result<Self, CommandError> {
        Self::read_by(arguments, names, names)
    }

    /// The same for a command that has flags for some of these names only.
    pub(super) fn read_by(arguments: &mut Arguments, names: &[&str], flags: &[&str]) -> Result<Self, CommandError> {
        Self::read_with(arguments, names, flags, |name| std::env::var_os(name), Path::new(DEFAULT_FILE))
    }

    /// The same for all settings of `serve`.
    pub(super) fn read_all(arguments: &mut Arguments) -> Result<Self, CommandError> {
        Self::read(arguments, &KNOWN.map(|known| known.name))
    }

    fn read_with(
        arguments: &mut Arguments,
        names: &[&str],
        flags: &[&str],
        environment: impl Fn(&str) -> Option<OsString>,
        default_file: &Path,
    ) -> Result<Self, CommandError> {
        let named = arguments.value("config")?.map(PathBuf::from);
        let named = named.or_else(|| environment(FILE_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from));
        let path = named.or_else(|| default_file.exists().then(|| default_file.to_path_buf()));
        let file = path.as_deref().map(SettingsFile::read).transpose()?;
        let (file, mut written, is_file_open) = match file {
            Some(file) => (Some(file.path), file.settings, file.is_open),
            None => (None, BTreeMap::new(), false),
        };
        let (mut found, mut faults) = (BTreeMap::new(), Faults::default());
        for known in KNOWN.iter().filter(|known| names.contains(&known.name)) {
            let flag = if flags.contains(&known.name) { from_flag(arguments, known)? } else { None };
            let written = written.remove(known.name);
            let setting = match flag {
                Some(flag) => Some(flag),
                None => faults.keep(from_environment(known, environment(&known.variable()))).flatten().or(written),
            };
            found.extend(setting.map(|setting| (known.name, setting)));
        }
        faults.finish()?;
        Ok(Self { found, file, is_file_open })
    }

    /// Returns the configuration file that was read.
    pub(super) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns a setting; `None` if no source has it.
    pub(super) fn get(&self, name: &str) -> Option<&Setting> {
        self.found.get(name)
    }

    /// Returns true for a switch that is on.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// Returns the text of a setting with one value.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.entries.first().map(|entry| entry.text.as_str())
    }

    /// Parses a setting with one value. The error of `parse` is the rest of a sentence that begins with the name of the setting.
    pub(super) fn one<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, CommandError> {
        Ok(self.all(name, parse)?.into_iter().next())
    }

    /// Parses each value of a setting. The error names every value that is wrong.
    pub(super) fn all<T>(&self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, CommandError> {
        let Some(setting) = self.get(name) else { return Ok(Vec::new()) };
        let mut faults = Faults::default();
        let parsed = setting.entries.iter().filter_map(|entry| {
            faults.keep(parse(&entry.text).map_err(|what| {
                let message = format!("{} {what}", self.label(name, setting.source, entry.at));
                if setting.source == Source::Flag { CommandError::Usage(message) } else { CommandError::Run(message) }
            }))
        });
        let parsed = parsed.collect();
        faults.finish()?;
        Ok(parsed)
    }

    /// Returns how a setting is called where it was set, with its place in the file.
    fn label(&self, name: &str, source: Source, at: Option<(usize, usize)>) -> String {
        match source {
            Source::Flag => format!("--{name}"),
            Source::Environment => variable(name),
            Source::File => {
                let path = self.file.as_deref().unwrap_or(Path::new("")).display();
                at.map_or_else(|| format!("{path}: {name}"), |at| format!("{path}, {}: {name}", file::place(at)))
            }
        }
    }

    /// Returns the state directory.
    pub(super) fn state(&self) -> PathBuf {
        PathBuf::from(self.text("state").unwrap_or(known::DEFAULT_STATE))
    }

    /// Returns where the database is: at the server of `database`, by default in the state directory.
    pub(super) fn database(&self) -> Result<Location, CommandError> {
        // The URL is not repeated, because it may contain a password.
        let wrong =
            "is not a URL of PostgreSQL; write postgres://USER:PASSWORD@HOST/DATABASE, or leave it out for SQLite";
        let server = |url: &str| {
            let location = Location::parse(Some(String::from(url)), Path::new("")).ok_or(String::from(wrong))?;
            location.check().map_err(|error| {
                let error = StateError::from(error);
                format!("is refused: {error}; {}", error.hint())
            })?;
            Ok(location)
        };
        Ok(self.one("database", server)?.unwrap_or_else(|| Location::Directory(self.state())))
    }

    /// Returns the command that takes a password in the configuration file from other users, if its mode gives them access.
    pub(super) fn open_to_others(&self) -> Option<String> {
        let is_written = self.get("database").is_some_and(|setting| setting.source == Source::File);
        let is_secret = self.text("database").is_some_and(mask::has_password);
        let file = self.file.as_deref().filter(|_| self.is_file_open && is_written && is_secret)?;
        Some(format!("chmod 600 {}", file.display()))
    }
}

fn variable(name: &str) -> String {
    KNOWN.iter().find(|known| known.name == name).map(Known::variable).unwrap_or_default()
}

fn from_flag(arguments: &mut Arguments, known: &Known) -> Result<Option<Setting>, CommandError> {
    let texts = match known.kind {
        Kind::List => arguments.values(known.name),
        Kind::Switch => arguments.switch(known.name).then(|| String::from("true")).into_iter().collect(),
        Kind::Text | Kind::Number => arguments.value(known.name)?.into_iter().collect(),
    };
    Ok((!texts.is_empty()).then(|| setting(texts, Source::Flag)))
}

/// An empty variable counts as not set, except for that of the database: a secret that is missing must not lead to a start on SQLite.
fn from_environment(known: &Known, value: Option<OsString>) -> Result<Option<Setting>, CommandError> {
    let Some(value) = value.filter(|value| !value.is_empty() || known.name == "database") else { return Ok(None) };
    let wrong = |what: &str| CommandError::Run(format!("{} {what}", known.variable()));
    let value = value.into_string().map_err(|_| wrong("is not UTF-8"))?;
    let texts = match (known.kind, value.as_str()) {
        (Kind::List, list) => {
            list.split(',').map(str::trim).filter(|part| !part.is_empty()).map(String::from).collect()
        }
        (Kind::Switch, "true" | "1") => vec![String::from("true")],
        (Kind::Switch, "false" | "0") => vec![String::from("false")],
        (Kind::Switch, other) => return Err(wrong(&format!("`{other}` is neither `true` nor `false`"))),
        (Kind::Text | Kind::Number, _) => vec![value],
    };
    Ok(Some(setting(texts, Source::Environment)))
}

fn setting(texts: Vec<String>, source: Source) -> Setting {
    Setting { entries: texts.into_iter().map(|text| Entry { text, at: None }).collect(), source }
}

#[cfg(test)]
mod tests;

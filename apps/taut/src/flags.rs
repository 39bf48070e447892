//! The parser of the command line, and the flags that several verbs share.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::{Arg, Parser};
use taut_agent::DaemonConfig;
use taut_agent::log::Levels;
use taut_agent::settings::{self, Effect, Given, Origin, SETTINGS, Setting, duration};

use crate::chosen;
use crate::config_file::{self, ConfigFile};
use crate::fault::Fault;

/// Default path of the daemon's local socket.
const SOCKET: &str = "/run/taut/taut.sock";

/// Settings whose flag may be repeated, so that each forward has a flag of its own.
const REPEATED: [&str; 2] = ["forward", "publish"];

/// The words after the verb.
pub(crate) struct Words(Parser);

/// A word of the command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// A flag, with its hyphens.
    Flag(String),
    /// A word that is not a flag.
    Value(String),
}

impl Words {
    pub(crate) fn new(words: impl Iterator<Item = OsString>) -> Self {
        Self(Parser::from_args(words))
    }

    /// Returns the next word; fails with [`Fault::Help`] if it is `-h` or `--help`.
    pub(crate) fn next(&mut self) -> Result<Option<Word>, Fault> {
        let word = match self.0.next()? {
            None => return Ok(None),
            Some(Arg::Short('h') | Arg::Long("help")) => return Err(Fault::Help),
            Some(Arg::Short(letter)) => Word::Flag(format!("-{letter}")),
            Some(Arg::Long(name)) => Word::Flag(format!("--{name}")),
            Some(Arg::Value(value)) => Word::Value(text(value)?),
        };
        Ok(Some(word))
    }

    /// Returns the value of the flag that was just read.
    pub(crate) fn value(&mut self) -> Result<String, Fault> {
        text(self.0.value()?)
    }

    /// Returns the value that is joined to the flag with `=`, if there is one.
    pub(crate) fn joined_value(&mut self) -> Result<Option<String>, Fault> {
        self.0.optional_value().map(text).transpose()
    }

    /// Returns the value of `flag` as a time.
    pub(crate) fn time(&mut self, flag: &str) -> Result<Duration, Fault> {
        let value = self.value()?;
        duration(&value).ok_or_else(|| Fault::usage(format!("{flag} {value}: write a time such as 500ms, 5s or 2m")))
    }
}

fn text(value: OsString) -> Result<String, Fault> {
    value.into_string().map_err(|value| Fault::usage(format!("`{}` is not UTF-8", value.to_string_lossy())))
}

/// Returns the usage error for a word that the verb does not accept.
pub(crate) fn unexpected(word: &Word) -> Fault {
    match word {
        Word::Flag(flag) => Fault::UnknownFlag(flag.clone()),
        Word::Value(value) => Fault::usage(format!("`{value}` is not expected here")),
    }
}

/// Returns the path of the local socket that applies without a flag.
pub(crate) fn default_socket() -> PathBuf {
    let otherwise = chosen::network().map_or_else(|| PathBuf::from(SOCKET), chosen::socket);
    default_place("TAUT_SOCKET", "socket", otherwise).0
}

/// Returns the state directory that applies without a flag.
pub(crate) fn default_state() -> PathBuf {
    default_place("TAUT_STATE_DIR", "state", chosen::state(chosen::network())).0
}

/// Returns the place that the environment, else the configuration file, else `otherwise` says, and its source. Variables are for the network in the usual
/// places only: another network has places of its own.
fn default_place(variable: &str, name: &str, otherwise: PathBuf) -> (PathBuf, &'static str) {
    let variable = std::env::var_os(variable).filter(|value| !value.is_empty() && chosen::network().is_none());
    match (variable, config_file::place(name)) {
        (Some(path), _) => (PathBuf::from(path), Origin::Environment.name()),
        (None, Some(path)) => (path, Origin::File.name()),
        (None, None) => (otherwise, "default"),
    }
}

/// The flags of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DaemonFlags {
    pub(crate) state: PathBuf,
    pub(crate) socket: PathBuf,
    /// Where these two come from.
    sources: [&'static str; 2],
    /// The configuration file; it may be missing if the user did not name it.
    pub(crate) config: Option<PathBuf>,
    /// The settings that are given as flags.
    pub(crate) given: Given,
}

impl DaemonFlags {
    /// Returns the flags that the environment sets, with the places of the configuration file and defaults for the others.
    pub(crate) fn from_environment() -> Self {
        let mut flags = Self::new();
        let (network, usual) = (chosen::network(), flags.socket);
        let socket = network.map_or(usual, chosen::socket);
        (flags.state, flags.sources[0]) = default_place("TAUT_STATE_DIR", "state", chosen::state(network));
        (flags.socket, flags.sources[1]) = default_place("TAUT_SOCKET", "socket", socket);
        flags
    }

    fn new() -> Self {
        let sources = ["default"; 2];
        Self {
            state: chosen::state(None),
            socket: PathBuf::from(SOCKET),
            sources,
            config: None,
            given: Given::default(),
        }
    }

    /// Parses `flag` and its value. Returns false if it is not a flag of the daemon.
    pub(crate) fn take(&mut self, flag: &str, words: &mut Words) -> Result<bool, Fault> {
        match flag {
            "--state" => (self.state, self.sources[0]) = (PathBuf::from(words.value()?), Origin::Flag.name()),
            "--socket" => (self.socket, self.sources[1]) = (PathBuf::from(words.value()?), Origin::Flag.name()),
            "--config" => self.take_config(PathBuf::from(words.value()?)),
            _ => match take_setting(flag, words)? {
                Some((setting, value)) => {
                    let before = self.given.of(Origin::Flag).find(|(name, _)| *name == setting.name);
                    let value = match before.filter(|(_, before)| REPEATED.contains(&setting.name) && *before != "none")
                    {
                        Some((_, before)) => format!("{before},{value}"),
                        None => value,
                    };
                    add(&mut self.given, setting, Origin::Flag, &value)?;
                }
                None => return Ok(false),
            },
        }
        Ok(true)
    }

    /// Gives the daemon a userspace network instead of a TUN device.
    #[cfg(feature = "userspace")]
    pub(crate) fn choose_userspace(&mut self) -> Result<(), Fault> {
        self.give("tun", "userspace")
    }

    /// Gives the daemon this flag.
    #[cfg(feature = "userspace")]
    pub(crate) fn give(&mut self, name: &str, value: &str) -> Result<(), Fault> {
        let setting = settings::find(name).ok_or_else(|| Fault::usage(format!("there is no setting `{name}`")))?;
        add(&mut self.given, setting, Origin::Flag, value)
    }

    /// Takes the configuration file that the user names, with the places in it. Places of another file do not hold then.
    fn take_config(&mut self, path: PathBuf) {
        // A faulty file counts as empty here; `resolve` reads it again and reports its faults.
        let file = ConfigFile::read(Some(&path)).unwrap_or_default();
        let usual = Self { config: None, ..Self::new() };
        let places = [(&mut self.state, usual.state, "state"), (&mut self.socket, usual.socket, "socket")];
        for ((place, otherwise, name), source) in places.into_iter().zip(&mut self.sources) {
            if *source == Origin::Flag.name() || *source == Origin::Environment.name() {
                continue;
            }
            if let Some(path) = file.place(name) {
                (*place, *source) = (path, Origin::File.name());
            } else if *source == Origin::File.name() {
                (*place, *source) = (otherwise, "default");
            }
        }
        self.config = Some(path);
    }

    /// Returns the arguments for a daemon with these flags. Paths are made absolute, because the daemon runs in another directory.
    pub(crate) fn to_arguments(&self) -> Vec<OsString> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let mut words: Vec<OsString> = vec!["--state".into(), absolute(&self.state).into()];
        words.extend(["--socket".into(), absolute(&self.socket).into()]);
        if let Some(config) = &self.config {
            words.extend(["--config".into(), absolute(config).into()]);
        }
        if let Some(name) = chosen::network() {
            words.extend(["--network".into(), name.into()]);
        }
        words.extend(self.given.of(Origin::Flag).map(|(name, value)| format!("--{name}={value}").into()));
        words
    }

    /// Returns the options of a daemon with these flags: the configuration file, what `taut set` keeps and the environment are read, and flags hold before them.
    pub(crate) fn resolve(mut self) -> Result<Resolved, Fault> {
        if let (Some(name), Some(tun)) = (chosen::network(), settings::find("tun")) {
            add(&mut self.given, tun, Origin::Network, &chosen::interface(name))?;
        }
        let file = ConfigFile::read(self.config.as_deref())?.checked()?;
        for (setting, value) in file.settings() {
            add(&mut self.given, setting, Origin::File, value)?;
        }
        let (kept, notes) = taut_control::saved_settings(&self.state);
        let mut notes: Vec<String> = notes.iter().map(|note| format!("what `taut set` kept: {note}")).collect();
        for line in settings::read_lines(&kept) {
            match line {
                // The daemon can write this file, so it does not decide on the daemon's sandbox.
                Ok((setting, _)) if setting.effect == Effect::Restart => {}
                Ok((setting, value)) => add(&mut self.given, setting, Origin::Set, &value)?,
                // Another build or release kept it. It stays there until `taut set` replaces it.
                Err(bad) => {
                    self.given.keep_line(&kept, bad.at.line);
                    notes.push(format!("a setting that `taut set` kept is ignored: {bad}"));
                }
            }
        }
        for setting in SETTINGS {
            let variable = setting.variable();
            if let Some(value) = std::env::var(&variable).ok().filter(|value| !value.is_empty()) {
                let wrong = |what| Fault::usage(format!("{variable}={value} in the environment: {what}"));
                setting.give(&mut self.given, Origin::Environment, &value).map_err(wrong)?;
            }
        }
        let Self { state, socket, given, .. } = self;
        let mut config = DaemonConfig { state_dir: state, socket, given, ..DaemonConfig::default() };
        settings::resolve(&mut config);
        Ok(Resolved {
            config,
            #[cfg(feature = "config")]
            file,
            #[cfg(feature = "config")]
            sources: self.sources,
            notes,
        })
    }
}

/// The options of a daemon, and where they come from.
pub(crate) struct Resolved {
    pub(crate) config: DaemonConfig,
    /// The configuration file that was read.
    #[cfg(feature = "config")]
    pub(crate) file: ConfigFile,
    /// Where the state directory and the socket come from.
    #[cfg(feature = "config")]
    pub(crate) sources: [&'static str; 2],
    /// Sentences for the user about settings that have no effect.
    pub(crate) notes: Vec<String>,
}

fn add(given: &mut Given, setting: &'static Setting, origin: Origin, value: &str) -> Result<(), Fault> {
    setting.give(given, origin, value).map_err(|what| Fault::usage(format!("--{} {value}: {what}", setting.name)))
}

/// Parses a flag that is a setting: `--NAME VALUE`, and for switches `--NAME`, `--no-NAME` or `--NAME=false`. Returns `None` if it is no setting.
pub(crate) fn take_setting(flag: &str, words: &mut Words) -> Result<Option<(&'static Setting, String)>, Fault> {
    // Older and other names.
    let (flag, fixed) = match flag {
        "--no-aes" => ("--suites", Some("ChaCha20Poly1305")),
        "--accept-dns" => ("--dns", None),
        _ => (flag, None),
    };
    let Some(name) = flag.strip_prefix("--") else { return Ok(None) };
    let value = |words: &mut Words| fixed.map_or_else(|| words.value(), |value| Ok(String::from(value)));
    match (settings::find(name), name.strip_prefix("no-").and_then(settings::find)) {
        (Some(setting), _) if setting.is_switch() => {
            Ok(Some((setting, words.joined_value()?.unwrap_or_else(|| String::from("true")))))
        }
        (Some(setting), _) => Ok(Some((setting, value(words)?))),
        (None, Some(setting)) if setting.is_switch() => Ok(Some((setting, String::from("false")))),
        _ => Ok(None),
    }
}

/// Parses the choice of events to record.
pub(crate) fn levels(flag: &str, text: &str) -> Result<Levels, Fault> {
    let levels = settings::find("log-level").map_or_else(|| Ok(String::from(text)), |setting| setting.check(text));
    let levels = levels.and_then(|text| text.parse().map_err(|error: taut_agent::log::BadLevels| error.to_string()));
    levels.map_err(|what| Fault::usage(format!("{flag}: {what}")))
}

/// Checks the name of an interface.
#[cfg(feature = "wg")]
pub(crate) fn interface_name(flag: &str, text: &str) -> Result<String, Fault> {
    settings::interface_name(text).map_err(|what| Fault::usage(format!("{flag} {text}: {what}")))
}

#[cfg(test)]
mod tests;

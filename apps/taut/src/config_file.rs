//! The configuration file of a daemon: which one it is, and what is in it. Its names are those of the flags of `taut daemon`, without `--`.

use std::io::Read;
use std::path::{Path, PathBuf};

use taut_agent::settings::{SETTINGS, Setting, find};
use taut_base::{TextPlace, TomlEntry, TomlProblem, TomlValue, closest, read_toml};
use taut_event::open_regular;

use crate::chosen;
use crate::fault::Fault;

/// Largest file, 256 KiB: a file with every setting has a few KiB, and a larger one was given by mistake.
const LARGEST: u64 = 256 << 10;
/// Most problems that are reported, 20: more than fit on a screen hide the first one.
const MOST_PROBLEMS: usize = 20;
/// Names in the file that are no settings: where the daemon's files are.
pub(crate) const PLACES: [&str; 2] = ["state", "socket"];
/// The name that means "no configuration file": with `--config /dev/null`, the file in the usual place is not read either.
const NONE: &str = "/dev/null";

/// A value of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileValue {
    pub(crate) name: &'static str,
    /// The value as a flag would have it.
    pub(crate) text: String,
    /// The place of its name.
    pub(crate) at: TextPlace,
}

/// A file that was read, or that does not exist in the usual place.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile {
    /// `None` if there is none.
    pub(crate) path: Option<PathBuf>,
    pub(crate) values: Vec<FileValue>,
    problems: Vec<TomlProblem>,
}

/// Returns the file that `--config`, the environment or the chosen network names, and whether it is in the usual place.
fn path(flag: Option<&Path>) -> (PathBuf, bool) {
    let usual = chosen::config();
    let variable = || std::env::var_os("TAUT_CONFIG").map(PathBuf::from);
    let named = flag.map(Path::to_path_buf).or_else(variable).filter(|path| !path.as_os_str().is_empty());
    let is_usual = named.as_ref().is_none_or(|named| *named == usual);
    (named.unwrap_or(usual), is_usual)
}

impl ConfigFile {
    /// Reads the file that `flag` (of `--config`), the environment or the chosen network names. In the usual place it may be missing.
    pub(crate) fn read(flag: Option<&Path>) -> Result<Self, Fault> {
        let (path, is_usual) = path(flag);
        if path == Path::new(NONE) {
            return Ok(Self::default());
        }
        let mut text = String::new();
        let opened = open_regular(&path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
        let shown = path.display();
        match opened {
            Ok(_) if text.len() as u64 <= LARGEST => {
                let (values, problems) = values(&text);
                Ok(Self { path: Some(path), values, problems })
            }
            Ok(_) => {
                let message = format!("{shown} is larger than {} KiB, so it is no configuration file", LARGEST >> 10);
                Err(Fault::failed(message, "give another one with --config (/dev/null for none)"))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_usual => Ok(Self::default()),
            Err(error) => Err(Fault::failed(
                format!("the configuration file {shown} cannot be read: {error}"),
                "give another one with --config (/dev/null for none)",
            )),
        }
    }

    /// Returns the file if nothing in it is wrong.
    ///
    /// # Errors
    /// Every line that is wrong, with its place and what to write instead.
    pub(crate) fn checked(self) -> Result<Self, Fault> {
        if self.problems.is_empty() {
            return Ok(self);
        }
        let shown = self.path.as_deref().unwrap_or(Path::new("")).display();
        let first = self.problems.iter().take(MOST_PROBLEMS).map(|problem| format!("{shown}, {problem}"));
        let more = self.problems.len().saturating_sub(MOST_PROBLEMS);
        let more = (more > 0).then(|| format!("and {more} more"));
        let lines: Vec<String> = first.chain(more).collect();
        Err(Fault::failed(lines.join("\n"), "`taut help daemon` explains every setting"))
    }

    /// Returns its settings, with their values as flags would have them.
    pub(crate) fn settings(&self) -> impl Iterator<Item = (&'static Setting, &str)> {
        self.values.iter().filter_map(|value| Some((find(value.name)?, value.text.as_str())))
    }

    /// Returns a place that it has: the state directory or the socket.
    pub(crate) fn place(&self, name: &str) -> Option<PathBuf> {
        Some(PathBuf::from(&self.get(name)?.text))
    }

    /// Returns a value.
    pub(crate) fn get(&self, name: &str) -> Option<&FileValue> {
        self.values.iter().find(|value| value.name == name)
    }
}

/// Returns a place that the file has: the state directory or the socket. A file that cannot be read has none: the daemon reports what is wrong with it, and
/// other commands work without it.
pub(crate) fn place(name: &str) -> Option<PathBuf> {
    ConfigFile::read(None).ok()?.place(name)
}

/// Returns the values of a file, and what is wrong with it.
fn values(text: &str) -> (Vec<FileValue>, Vec<TomlProblem>) {
    let (mut values, mut problems) = (Vec::new(), Vec::new());
    for read in read_toml(text) {
        match read.and_then(value) {
            Ok(value) => values.push(value),
            Err(problem) => problems.push(problem),
        }
    }
    (values, problems)
}

fn value(entry: TomlEntry) -> Result<FileValue, TomlProblem> {
    let TomlEntry { name, at, value, value_at } = entry;
    let wrong = |what| TomlProblem { at: value_at, what };
    if let Some(setting) = find(&name) {
        return Ok(FileValue { name: setting.name, text: setting.check_file(&value).map_err(wrong)?, at });
    }
    let Some(place) = PLACES.into_iter().find(|place| *place == name) else {
        return Err(TomlProblem { at, what: unknown(&name) });
    };
    match value {
        // A relative path would depend on the directory in which a command runs.
        TomlValue::Text(text) if text.starts_with('/') => Ok(FileValue { name: place, text, at }),
        TomlValue::Text(_) => Err(wrong(format!("`{place}` has to be an absolute path: {place} = \"/…\""))),
        other => Err(wrong(format!("`{place}` is {}, and has to be a text in quotes", other.kind()))),
    }
}

fn unknown(name: &str) -> String {
    let known = || PLACES.into_iter().chain(SETTINGS.iter().map(|setting| setting.name));
    let words = name.replace('_', "-");
    let positive = words.strip_prefix("no-").filter(|rest| find(rest).is_some_and(Setting::is_switch));
    let meant = match (positive, closest(&words, known())) {
        (Some(switch), _) => format!("; write `{switch} = false`"),
        (None, Some(meant)) => format!("; did you mean `{meant}`?"),
        (None, None) => String::new(),
    };
    let shown: String = name.chars().take(64).collect();
    format!("there is no setting `{shown}`{meant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_and_both_places_may_be_in_the_file() {
        let (values, problems) = values("state = '/s'\nsocket = \"/x\"\nlanes = 4 # four\nportmap = false\n");
        assert_eq!(problems, []);
        let read: Vec<_> = values.iter().map(|value| (value.name, value.text.as_str(), value.at.line)).collect();
        assert_eq!(read, [("state", "/s", 1), ("socket", "/x", 2), ("lanes", "4", 3), ("portmap", "false", 4)]);
    }

    #[test]
    fn every_problem_has_its_place_and_what_to_write() {
        let text = "lane = 4\nlanes = true\n  mtu = 9\nno-portmap = true\nlog_level = 'info'\nstate = 's'\nsocket = 1\nfast = 1\nlog-level = loud\nlog-level = 'loud'";
        let found: Vec<String> = values(text).1.iter().map(ToString::to_string).collect();
        let expected = [
            "line 1, column 1: there is no setting `lane`; did you mean `lanes`?",
            "line 2, column 9: `lanes` is true or false, and has to be a whole number, or a word in quotes",
            "line 3, column 9: mtu = 9: write `auto`, or a number from 1280 to 65440",
            "line 4, column 1: there is no setting `no-portmap`; write `portmap = false`",
            "line 5, column 1: there is no setting `log_level`; did you mean `log-level`?",
            "line 6, column 9: `state` has to be an absolute path: state = \"/…\"",
            "line 7, column 10: `socket` is a whole number, and has to be a text in quotes",
            "line 8, column 1: there is no setting `fast`",
            "line 9, column 13: a text needs quotes: log-level = \"loud\"",
        ];
        assert_eq!(found[..9], expected);
        assert!(found[9].starts_with("line 10, column 13: log-level = loud: "), "{}", found[9]);
    }

    #[cfg(feature = "userspace")]
    #[test]
    fn the_example_has_every_setting_with_its_default_or_an_example() {
        let example = include_str!("../../../dist/taut.toml");
        let lines: Vec<&str> = example.lines().filter_map(|line| line.strip_prefix('#')).collect();
        let lines: Vec<&str> =
            lines.into_iter().filter(|line| line.starts_with(|first: char| first.is_ascii_lowercase())).collect();
        let (values, problems) = values(&lines.join("\n"));
        assert_eq!(problems, []);
        let names: Vec<&str> = values.iter().map(|value| value.name).collect();
        let known: Vec<&str> = PLACES.into_iter().chain(SETTINGS.iter().map(|setting| setting.name)).collect();
        assert_eq!(names, known);
        let usual = taut_agent::DaemonConfig::default();
        let others =
            SETTINGS.iter().zip(&values[PLACES.len()..]).filter(|(setting, value)| setting.value(&usual) != value.text);
        let examples = ["socks5", "http-proxy", "forward", "publish", "advertise-routes"];
        assert_eq!(others.map(|(setting, _)| setting.name).collect::<Vec<_>>(), examples);
    }

    #[test]
    fn of_many_problems_the_first_are_told() {
        let (values, problems) = values(&"a b\n".repeat(30));
        let fault = ConfigFile { path: Some(PathBuf::from("/f")), values, problems }.checked().unwrap_err();
        let message = fault.message();
        assert!(message.starts_with("/f, line 1, column 1: ") && message.ends_with("\nand 10 more"), "{message}");
        assert_eq!(message.lines().count(), MOST_PROBLEMS + 1);
    }
}

//! Which values the settings of a daemon have by which origin (`settings`).

use taut_base::SortedMap;

/// Where the value of a setting comes from; the greatest one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The network that the daemon is for, if a host has several: the name of its device.
    Network,
    /// The configuration file.
    File,
    /// `taut set`.
    Set,
    /// The environment of the daemon.
    Environment,
    /// A flag of the daemon.
    Flag,
}

impl Origin {
    /// Returns the origin as users read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::File => "file",
            Self::Set => "set",
            Self::Environment => "environment",
            Self::Flag => "flag",
        }
    }
}

/// Limit on the kept lines of unknown settings, 64: more than a release adds.
const MOST_LINES: usize = 64;
/// Limit on their bytes, 16 KiB: a list of routes or forwards has some KiB.
const MOST_BYTES: usize = 16 * 1024;

/// The values of settings as text, by name and origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    values: SortedMap<&'static str, SortedMap<Origin, String>>,
    /// Lines that `taut set` of another build or release kept, and this program does not understand. They are written back, so that the other one finds its settings again.
    lines: Vec<String>,
}

impl Given {
    /// Adds a value.
    pub(crate) fn insert(&mut self, name: &'static str, origin: Origin, value: String) {
        self.values.entry(name).or_default().insert(origin, value);
    }

    /// Takes the value of one origin away.
    pub(crate) fn remove(&mut self, name: &str, origin: Origin) {
        if let Some(values) = self.values.get_mut(name) {
            values.remove(&origin);
        }
    }

    /// Returns the value that holds; `None` if the setting has its default.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.values().next_back().map(String::as_str)
    }

    /// Returns where the value that holds comes from; `None` for the default.
    pub fn origin(&self, name: &str) -> Option<Origin> {
        self.values.get(name)?.keys().next_back().copied()
    }

    /// Keeps line `number` of `text`, which `taut set` kept and this program does not understand. Lines beyond the limits are lost.
    pub fn keep_line(&mut self, text: &str, number: usize) {
        let Some(line) = number.checked_sub(1).and_then(|index| text.lines().nth(index)) else { return };
        let bytes: usize = self.lines.iter().map(String::len).sum();
        if self.lines.len() < MOST_LINES
            && bytes + line.len() <= MOST_BYTES
            && !self.lines.iter().any(|kept| kept == line)
        {
            self.lines.push(String::from(line));
        }
    }

    /// Forgets the kept lines of a setting.
    pub(crate) fn forget_lines(&mut self, name: &str) {
        self.lines.retain(|line| named(line) != name);
    }

    /// Returns the kept lines, each with a line break, but not those of settings with a value by `taut set`, which replaces them.
    pub(crate) fn kept_lines(&self) -> String {
        let is_replaced = |line: &&String| self.of(Origin::Set).any(|(name, _)| name == named(line));
        self.lines.iter().filter(|line| !is_replaced(line)).map(|line| format!("{line}\n")).collect()
    }

    /// Returns the values of one origin.
    pub fn of(&self, origin: Origin) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().filter_map(move |(name, values)| Some((*name, values.get(&origin)?.as_str())))
    }
}

/// Returns the name of the setting in a line of `taut set`.
fn named(line: &str) -> &str {
    line.split('=').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{find, read_lines, write_lines};

    /// Reads what `taut set` kept, as a daemon does at its start.
    fn read(text: &str) -> Given {
        let mut given = Given::default();
        for line in read_lines(text) {
            match line {
                Ok((setting, value)) => setting.give(&mut given, Origin::Set, &value).unwrap(),
                Err(bad) => given.keep_line(text, bad.at.line),
            }
        }
        given
    }

    /// Returns what `taut set` keeps.
    fn written(given: &Given) -> String {
        write_lines(given.of(Origin::Set)) + &given.kept_lines()
    }

    #[test]
    fn lines_of_another_build_stay_until_they_are_replaced() {
        let text = "lanes = \"99\"\nmtu = \"1300\"\nspeed = \"a = b\"\n";
        let mut given = read(text);
        assert_eq!(written(&given), "mtu = \"1300\"\nlanes = \"99\"\nspeed = \"a = b\"\n");
        assert_eq!(read(&written(&given)), given);
        find("lanes").unwrap().give(&mut given, Origin::Set, "4").unwrap();
        assert_eq!(written(&given), "lanes = \"4\"\nmtu = \"1300\"\nspeed = \"a = b\"\n");
        given.remove("lanes", Origin::Set);
        given.forget_lines("lanes");
        assert_eq!(written(&given), "mtu = \"1300\"\nspeed = \"a = b\"\n");
    }

    #[test]
    fn kept_lines_have_limits() {
        let many: String = (0..1_000).map(|number| format!("x{number} = \"1\"\n")).collect();
        assert_eq!(read(&many).kept_lines().lines().count(), MOST_LINES);
        let long: String = (0..10).map(|number| format!("x{number} = \"{}\"\n", "1".repeat(3_000))).collect();
        assert_eq!(read(&long).kept_lines().lines().count(), 5);
        // A line that is there twice is kept once, and one of a setting that has a value not at all.
        let twice = read("x = \"1\"\nx = \"1\"\nlanes = \"4\"\nlanes = \"99\"\n");
        assert_eq!(written(&twice), "lanes = \"4\"\nx = \"1\"\n");
    }
}

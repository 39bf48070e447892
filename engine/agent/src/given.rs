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

/// The values of settings as text, by name and origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(SortedMap<&'static str, SortedMap<Origin, String>>);

impl Given {
    /// Adds a value.
    pub(crate) fn insert(&mut self, name: &'static str, origin: Origin, value: String) {
        self.0.entry(name).or_default().insert(origin, value);
    }

    /// Takes the value of one origin away.
    pub(crate) fn remove(&mut self, name: &str, origin: Origin) {
        if let Some(values) = self.0.get_mut(name) {
            values.remove(&origin);
        }
    }

    /// Returns the value that holds; `None` if the setting has its default.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.values().next_back().map(String::as_str)
    }

    /// Returns where the value that holds comes from; `None` for the default.
    pub fn origin(&self, name: &str) -> Option<Origin> {
        self.0.get(name)?.keys().next_back().copied()
    }

    /// Returns the values of one origin.
    pub fn of(&self, origin: Origin) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(move |(name, values)| Some((*name, values.get(&origin)?.as_str())))
    }
}

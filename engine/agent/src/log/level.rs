//! Levels and areas: what of the story is told, and how it is chosen (`--log-level info,path=debug`).

use std::fmt;
use std::str::FromStr;

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The node does not do its work, and does not recover on its own.
    Error,
    /// Something is wrong that an operator should know of; the node copes.
    Warn,
    /// A change of state that an operator wants to read the next morning.
    Info,
    /// Steps on the way there, for the search for a fault.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];
    const NAMES: [&'static str; 5] = ["error", "warn", "info", "debug", "trace"];

    /// Returns its name, in lower case.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns syslog's number for it, which journald reads in front of a line (sd-daemon(3)).
    pub(crate) fn priority(self) -> u8 {
        [3, 4, 6, 7, 7][self as usize]
    }

    /// Returns the level of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The daemon's life, its clocks, what local users had it do.
    Daemon,
    /// The control channel to the coordinator.
    Coordinator,
    /// The network map: peers, keys, names.
    Map,
    /// The path to a peer, direct or relayed.
    Path,
    /// Relays, and what they tell of this node's NAT.
    Relay,
    /// Handshakes with peers.
    Handshake,
    /// Sessions with peers.
    Session,
    /// This host: TUN device, addresses, routes.
    Host,
    /// Ports that the router in front of this host maps.
    Portmap,
    /// Packets that were refused.
    Input,
}

impl Area {
    const ALL: [Self; 10] = [
        Self::Daemon,
        Self::Coordinator,
        Self::Map,
        Self::Path,
        Self::Relay,
        Self::Handshake,
        Self::Session,
        Self::Host,
        Self::Portmap,
        Self::Input,
    ];
    const NAMES: [&'static str; 10] =
        ["daemon", "coordinator", "map", "path", "relay", "handshake", "session", "host", "portmap", "input"];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the area of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|area| area.name() == name)
    }

    /// Returns the names of all areas, for a message.
    pub fn names() -> String {
        Self::NAMES.join(", ")
    }
}

/// Which events are recorded: per area, those of a level and of all that matter more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels([Level; Area::ALL.len()]);

impl Default for Levels {
    fn default() -> Self {
        Self([Level::Info; Area::ALL.len()])
    }
}

impl Levels {
    /// Returns true if an event of this area and level is recorded.
    pub(crate) fn allow(&self, area: Area, level: Level) -> bool {
        level <= self.0[area as usize]
    }
}

/// The text is not what `--log-level` takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLevels(String);

impl fmt::Display for BadLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no level: write {}, or AREA=LEVEL with an area of {}, separated by commas",
            self.0,
            Level::NAMES.join(", "),
            Area::names()
        )
    }
}

impl FromStr for Levels {
    type Err = BadLevels;

    /// Reads `debug`, `info,path=debug` or `path=debug`: a level for all areas, and levels for some. Without one for all that is `info`; of two
    /// for one area the later counts.
    fn from_str(text: &str) -> Result<Self, BadLevels> {
        let bad = |part: &str| BadLevels(part.chars().take(40).collect());
        let parts = || text.split(',').map(str::trim);
        let mut levels = Self::default();
        for part in parts().filter(|part| !part.contains('=')) {
            levels = Self([Level::of(part).ok_or_else(|| bad(part))?; Area::ALL.len()]);
        }
        for part in parts() {
            let Some((area, level)) = part.split_once('=') else { continue };
            let (Some(area), Some(level)) = (Area::of(area.trim()), Level::of(level.trim())) else {
                return Err(bad(part));
            };
            levels.0[area as usize] = level;
        }
        Ok(levels)
    }
}

impl fmt::Display for Levels {
    /// Writes what [`Levels::from_str`] reads: the level of most areas, and the areas that have another one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |level: &Level| self.0.iter().filter(|other| *other == level).count();
        let most = Level::ALL.into_iter().max_by_key(count).unwrap_or(Level::Info);
        f.write_str(most.name())?;
        for area in Area::ALL {
            let level = self.0[area as usize];
            if level != most {
                write!(f, ",{}={}", area.name(), level.name())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_and_written() {
        let levels = |text: &str| text.parse::<Levels>();
        assert_eq!(levels("info"), Ok(Levels::default()));
        for text in ["debug", "info,path=debug", "error,handshake=trace,host=warn"] {
            assert_eq!(levels(text).unwrap().to_string(), text);
        }
        assert_eq!(levels("path=debug").unwrap().to_string(), "info,path=debug");
        assert_eq!(levels("path=debug,warn").unwrap().to_string(), "warn,path=debug");
        assert_eq!(levels(" info , path = debug ").unwrap().to_string(), "info,path=debug");
        assert_eq!(levels("path=debug,path=warn").unwrap().to_string(), "info,path=warn");
        for text in ["", "loud", "info,", "path", "path=", "=debug", "paths=debug", "path=loud", "INFO", "info;debug"] {
            let error = levels(text).unwrap_err().to_string();
            assert!(error.contains("is no level") && error.contains("portmap"), "{text}: {error}");
        }
        assert!(levels(&"x".repeat(10_000)).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn a_level_lets_pass_what_matters_more() {
        let levels: Levels = "warn,path=debug".parse().unwrap();
        assert!(levels.allow(Area::Path, Level::Debug) && !levels.allow(Area::Path, Level::Trace));
        assert!(levels.allow(Area::Host, Level::Error) && !levels.allow(Area::Host, Level::Info));
    }

    #[test]
    fn each_name_is_its_own() {
        assert!(Level::ALL.into_iter().all(|level| Level::of(level.name()) == Some(level)));
        assert!(Area::ALL.into_iter().all(|area| Area::of(area.name()) == Some(area)));
    }
}

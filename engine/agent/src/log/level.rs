//! Levels and areas of events, and the choice of the recorded events (`--log-level info,path=debug`).

use std::fmt;
use std::str::FromStr;

/// The severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The node does not do its work, and does not recover on its own.
    Error,
    /// A problem that an operator should know of. The node keeps working.
    Warn,
    /// A change of state that an operator wants to read the next morning.
    Info,
    /// A step of a procedure, for the search for a fault.
    Debug,
    /// All remaining details.
    Trace,
}

impl Level {
    const ALL: [Self; 5] = [Self::Error, Self::Warn, Self::Info, Self::Debug, Self::Trace];
    const NAMES: [&'static str; 5] = ["error", "warn", "info", "debug", "trace"];

    /// Returns the level's name, in lower case.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the level's number in syslog, which journald reads at the start of a line (sd-daemon(3)).
    pub(crate) fn priority(self) -> u8 {
        [3, 4, 6, 7, 7][self as usize]
    }

    /// Returns the level with this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// The subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The daemon's start and end, its clocks, and commands of local users.
    Daemon,
    /// The control channel to the coordinator.
    Coordinator,
    /// The network map: peers, keys, names.
    Map,
    /// The path to a peer, direct or relayed.
    Path,
    /// Relays, and the NAT in front of this node as relays report it.
    Relay,
    /// Handshakes with peers.
    Handshake,
    /// Sessions with peers.
    Session,
    /// This host: TUN device, addresses, routes.
    Host,
    /// Port mappings on the router in front of this host.
    Portmap,
    /// Refused packets.
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

    /// Returns the area's name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Returns the area with this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|area| area.name() == name)
    }

    /// Returns the names of all areas, for a message.
    pub fn names() -> String {
        Self::NAMES.join(", ")
    }
}

/// The choice of the recorded events: for each area the least severe level that is recorded.
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

    /// Returns the choice with every area's level raised by one, or `None` if every level is the highest already.
    pub(crate) fn raised(mut self) -> Option<Self> {
        let before = self;
        self.0.iter_mut().for_each(|level| *level = Level::ALL[(*level as usize + 1).min(Level::ALL.len() - 1)]);
        (self != before).then_some(self)
    }
}

/// The error for a text that is not a valid value of `--log-level`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLevels(String);

impl fmt::Display for BadLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a level: write {}, or AREA=LEVEL with an area of {}, separated by commas",
            self.0,
            Level::NAMES.join(", "),
            Area::names()
        )
    }
}

impl FromStr for Levels {
    type Err = BadLevels;

    /// Parses a level for all areas and levels for single areas, such as `debug`, `info,path=debug` or `path=debug`. The level for all areas is `info` by
    /// default. If an area is given twice, the later level applies.
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
    /// Writes the form that [`Levels::from_str`] parses: the level of most areas, then the areas with other levels.
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
    fn levels_are_parsed_and_written() {
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
            assert!(error.contains("is not a level") && error.contains("portmap"), "{text}: {error}");
        }
        assert!(levels(&"x".repeat(10_000)).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn a_level_includes_more_severe_events() {
        let levels: Levels = "warn,path=debug".parse().unwrap();
        assert!(levels.allow(Area::Path, Level::Debug) && !levels.allow(Area::Path, Level::Trace));
        assert!(levels.allow(Area::Host, Level::Error) && !levels.allow(Area::Host, Level::Info));
        let raised = levels.raised().unwrap();
        assert_eq!(raised.to_string(), "info,path=trace");
        assert_eq!(raised.raised().and_then(Levels::raised).unwrap().raised(), None, "every level is the highest");
    }

    #[test]
    fn each_name_is_unique() {
        assert!(Level::ALL.into_iter().all(|level| Level::of(level.name()) == Some(level)));
        assert!(Area::ALL.into_iter().all(|area| Area::of(area.name()) == Some(area)));
    }
}

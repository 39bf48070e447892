//! Levels per area.

use std::error::Error;
use std::fmt;

use tracing::Level;

/// Names of the levels, from the fewest events to the most.
const NAMES: [(&str, Level); 5] = [
    ("error", Level::ERROR),
    ("warn", Level::WARN),
    ("info", Level::INFO),
    ("debug", Level::DEBUG),
    ("trace", Level::TRACE),
];

/// The levels that are recorded: one for all areas, and others for some of them, such as `info,api=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevels {
    /// All areas of the program. Events of other areas are ignored.
    areas: &'static [&'static str],
    general: Level,
    /// Areas with a level of their own.
    special: Vec<(&'static str, Level)>,
}

impl LogLevels {
    /// Returns level info for all areas of a program.
    pub fn new(areas: &'static [&'static str]) -> Self {
        Self { areas, general: Level::INFO, special: Vec::new() }
    }

    /// Reads levels such as `info,api=debug`.
    ///
    /// # Errors
    ///
    /// Fails if a level or an area is unknown.
    pub fn parse(text: &str, areas: &'static [&'static str]) -> Result<Self, LevelsError> {
        let mut levels = Self::new(areas);
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                None => levels.general = level(part)?,
                Some((name, text)) => {
                    let area = areas.iter().find(|area| **area == name);
                    let area = area.ok_or_else(|| LevelsError::Area(String::from(name), areas))?;
                    let level = level(text)?;
                    levels.special.retain(|(other, _)| other != area);
                    levels.special.push((area, level));
                }
            }
        }
        Ok(levels)
    }

    /// Returns true if events of this area and level are recorded.
    pub(super) fn allow(&self, area: &str, level: Level) -> bool {
        let special = self.special.iter().find(|(name, _)| *name == area);
        self.knows(area) && level <= special.map_or(self.general, |(_, level)| *level)
    }

    /// Returns true if this is an area of the program.
    pub(super) fn knows(&self, area: &str) -> bool {
        self.areas.contains(&area)
    }

    /// Returns these levels with one level more in each area; `None` if all areas are at the last level.
    pub(super) fn raised(&self) -> Option<Self> {
        let mut raised = self.clone();
        raised.general = next(self.general);
        raised.special.iter_mut().for_each(|(_, level)| *level = next(*level));
        (raised != *self).then_some(raised)
    }
}

impl fmt::Display for LogLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(self.general))?;
        self.special.iter().try_for_each(|(area, level)| write!(f, ",{area}={}", name(*level)))
    }
}

/// Returns the name of a level.
pub(super) fn name(level: Level) -> &'static str {
    NAMES.iter().find(|(_, known)| *known == level).map_or("trace", |(name, _)| name)
}

fn level(text: &str) -> Result<Level, LevelsError> {
    let known = NAMES.iter().find(|(name, _)| *name == text);
    known.map(|(_, level)| *level).ok_or_else(|| LevelsError::Level(String::from(text)))
}

fn next(level: Level) -> Level {
    NAMES.iter().map(|(_, known)| *known).find(|known| *known > level).unwrap_or(level)
}

/// A text that names no levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LevelsError {
    /// An unknown level.
    Level(String),
    /// An unknown area, and the areas of the program.
    Area(String, &'static [&'static str]),
}

impl fmt::Display for LevelsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Level(text) => write!(f, "`{text}` is not a level; write error, warn, info, debug or trace"),
            Self::Area(text, areas) => write!(f, "there is no area `{text}`; the areas are {}", areas.join(", ")),
        }
    }
}

impl Error for LevelsError {}

#[cfg(test)]
mod tests {
    use super::*;

    const AREAS: &[&str] = &["api", "relay"];

    #[test]
    fn an_area_may_have_a_level_of_its_own() {
        let levels = LogLevels::parse("warn,api=debug", AREAS).unwrap();
        assert!(levels.allow("api", Level::DEBUG) && !levels.allow("api", Level::TRACE));
        assert!(levels.allow("relay", Level::WARN) && !levels.allow("relay", Level::INFO));
        assert!(!levels.allow("sqlx", Level::ERROR), "an area of a library");
        assert_eq!(levels.to_string(), "warn,api=debug");
        assert_eq!(LogLevels::parse("api=debug,api=warn", AREAS).unwrap().to_string(), "info,api=warn");
    }

    #[test]
    fn unknown_levels_and_areas_are_refused() {
        assert_eq!(LogLevels::parse("loud", AREAS), Err(LevelsError::Level(String::from("loud"))));
        assert_eq!(LogLevels::parse("", AREAS), Err(LevelsError::Level(String::new())));
        let error = LogLevels::parse("info,web=debug", AREAS).unwrap_err();
        assert_eq!(error.to_string(), "there is no area `web`; the areas are api, relay");
    }

    #[test]
    fn levels_are_raised_up_to_the_last() {
        let mut levels = LogLevels::parse("warn,api=trace", AREAS).unwrap();
        let mut seen = Vec::new();
        while let Some(next) = levels.raised() {
            seen.push(next.to_string());
            levels = next;
        }
        assert_eq!(seen, ["info,api=trace", "debug,api=trace", "trace,api=trace"]);
    }
}

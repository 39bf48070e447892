//! Versions and their order (semver.org 2.0.0, without build metadata).

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Longest text of a version in bytes: a version before a release with a moment, `10.20.30-dev.202611290412`, has 25.
const LONGEST: usize = 64;

/// A version such as `0.3.0` or `0.3.0-dev.202611290412`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    numbers: [u32; 3],
    /// The parts behind the hyphen; empty for a release.
    before: Vec<Part>,
}

/// A part of a version before a release. The order of the variants is theirs: numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Word(String),
}

impl Version {
    /// Returns true if a host that runs version `own` may be offered this version. A host that runs a release is offered releases alone. Pre-releases are signed with the same key, so a server
    /// could offer them to every host.
    pub fn is_for(&self, own: &Self) -> bool {
        self.before.is_empty() || !own.before.is_empty()
    }

    /// Returns true if this is the version that a program reports as `own`. A program built before a release reports no moment, and its package has one.
    pub fn is_reported_as(&self, own: &Self) -> bool {
        self.numbers == own.numbers
            && own.before.is_empty() == self.before.is_empty()
            && self.before.starts_with(&own.before)
    }
}

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() > LONGEST {
            return Err(());
        }
        let (numbers, before) = text.split_once('-').map_or((text, None), |(numbers, before)| (numbers, Some(before)));
        let mut parts = numbers.split('.').map(|digits| number(digits).and_then(|number| u32::try_from(number).ok()));
        let mut next = || parts.next().flatten().ok_or(());
        let numbers = [next()?, next()?, next()?];
        if parts.next().is_some() {
            return Err(());
        }
        let before = before.map_or(Some(Vec::new()), |text| text.split('.').map(part).collect());
        Ok(Self { numbers, before: before.ok_or(())? })
    }
}

/// Parses digits without a leading zero, so that each version has one text.
fn number(digits: &str) -> Option<u64> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits.len() == 1 || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| is_plain)
}

fn part(text: &str) -> Option<Part> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return None;
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return number(text).map(Part::Number);
    }
    Some(Part::Word(String::from(text)))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (index, part) in self.before.iter().enumerate() {
            f.write_str(if index == 0 { "-" } else { "." })?;
            match part {
                Part::Number(number) => write!(f, "{number}")?,
                Part::Word(word) => f.write_str(word)?,
            }
        }
        Ok(())
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        // A release is newer than what came before it.
        let release = |version: &Self| version.before.is_empty();
        self.numbers
            .cmp(&other.numbers)
            .then_with(|| release(self).cmp(&release(other)))
            .then_with(|| self.before.cmp(&other.before))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn the_order_is_that_of_semver() {
        let rising = [
            "0.0.1",
            "0.2.0-alpha",
            "0.2.0-alpha.1",
            "0.2.0-alpha.beta",
            "0.2.0-dev",
            "0.2.0-dev.2",
            "0.2.0-dev.11",
            "0.2.0-dev.202611290412",
            "0.2.0",
            "0.2.1-dev",
            "0.10.0",
            "1.0.0",
            "10.0.0",
        ];
        for pair in rising.windows(2) {
            assert!(version(pair[0]) < version(pair[1]), "{pair:?}");
        }
        assert!(rising.iter().all(|text| version(text).to_string() == *text));
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "1.2.x",
            "01.2.3",
            "1.2.3-",
            "1.2.3-a..b",
            "1.2.3-01",
            "+1.2.3",
            "1.2.3+x",
            " 1.2.3",
            "1.2.4294967296",
        ] {
            assert_eq!(text.parse::<Version>(), Err(()), "{text}");
        }
        assert!(format!("1.2.3-{}", "a".repeat(LONGEST)).parse::<Version>().is_err());
    }

    #[test]
    fn a_host_with_a_release_is_offered_releases_alone() {
        for (offered, own, fits) in [
            ("0.3.0", "0.2.0", true),
            ("0.3.0", "0.3.0-dev", true),
            ("0.4.0-dev.2", "0.3.0-dev", true),
            ("0.4.0-dev.2", "0.3.0", false),
        ] {
            assert_eq!(version(offered).is_for(&version(own)), fits, "{offered} for {own}");
        }
    }

    #[test]
    fn a_package_before_a_release_has_a_moment_that_its_program_does_not_report() {
        assert!(version("0.2.0-dev.202611290412").is_reported_as(&version("0.2.0-dev")));
        assert!(version("0.2.0").is_reported_as(&version("0.2.0")));
        for (listed, own) in
            [("0.2.0", "0.2.0-dev"), ("0.2.0-dev", "0.2.0"), ("0.2.1", "0.2.0"), ("0.2.0-dev", "0.2.0-dev.1")]
        {
            assert!(!version(listed).is_reported_as(&version(own)), "{listed} {own}");
        }
    }
}

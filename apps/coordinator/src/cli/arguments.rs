//! Words and options of a command line. Options may stand anywhere; what a command does not know is refused, never ignored.

use std::collections::BTreeMap;
use std::ffi::OsString;

use lexopt::{Arg, Parser};
use taut_base::closest;

use super::Failed;

/// Options with a value.
const VALUED: [&str; 17] = [
    "state",
    "listen",
    "url",
    "network",
    "ipv4-prefix",
    "api",
    "token",
    "ca",
    "expires",
    "stun-port",
    "web",
    "relay-port",
    "relay-address",
    "relay-metrics",
    "trusted-proxy",
    "log-format",
    "log-level",
];

/// Options without one.
const SWITCHES: [&str; 7] = ["json", "one-off", "force", "insecure", "no-relay", "help", "version"];

/// What was typed and not yet understood.
pub(super) struct Arguments {
    words: std::vec::IntoIter<String>,
    values: BTreeMap<&'static str, Vec<String>>,
    switches: BTreeMap<&'static str, bool>,
}

impl Arguments {
    pub(super) fn from_env() -> Result<Self, Failed> {
        Self::parse(Parser::from_env())
    }

    fn parse(mut parser: Parser) -> Result<Self, Failed> {
        let usage = |error: lexopt::Error| Failed::Usage(error.to_string());
        let mut words = Vec::new();
        let mut values: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        let mut switches = BTreeMap::new();
        while let Some(argument) = parser.next().map_err(usage)? {
            let name = match argument {
                Arg::Value(word) => {
                    words.push(text(word)?);
                    continue;
                }
                Arg::Short('h') => "help",
                Arg::Short('V') => "version",
                Arg::Short(letter) => return Err(Failed::Usage(format!("there is no option `-{letter}`"))),
                Arg::Long(name) => match VALUED.iter().chain(&SWITCHES).find(|known| **known == name) {
                    Some(known) => known,
                    None => return Err(no_option(name)),
                },
            };
            if VALUED.contains(&name) {
                let value = text(parser.value().map_err(usage)?)?;
                values.entry(name).or_default().push(value);
            } else {
                switches.insert(name, true);
            }
        }
        Ok(Self { words: words.into_iter(), values, switches })
    }

    /// The next word.
    pub(super) fn word(&mut self) -> Option<String> {
        self.words.next()
    }

    /// The next word, which has to be there.
    pub(super) fn need(&mut self, what: &str) -> Result<String, Failed> {
        self.word().ok_or_else(|| Failed::Usage(format!("{what} is missing")))
    }

    /// Whether a switch was given.
    pub(super) fn switch(&mut self, name: &str) -> bool {
        self.switches.remove(name).unwrap_or(false)
    }

    /// All values of an option.
    pub(super) fn values(&mut self, name: &str) -> Vec<String> {
        self.values.remove(name).unwrap_or_default()
    }

    /// The value of an option that is given at most once.
    pub(super) fn value(&mut self, name: &str) -> Result<Option<String>, Failed> {
        let mut values = self.values(name);
        if values.len() > 1 {
            return Err(Failed::Usage(format!("`--{name}` was given {} times", values.len())));
        }
        Ok(values.pop())
    }

    /// Refuses what nobody asked for.
    pub(super) fn finish(mut self) -> Result<(), Failed> {
        if let Some(word) = self.words.next() {
            return Err(Failed::Usage(format!("`{word}` is one word too many")));
        }
        match self.values.keys().chain(self.switches.keys()).next() {
            Some(option) => Err(Failed::Usage(format!("this command has no option `--{option}`"))),
            None => Ok(()),
        }
    }
}

fn no_option(typed: &str) -> Failed {
    let meant = closest(typed, VALUED.into_iter().chain(SWITCHES));
    let meant = meant.map_or_else(String::new, |option| format!("; did you mean `--{option}`?"));
    Failed::Usage(format!("there is no option `--{typed}`{meant}"))
}

fn text(value: OsString) -> Result<String, Failed> {
    value.into_string().map_err(|_| Failed::Usage(String::from("an argument is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, Failed> {
        Arguments::parse(Parser::from_args(line.split_whitespace()))
    }

    #[test]
    fn options_stand_anywhere_and_are_taken_once() {
        let mut arguments = parse("--json keys create --expires=24h --url a --url b").unwrap();
        assert_eq!(arguments.word().as_deref(), Some("keys"));
        assert!(arguments.switch("json"));
        assert_eq!(arguments.value("expires").unwrap().as_deref(), Some("24h"));
        assert_eq!(arguments.values("url"), ["a", "b"]);
        assert!(arguments.need("a word").is_ok());
        assert!(arguments.need("a word").is_err());
        assert!(arguments.finish().is_ok());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for line in ["--nonsense", "-x", "--json=1", "--url"] {
            assert!(matches!(parse(line), Err(Failed::Usage(_))), "{line}");
        }
        assert!(parse("word").unwrap().finish().is_err());
        assert!(parse("--json").unwrap().finish().is_err());
        assert!(parse("--api a --api b").unwrap().value("api").is_err());
    }
}

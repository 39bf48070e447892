//! Words and options of a command line. Options may be anywhere. A command refuses options and words that it does not know.

use std::collections::BTreeMap;
use std::ffi::OsString;

use lexopt::{Arg, Parser};
use taut_base::closest;

use super::CommandError;

/// Options with a value.
const VALUED: [&str; 65] = [
    "config",
    "drain",
    "state",
    "database",
    "from",
    "to",
    "listen",
    "url",
    "tls-cert",
    "tls-key",
    "acme",
    "acme-directory",
    "acme-contact",
    "acme-http",
    "network",
    "ipv4-prefix",
    "api",
    "token",
    "token-file",
    "ca",
    "expires",
    "uses",
    "ephemeral",
    "tags",
    "owner",
    "name",
    "approval",
    "key-expiry",
    "stun-port",
    "web",
    "relay-port",
    "relay-address",
    "relay-metrics",
    "metrics",
    "relay-rate",
    "trusted-proxy",
    "log-format",
    "log-level",
    "nodes",
    "replicas",
    "relays",
    "relay-places",
    "visible",
    "changes",
    "seconds",
    "proto",
    "comment",
    "based-on",
    "audit-days",
    "oidc-issuer",
    "oidc-client-id",
    "oidc-client-secret-file",
    "oidc-scope",
    "oidc-parameter",
    "oidc-groups-claim",
    "oidc-allow-domain",
    "oidc-allow-group",
    "oidc-refresh-minutes",
    "display-name",
    "email",
    "role",
    "scopes",
    "since",
    "until",
    "events",
];

/// Options without a value.
const SWITCHES: [&str; 10] = [
    "json",
    "one-off",
    "pre-approved",
    "force",
    "insecure",
    "no-relay",
    "oidc-allow-private",
    "webhooks-allow-private",
    "help",
    "version",
];

/// The words and options of a command line that were not used yet.
pub(super) struct Arguments {
    words: std::vec::IntoIter<String>,
    values: BTreeMap<&'static str, Vec<String>>,
    switches: BTreeMap<&'static str, bool>,
}

impl Arguments {
    pub(super) fn from_env() -> Result<Self, CommandError> {
        Self::parse(Parser::from_env())
    }

    fn parse(mut parser: Parser) -> Result<Self, CommandError> {
        let usage = |error: lexopt::Error| CommandError::Usage(error.to_string());
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
                Arg::Short(letter) => return Err(CommandError::Usage(format!("there is no option `-{letter}`"))),
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

    /// Returns the arguments of these words.
    #[cfg(test)]
    pub(super) fn of(words: &[&str]) -> Self {
        Self::parse(Parser::from_args(words)).unwrap()
    }

    /// Returns the next word.
    pub(super) fn word(&mut self) -> Option<String> {
        self.words.next()
    }

    /// Returns the next word, or a usage error that names `what` if there is none.
    pub(super) fn need(&mut self, what: &str) -> Result<String, CommandError> {
        self.word().ok_or_else(|| CommandError::Usage(format!("{what} is missing")))
    }

    /// Returns true if a switch was given.
    pub(super) fn switch(&mut self, name: &str) -> bool {
        self.switches.remove(name).unwrap_or(false)
    }

    /// Returns all values of an option.
    pub(super) fn values(&mut self, name: &str) -> Vec<String> {
        self.values.remove(name).unwrap_or_default()
    }

    /// Returns the value of an option that may be given once.
    pub(super) fn value(&mut self, name: &str) -> Result<Option<String>, CommandError> {
        let mut values = self.values(name);
        if values.len() > 1 {
            return Err(CommandError::Usage(format!("`--{name}` was given {} times", values.len())));
        }
        Ok(values.pop())
    }

    /// Returns a usage error if words or options are left.
    pub(super) fn finish(mut self) -> Result<(), CommandError> {
        if let Some(word) = self.words.next() {
            return Err(CommandError::Usage(format!("`{word}` is one word too many")));
        }
        match self.values.keys().chain(self.switches.keys()).next() {
            Some(option) => Err(CommandError::Usage(format!("this command has no option `--{option}`"))),
            None => Ok(()),
        }
    }
}

fn no_option(typed: &str) -> CommandError {
    let meant = closest(typed, VALUED.into_iter().chain(SWITCHES));
    let meant = meant.map_or_else(String::new, |option| format!("; did you mean `--{option}`?"));
    CommandError::Usage(format!("there is no option `--{typed}`{meant}"))
}

fn text(value: OsString) -> Result<String, CommandError> {
    value.into_string().map_err(|_| CommandError::Usage(String::from("an argument is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, CommandError> {
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
    fn unknown_options_and_words_are_refused() {
        for line in ["--nonsense", "-x", "--json=1", "--url"] {
            assert!(matches!(parse(line), Err(CommandError::Usage(_))), "{line}");
        }
        assert!(parse("word").unwrap().finish().is_err());
        assert!(parse("--json").unwrap().finish().is_err());
        assert!(parse("--api a --api b").unwrap().value("api").is_err());
    }
}

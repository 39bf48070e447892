//! The configuration file: TOML whose keys are the names of the flags.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use taut_base::closest;
use taut_relay_server::open_regular;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zeroize::Zeroizing;

use super::known::{KNOWN, Kind, Known};
use super::{Entry, Setting, Source};
use crate::cli::CommandError;

/// Largest file, 256 KiB: a file with every setting has a few KiB, and a larger one was given by mistake.
const LARGEST: u64 = 256 << 10;

/// Most problems that are reported, 20: more than fit on a screen hide the first one.
const MOST_PROBLEMS: usize = 20;

/// Most items of an array, 256: more than a list of proxies or addresses has.
const MOST_ITEMS: usize = 256;

/// Longest name of an unknown key that is repeated, in characters.
const LONGEST_NAME: usize = 64;

/// Device number of /dev/null, which names no file at all.
const NULL: u64 = 0x103;

/// Bits of a file's mode with which other users can read or change it.
const OTHERS: u32 = 0o077;

/// A file that was read.
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) settings: BTreeMap<&'static str, Setting>,
    /// True if the mode gives other users access.
    pub(super) is_open: bool,
}

impl SettingsFile {
    /// Reads a file. Returns an error that names every key that is unknown or has a value of a wrong type.
    pub(super) fn read(path: &Path) -> Result<Self, CommandError> {
        let unreadable = |error: io::Error| {
            CommandError::Run(format!(
                "the configuration file {} cannot be read: {error}; give another one with --config (/dev/null for none)",
                path.display()
            ))
        };
        let is_null =
            std::fs::metadata(path).is_ok_and(|file| file.file_type().is_char_device() && file.rdev() == NULL);
        if is_null {
            return Ok(Self { path: path.to_path_buf(), settings: BTreeMap::new(), is_open: false });
        }
        let mut file = open_regular(path).map_err(unreadable)?;
        let is_open = file.metadata().map_err(unreadable)?.mode() & OTHERS != 0;
        let mut text = Zeroizing::new(String::new());
        Read::by_ref(&mut file).take(LARGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > LARGEST {
            return Err(CommandError::Run(format!(
                "the configuration file {} is larger than {} KiB, so it is not one; give another one with --config",
                path.display(),
                LARGEST >> 10
            )));
        }
        let settings = parse(&text).map_err(|Problems { first, more }| {
            let mut lines: Vec<String> =
                first.into_iter().map(|(at, what)| format!("{}, {}: {what}", path.display(), place(at))).collect();
            lines.extend((more > 0).then(|| format!("and {more} more")));
            CommandError::Run(lines.join("\n"))
        })?;
        Ok(Self { path: path.to_path_buf(), settings, is_open })
    }
}

/// A line and a column of the file, both from 1.
pub(super) type At = (usize, usize);

/// Returns a place in the file, for people.
pub(super) fn place((line, column): At) -> String {
    format!("line {line}, column {column}")
}

/// The problems of a file, in the order of their places.
#[derive(Debug, Default)]
struct Problems {
    /// The first [`MOST_PROBLEMS`].
    first: Vec<(At, String)>,
    /// Number of problems beyond [`MOST_PROBLEMS`].
    more: usize,
}

impl Problems {
    fn add(&mut self, problem: impl FnOnce() -> (At, String)) {
        // `problem` formats a message, which takes time, and a file can have many thousands of problems: the others are only counted.
        if self.first.len() < MOST_PROBLEMS { self.first.push(problem()) } else { self.more += 1 }
    }
}

/// Returns the settings of a file, or its problems. No problem contains a value, which may be a password.
fn parse(text: &str) -> Result<BTreeMap<&'static str, Setting>, Problems> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let at = |span: Range<usize>| position(text, span.start);
    let mut problems = Problems::default();
    for error in &errors {
        let place = || error.span().map_or((1, 1), at);
        problems.add(|| (place(), format!("this is not TOML: {}", error.message())));
    }
    let mut settings = BTreeMap::new();
    // The rest of a file that is not TOML is a guess.
    let table = if errors.is_empty() { table.into_inner() } else { DeTable::new() };
    let mut pairs: Vec<_> = table.into_iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in pairs {
        let name = key.get_ref().as_ref();
        let Some(known) = KNOWN.iter().find(|known| known.name == name) else {
            problems.add(|| (at(key.span()), unknown(name)));
            continue;
        };
        match entries(known, &value, text) {
            Ok(entries) => _ = settings.insert(known.name, Setting { entries, source: Source::File }),
            Err(problem) => problems.add(|| problem),
        }
    }
    problems.first.sort();
    if problems.first.is_empty() { Ok(settings) } else { Err(problems) }
}

fn unknown(name: &str) -> String {
    let name: String = name.chars().take(LONGEST_NAME).collect();
    let words = name.replace('_', "-");
    let known = || KNOWN.iter().map(|known| known.name);
    let meant = closest(&words, known()).map_or_else(
        || format!("the keys are the options of `serve` without `--`: {}", known().collect::<Vec<_>>().join(", ")),
        |meant| format!("did you mean `{meant}`?"),
    );
    format!("there is no key `{}`; {meant}", name.escape_debug())
}

/// Returns the values of a key, or its problem.
fn entries(known: &Known, value: &Spanned<DeValue<'_>>, text: &str) -> Result<Vec<Entry>, (At, String)> {
    let entry =
        |value: &Spanned<DeValue<'_>>, written| Entry { text: written, at: Some(position(text, value.span().start)) };
    let (name, here) = (known.name, position(text, value.span().start));
    let wrong = |example: &str| (here, format!("`{name}` is {}, and has to be {example}", kind_of(value.get_ref())));
    match (known.kind, value.get_ref()) {
        (Kind::Text, DeValue::String(written)) => Ok(vec![entry(value, String::from(written.as_ref()))]),
        (Kind::Number, DeValue::Integer(number)) => {
            let digits = number.as_str().replace('_', "");
            let is_plain = number.radix() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
            if is_plain { Ok(vec![entry(value, digits)]) } else { Err(wrong("a whole number of 0 or more")) }
        }
        (Kind::Switch, DeValue::Boolean(on)) => Ok(vec![entry(value, on.to_string())]),
        (Kind::List, DeValue::Array(items)) if items.len() > MOST_ITEMS => {
            Err((here, format!("`{name}` has {} items, and may have {MOST_ITEMS}", items.len())))
        }
        (Kind::List, DeValue::Array(items)) => {
            let item = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
                DeValue::String(written) => Ok(entry(item, String::from(written.as_ref()))),
                other => {
                    let at = position(text, item.span().start);
                    Err((at, format!("an item of `{name}` is {}, and has to be a text in quotes", kind_of(other))))
                }
            };
            items.iter().map(item).collect()
        }
        (Kind::Text, _) => Err(wrong(&format!("a text: {name} = \"…\""))),
        (Kind::Number, _) => Err(wrong(&format!("a number: {name} = {}", known.default))),
        (Kind::Switch, _) => Err(wrong(&format!("true or false: {name} = true"))),
        (Kind::List, _) => Err(wrong(&format!("an array: {name} = [\"…\"]"))),
    }
}

fn kind_of(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Returns the line and the column of a byte.
fn position(text: &str, byte: usize) -> At {
    let before = text.get(..byte).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<(At, String)> {
        parse(text).err().unwrap_or_default().first
    }

    #[test]
    fn every_kind_is_read_with_its_place() {
        let read =
            parse("listen = '[::]:1'\nurl = [\n  \"a\",\n  \"b\",\n]\nno-relay = true\nrelay-port = 3_479\n").unwrap();
        let of =
            |name: &str| read[name].entries.iter().map(|entry| (&*entry.text, entry.at.unwrap())).collect::<Vec<_>>();
        assert_eq!(of("listen"), [("[::]:1", (1, 10))]);
        assert_eq!(of("url"), [("a", (3, 3)), ("b", (4, 3))]);
        assert_eq!((of("no-relay")[0].0, of("relay-port")[0].0), ("true", "3479"));
    }

    #[test]
    fn every_problem_has_its_place_its_key_and_what_to_write() {
        let found =
            problems("lisen = 1\nlisten = 1\nurl = 'http://a'\nno-relay = 'yes'\nrelay-port = -1\nrelay_rate = 1\n");
        let expected = [
            ((1, 1), "there is no key `lisen`; did you mean `listen`?"),
            ((2, 10), "`listen` is a whole number, and has to be a text: listen = \"…\""),
            ((3, 7), "`url` is a text, and has to be an array: url = [\"…\"]"),
            ((4, 12), "`no-relay` is a text, and has to be true or false: no-relay = true"),
            ((5, 14), "`relay-port` is a whole number, and has to be a whole number of 0 or more"),
            ((6, 1), "there is no key `relay_rate`; did you mean `relay-rate`?"),
        ];
        assert_eq!(found, expected.map(|(at, what)| (at, String::from(what))));
        let found = problems("url = ['a', 2]\n[serve]\nlisten = 'x'\n");
        assert_eq!(
            found[0],
            ((1, 13), String::from("an item of `url` is a whole number, and has to be a text in quotes"))
        );
        assert!(
            found[1].0 == (2, 2) && found[1].1.contains("the options of `serve` without `--`: state, "),
            "{found:?}"
        );
    }

    #[test]
    fn a_file_with_very_many_problems_reports_the_first_ones_and_their_number() {
        let text: String = (0..20_000).rev().map(|number| format!("k{number}=1\n")).collect();
        let found = parse(&text).err().unwrap();
        assert_eq!((found.first.len(), found.more), (MOST_PROBLEMS, 20_000 - MOST_PROBLEMS));
        let lines: Vec<usize> = found.first.iter().map(|((line, _), _)| *line).collect();
        assert_eq!(lines, (1..=MOST_PROBLEMS).collect::<Vec<_>>());
        let long = problems(&format!("{} = 1\n", "x".repeat(10_000)));
        assert!(long[0].1.len() < 1_000, "{long:?}");
        let many = problems(&format!("url = [{}]\n", "'a',".repeat(MOST_ITEMS + 1)));
        assert_eq!(many, [((1, 7), String::from("`url` has 257 items, and may have 256"))]);
    }

    #[test]
    fn no_problem_contains_a_value() {
        for text in [
            "database = postgres://taut:secret@db/taut",
            "database = 'postgres://taut:secret@db/taut",
            "database = ['secret']",
            "state = 'a'\nstate = 'secret'",
        ] {
            let found = problems(text);
            assert!(!found.is_empty() && !format!("{found:?}").contains("secret"), "{found:?}");
        }
    }
}

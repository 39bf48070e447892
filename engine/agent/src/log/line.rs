//! The line of an event: a flat JSON object with a schema version, or the same content as text for people.
//!
//! ```text
//! {"schema":1,"time":"2026-11-24T03:12:07.123Z","level":"info","area":"path","event":"path-changed","message":"…","peer":"nas","to":"…","reason":"…"}
//! 2026-11-24T03:12:07.123Z info  path: the path to the peer changed event=path-changed peer=nas to=… reason=…
//! ```
//! Lines are stored as JSON, in memory and on the disk, and parsed again to show them as text. Texts from outside are not trusted: they are cut and escaped
//! when a line is written and when it is shown; characters that are not printable are removed.

use std::time::Duration;

use taut_base::{format_time, is_printable, parse_time};

use super::kind::Kind;
use super::level::Level;

/// Version of the object.
pub const LOG_SCHEMA: u32 = 1;

/// Limit on the bytes of one text, such as a reason that the coordinator gave, 480. A longer text is cut. This program's own reasons fit, the longest of which has two keys and a URL.
const MAX_TEXT: usize = 480;

/// Limit on the bytes of a written line, 1 KiB: head, message and fields. Fields that exceed it are left out.
pub const MAX_LINE: usize = 1024;

/// Limit on the bytes of a parsed line, 4 KiB: lines of a later version may be longer than this version's.
const MAX_READ: usize = 4096;

/// Limit on the fields of a parsed line, 24.
const MAX_FIELDS: usize = 24;

/// A field's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// An unknown value; the field is left out.
    None,
    /// A fixed word of this program.
    Word(&'static str),
    /// A text from outside: a name, an address, a reason of the coordinator or the system.
    Text(String),
    /// A count, or a quantity whose unit is in the field's name.
    Number(u64),
}

impl Value {
    /// Returns the displayed form of `value`.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass references and small copies alike")]
    pub(crate) fn text(value: impl ToString) -> Self {
        Self::Text(value.to_string())
    }

    /// Returns the displayed form of `value`, or [`Self::None`] without a value.
    pub(crate) fn maybe(value: Option<impl ToString>) -> Self {
        value.map_or(Self::None, Self::text)
    }

    /// Returns a duration in milliseconds.
    pub(crate) fn ms(duration: Duration) -> Self {
        Self::Number(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns a duration in whole seconds.
    pub(crate) fn s(duration: Duration) -> Self {
        Self::Number(duration.as_secs())
    }
}

/// Writes an event as a line, without a newline. `wall`: time since 1970.
pub(crate) fn write(kind: &Kind, level: Level, wall: Duration, values: &[Value]) -> String {
    let mut line = String::with_capacity(256);
    line.push_str("{\"schema\":1,\"time\":\"");
    line.push_str(&format_time(wall));
    line.push('"');
    for (name, word) in
        [("level", level.name()), ("area", kind.area.name()), ("event", kind.event), ("message", kind.message)]
    {
        push(&mut line, name, word);
    }
    for (name, value) in kind.fields.iter().zip(values) {
        let end = line.len();
        match value {
            Value::None => {}
            Value::Word(word) => push(&mut line, name, word),
            Value::Text(text) => push(&mut line, name, cut(text)),
            Value::Number(number) => {
                key(&mut line, name);
                line.push_str(&number.to_string());
            }
        }
        if line.len() >= MAX_LINE {
            line.truncate(end);
        }
    }
    line.push('}');
    line
}

fn key(line: &mut String, name: &str) {
    line.push_str(",\"");
    line.push_str(name);
    line.push_str("\":");
}

fn push(line: &mut String, name: &str, text: &str) {
    key(line, name);
    line.push('"');
    push_escaped(line, text);
    line.push('"');
}

/// Adds a text that stays on one line, does not end its quotation, and does not control a terminal.
fn push_escaped(line: &mut String, text: &str) {
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') {
            line.push('\\');
        }
        line.push(if is_printable(letter) { letter } else { ' ' });
    }
}

/// Returns the beginning of a text that is too long.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// An event, parsed from its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The time of the event since 1970, by the host's clock at that time.
    pub time: Duration,
    /// The event's level.
    pub level: Level,
    /// The event's area: the name of an [`super::Area`], or an area of a later version.
    pub area: String,
    /// The event's name.
    pub event: String,
    /// The description of the event, for people.
    pub message: String,
    /// The other fields, in the order of the line. Numbers are kept as text.
    pub fields: Vec<(String, String)>,
}

impl Entry {
    /// Parses a line. Returns `None` if it is not an event.
    pub fn parse(line: &str) -> Option<Self> {
        let (mut time, mut level, mut schema) = (None, None, false);
        let [mut area, mut event, mut message] = [String::new(), String::new(), String::new()];
        let mut fields = Vec::new();
        for (name, value) in object(line)? {
            match &name[..] {
                "schema" => schema = true,
                "time" => time = parse_time(&value),
                "level" => level = Level::of(&value),
                "area" => area = value,
                "event" => event = value,
                "message" => message = value,
                _ => fields.push((name, value)),
            }
        }
        let named = schema && !area.is_empty() && !event.is_empty();
        named.then_some(Self { time: time?, level: level?, area, event, message, fields })
    }

    /// Returns the value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
    }

    /// Returns the line for people, without a newline.
    pub fn text(&self) -> String {
        let (time, level) = (format_time(self.time), self.level.name());
        let mut text = format!("{time} {level:<5} {}: {} event={}", self.area, self.message, self.event);
        for (name, value) in &self.fields {
            text.push(' ');
            text.push_str(name);
            text.push('=');
            if value.is_empty() || value.contains([' ', '"', '=', '\\']) {
                text.push('"');
                push_escaped(&mut text, value);
                text.push('"');
            } else {
                text.push_str(value);
            }
        }
        text.retain(is_printable);
        text
    }
}

/// Parses a flat JSON object (RFC 8259) whose values are texts, numbers, `true`, `false` or `null`. Returns its fields in the order of the text.
fn object(line: &str) -> Option<Vec<(String, String)>> {
    if line.len() > MAX_READ {
        return None;
    }
    let mut rest = line.trim().strip_prefix('{')?.trim_start();
    let mut all = Vec::new();
    if rest == "}" {
        return Some(all);
    }
    loop {
        let name;
        (name, rest) = string(rest)?;
        rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let value;
        (value, rest) = if rest.starts_with('"') { string(rest)? } else { word(rest)? };
        if all.len() < MAX_FIELDS {
            all.push((name, value));
        }
        rest = rest.trim_start();
        if rest == "}" {
            return Some(all);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

/// Parses a number or a word. Returns it and the rest of the text.
fn word(rest: &str) -> Option<(String, &str)> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
    let end = rest.find(|letter| !is_part(letter)).filter(|end| *end > 0)?;
    let (word, rest) = rest.split_at(end);
    let known = matches!(word, "true" | "false" | "null") || taut_json::from_slice::<f64>(word.as_bytes()).is_ok();
    known.then(|| (String::from(word), rest))
}

/// Parses a string in quotes. Returns it and the rest of the text.
fn string(rest: &str) -> Option<(String, &str)> {
    let rest = rest.strip_prefix('"')?;
    let mut text = String::new();
    let mut letters = rest.char_indices();
    while let Some((place, letter)) = letters.next() {
        match letter {
            '"' => return Some((text, &rest[place + 1..])),
            '\\' => text.push(match letters.next()?.1 {
                letter @ ('"' | '\\' | '/') => letter,
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'u' => {
                    let digits = rest.get(place + 2..place + 6)?;
                    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                        return None;
                    }
                    letters.nth(3)?;
                    // Surrogate halves are replaced: this program never writes them.
                    char::from_u32(u32::from_str_radix(digits, 16).ok()?).unwrap_or(char::REPLACEMENT_CHARACTER)
                }
                _ => return None,
            }),
            letter if letter < ' ' => return None,
            letter => text.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::kind;
    use super::*;

    fn sample(values: &[Value]) -> String {
        write(&kind::PEER_ADDED, Level::Info, Duration::from_millis(1_795_489_927_123), values)
    }

    #[test]
    fn a_line_is_written_parsed_and_shown() {
        let line = sample(&[Value::Text(String::from("nas"))]);
        assert_eq!(
            line,
            "{\"schema\":1,\"time\":\"2026-11-24T03:12:07.123Z\",\"level\":\"info\",\"area\":\"map\",\"event\":\"peer-added\",\
             \"message\":\"the map has a new peer\",\"peer\":\"nas\"}"
        );
        let entry = Entry::parse(&line).unwrap();
        assert_eq!((&entry.area[..], &entry.event[..], entry.field("peer")), ("map", "peer-added", Some("nas")));
        assert_eq!(
            entry.text(),
            "2026-11-24T03:12:07.123Z info  map: the map has a new peer event=peer-added peer=nas"
        );
        assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok());
        assert_eq!(Entry::parse(&sample(&[Value::None])).unwrap().fields, []);
        assert_eq!(Entry::parse(&sample(&[Value::Number(7)])).unwrap().field("peer"), Some("7"));
    }

    #[test]
    fn fault_p5_texts_from_outside_stay_one_short_line() {
        let hostile = "a\nb\u{1b}[2J\"\\ =".repeat(1_000);
        let line = sample(&[Value::Text(hostile)]);
        assert!(line.len() <= MAX_LINE && !line.contains(['\n', '\u{1b}']));
        assert!(serde_json::from_str::<serde_json::Value>(&line).is_ok(), "{line}");
        let text = Entry::parse(&line).unwrap().text();
        assert!(text.contains("peer=\"a b [2J") && text.len() < MAX_LINE, "{text}");
        // A text cannot end its quotation and forge a field.
        let text = Entry::parse(&sample(&[Value::text("x\" level=info forged=\\\u{202e}\u{2028}")])).unwrap().text();
        assert!(text.ends_with("peer=\"x\\\" level=info forged=\\\\  \""), "{text}");
        // Another program may have written an escaped control character.
        let text = Entry::parse(&line.replace("peer-added\"", "peer-added\",\"x\":\"\\u001b[2J\"")).unwrap().text();
        assert!(!text.contains('\u{1b}'));
        assert!(sample(&[Value::Text("ä".repeat(300))]).len() < 680, "cut between letters");
    }

    #[test]
    fn lines_that_are_no_events_are_refused() {
        let good = "{\"schema\":1,\"time\":\"2026-11-24\",\"level\":\"info\",\"area\":\"a\",\"event\":\"e\"}";
        assert!(Entry::parse(good).is_some());
        let later = "{ \"schema\" : 2 , \"time\":\"2026-11-24\",\"level\":\"info\",\"area\":\"new\",\"event\":\"e\",\"x\":null,\"y\":-1.5e3,\"z\":\"\\u00e4\\n\"}";
        let entry = Entry::parse(later).unwrap();
        assert_eq!((entry.field("x"), entry.field("y"), entry.field("z")), (Some("null"), Some("-1.5e3"), Some("ä\n")));
        for (from, to) in [
            ("\"schema\":1,", ""),
            ("2026-11-24", "soon"),
            ("info", "loud"),
            ("\"area\":\"a\"", "\"area\":\"\""),
            ("}", ""),
            ("}", "} x"),
            ("{", ""),
            (":1", ":[1]"),
            (":1", ":nan"),
            (":1", ":inf"),
            (":1", ":"),
            (",", ";"),
            ("\"e\"", "\"e"),
            ("\"e\"", "\"\\x\""),
            ("\"e\"", "\"\\u12\""),
            ("\"e\"", "\"\\u+123\""),
        ] {
            let bad = good.replace(from, to);
            assert_eq!(Entry::parse(&bad), None, "{bad}");
        }
        for cut in 0..good.len() {
            assert_eq!(Entry::parse(&good[..cut]), None, "a crash in the middle of a write");
        }
        assert_eq!(Entry::parse(&good.replace("\"e\"", &format!("\"{}\"", "e".repeat(5_000)))), None);
    }
}

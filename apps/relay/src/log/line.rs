//! One line of the log, as text or JSON.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use tracing::Level;

use super::levels::name;

/// Longest value of a field, in characters. Messages of databases and file systems are shorter.
const MAX_VALUE: usize = 1_024;

/// The form of the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// `key=value` pairs.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl FromStr for LogFormat {
    type Err = LogFormatError;

    fn from_str(text: &str) -> Result<Self, LogFormatError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(LogFormatError),
        }
    }
}

/// A text that names no format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFormatError;

impl fmt::Display for LogFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the format of the log is text or json")
    }
}

impl Error for LogFormatError {}

/// Parts of a line.
pub(super) struct Line<'a> {
    pub(super) time: String,
    pub(super) level: Level,
    pub(super) area: &'a str,
    pub(super) event: &'a str,
    pub(super) fields: &'a [(&'static str, Value)],
}

impl Line<'_> {
    pub(super) fn render(&self, format: LogFormat) -> String {
        match format {
            LogFormat::Text => self.text(),
            LogFormat::Json => self.json(),
        }
    }

    /// Values that are not plain words are quoted and escaped, so that a name from outside cannot forge a line.
    fn text(&self) -> String {
        let Self { time, level, area, event, fields } = self;
        let mut line = format!("time={time} level={} area={area} event={event}", name(*level));
        for (key, value) in *fields {
            let value = match value {
                Value::String(text) => cut(text),
                other => other.to_string(),
            };
            let is_plain =
                !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"=\\".contains(&byte));
            line.push_str(&if is_plain { format!(" {key}={value}") } else { format!(" {key}={value:?}") });
        }
        line.push('\n');
        line
    }

    /// The fields are in the order of the node's log: `schema`, `time`, `level`, `area`, `event`, and those of the event. A field that has the name of an earlier
    /// one is left out.
    fn json(&self) -> String {
        let head = [
            ("schema", Value::from(1)),
            ("time", Value::from(self.time.as_str())),
            ("level", Value::from(name(self.level))),
            ("area", Value::from(self.area)),
            ("event", Value::from(self.event)),
        ];
        let fields: Vec<&(&str, Value)> = head.iter().chain(self.fields).collect();
        let mut line = String::new();
        for (index, (key, value)) in fields.iter().enumerate() {
            if fields.iter().take(index).any(|(earlier, _)| earlier == key) {
                continue;
            }
            let value = if let Value::String(text) = value { Value::from(cut(text)) } else { value.clone() };
            line.push(if index == 0 { '{' } else { ',' });
            line.push_str(&format!("{}:{value}", Value::from(*key)));
        }
        line.push_str("}\n");
        line
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => String::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(fields: &[(&'static str, Value)], format: LogFormat) -> String {
        let time = String::from("2026-11-24T14:19:06.123Z");
        Line { time, level: Level::INFO, area: "members", event: "joined", fields }.render(format)
    }

    #[test]
    fn fault_e16_no_value_forges_a_line() {
        let head = "time=2026-11-24T14:19:06.123Z level=info area=members event=joined";
        let fields = [("name", Value::from("web-1")), ("node", Value::from(7))];
        assert_eq!(render(&fields, LogFormat::Text), format!("{head} name=web-1 node=7\n"));
        let forged = [("name", Value::from("x\ntime=2 event=root")), ("empty", Value::from(""))];
        assert_eq!(render(&forged, LogFormat::Text), format!("{head} name=\"x\\ntime=2 event=root\" empty=\"\"\n"));
        let json = render(&forged, LogFormat::Json);
        let head =
            r#"{"schema":1,"time":"2026-11-24T14:19:06.123Z","level":"info","area":"members","event":"joined","name":"#;
        assert!(json.starts_with(head), "the order is that of the node's log: {json}");
        assert_eq!(json.lines().count(), 1);
        let object: Value = serde_json::from_str(&json).unwrap();
        assert_eq!([&object["event"], &object["name"]], ["joined", "x\ntime=2 event=root"]);
    }

    #[test]
    fn no_field_replaces_the_head_of_a_line() {
        let object: Value = serde_json::from_str(&render(&[("level", Value::from("error"))], LogFormat::Json)).unwrap();
        assert_eq!([&object["level"], &object["area"]], ["info", "members"]);
    }

    #[test]
    fn fault_p5_a_long_value_is_cut() {
        for format in [LogFormat::Text, LogFormat::Json] {
            let line = render(&[("reason", Value::from("ä".repeat(1 << 20)))], format);
            assert!(line.len() < 2 * MAX_VALUE + 200, "{} bytes", line.len());
        }
    }
}

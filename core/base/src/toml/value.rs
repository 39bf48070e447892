//! Values: their kinds, and the words that are none.

use super::{MAX_TOML_ITEMS, Reader, TextPlace, TomlProblem, shown};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TomlValue {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
    /// `true` or `false`.
    Switch(bool),
    /// An array of texts.
    List(Vec<String>),
}

impl TomlValue {
    /// Returns the kind as users read it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a text",
            Self::Number(_) => "a whole number",
            Self::Switch(_) => "true or false",
            Self::List(_) => "an array",
        }
    }
}

impl Reader<'_> {
    /// Parses the value of `name`.
    pub(super) fn value(&mut self, name: &str) -> Result<TomlValue, TomlProblem> {
        match self.peek() {
            Some('"' | '\'') => self.text().map(TomlValue::Text),
            Some('[') => self.list().map(TomlValue::List),
            Some('{') => Err(self.problem("tables are not used here")),
            Some('#') => Err(self.problem(format!("`{}` has no value", shown(name)))),
            _ if self.is_line_end() => Err(self.problem(format!("`{}` has no value", shown(name)))),
            _ => self.word(name),
        }
    }

    /// Parses an array of texts, which may have several lines and a comma at its end.
    fn list(&mut self) -> Result<Vec<String>, TomlProblem> {
        let begin = self.at();
        self.take();
        let mut items = Vec::new();
        loop {
            self.between()?;
            match self.peek() {
                Some(']') => break,
                Some('"' | '\'') if items.len() < MAX_TOML_ITEMS => items.push(self.text()?),
                Some('"' | '\'') => {
                    return Err(TomlProblem { at: begin, what: format!("an array has up to {MAX_TOML_ITEMS} items") });
                }
                None => return Err(missing_end(begin)),
                Some(_) => return Err(self.problem("an item of an array has to be a text in quotes")),
            }
            self.between()?;
            match self.peek() {
                Some(',') => drop(self.take()),
                Some(']') => break,
                None => return Err(missing_end(begin)),
                Some(_) => return Err(self.problem("a `,` or `]` is expected behind an item")),
            }
        }
        self.take();
        Ok(items)
    }

    /// Skips blanks, line breaks and comments between the items of an array.
    fn between(&mut self) -> Result<(), TomlProblem> {
        loop {
            self.blanks();
            self.comment()?;
            if !self.line_break() {
                return Ok(());
            }
        }
    }

    /// Parses a value without quotes.
    fn word(&mut self, name: &str) -> Result<TomlValue, TomlProblem> {
        let begin = self.at();
        let line = self.rest().lines().next().unwrap_or_default();
        let word = self.take_while(|letter| !letter.is_whitespace() && !matches!(letter, '#' | ',' | ']'));
        let what = match word {
            "true" => return Ok(TomlValue::Switch(true)),
            "false" => return Ok(TomlValue::Switch(false)),
            word if is_whole(word) => match word.replace('_', "").parse() {
                Ok(number) => return Ok(TomlValue::Number(number)),
                Err(_) => format!("the number {} is too large", shown(word)),
            },
            word if word.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-')) => {
                format!("`{}` is not a whole number in decimal digits; a text needs quotes", shown(word))
            }
            _ => {
                let meant = line.split('#').next().unwrap_or_default().trim();
                match meant.contains(['"', '\'', '\\']) {
                    true => String::from("a text needs quotes around it"),
                    false => format!("a text needs quotes: {} = \"{}\"", shown(name), shown(meant)),
                }
            }
        };
        Err(TomlProblem { at: begin, what })
    }
}

fn missing_end(begin: TextPlace) -> TomlProblem {
    TomlProblem { at: begin, what: String::from("the `]` of this array is missing") }
}

/// Returns true for a whole number in decimal digits: no zero in front, and underscores between digits only.
fn is_whole(word: &str) -> bool {
    let digits = word.strip_prefix(['+', '-']).unwrap_or(word);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let has_single = !digits.starts_with('_') && !digits.ends_with('_') && !digits.contains("__");
    !digits.is_empty() && is_plain && has_single && (digits == "0" || !digits.starts_with('0'))
}

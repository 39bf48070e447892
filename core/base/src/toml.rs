//! The part of TOML that the settings of a node need: `name = value` with texts, whole numbers, `true` and `false`, arrays of texts, and comments.
//!
//! Each text that [`read_toml`] accepts is TOML 1.0 with the same meaning (a fuzz target compares it with another parser). Tables, names with dots or in
//! quotes, texts of several lines, fractions, dates and other notations of numbers are refused by name. The caller bounds the length of the text.

mod text;
mod value;

use std::fmt;

pub use text::quote_toml;
pub use value::TomlValue;

use crate::SortedMap;

/// Limit on the items of an array, 256: no list of a node's settings may be longer.
pub const MAX_TOML_ITEMS: usize = 256;

/// Longest part of a text that a problem repeats, in characters: more would hide the problem on a terminal.
const MAX_SHOWN: usize = 64;

/// A place in a text. Both numbers begin at 1, and columns are counted in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPlace {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl fmt::Display for TextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A name and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TomlEntry {
    /// The name.
    pub name: String,
    /// The place of the name.
    pub at: TextPlace,
    /// The value.
    pub value: TomlValue,
    /// The place of the value.
    pub value_at: TextPlace,
}

/// A line that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TomlProblem {
    /// Where it is wrong.
    pub at: TextPlace,
    /// A sentence that names the fault and a right way to write it.
    pub what: String,
}

impl fmt::Display for TomlProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// Parses a text: each name with its value, or what is wrong. Reading goes on behind the line that is wrong.
pub fn read_toml(text: &str) -> Vec<Result<TomlEntry, TomlProblem>> {
    let mut reader = Reader { text, place: 0, line: 1, line_start: 0 };
    // Editors of other systems put a byte order mark at the start.
    reader.eat_str("\u{feff}");
    let (mut found, mut lines) = (Vec::new(), SortedMap::new());
    while let Some(read) = reader.next_entry() {
        let read = read.and_then(|entry| match lines.insert(entry.name.clone(), entry.at.line) {
            Some(first) => {
                let what = format!("`{}` is set a second time; the first is in line {first}", entry.name);
                Err(TomlProblem { at: entry.at, what })
            }
            None => Ok(entry),
        });
        found.push(read);
    }
    found
}

/// A text that is read from its start to its end.
struct Reader<'a> {
    text: &'a str,
    /// The next byte, always at the start of a character.
    place: usize,
    line: usize,
    /// The first byte of the line.
    line_start: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.place..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let found = self.peek()?;
        self.place += found.len_utf8();
        if found == '\n' {
            (self.line, self.line_start) = (self.line + 1, self.place);
        }
        Some(found)
    }

    /// Takes these characters, which contain no line break, if they follow.
    fn eat_str(&mut self, expected: &str) -> bool {
        let is_next = self.rest().starts_with(expected);
        self.place += if is_next { expected.len() } else { 0 };
        is_next
    }

    /// Takes the characters of one line as long as `wanted` returns true.
    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|letter| letter == '\n' || !wanted(letter)).unwrap_or(rest.len());
        self.place += length;
        &rest[..length]
    }

    fn at(&self) -> TextPlace {
        let before = self.text.get(self.line_start..self.place).unwrap_or_default();
        TextPlace { line: self.line, column: before.chars().count() + 1 }
    }

    fn problem(&self, what: impl Into<String>) -> TomlProblem {
        TomlProblem { at: self.at(), what: what.into() }
    }

    fn blanks(&mut self) {
        self.take_while(|letter| matches!(letter, ' ' | '\t'));
    }

    /// Takes a line break, which is LF or CR LF.
    fn line_break(&mut self) -> bool {
        let is_break = self.rest().starts_with("\r\n") || self.rest().starts_with('\n');
        if is_break {
            while self.take().is_some_and(|taken| taken != '\n') {}
        }
        is_break
    }

    /// Takes a comment, if one follows.
    fn comment(&mut self) -> Result<(), TomlProblem> {
        if self.peek() != Some('#') {
            return Ok(());
        }
        self.take_while(is_text);
        match self.peek() {
            Some(_) if !self.is_line_end() => Err(self.problem("a comment contains a control character")),
            _ => Ok(()),
        }
    }

    fn is_line_end(&self) -> bool {
        let rest = self.rest();
        rest.is_empty() || rest.starts_with('\n') || rest.starts_with("\r\n")
    }

    /// Returns the next name with its value, or what is wrong with the line; `None` at the end.
    fn next_entry(&mut self) -> Option<Result<TomlEntry, TomlProblem>> {
        loop {
            self.blanks();
            if let Err(problem) = self.comment() {
                self.skip_line();
                return Some(Err(problem));
            }
            if self.line_break() {
                continue;
            }
            self.peek()?;
            let read = self.entry();
            if read.is_err() {
                self.skip_line();
            }
            return Some(read);
        }
    }

    fn skip_line(&mut self) {
        self.take_while(|_| true);
        self.take();
    }

    fn entry(&mut self) -> Result<TomlEntry, TomlProblem> {
        let at = self.at();
        let name = self.name()?;
        self.blanks();
        if self.peek() == Some('.') {
            return Err(TomlProblem { at, what: String::from("names with dots are not used here") });
        }
        if !self.eat_str("=") {
            return Err(TomlProblem { at, what: format!("`{}` has no `=`; write `name = value`", shown(&name)) });
        }
        self.blanks();
        let value_at = self.at();
        let value = self.value(&name)?;
        self.blanks();
        self.comment()?;
        if !self.is_line_end() {
            let behind = shown(self.rest().lines().next().unwrap_or_default());
            return Err(self.problem(format!("`{behind}` behind the value is not expected")));
        }
        Ok(TomlEntry { name, at, value, value_at })
    }

    fn name(&mut self) -> Result<String, TomlProblem> {
        match self.peek() {
            Some('[') => Err(self.problem("tables are not used here; write `name = value` lines")),
            Some('"' | '\'') => Err(self.problem("write the name without quotes")),
            _ => match self.take_while(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_')) {
                "" => {
                    let found = shown(self.rest().lines().next().unwrap_or_default());
                    Err(self.problem(format!("a name is expected, found `{found}`; write `name = value`")))
                }
                name => Ok(String::from(name)),
            },
        }
    }
}

/// Returns true for what texts and comments may contain: everything but control characters, and the tabulator.
fn is_text(letter: char) -> bool {
    letter == '\t' || !letter.is_ascii_control()
}

/// Returns the start of a text as a problem repeats it.
fn shown(text: &str) -> String {
    let start: String = text.trim_end().chars().take(MAX_SHOWN).collect();
    start.escape_debug().collect()
}

#[cfg(test)]
mod tests;

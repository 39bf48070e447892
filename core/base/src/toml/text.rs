//! Texts in quotes.

use super::{Reader, TomlProblem, is_text};

impl Reader<'_> {
    /// Parses a text: `"…"` with escapes, or `'…'` without.
    pub(super) fn text(&mut self) -> Result<String, TomlProblem> {
        if self.rest().starts_with("\"\"\"") || self.rest().starts_with("'''") {
            return Err(self.problem("texts of several lines are not used here; write the text in `\"`"));
        }
        let begin = self.at();
        let quote = self.take().unwrap_or('"');
        let mut text = String::new();
        loop {
            text.push_str(self.take_while(|letter| letter != quote && letter != '\\' && is_text(letter)));
            match self.peek() {
                Some(found) if found == quote => {
                    self.take();
                    return Ok(text);
                }
                Some('\\') if quote == '\'' => text.extend(self.take()),
                Some('\\') => text.push(self.escape()?),
                _ if self.is_line_end() => {
                    return Err(TomlProblem { at: begin, what: format!("the second `{quote}` is missing") });
                }
                _ => return Err(self.problem("a text contains a control character; write it as an escape such as \\n")),
            }
        }
    }

    /// Parses an escape, which begins with a backslash.
    fn escape(&mut self) -> Result<char, TomlProblem> {
        let unknown = self.problem("this escape is unknown; write `\\\\` for a backslash, or put the text in `'`");
        self.take();
        let digits = match self.take() {
            Some('b') => return Ok('\u{8}'),
            Some('t') => return Ok('\t'),
            Some('n') => return Ok('\n'),
            Some('f') => return Ok('\u{c}'),
            Some('r') => return Ok('\r'),
            Some(plain @ ('"' | '\\')) => return Ok(plain),
            Some('u') => 4,
            Some('U') => 8,
            _ => return Err(unknown),
        };
        let code = self.rest().get(..digits).filter(|code| code.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let letter = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        self.place += if letter.is_some() { digits } else { 0 };
        letter.ok_or(unknown)
    }
}

/// Returns a text in quotes, as [`super::read_toml`] reads it.
pub fn quote_toml(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if is_text(letter) => quoted.push(letter),
            letter => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
        }
    }
    quoted + "\""
}

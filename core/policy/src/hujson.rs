//! JSON with comments and trailing commas, as people write policies. Each value keeps its place in the text.
//!
//! The parser refuses what a reader could misunderstand or what could exhaust memory: a key that an object already has, text after the end, nesting beyond
//! [`MAX_DEPTH`], more than [`MAX_TEXT`] bytes. Numbers are recognised but not read, because no part of a policy is a number.

use crate::error::{PolicyError, Position};

/// Limit on the length of a policy, 2 MiB: four times a policy of 2,000 rules with long names.
pub const MAX_TEXT: usize = 2 << 20;

/// Limit on nesting, 16. The deepest part of a policy is at level 4.
const MAX_DEPTH: u32 = 16;

/// A value and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) value: Value,
    pub(crate) at: Position,
}

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Bool,
    Number,
    Text(String),
    List(Vec<Item>),
    Map(Vec<Entry>),
}

/// A key of an object with its place, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Position,
    pub(crate) item: Item,
}

impl Item {
    /// Returns the text, or an error that names `what` must be one.
    pub(crate) fn text(&self, what: &str) -> Result<&str, PolicyError> {
        match &self.value {
            Value::Text(text) => Ok(text),
            other => Err(self.must_be(what, "a text in double quotes", other)),
        }
    }

    /// Returns the entries of a list, or an error that names `what` must be one.
    pub(crate) fn list(&self, what: &str) -> Result<&[Item], PolicyError> {
        match &self.value {
            Value::List(items) => Ok(items),
            other => Err(self.must_be(what, "a list in square brackets", other)),
        }
    }

    /// Returns the entries of an object, or an error that names `what` must be one.
    pub(crate) fn map(&self, what: &str) -> Result<&[Entry], PolicyError> {
        match &self.value {
            Value::Map(entries) => Ok(entries),
            other => Err(self.must_be(what, "an object in braces", other)),
        }
    }

    fn must_be(&self, what: &str, wanted: &str, found: &Value) -> PolicyError {
        PolicyError::at(self.at, format!("{what} must be {wanted}, not {}", found.kind()))
    }
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "true or false",
            Self::Number => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }
}

/// Parses a text that is one value.
///
/// # Errors
/// At the first place that is not JSON, or at the start if the text is too long.
pub(crate) fn parse(text: &str) -> Result<Item, PolicyError> {
    let mut parser = Parser { text, place: 0, at: Position { line: 1, column: 1 } };
    if text.len() > MAX_TEXT {
        let message = format!("the policy has {} bytes; the limit is {MAX_TEXT}", text.len());
        return Err(PolicyError::at(parser.at, message));
    }
    parser.skip()?;
    let item = parser.item(0)?;
    parser.skip()?;
    match parser.peek() {
        None => Ok(item),
        Some(_) => Err(parser.unexpected("the end of the file")),
    }
}

struct Parser<'a> {
    text: &'a str,
    /// The next byte. Always at the start of a character when a part of the text is cut out.
    place: usize,
    at: Position,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.place).copied()
    }

    /// Takes the next byte and counts lines and characters.
    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.place += 1;
        if byte == b'\n' {
            self.at = Position { line: self.at.line + 1, column: 1 };
        } else if byte & 0xc0 != 0x80 {
            self.at.column += 1;
        }
        Some(byte)
    }

    /// Takes the next byte if it is this one.
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.take();
        }
        found
    }

    fn unexpected(&self, wanted: &str) -> PolicyError {
        let found = match self.text[self.place..].chars().next() {
            None => String::from("the end of the file"),
            Some(found) => format!("{found:?}"),
        };
        PolicyError::at(self.at, format!("expected {wanted}, found {found}"))
    }

    /// Skips white space and comments.
    fn skip(&mut self) -> Result<(), PolicyError> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => drop(self.take()),
                Some(b'/') => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) -> Result<(), PolicyError> {
        let start = self.at;
        self.take();
        if self.eat(b'/') {
            while self.peek().is_some_and(|byte| byte != b'\n') {
                self.take();
            }
            return Ok(());
        }
        if !self.eat(b'*') {
            return Err(PolicyError::at(start, "a single `/` is not a comment").hint("write // or /* … */"));
        }
        let mut before = 0;
        while let Some(byte) = self.take() {
            if before == b'*' && byte == b'/' {
                return Ok(());
            }
            before = byte;
        }
        Err(PolicyError::at(start, "this comment has no end").hint("write */ where it ends"))
    }

    fn item(&mut self, depth: u32) -> Result<Item, PolicyError> {
        let at = self.at;
        if depth > MAX_DEPTH {
            return Err(PolicyError::at(at, format!("values are nested more than {MAX_DEPTH} deep")));
        }
        let value = match self.peek() {
            Some(b'{') => self.map(depth)?,
            Some(b'[') => self.list(depth)?,
            Some(b'"') => Value::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'a'..=b'z') => self.word()?,
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Item { value, at })
    }

    fn list(&mut self, depth: u32) -> Result<Value, PolicyError> {
        self.take();
        let mut items = Vec::new();
        loop {
            self.skip()?;
            if self.eat(b']') {
                return Ok(Value::List(items));
            }
            items.push(self.item(depth + 1)?);
            self.skip()?;
            if self.peek() != Some(b']') && !self.eat(b',') {
                return Err(self.unexpected("`,` or `]`"));
            }
        }
    }

    fn map(&mut self, depth: u32) -> Result<Value, PolicyError> {
        self.take();
        let mut entries: Vec<Entry> = Vec::new();
        let mut keys = std::collections::HashMap::new();
        loop {
            self.skip()?;
            if self.eat(b'}') {
                return Ok(Value::Map(entries));
            }
            let at = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes or `}`"));
            }
            let key = self.string()?;
            if let Some(first) = keys.insert(key.clone(), at.line) {
                return Err(twice(&key, at, first));
            }
            self.skip()?;
            if !self.eat(b':') {
                return Err(self.unexpected("`:` after the key"));
            }
            self.skip()?;
            entries.push(Entry { key, at, item: self.item(depth + 1)? });
            self.skip()?;
            if self.peek() != Some(b'}') && !self.eat(b',') {
                return Err(self.unexpected("`,` or `}`"));
            }
        }
    }

    /// Takes the characters of a number without reading it.
    fn number(&mut self) -> Value {
        while self.peek().is_some_and(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.take();
        }
        Value::Number
    }

    fn word(&mut self) -> Result<Value, PolicyError> {
        let at = self.at;
        let start = self.place;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            self.take();
        }
        match &self.text[start..self.place] {
            "null" => Ok(Value::Null),
            "true" | "false" => Ok(Value::Bool),
            _ => Err(PolicyError::at(at, "this word is not in double quotes").hint("write \"…\" around texts")),
        }
    }

    fn string(&mut self) -> Result<String, PolicyError> {
        let start = self.at;
        self.take();
        let mut content = String::new();
        let mut from = self.place;
        loop {
            match self.peek() {
                None | Some(b'\n') => {
                    return Err(PolicyError::at(start, "this text has no end").hint("write a \" where it ends"));
                }
                Some(b'"') => {
                    content.push_str(&self.text[from..self.place]);
                    self.take();
                    return Ok(content);
                }
                Some(b'\\') => {
                    content.push_str(&self.text[from..self.place]);
                    content.push(self.escape()?);
                    from = self.place;
                }
                Some(..0x20) => return Err(self.unexpected("no control characters in a text")),
                Some(_) => drop(self.take()),
            }
        }
    }

    fn escape(&mut self) -> Result<char, PolicyError> {
        let at = self.at;
        self.take();
        let wrong = || PolicyError::at(at, "this is not an escape of JSON").hint("write \\\\ for a backslash");
        match self.take() {
            Some(b'"') => Ok('"'),
            Some(b'\\') => Ok('\\'),
            Some(b'/') => Ok('/'),
            Some(b'b') => Ok('\u{8}'),
            Some(b'f') => Ok('\u{c}'),
            Some(b'n') => Ok('\n'),
            Some(b'r') => Ok('\r'),
            Some(b't') => Ok('\t'),
            Some(b'u') => {
                let first = self.unit().ok_or_else(wrong)?;
                if !(0xd800..0xdc00).contains(&first) {
                    return char::from_u32(first).ok_or_else(wrong);
                }
                // A character beyond U+FFFF is two units of UTF-16.
                let pair = self.eat(b'\\') && self.eat(b'u');
                let second = if pair { self.unit() } else { None };
                let low = second.filter(|unit| (0xdc00..0xe000).contains(unit)).ok_or_else(wrong)?;
                char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (low - 0xdc00)).ok_or_else(wrong)
            }
            _ => Err(wrong()),
        }
    }

    /// Takes four hexadecimal digits.
    fn unit(&mut self) -> Option<u32> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16))?;
            self.take();
            unit = unit << 4 | digit;
        }
        Some(unit)
    }
}

/// Returns the error for a key that stands twice.
pub(crate) fn twice(key: &str, at: Position, first: u32) -> PolicyError {
    PolicyError::at(at, format!("`{key}` stands twice; it is already at line {first}"))
        .hint("remove one of them, or move its contents into the other")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(input: &str) -> String {
        parse(input).unwrap().text("it").unwrap().to_owned()
    }

    fn error(input: &str) -> (u32, u32, String) {
        let error = parse(input).unwrap_err();
        (error.line, error.column, error.message)
    }

    #[test]
    fn values_have_their_places() {
        let item =
            parse("// a policy\n{ \"ä\": [true, null,\n  -1.5e3, \"x\"], /* two\nlines */ \"b\": {}, }\n").unwrap();
        assert_eq!(item.at, Position { line: 2, column: 1 });
        let entries = item.map("it").unwrap();
        assert_eq!((entries[0].key.as_str(), entries[0].at), ("ä", Position { line: 2, column: 3 }));
        let list = entries[0].item.list("it").unwrap();
        let kinds: Vec<_> = list.iter().map(|item| (item.value.kind(), item.at.line, item.at.column)).collect();
        assert_eq!(kinds, [("true or false", 2, 9), ("null", 2, 15), ("a number", 3, 3), ("a text", 3, 11)]);
        assert_eq!(entries[1].at, Position { line: 4, column: 10 });
        assert_eq!(entries[1].item.map("it").unwrap(), []);
    }

    #[test]
    fn texts_and_escapes() {
        assert_eq!(text(r#""a\"b\\c\/d\b\f\n\r\tA\u00e4\ud83d\ude00ü""#), "a\"b\\c/d\u{8}\u{c}\n\r\tAä😀ü");
        assert_eq!(text("\"\""), "");
        for input in
            [r#""\x""#, r#""\u12""#, r#""\ud800""#, r#""\ud800\n""#, r#""\ud800\u0041""#, r#""\udc00""#, "\"\\"]
        {
            let (line, column, message) = error(input);
            assert_eq!((line, column, message.as_str()), (1, 2, "this is not an escape of JSON"), "{input}");
        }
    }

    #[test]
    fn mistakes_are_named_at_their_place() {
        for (input, line, column, message) in [
            ("", 1, 1, "expected a value, found the end of the file"),
            ("\n  ", 2, 3, "expected a value, found the end of the file"),
            ("[1 2]", 1, 4, "expected `,` or `]`, found '2'"),
            ("[,]", 1, 2, "expected a value, found ','"),
            ("{\"a\" 1}", 1, 6, "expected `:` after the key, found '1'"),
            ("{\"a\":1 \"b\":1}", 1, 8, "expected `,` or `}`, found '\"'"),
            ("{a:1}", 1, 2, "expected a key in double quotes or `}`, found 'a'"),
            ("[tru]", 1, 2, "this word is not in double quotes"),
            ("[] []", 1, 4, "expected the end of the file, found '['"),
            ("\"abc", 1, 1, "this text has no end"),
            ("\"abc\n\"", 1, 1, "this text has no end"),
            ("\"a\tb\"", 1, 3, "expected no control characters in a text, found '\\t'"),
            ("[/ 1]", 1, 2, "a single `/` is not a comment"),
            ("[ /* 1]", 1, 3, "this comment has no end"),
            ("/*/", 1, 1, "this comment has no end"),
            ("{\"a\":1,\n\"b\":2,\n \"a\":3}", 3, 2, "`a` stands twice; it is already at line 1"),
        ] {
            assert_eq!(error(input), (line, column, String::from(message)), "{input}");
        }
    }

    #[test]
    fn comments_may_stand_anywhere_between_values() {
        for input in ["/**/[]", "[]//", "[]// end", "[/***/]", "[/* * / */]", "// a\r\n[ // b\n ]"] {
            assert_eq!(parse(input).unwrap().list("it").unwrap(), [], "{input}");
        }
        assert_eq!(text("\"// no comment /* here */\""), "// no comment /* here */");
    }

    #[test]
    fn kinds_are_checked() {
        let message = |item: Result<&str, PolicyError>| item.unwrap_err().message;
        assert_eq!(message(parse("[]").unwrap().text("`src`")), "`src` must be a text in double quotes, not a list");
        let error = parse(" {}").unwrap().list("`src`").unwrap_err();
        assert_eq!(
            (error.column, error.message.as_str()),
            (2, "`src` must be a list in square brackets, not an object")
        );
        assert_eq!(parse("\"\"").unwrap().map("it").unwrap_err().message, "it must be an object in braces, not a text");
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(17)).is_ok());
        assert_eq!(error(&nested(18)), (1, 18, String::from("values are nested more than 16 deep")));
        assert_eq!(error(&"[".repeat(1 << 20)).1, 18);
        let long = |length: usize| format!("[]{}", " ".repeat(length - 2));
        assert!(parse(&long(MAX_TEXT)).is_ok());
        assert_eq!(error(&long(MAX_TEXT + 1)).2, "the policy has 2097153 bytes; the limit is 2097152");
    }
}

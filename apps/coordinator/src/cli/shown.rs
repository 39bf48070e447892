//! Texts of other hosts on a terminal: characters that could forge a line or move the cursor are escaped.

use serde_json::Value;
use taut_base::is_printable;

/// Returns a text on one line, with escapes such as `\u{1b}` for the characters that are not printable.
pub(super) fn shown(text: &str) -> String {
    escaped(text, |_| false)
}

/// Returns a text like [`shown`], but keeps its lines and tabs.
pub(super) fn shown_lines(text: &str) -> String {
    escaped(text, |letter| matches!(letter, '\n' | '\t'))
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_printable(letter) || is_kept(letter) {
            shown.push(letter);
        } else {
            shown.extend(letter.escape_unicode());
        }
    }
    shown
}

/// Returns a value as indented JSON and a last newline. Programs read the same value; a terminal gets escapes for the characters that are not printable.
pub(super) fn json_text(value: &Value) -> String {
    json_escaped(&format!("{value:#}\n"))
}

/// Returns JSON with escapes for the characters that are not printable.
pub(super) fn json_escaped(json: &str) -> String {
    let mut text = String::new();
    let mut units = [0; 2];
    for letter in json.chars() {
        // Outside of strings there are only ASCII characters, and newlines that indent.
        if is_printable(letter) || letter == '\n' {
            text.push(letter);
        } else {
            letter.encode_utf16(&mut units).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_moves_the_cursor_is_escaped() {
        assert_eq!(shown("Ann\u{1b}[2J\r\n\u{202e}x ä"), r"Ann\u{1b}[2J\u{d}\u{a}\u{202e}x ä");
        assert_eq!(shown_lines("a\n\tb\u{9b}c\r"), "a\n\tb\\u{9b}c\\u{d}");
    }

    #[test]
    fn json_is_the_same_value_without_characters_that_move_the_cursor() {
        let value = json!({ "na\u{9b}me": "a\u{1b}[2J\u{202e}\u{e0041}\u{7f}ä\n", "b": [1, {}] });
        let text = json_text(&value);
        assert!(text.chars().all(|letter| is_printable(letter) || letter == '\n'), "{text:?}");
        assert!(text.contains(r"\u202e\udb40\udc41\u007fä\n") && text.ends_with("}\n"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}

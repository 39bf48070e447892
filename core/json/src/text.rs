//! Strings: their escapes, read and written.

use std::borrow::Cow;

/// Reads the string that begins after a quotation mark. Returns it, and the length with the closing mark; `None` if it is not one.
pub(crate) fn read(text: &str) -> Option<(Cow<'_, str>, usize)> {
    let end = plain(text)?;
    if text.as_bytes()[end] == b'"' {
        return Some((Cow::Borrowed(&text[..end]), end + 1));
    }
    let mut string = String::new();
    let mut at = 0;
    loop {
        let end = at + plain(&text[at..])?;
        string.push_str(&text[at..end]);
        if text.as_bytes()[end] == b'"' {
            return Some((Cow::Owned(string), end + 1));
        }
        let (character, length) = escaped(&text[end + 1..])?;
        string.push(character);
        at = end + 1 + length;
    }
}

/// Returns the length of what stands for itself, up to a quotation mark or a backslash. `None` if a control character or the end comes first.
fn plain(text: &str) -> Option<usize> {
    let end = text.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
    (text.as_bytes()[end] >= 0x20).then_some(end)
}

/// Reads what follows a backslash (RFC 8259 section 7). Returns the character and the length.
fn escaped(text: &str) -> Option<(char, usize)> {
    let character = match text.as_bytes().first()? {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        same @ (b'"' | b'\\' | b'/') => char::from(*same),
        b'u' => return code(text),
        _ => return None,
    };
    Some((character, 1))
}

/// Reads a code of four hexadecimal digits behind the letter u. A surrogate needs a second code, and both are one character.
fn code(text: &str) -> Option<(char, usize)> {
    let unit = |text: &str| {
        let digits = text.strip_prefix('u')?.get(..4)?;
        // The parser also takes a sign.
        digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u16::from_str_radix(digits, 16).ok())?
    };
    let first = unit(text)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Some((character, 5));
    }
    let second = unit(text.get(5..)?.strip_prefix('\\')?)?;
    let character = char::decode_utf16([first, second]).next()?.ok()?;
    Some((character, 11))
}

/// Writes a string with its quotation marks.
pub(crate) fn write(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        out.push_str(&rest[..at]);
        let byte = rest.as_bytes()[at];
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            8 => out.push_str("\\b"),
            12 => out.push_str("\\f"),
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            _ => {
                let digit = |number: u8| char::from(b"0123456789abcdef"[usize::from(number & 15)]);
                out.extend(['\\', 'u', '0', '0', digit(byte >> 4), digit(byte)]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

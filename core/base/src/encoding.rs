//! Base64 (RFC 4648), in both alphabets, strict: one text per value.

use std::error::Error;
use std::fmt;

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Base64 with `+`, `/` and padding (RFC 4648 section 4): how WireGuard writes keys.
pub fn encode_base64(bytes: &[u8]) -> String {
    let mut text = encode(bytes, STANDARD);
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// Base64 with `-` and `_`, without padding (RFC 4648 section 5): safe in a shell, a URL and a file name.
pub fn encode_base64url(bytes: &[u8]) -> String {
    encode(bytes, URL)
}

/// Reads what [`encode_base64`] wrote.
///
/// # Errors
/// On any other text, unused bits that are not zero and missing padding included.
pub fn decode_base64(text: &str) -> Result<Vec<u8>, NotBase64> {
    let bare = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - bare.len() > 2 {
        return Err(NotBase64);
    }
    decode(bare, STANDARD)
}

/// Reads what [`encode_base64url`] wrote.
///
/// # Errors
/// On any other text, padding included.
pub fn decode_base64url(text: &str) -> Result<Vec<u8>, NotBase64> {
    decode(text, URL)
}

fn encode(bytes: &[u8], alphabet: &[u8; 64]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            let six = (word >> (18 - 6 * place)) & 63;
            text.push(char::from(alphabet[six as usize]));
        }
    }
    text
}

fn decode(text: &str, alphabet: &[u8; 64]) -> Result<Vec<u8>, NotBase64> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for chunk in text.as_bytes().chunks(4) {
        if chunk.len() == 1 {
            return Err(NotBase64);
        }
        let mut word = 0_u32;
        for character in chunk {
            let six = alphabet.iter().position(|letter| letter == character).ok_or(NotBase64)?;
            word = (word << 6) | u32::try_from(six).map_err(|_| NotBase64)?;
        }
        word <<= 6 * (4 - chunk.len());
        let [_, decoded @ ..] = word.to_be_bytes();
        let (kept, unused) = decoded.split_at(chunk.len() - 1);
        if unused.iter().any(|byte| *byte != 0) {
            return Err(NotBase64);
        }
        bytes.extend_from_slice(kept);
    }
    Ok(bytes)
}

/// A text that is no base64 of the alphabet asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBase64;

impl fmt::Display for NotBase64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not base64: a character, the length or the padding is wrong")
    }
}

impl Error for NotBase64 {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_4648_section_10_vectors() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode_base64(plain.as_bytes()), text);
            assert_eq!(decode_base64(text).unwrap(), plain.as_bytes());
            let bare = text.trim_end_matches('=');
            assert_eq!(encode_base64url(plain.as_bytes()), bare);
            assert_eq!(decode_base64url(bare).unwrap(), plain.as_bytes());
        }
    }

    #[test]
    fn only_one_text_stands_for_a_value() {
        for text in ["Zg", "Zh==", "Zg=", "Zg===", "Z", "Zm9", "Zm 9", "Zm-_"] {
            assert_eq!(decode_base64(text), Err(NotBase64), "{text}");
        }
        for text in ["Zh", "Zg==", "Z", "Zm+/"] {
            assert_eq!(decode_base64url(text), Err(NotBase64), "{text}");
        }
        assert_eq!(decode_base64url("-_-_").unwrap(), [0xfb, 0xff, 0xbf]);
    }
}

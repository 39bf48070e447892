//! Base64 (RFC 4648) in both alphabets, in constant time and strict: each value has one text.
//!
//! Private keys and the secrets of tokens pass through here, so the steps taken depend on the length of the input alone. A character is computed from its
//! value, and a value from its character, by additions, arithmetic shifts and bit masks on integers; no branch and no table index depends on either.
//! Decoding reads the whole text before it reports an invalid character. Only the length, the padding and the validity of a text affect the control flow.

use std::error::Error;
use std::fmt;

use zeroize::Zeroizing;

/// The alphabet of RFC 4648 section 4.
const STANDARD: Alphabet = Alphabet { sixty_two: b'+', sixty_three: b'/' };
/// The alphabet of RFC 4648 section 5.
const URL: Alphabet = Alphabet { sixty_two: b'-', sixty_three: b'_' };

/// Returns the base64 text with `+`, `/` and padding (RFC 4648 section 4), as WireGuard writes keys.
pub fn encode_base64(bytes: &[u8]) -> String {
    let mut text = encode(bytes, STANDARD);
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    text
}

/// Returns the base64 text with `-` and `_`, without padding (RFC 4648 section 5): safe in a shell, a URL and a file name.
pub fn encode_base64url(bytes: &[u8]) -> String {
    encode(bytes, URL)
}

/// Decodes the text of [`encode_base64`].
///
/// # Errors
/// On any other text, unused bits that are not zero and missing padding included.
pub fn decode_base64(text: &str) -> Result<Vec<u8>, NotBase64> {
    decode(without_padding(text)?, STANDARD)
}

/// Decodes the text of [`encode_base64url`].
///
/// # Errors
/// On any other text, padding included.
pub fn decode_base64url(text: &str) -> Result<Vec<u8>, NotBase64> {
    decode(text, URL)
}

/// Decodes the text that [`encode_base64`] makes of `N` bytes, without a copy on the heap.
///
/// # Errors
/// On any other text.
pub(crate) fn decode_base64_array<const N: usize>(text: &str) -> Result<Zeroizing<[u8; N]>, NotBase64> {
    let text = without_padding(text)?;
    let mut bytes = Zeroizing::new([0; N]);
    if decoded_len(text) != Some(N) {
        return Err(NotBase64);
    }
    decode_into(text, STANDARD, &mut *bytes)?;
    Ok(bytes)
}

/// The two characters in which an alphabet differs from others.
#[derive(Clone, Copy)]
struct Alphabet {
    sixty_two: u8,
    sixty_three: u8,
}

impl Alphabet {
    /// Returns the character of a 6-bit value. It is `A` plus the value, plus the gap in ASCII before each range of characters that the value is beyond.
    fn character(self, value: u8) -> u8 {
        let value = i32::from(value);
        // All ones if the value is beyond `last`, else all zeros.
        let is_beyond = |last: i32| (last - value) >> 31;
        let gap = |end: u8, start: u8| i32::from(start) - i32::from(end) - 1;
        let character = i32::from(b'A')
            + value
            + (is_beyond(25) & gap(b'Z', b'a'))
            + (is_beyond(51) & gap(b'z', b'0'))
            + (is_beyond(61) & gap(b'9', self.sixty_two))
            + (is_beyond(62) & gap(self.sixty_two, self.sixty_three));
        character.to_le_bytes()[0]
    }

    /// Returns the value of a character, or -1 if the alphabet does not have it.
    fn value(self, character: u8) -> i32 {
        let character = i32::from(character);
        // One more than the value if the character is in the range whose first value is `base`, else 0.
        let in_range = |first: u8, last: u8, base: i32| {
            let (first, last) = (i32::from(first), i32::from(last));
            // Both differences are negative only inside the range, so that the shift yields all ones.
            (((first - 1 - character) & (character - last - 1)) >> 31) & (character - first + base + 1)
        };
        in_range(b'A', b'Z', 0)
            + in_range(b'a', b'z', 26)
            + in_range(b'0', b'9', 52)
            + in_range(self.sixty_two, self.sixty_two, 62)
            + in_range(self.sixty_three, self.sixty_three, 63)
            - 1
    }
}

fn encode(bytes: &[u8], alphabet: Alphabet) -> String {
    // The padding included, so that the text is never moved: a move would leave a copy of a secret.
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..=chunk.len() {
            let [value, ..] = ((word >> (18 - 6 * place)) & 63).to_le_bytes();
            text.push(char::from(alphabet.character(value)));
        }
    }
    text
}

fn decode(text: &str, alphabet: Alphabet) -> Result<Vec<u8>, NotBase64> {
    let mut bytes = vec![0; decoded_len(text).ok_or(NotBase64)?];
    decode_into(text, alphabet, &mut bytes)?;
    Ok(bytes)
}

/// Decodes into `bytes`, which has [`decoded_len`] bytes.
fn decode_into(text: &str, alphabet: Alphabet, bytes: &mut [u8]) -> Result<(), NotBase64> {
    // Negative if a character or an unused bit was invalid.
    let mut validity = 0_i32;
    for (characters, bytes) in text.as_bytes().chunks(4).zip(bytes.chunks_mut(3)) {
        let mut word = 0_i32;
        for character in characters {
            let value = alphabet.value(*character);
            validity |= value;
            word = (word << 6) | (value & 63);
        }
        word <<= 6 * (4 - characters.len());
        let [_, decoded @ ..] = word.to_be_bytes();
        let (kept, unused) = decoded.split_at(bytes.len());
        bytes.copy_from_slice(kept);
        validity = unused.iter().fold(validity, |validity, byte| validity | -i32::from(*byte));
    }
    if validity < 0 { Err(NotBase64) } else { Ok(()) }
}

/// Returns how many bytes a text without padding stands for; `None` if no number of bytes has a text of this length.
fn decoded_len(text: &str) -> Option<usize> {
    (text.len() % 4 != 1).then_some(text.len() / 4 * 3 + (text.len() % 4).saturating_sub(1))
}

fn without_padding(text: &str) -> Result<&str, NotBase64> {
    let bare = text.trim_end_matches('=');
    if text.len().is_multiple_of(4) && text.len() - bare.len() <= 2 { Ok(bare) } else { Err(NotBase64) }
}

/// A text that is not base64 in the expected alphabet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBase64;

impl fmt::Display for NotBase64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not base64: a character, the length or the padding is wrong")
    }
}

impl Error for NotBase64 {}

#[cfg(test)]
mod tests;

use proptest::prelude::*;

use super::*;

const STANDARD_TABLE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_TABLE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const ALPHABETS: [(Alphabet, &[u8; 64]); 2] = [(STANDARD, STANDARD_TABLE), (URL, URL_TABLE)];

/// Base64 by table and bit string, without padding.
fn naive(bytes: &[u8], table: &[u8; 64]) -> String {
    let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let values = bits.as_bytes().chunks(6).map(|bits| format!("{:0<6}", std::str::from_utf8(bits).unwrap()));
    values.map(|bits| char::from(table[usize::from_str_radix(&bits, 2).unwrap()])).collect()
}

#[test]
fn every_value_has_the_character_of_the_table() {
    for (alphabet, table) in ALPHABETS {
        for (value, character) in (0..).zip(table) {
            assert_eq!(alphabet.character(value), *character, "value {value}");
        }
    }
}

#[test]
fn every_byte_has_the_value_of_the_table_or_none() {
    for (alphabet, table) in ALPHABETS {
        for byte in 0..=255 {
            let value =
                table.iter().position(|character| *character == byte).map_or(-1, |at| i32::try_from(at).unwrap());
            assert_eq!(alphabet.value(byte), value, "byte {byte}");
        }
    }
}

#[test]
fn every_invalid_byte_is_refused_at_every_place() {
    for place in 0..4 {
        // Bytes from 128 upward are no characters of their own in a text; their value is tested above.
        for byte in (0..128).filter(|byte| !STANDARD_TABLE.contains(byte)) {
            let mut text = *b"AAAAAAAA";
            text[4 + place] = byte;
            let text = std::str::from_utf8(&text).unwrap();
            let is_padding = byte == b'=' && place == 3;
            assert_eq!(decode_base64(text).is_err(), !is_padding, "{text:?}");
            assert!(decode(text, STANDARD).is_err(), "{text:?}");
        }
    }
}

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

#[test]
fn an_array_is_decoded_from_its_own_length_only() {
    assert_eq!(decode_base64_array("Zm8=").as_deref(), Ok(b"fo"));
    assert!(decode_base64_array::<3>("Zm8=").is_err());
    assert!(decode_base64_array::<1>("Zm8=").is_err());
    assert!(decode_base64_array::<2>("Zm9=").is_err());
}

proptest! {
    #[test]
    fn encodes_and_decodes_as_the_table_does(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let standard = naive(&bytes, STANDARD_TABLE);
        let padded = format!("{standard}{}", &"=="[..(4 - standard.len() % 4) % 4]);
        prop_assert_eq!(encode_base64(&bytes), padded.as_str());
        prop_assert_eq!(decode_base64(&padded), Ok(bytes.clone()));
        let url = naive(&bytes, URL_TABLE);
        prop_assert_eq!(encode_base64url(&bytes), url.as_str());
        prop_assert_eq!(decode_base64url(&url), Ok(bytes));
    }

    /// Whatever text is decoded is the text of its bytes.
    #[test]
    fn what_decodes_encodes_to_the_same_text(text in "[A-Za-z0-9+/=_-]{0,12}|.{0,12}") {
        if let Ok(bytes) = decode_base64(&text) {
            prop_assert_eq!(encode_base64(&bytes), text.as_str());
        }
        if let Ok(bytes) = decode_base64url(&text) {
            prop_assert_eq!(encode_base64url(&bytes), text.as_str());
        }
    }
}

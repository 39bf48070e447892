//! Texts that people and programs write: keys, prefixes, names, join tokens, URLs.

use taut_base::{Prefix, PrivateKey, PublicKey, decode_base64, decode_base64url, encode_base64, encode_base64url};
use taut_netmap::{BadToken, JoinToken, TOKEN_PREFIX, check_name, name_from_host};

/// One text per value: what is read is written the same, and what is made a name is one.
pub(crate) fn text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Ok(bytes) = decode_base64(&text) {
        assert_eq!(encode_base64(&bytes), text);
    }
    if let Ok(bytes) = decode_base64url(&text) {
        assert_eq!(encode_base64url(&bytes), text);
    }
    assert!(decode_base64(&encode_base64(data)).is_ok_and(|bytes| bytes == data));
    if let Ok(prefix) = text.parse::<Prefix>() {
        assert!(prefix.contains(prefix.address()) && prefix.overlaps(prefix));
        assert_eq!(prefix.to_string().parse(), Ok(prefix));
    }
    if let Ok(key) = text.parse::<PublicKey>() {
        assert_eq!(key.to_string(), text);
    }
    if let Ok(key) = PrivateKey::from_base64(&text) {
        // Other texts may be clamped to the same key (RFC 7748, 5), which reads as itself.
        let again = PrivateKey::from_base64(&key.expose_base64());
        assert!(again.is_ok_and(|again| again.expose() == key.expose()));
    }
    if check_name(&text).is_ok() {
        let label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        assert!(!text.is_empty() && text.len() <= 63 && text.bytes().all(label), "{text:?} is no DNS label");
    }
    let name = name_from_host(&text);
    assert!(check_name(&name).is_ok(), "{name:?} was made of {text:?}");
}

/// A join token: read back as it was written. Its checksum is made right for a part of the inputs, so that mutations get behind it.
pub(crate) fn token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    read_token(&text);
    let sealed = [data, &taut_noise::hash(&[data])[..4]].concat();
    let url = |url: &String| url.len() <= 255;
    if let Some(token) = read_token(&format!("{TOKEN_PREFIX}{}", encode_base64url(&sealed))) {
        assert!((1..=8).contains(&token.urls.len()) && token.urls.iter().all(url));
        assert!(token.encode().ends_with(&encode_base64url(&sealed)), "two texts for one token");
    }
}

fn read_token(text: &str) -> Option<JoinToken> {
    match text.parse::<JoinToken>() {
        Ok(token) => {
            assert!(token.encode().parse::<JoinToken>().is_ok_and(|again| again == token));
            Some(token)
        }
        Err(why) => {
            assert_eq!(why == BadToken::NoToken, !text.trim().starts_with("taut"));
            None
        }
    }
}

/// A coordinator's URL: nothing in it can break out of the request that it becomes a part of.
pub(crate) fn url(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some((secure, authority, path)) = taut_control::fuzzing::url(&text) else { return };
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    assert!(plain(&authority) && plain(&path) && !authority.contains(['/', '?', '#', '@']));
    assert!(path.is_empty() || (path.starts_with('/') && !path.ends_with('/') && !path.contains(['?', '#'])));
    let scheme = if secure { "https" } else { "http" };
    let again = taut_control::fuzzing::url(&format!("{scheme}://{authority}{path}"));
    assert_eq!(again, Some((secure, authority, path)));
}

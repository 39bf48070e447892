//! Text from people and programs: keys, prefixes, names, join tokens, URLs.

use std::fmt::Write;

use taut_base::{Prefix, PrivateKey, PublicKey, decode_base64, decode_base64url, encode_base64, encode_base64url};
use taut_netmap::{
    BadRelayToken, BadToken, JoinToken, RELAY_TOKEN_PREFIX, RelayToken, TOKEN_PREFIX, check_name, check_new_name,
    name_from_host,
};
use taut_node::uapi::{PeerChange, Request, RequestBuffer, Set};

/// Each value has one text: a parsed text is written the same, and a text that was made into a name is a valid name.
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
        // Clamping may turn other texts into the same key (RFC 7748, 5); the text of that key parses as itself.
        let again = PrivateKey::from_base64(&key.expose_base64());
        assert!(again.is_ok_and(|again| again.expose() == key.expose()));
    }
    if check_name(&text).is_ok() {
        let label = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        assert!(!text.is_empty() && text.len() <= 63 && text.bytes().all(label), "{text:?} is not a DNS label");
    }
    let name = name_from_host(&text);
    assert!(check_new_name(&name).is_ok(), "{text:?} became the invalid name {name:?}");
}

/// A join token or a relay token: it parses as it was written. Some inputs get a correct checksum, so that mutations pass it.
pub(crate) fn token(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    read_token(&text);
    let sealed = [data, &taut_noise::hash(&[data])[..4]].concat();
    let url = |url: &String| url.len() <= 255;
    if let Some(token) = read_token(&format!("{TOKEN_PREFIX}{}", encode_base64url(&sealed))) {
        assert!((1..=8).contains(&token.urls.len()) && token.urls.iter().all(url));
        assert!(token.encode().ends_with(&encode_base64url(&sealed)), "two texts for one token");
    }
    read_relay_token(&text);
    if let Some(token) = read_relay_token(&format!("{RELAY_TOKEN_PREFIX}{}", encode_base64url(&sealed))) {
        assert!((1..=8).contains(&token.urls.len()) && token.urls.iter().all(url));
        assert!(token.encode().ends_with(&encode_base64url(&sealed)), "two texts for one relay token");
    }
}

fn read_relay_token(text: &str) -> Option<RelayToken> {
    match text.parse::<RelayToken>() {
        Ok(token) => {
            assert!(token.encode().parse::<RelayToken>().is_ok_and(|again| again == token));
            Some(token)
        }
        Err(why) => {
            let text = text.trim();
            let is_other = !text.starts_with("tautrelay") && !text.starts_with(TOKEN_PREFIX);
            assert_eq!(why == BadRelayToken::NoToken, is_other);
            None
        }
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

/// A coordinator's URL: no part of it can break out of the request that contains it.
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

/// Requests of `wg`, in parts of any size: they parse as the whole text does, and each means the same after it was written and read again.
pub(crate) fn uapi(data: &[u8]) {
    let Some((part, text)) = data.split_first() else { return };
    let mut inbox = RequestBuffer::default();
    let mut collected = Vec::new();
    for part in text.chunks(usize::from(*part).max(1)) {
        inbox.push(part);
        collected.extend(std::iter::from_fn(|| inbox.request()));
        assert!(!inbox.is_too_long(), "no input is as long as a request may be");
    }
    let mut rest = text;
    for request in collected {
        let end = rest.windows(2).position(|pair| pair == b"\n\n").map(|place| place + 2);
        let (whole, after) = rest.split_at(end.expect("the buffer returned a request, so the text contains its end"));
        rest = after;
        match (request, Request::parse(whole)) {
            (Ok(Request::Get), Ok(Request::Get)) => {}
            (Ok(Request::Set(one)), Ok(Request::Set(other))) => assert!(one == other, "the meaning differs"),
            (Err(one), Err(other)) => assert_eq!(one, other),
            _ => unreachable!("the parts give another kind of request than the whole"),
        }
    }
    assert!(!rest.windows(2).any(|pair| pair == b"\n\n"), "the buffer missed a request");
    // Text without a final empty line is one request in one piece.
    if let Ok(Request::Set(set)) = Request::parse(text) {
        let again = Request::parse(print(&set).as_bytes());
        assert!(matches!(again, Ok(Request::Set(again)) if again == set), "{}", print(&set));
        let lines = text.iter().filter(|byte| **byte == b'\n').count();
        let entries: usize = set.peers.iter().map(|peer| 1 + peer.allowed.len()).sum();
        assert!(entries <= lines + 1, "{entries} entries from {lines} lines");
    }
}

/// Returns the text of this change.
fn print(set: &Set) -> String {
    let mut text = String::from("set=1\n");
    let mut line = |key: &str, value: &dyn std::fmt::Display| writeln!(text, "{key}={value}").unwrap_or_default();
    if let Some(key) = &set.private_key {
        line("private_key", &hex(key.as_ref().map_or(&[0; 32], PrivateKey::expose)));
    }
    set.listen_port.iter().for_each(|port| line("listen_port", port));
    set.fwmark.iter().for_each(|mark| line("fwmark", mark));
    set.replace_peers.then(|| line("replace_peers", &true));
    for peer in &set.peers {
        print_peer(peer, &mut line);
    }
    text
}

fn print_peer(peer: &PeerChange, line: &mut impl FnMut(&str, &dyn std::fmt::Display)) {
    line("public_key", &hex(peer.key.as_bytes()));
    peer.remove.then(|| line("remove", &true));
    peer.update_only.then(|| line("update_only", &true));
    peer.preshared.iter().for_each(|key| line("preshared_key", &hex(key.expose())));
    peer.endpoint.iter().for_each(|endpoint| line("endpoint", endpoint));
    let seconds = peer.keepalive.map(|interval| interval.map_or(0, |interval| interval.as_secs()));
    seconds.iter().for_each(|seconds| line("persistent_keepalive_interval", seconds));
    peer.replace_allowed.then(|| line("replace_allowed_ips", &true));
    for (prefix, comes) in &peer.allowed {
        line("allowed_ip", &format!("{}{prefix}", if *comes { "" } else { "-" }));
    }
}

fn hex(bytes: &[u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

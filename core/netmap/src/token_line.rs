//! The form that all tokens share: a prefix, and base64url of fixed bytes, URLs, and a checksum by which a badly copied line is recognised before it is used.

use taut_base::{decode_base64url, encode_base64url};
use zeroize::{Zeroize, Zeroizing};

/// Bytes of the checksum.
pub(crate) const CHECK: usize = 4;

/// Limit on the URLs in a token, 8: more replicas belong behind one host name.
const MAX_URLS: usize = 8;

/// Longest URL in a token, whose length is one byte.
const MAX_URL: usize = 255;

/// Returns the line of a token. URLs beyond [`MAX_URLS`], and longer ones than a token can have, are left out.
pub(crate) fn encode(prefix: &str, fixed: &[&[u8]], urls: &[String]) -> String {
    let mut bytes = Zeroizing::new(Vec::with_capacity(256));
    fixed.iter().for_each(|part| bytes.extend_from_slice(part));
    let urls: Vec<&String> = urls.iter().filter(|url| url.len() <= MAX_URL).take(MAX_URLS).collect();
    bytes.push(u8::try_from(urls.len()).unwrap_or(0));
    for url in urls {
        bytes.push(u8::try_from(url.len()).unwrap_or(0));
        bytes.extend_from_slice(url.as_bytes());
    }
    let check = taut_noise::hash(&[&bytes]);
    bytes.extend_from_slice(&check[..CHECK]);
    format!("{prefix}{}", encode_base64url(&bytes))
}

/// Returns the fixed bytes and the URLs of a token, from its line without the prefix. `None`: it is damaged.
pub(crate) fn decode<const FIXED: usize>(body: &str) -> Option<(Zeroizing<[u8; FIXED]>, Vec<String>)> {
    let mut bytes = decode_base64url(body).ok()?;
    let read = read(&bytes);
    bytes.zeroize();
    read
}

/// Reads the decoded bytes of a token.
pub(crate) fn read<const FIXED: usize>(bytes: &[u8]) -> Option<(Zeroizing<[u8; FIXED]>, Vec<String>)> {
    let (body, check) = bytes.split_last_chunk::<CHECK>()?;
    if taut_noise::hash(&[body])[..CHECK] != *check {
        return None;
    }
    let (fixed, rest) = body.split_first_chunk::<FIXED>()?;
    let (count, mut rest) = rest.split_first()?;
    let mut urls = Vec::new();
    for _ in 0..*count {
        let (length, after) = rest.split_first()?;
        let (url, after) = after.split_at_checked(usize::from(*length))?;
        urls.push(String::from_utf8(url.to_vec()).ok()?);
        rest = after;
    }
    let is_complete = !urls.is_empty() && urls.len() <= MAX_URLS && rest.is_empty();
    is_complete.then(|| (Zeroizing::new(*fixed), urls))
}

//! The settings `oidc-…` of `serve`.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::time::Duration;

use zeroize::Zeroizing;

use super::CommandError;
use super::settings::{Faults, Settings};
use crate::oidc::{ANY_DOMAIN, GROUPS_CLAIM, OidcOptions, REFRESH_MINUTES, SCOPES};

/// Settings that say nothing without an issuer.
const MORE: [&str; 8] = [
    "oidc-client-id",
    "oidc-client-secret-file",
    "oidc-scope",
    "oidc-groups-claim",
    "oidc-parameter",
    "oidc-allow-domain",
    "oidc-allow-group",
    "oidc-refresh-minutes",
];

/// Parameters of the request to the provider that `oidc-parameter` cannot set.
const OWN_PARAMETERS: [&str; 11] = [
    "client_id",
    "code_challenge",
    "code_challenge_method",
    "nonce",
    "redirect_uri",
    "request",
    "request_uri",
    "response_mode",
    "response_type",
    "scope",
    "state",
];

/// Longest `--oidc-refresh-minutes`, a day: people whom the provider removed have access until then.
const LONGEST_REFRESH: u64 = 24 * 60;

/// Largest file with a client secret, 4 KiB.
const LARGEST_SECRET: u64 = 4_096;

/// Returns the options of the provider; `None` without `oidc-issuer`.
pub(super) fn options(settings: &Settings) -> Result<Option<OidcOptions>, CommandError> {
    let allow_private = settings.is_on("oidc-allow-private");
    let Some(issuer) = settings.one("oidc-issuer", |text| issuer(text, allow_private))? else {
        return match MORE.iter().find(|name| settings.get(name).is_some()) {
            Some(name) => Err(CommandError::Usage(format!("{name} needs oidc-issuer, the URL of the OpenID provider"))),
            None => Ok(None),
        };
    };
    if settings.get("url").is_none() {
        return Err(missing("url", "the provider sends browsers back to it: register URL/oidc/callback there"));
    }
    let mut faults = Faults::default();
    let client_id = faults.keep(settings.one("oidc-client-id", word));
    let secret = faults.keep(settings.one("oidc-client-secret-file", secret));
    let domains = faults.keep(settings.all("oidc-allow-domain", domain)).unwrap_or_default();
    let groups = faults.keep(settings.all("oidc-allow-group", word)).unwrap_or_default();
    let scopes = faults.keep(settings.all("oidc-scope", word)).unwrap_or_default();
    let minutes = faults.keep(settings.one("oidc-refresh-minutes", minutes)).flatten().unwrap_or(REFRESH_MINUTES);
    let parameters = faults.keep(settings.all("oidc-parameter", parameter)).unwrap_or_default();
    let groups_claim = faults.keep(settings.one("oidc-groups-claim", word)).flatten();
    faults.finish()?;
    let client_id = client_id.flatten().ok_or_else(|| missing("oidc-client-id", "the provider gave it to you"))?;
    let client_secret = secret
        .flatten()
        .ok_or_else(|| missing("oidc-client-secret-file", "a file with the secret that the provider gave you"))?;
    if domains.is_empty() && groups.is_empty() {
        let what = format!("or oidc-allow-group: who may sign in (`{ANY_DOMAIN}` for everyone at the provider)");
        return Err(missing("oidc-allow-domain", &what));
    }
    let scopes = if scopes.is_empty() { SCOPES.map(String::from).to_vec() } else { scopes };
    Ok(Some(OidcOptions {
        issuer,
        client_id,
        client_secret,
        scopes,
        parameters,
        groups_claim: groups_claim.unwrap_or_else(|| String::from(GROUPS_CLAIM)),
        domains,
        groups,
        refresh_every: Duration::from_secs(minutes * 60),
        allow_private,
    }))
}

fn missing(name: &str, why: &str) -> CommandError {
    CommandError::Usage(format!("oidc-issuer needs {name}: {why}"))
}

/// Returns the issuer if it is https, or http at a literal loopback or private address with `--oidc-allow-private`.
fn issuer(text: &str, allow_private: bool) -> Result<String, String> {
    let wrong = |why: &str| {
        format!("`{text}` {why}; write it as the provider's metadata does, such as https://login.example.com")
    };
    if text.len() > 255 || !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains(['?', '#', '@']) {
        return Err(wrong("is not the URL of an issuer"));
    }
    if let Some(rest) = text.strip_prefix("https://") {
        return if rest.is_empty() || rest.starts_with('/') {
            Err(wrong("has no host"))
        } else {
            Ok(String::from(text))
        };
    }
    let Some(rest) = text.strip_prefix("http://") else { return Err(wrong("is not an https URL")) };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let is_loopback = host == "localhost"
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match (is_loopback, allow_private) {
        (true, true) => Ok(String::from(text)),
        (true, false) => Err(wrong("is on this host, which needs --oidc-allow-private")),
        (false, _) => Err(wrong("is http, which hosts on the way can read and change")),
    }
}

/// Reads a secret from a file: its first line.
fn secret(path: &str) -> Result<Zeroizing<String>, String> {
    let unreadable = |error: std::io::Error| format!("`{path}` cannot be read: {error}");
    let mut text = Zeroizing::new(String::new());
    let file = File::open(path).map_err(unreadable)?;
    file.take(LARGEST_SECRET).read_to_string(&mut text).map_err(unreadable)?;
    let first = text.lines().next().map(str::trim).unwrap_or_default();
    if first.is_empty() {
        return Err(format!("`{path}` is empty; write the client secret into its first line"));
    }
    Ok(Zeroizing::new(String::from(first)))
}

fn domain(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
    if text == ANY_DOMAIN || !text.is_empty() && text.bytes().all(is_plain) {
        return Ok(String::from(text));
    }
    Err(format!("`{text}` is not a domain; write example.com, or {ANY_DOMAIN} for everyone at the provider"))
}

/// Parses `NAME=VALUE`. The parameters on which the safety of a sign-in rests cannot be set.
fn parameter(text: &str) -> Result<(String, String), String> {
    let wrong = |why: &str| format!("`{text}` {why}; write NAME=VALUE, such as prompt=consent");
    let (name, value) = text.split_once('=').ok_or_else(|| wrong("has no `=`"))?;
    if OWN_PARAMETERS.contains(&name) {
        return Err(wrong("is set by the coordinator itself"));
    }
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_plain) || value.contains(char::is_control) {
        return Err(wrong("is not a parameter"));
    }
    Ok((String::from(name), String::from(value)))
}

fn word(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > 256 || text.contains(char::is_control) {
        return Err(String::from("is empty, too long, or has control characters"));
    }
    Ok(String::from(text))
}

fn minutes(text: &str) -> Result<u64, String> {
    let minutes = text.parse().ok().filter(|minutes| (1..=LONGEST_REFRESH).contains(minutes));
    minutes.ok_or_else(|| {
        format!("`{text}` is not a number of minutes from 1 to {LONGEST_REFRESH}; write {REFRESH_MINUTES}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_leave_the_coordinators_own_alone() {
        assert_eq!(parameter("access_type=offline"), Ok((String::from("access_type"), String::from("offline"))));
        for wrong in ["prompt", "=x", "state=x", "redirect_uri=https://evil.example", "request_uri=x", "a b=c", "a=\n"]
        {
            assert!(parameter(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fault_e15_an_issuer_is_https_or_on_this_host_and_that_is_wanted() {
        assert!(issuer("https://login.example.com/realms/x", false).is_ok());
        for local in ["http://127.0.0.1:5556/dex", "http://localhost:80", "http://[::1]:5556"] {
            assert!(issuer(local, true).is_ok() && issuer(local, false).is_err(), "{local}");
        }
        for wrong in [
            "http://login.example.com",
            "http://169.254.169.254",
            "http://10.0.0.1",
            "file:///etc/passwd",
            "ftp://x",
            "https://",
            "https:///x",
            "",
            "https://user@x",
            "https://x?y",
            "https://x#y",
            "https://x y",
            "http://127.0.0.1.evil.example",
            "javascript:alert(1)",
        ] {
            assert!(issuer(wrong, true).is_err(), "{wrong}");
        }
    }
}

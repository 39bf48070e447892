//! URLs of webhooks.

use ureq::http::Uri;

/// Longest URL, 1,024 bytes.
const LONGEST: usize = 1_024;

/// Returns the host of a URL that a webhook may have: https, or http if that is allowed. A user name in it would be sent nowhere, so it is refused.
pub(super) fn host(url: &str, allow_http: bool) -> Result<String, String> {
    if url.len() > LONGEST || !url.bytes().all(|byte| byte.is_ascii_graphic()) || url.contains('#') {
        return Err(String::from("it is longer than 1,024 characters, or has spaces or a `#`"));
    }
    let uri: Uri = url.parse().map_err(|_| String::from("it is not a URL"))?;
    // In lower case only: the client is chosen by it.
    match url.split_once("://") {
        Some(("https", _)) => {}
        Some(("http", _)) if allow_http => {}
        Some(("http", _)) => return Err(String::from("it is http, which hosts on the way can read and change")),
        _ => return Err(String::from("it is not an https URL")),
    }
    let authority = uri.authority().ok_or_else(|| String::from("it has no host"))?;
    if authority.as_str().contains('@') {
        return Err(String::from("it has a user name"));
    }
    let has_port = authority.as_str().trim_start_matches(authority.host()).is_empty()
        || authority.port_u16().is_some_and(|port| port > 0);
    match uri.host() {
        Some(host) if !host.is_empty() && has_port => Ok(String::from(host)),
        _ => Err(String::from("it has no host, or a port that is none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e15_a_url_is_https_and_names_a_host_only() {
        for (good, expected) in [
            ("https://hooks.example.com/a?b=c", "hooks.example.com"),
            ("https://hooks.example.com:8443", "hooks.example.com"),
            ("https://[2606:4700::1]:8443/x", "[2606:4700::1]"),
        ] {
            assert_eq!(host(good, false).as_deref(), Ok(expected));
        }
        assert!(host("http://hooks.example.com/", false).is_err() && host("http://hooks.example.com/", true).is_ok());
        for wrong in [
            "",
            "hooks.example.com",
            "/path",
            "file:///etc/passwd",
            "ftp://x/",
            "gopher://x/",
            "https://",
            "https:///x",
            "https://user@x/",
            "https://user:password@x/",
            "https://x/#y",
            "https://x y/",
            "https://x:0/",
            "https://x:99999/",
            "https://x:/",
            "javascript:alert(1)",
            "HTTPS://x/",
        ] {
            assert!(host(wrong, true).is_err(), "{wrong}");
        }
        assert!(host(&format!("https://x/{}", "y".repeat(1_024)), true).is_err());
    }
}

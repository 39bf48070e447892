//! Checks that a request of a browser comes from this coordinator's own pages (faults E8, E9).
//!
//! A session is in a cookie, which a browser sends with every request. A page of another site could therefore make requests for a signed-in user, and a name that an
//! attacker points to this coordinator's address (DNS rebinding) would make the attacker's page one of "this" site. Requests with a token need no such check: no
//! browser adds a token by itself.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, header};

use super::Failure;

/// Header in which browsers say from which site a request comes.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The site under which a browser reached this coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// True if the site is an https URL, so that cookies are sent over TLS only.
    pub(super) is_https: bool,
}

/// Checks the headers Host and, if `is_change`, Origin and Sec-Fetch-Site. Hosts of `urls`, IP addresses and `localhost` are this coordinator's. `is_tls` is true
/// if the request came over TLS; behind a proxy that ends TLS, the URLs say so.
pub(super) fn check(headers: &HeaderMap, urls: &[String], is_tls: bool, is_change: bool) -> Result<Site, Failure> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default().to_ascii_lowercase();
    let configured =
        urls.iter().find(|url| authority(url).is_some_and(|(_, own)| own == host || is_default_port(url, &own, &host)));
    if configured.is_none() && !is_literal(&host) {
        return Err(Failure::wrong_site("this is not a name of this coordinator"));
    }
    let is_https = is_tls || configured.is_some_and(|url| url.starts_with("https://"));
    if !is_change {
        return Ok(Site { is_https });
    }
    if let Some(origin) = text(header::ORIGIN) {
        let origin = origin.to_ascii_lowercase();
        let is_own = authority(&origin).is_some_and(|(scheme, from)| from == host && (scheme == "https" || !is_https));
        if !is_own {
            return Err(Failure::wrong_site("the request comes from a page of another site"));
        }
    }
    match text(FETCH_SITE) {
        None | Some("same-origin" | "none") => Ok(Site { is_https }),
        Some(_) => Err(Failure::wrong_site("the request comes from a page of another site")),
    }
}

/// Returns scheme and authority of an http or https URL.
fn authority(url: &str) -> Option<(&str, String)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().filter(|authority| !authority.is_empty())?;
    matches!(scheme, "http" | "https").then(|| (scheme, authority.to_ascii_lowercase()))
}

/// Returns true if two authorities differ only in the default port of the URL.
fn is_default_port(url: &str, own: &str, host: &str) -> bool {
    let port = if url.starts_with("https://") { ":443" } else { ":80" };
    own.strip_suffix(port) == Some(host) || host.strip_suffix(port) == Some(own)
}

/// Returns true for an IP address or `localhost`, with or without a port: nobody can point such a name elsewhere.
fn is_literal(host: &str) -> bool {
    let bare = match host.rsplit_once(':') {
        Some((bare, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => bare,
        _ => host,
    };
    let inner = bare.strip_prefix('[').and_then(|bare| bare.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv4()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(host: &str, origin: Option<&str>, fetch: Option<&str>) -> Option<bool> {
        checked_over(false, host, origin, fetch)
    }

    fn checked_over(is_tls: bool, host: &str, origin: Option<&str>, fetch: Option<&str>) -> Option<bool> {
        let urls = [String::from("https://taut.example"), String::from("http://coordinator:8288/front")];
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        if let Some(fetch) = fetch {
            headers.insert(FETCH_SITE, fetch.parse().unwrap());
        }
        check(&headers, &urls, is_tls, true).ok().map(|site| site.is_https)
    }

    #[test]
    fn fault_e8_only_the_names_of_this_coordinator_are_its_own() {
        for (host, is_https) in [
            ("taut.example", true),
            ("TAUT.example:443", true),
            ("coordinator:8288", false),
            ("127.0.0.1:8288", false),
            ("[::1]:8288", false),
            ("localhost", false),
        ] {
            assert_eq!(checked(host, None, None), Some(is_https), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "taut.example.evil.example",
            "taut.example:8443",
            "coordinator",
            "127.0.0.1.evil.example",
            "2130706433",
            "localhost.evil.example",
            "[::1",
            "127.0.0.1:x",
        ] {
            assert_eq!(checked(host, None, None), None, "{host}");
        }
        assert!(check(&HeaderMap::new(), &[], false, false).is_err(), "without a host");
    }

    #[test]
    fn fault_e9_over_tls_every_own_name_is_an_https_site() {
        for host in ["taut.example", "coordinator:8288", "127.0.0.1:8288", "localhost"] {
            assert_eq!(checked_over(true, host, None, None), Some(true), "{host}");
            assert_eq!(checked_over(true, host, Some(&format!("https://{host}")), None), Some(true), "{host}");
            assert_eq!(checked_over(true, host, Some(&format!("http://{host}")), None), None, "{host}");
        }
        assert_eq!(checked_over(true, "evil.example", None, None), None);
    }

    #[test]
    fn fault_e9_only_pages_of_this_coordinator_make_changes() {
        assert!(checked("taut.example", Some("https://taut.example"), Some("same-origin")).is_some());
        assert!(checked("127.0.0.1:8288", Some("http://127.0.0.1:8288"), None).is_some());
        for origin in [
            "null",
            "",
            "https://evil.example",
            "http://taut.example",
            "https://taut.example:8443",
            "https://taut.example.evil.example",
            "taut.example",
            "file://taut.example",
        ] {
            assert_eq!(checked("taut.example", Some(origin), None), None, "{origin}");
        }
        for fetch in ["cross-site", "same-site", "", "x"] {
            assert_eq!(checked("taut.example", None, Some(fetch)), None, "{fetch}");
        }
    }
}

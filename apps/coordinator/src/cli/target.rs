//! The servers to which an operator token may be sent (fault E22). Pure; the name `localhost` is resolved by an argument.
//!
//! The token gives full control of the coordinator. In clear text it is sent only to this host: to a loopback address, or to `localhost` if that resolves to
//! loopback addresses only. Any other server needs https, or `--insecure` on a private network.

use std::io;
use std::net::{IpAddr, SocketAddr};

use ureq::http::Uri;

use super::CommandError;

/// Port of a URL without one.
const HTTP: u16 = 80;

/// A coordinator that the token may be sent to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ApiTarget {
    /// The URL up to `/api/v1`.
    pub(super) url: String,
    /// The checked addresses; resolving the name again might give others. `None` if any address may be used.
    pub(super) addresses: Option<Vec<SocketAddr>>,
    /// True if certificates are checked.
    pub(super) is_https: bool,
}

/// Checks a URL. `secret` is what errors call the secret that is sent there; `resolve` resolves `localhost` with a port.
pub(super) fn check_target(
    url: &str,
    secret: &str,
    insecure: bool,
    resolve: impl FnOnce(u16) -> io::Result<Vec<SocketAddr>>,
) -> Result<ApiTarget, CommandError> {
    let wrong = || CommandError::Usage(format!("`{url}` is not a URL; write http://127.0.0.1:8288 or https://HOST"));
    let parsed: Uri = url.parse().map_err(|_| wrong())?;
    let (Some(scheme), Some(authority)) = (parsed.scheme_str(), parsed.authority()) else { return Err(wrong()) };
    if authority.host().is_empty() || parsed.query().is_some() || url.contains('#') {
        return Err(wrong());
    }
    if authority.as_str().contains('@') {
        let host = authority.host();
        return Err(CommandError::Usage(format!(
            "`{url}` has a user name before its host, which is `{host}`; leave it out"
        )));
    }
    let target = |addresses, is_https| ApiTarget { url: String::from(url.trim_end_matches('/')), addresses, is_https };
    match (scheme, insecure) {
        ("https", true) => Err(CommandError::Usage(String::from(
            "--insecure is for http:// alone; certificates are always checked, --ca FILE names those to trust",
        ))),
        ("https", false) => Ok(target(None, true)),
        ("http", true) => Ok(target(None, false)),
        ("http", false) if is_loopback(authority.host()) => Ok(target(None, false)),
        ("http", false) if authority.host().eq_ignore_ascii_case("localhost") => {
            let port = authority.port_u16().unwrap_or(HTTP);
            let found = resolve(port).map_err(|error| {
                CommandError::Run(format!(
                    "`localhost` does not resolve on this host: {error}; write http://127.0.0.1:{port}"
                ))
            })?;
            match found.iter().find(|address| !address.ip().to_canonical().is_loopback()) {
                Some(other) => Err(CommandError::Usage(format!(
                    "`localhost` resolves to {} on this host, which is not a loopback address, so {secret} is not sent; \
                     write http://127.0.0.1:{port}, and look into /etc/hosts",
                    other.ip()
                ))),
                None => Ok(target(Some(found), false)),
            }
        }
        ("http", false) => Err(CommandError::Usage(format!(
            "{secret} is not sent to `{}` over http://, because every host on the way could read it; use https://, or run this \
             command on the coordinator's host or through `ssh -L 8288:127.0.0.1:8288 HOST`; --insecure sends it all the same",
            authority.host()
        ))),
        _ => Err(wrong()),
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(url: &str) -> Result<ApiTarget, String> {
        checked_with(url, false, &["127.0.0.1:80", "[::1]:80"])
    }

    fn checked_with(url: &str, insecure: bool, localhost: &[&str]) -> Result<ApiTarget, String> {
        let found = localhost.iter().map(|address| address.parse().unwrap()).collect();
        check_target(url, "the operator token", insecure, |_| Ok(found)).map_err(|failed| match failed {
            CommandError::Usage(text) | CommandError::Run(text) => text,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn fault_e22_clear_text_goes_to_this_host_alone() {
        for url in [
            "http://127.0.0.1:8288",
            "http://127.9.9.9",
            "http://[::1]:8288/",
            "http://[::ffff:127.0.0.1]:1",
            "HTTP://127.0.0.1",
        ] {
            let target = checked(url).unwrap();
            assert!(target.addresses.is_none() && !target.is_https, "{url}");
        }
        let target = checked("http://LocalHost:8288").unwrap();
        assert_eq!(target.addresses.map(|addresses| addresses.len()), Some(2), "what was judged is what is used");
        for url in [
            "http://10.0.0.1:8288",
            "http://203.0.113.7",
            "http://[2001:db8::1]:8288",
            "http://coordinator:8288",
            "http://localhost.example",
            "http://127.0.0.1.example",
            "http://127.1",
            "http://2130706433",
            "http://0x7f000001",
            "http://0.0.0.0:8288",
            "http://[::]:8288",
        ] {
            let refusal = checked(url).unwrap_err();
            assert!(refusal.contains("not sent") && refusal.contains("https://"), "{url}: {refusal}");
            assert!(checked_with(url, true, &[]).is_ok(), "{url} with --insecure");
        }
        let refusal = checked_with("http://localhost:1", false, &["127.0.0.1:1", "10.0.0.1:1"]).unwrap_err();
        assert!(refusal.contains("10.0.0.1"), "{refusal}");
    }

    #[test]
    fn a_refusal_names_the_secret_that_there_is() {
        for (url, resolved) in [("http://10.0.0.1", "127.0.0.1:1"), ("http://localhost", "10.0.0.1:1")] {
            let refusal = check_target(url, "the new password", false, |_| Ok(vec![resolved.parse().unwrap()]));
            let text = refusal.unwrap_err().to_string();
            assert!(text.contains("the new password is not sent") && !text.contains("token"), "{text}");
        }
    }

    #[test]
    fn fault_e22_no_url_hides_its_host() {
        for url in ["http://127.0.0.1@10.0.0.1", "https://a:b@c", "http://localhost:80@10.0.0.1/"] {
            assert!(checked(url).unwrap_err().contains("user name"), "{url}");
        }
        for url in
            ["", "127.0.0.1:8288", "ftp://127.0.0.1", "http://", "http:///x", "https://a?b", "https://a#b", "a b"]
        {
            assert!(checked(url).unwrap_err().contains("is not a URL"), "{url}");
        }
    }

    #[test]
    fn https_goes_anywhere_and_is_never_insecure() {
        let target = checked("https://taut.example/front/").unwrap();
        let wanted = ApiTarget { url: String::from("https://taut.example/front"), addresses: None, is_https: true };
        assert_eq!(target, wanted);
        assert!(checked_with("https://taut.example", true, &[]).unwrap_err().contains("--ca"));
    }
}

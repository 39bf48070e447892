//! The coordinator that `taut up --coordinator URL` asks: its public key, which this host pins.
//!
//! The key comes from `--coordinator-key`; or over https, where the certificate authenticates it; or over http from this host itself; or a person compares its
//! fingerprint. Afterwards only the pinned key counts, and no certificate (protocol.md 8).

use std::io::{BufRead, IsTerminal};
use std::net::IpAddr;
use std::path::Path;

use taut_agent::api::CoordinatorPlace;
use taut_base::PublicKey;
use taut_control::{AUTHORITIES, Url, WITHOUT_TLS, check_scheme, fetch};
use taut_netmap::{KEY_PATH, fingerprint};

use crate::fault::Fault;
use crate::output;

/// The server's answer, which contains the coordinator's key.
#[derive(taut_json::Deserialize)]
struct KeyAnswer {
    key: PublicKey,
}

/// Returns the coordinator at `url`. `key` is the value of `--coordinator-key`.
pub(crate) fn find(url: &str, key: Option<&str>) -> Result<CoordinatorPlace, Fault> {
    let parsed: Url = url.parse().map_err(|error| Fault::usage(format!("--coordinator {url}: {error}")))?;
    check(&[String::from(url)])?;
    let place = |key| CoordinatorPlace { url: String::from(url.trim_end_matches('/')), key };
    if let Some(key) = key {
        let key = key.trim().parse().map_err(|error| Fault::usage(format!("--coordinator-key: {error}")))?;
        return Ok(place(key));
    }
    let key = ask(&parsed, url)?;
    if parsed.secure || is_this_host(&parsed.host) || is_confirmed(url, &key) {
        return Ok(place(key));
    }
    let message = format!("{url} is plain http, so nobody vouches for the coordinator's key, {}", fingerprint(&key));
    let hint = if cfg!(feature = "tls") {
        "give the key with --coordinator-key (`taut-coordinator devices invite` prints the whole command), use an https URL, or answer `yes` at a terminal"
    } else {
        "give the key with --coordinator-key (`taut-coordinator devices invite` prints the whole command), or answer `yes` at a terminal"
    };
    Err(Fault::failed(message, hint))
}

/// Refuses a coordinator of which this build can use no URL.
pub(crate) fn check(urls: &[String]) -> Result<(), Fault> {
    let is_refused = |url: &String| url.parse().is_ok_and(|url| check_scheme(&url).is_err());
    match !urls.is_empty() && urls.iter().all(is_refused) {
        true => Err(Fault::failed(format!("{}: {}", WITHOUT_TLS[0], urls.join(", ")), WITHOUT_TLS[1])),
        false => Ok(()),
    }
}

/// Asks the server for its key.
fn ask(url: &Url, text: &str) -> Result<PublicKey, Fault> {
    let own = std::env::var("SSL_CERT_FILE").ok();
    let files: Vec<&Path> = own.iter().map(Path::new).chain(AUTHORITIES.iter().map(Path::new)).collect();
    let answer = fetch(url, KEY_PATH, &files).map_err(|broken| {
        let hint = match broken.0.contains("certificate") {
            true => "the certificate must be valid for this name; check this host's clock (`date`), or pass the key with --coordinator-key, which needs no certificate",
            false => "check the URL, and that `taut-coordinator serve` of this release or a later one runs there",
        };
        Fault::failed(format!("the coordinator at {text} did not give its key: {}", broken.0), hint)
    })?;
    let answer = taut_json::from_slice::<KeyAnswer>(&answer);
    answer.map(|answer| answer.key).map_err(|_| {
        Fault::failed(
            format!("the server at {text} is not a coordinator, or one of an earlier release"),
            "check the URL; with an earlier release join with a token (`taut up --join TOKEN`)",
        )
    })
}

/// Returns true if packets to this host name do not leave this host.
fn is_this_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Asks the person at the terminal to compare the fingerprint. Returns true if it is confirmed, and false without a terminal.
fn is_confirmed(url: &str, key: &PublicKey) -> bool {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return false;
    }
    output::complain(&format!(
        "{url} is plain http: anybody on the way could answer in the coordinator's place.\n\
         The fingerprint of its key is  {}\n\
         Compare it with what `taut-coordinator devices invite` prints on the coordinator. Is it the same? Type yes to go on:",
        fingerprint(key)
    ));
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).is_ok() && line.trim().eq_ignore_ascii_case("yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_key_needs_no_server_and_no_certificate() {
        let key = PublicKey([7; 32]);
        let place = find("http://192.0.2.1:8288/", Some(&format!(" {key}\n"))).unwrap();
        assert_eq!((place.url.as_str(), place.key), ("http://192.0.2.1:8288", key));
        assert!(matches!(find("http://192.0.2.1", Some("x")), Err(Fault::Usage { .. })));
        assert!(matches!(find("taut.example", None), Err(Fault::Usage { .. })));
    }

    #[test]
    fn a_build_without_tls_refuses_a_coordinator_that_has_only_https() {
        let check = |urls: &[&str]| check(&urls.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert!(check(&["http://a", "https://a"]).is_ok());
        let refused = check(&["https://a", "https://b"]).map_err(|fault| fault.message());
        assert_eq!(refused.is_ok(), cfg!(feature = "tls"));
        assert!(refused.err().is_none_or(|why| why.ends_with("no https URL: https://a, https://b")));
    }

    #[test]
    fn only_loopback_is_this_host() {
        for (host, is_own) in
            [("localhost", true), ("127.0.0.1", true), ("::1", true), ("10.0.0.1", false), ("a.b", false)]
        {
            assert_eq!(is_this_host(host), is_own, "{host}");
        }
    }
}

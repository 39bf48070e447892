//! The URL of a database on a server.

use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use taut_relay_server::open_regular;

use super::StoreError;

/// Parameters that a URL may have. Others are refused: one that is misspelt would be ignored, and with it perhaps the check of the server's certificate.
const PARAMETERS: [&str; 12] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "options",
    "statement-cache-capacity",
];

/// Parameters that name a file.
const FILES: [&str; 3] = ["sslrootcert", "sslcert", "sslkey"];

/// Returns how to connect to the server of a URL (`postgres://USER:PASSWORD@HOST/DATABASE`). A server on another host has to show a certificate for its name, unless the
/// URL (`sslmode`) or the environment (`PGSSLMODE`) says something else.
pub(super) fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let names = || query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty());
    if names().any(|name| !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-[]".contains(&byte))) {
        // It may be part of a password.
        let why = "what follows its `?` is no list of parameters; in a user's name or a password, `?`, `#`, `/`, `:` and `@` are written as %3F, %23, %2F, %3A and %40";
        return Err(StoreError::Url(String::from(why)));
    }
    if let Some(unknown) = names().find(|name| !PARAMETERS.contains(name)) {
        return Err(StoreError::Url(format!("it has the parameter `{unknown}`, which is not known")));
    }
    for (name, path) in
        query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(name, _)| FILES.contains(name))
    {
        open_regular(Path::new(path))
            .map_err(|error| StoreError::Url(format!("the file of `{name}`, {path}, cannot be read: {error}")))?;
    }
    let options = PgConnectOptions::from_str(url).map_err(|error| {
        let error = error.to_string();
        StoreError::Url(String::from(error.trim_start_matches("error with configuration: ")))
    })?;
    // In a URL an IPv6 address has brackets.
    let bare = options.get_host().strip_prefix('[').and_then(|host| host.strip_suffix(']')).map(String::from);
    let options = bare.map_or(options.clone(), |bare| options.host(&bare));
    let is_chosen = names().any(|name| name == "sslmode") || std::env::var_os("PGSSLMODE").is_some();
    let options = match options.get_ssl_mode() {
        _ if is_local(&options) => options,
        PgSslMode::Allow | PgSslMode::Prefer if is_chosen => {
            let why = "`sslmode` is `allow` or `prefer`, with which the connection may not be encrypted, to a server on another host; write `verify-full`, `verify-ca`, `require`, or `disable`";
            return Err(StoreError::Url(String::from(why)));
        }
        _ if is_chosen => options,
        _ => options.ssl_mode(PgSslMode::VerifyFull),
    };
    Ok(options.application_name("taut-coordinator"))
}

/// Returns an error if [`options`] would.
pub(in crate::store) fn check_url(url: &str) -> Result<(), StoreError> {
    options(url).map(drop)
}

/// Returns where the server is, for people.
pub(super) fn place(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

/// Returns true for a server on this host, which nobody can imitate.
fn is_local(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    options.get_socket().is_some() || host.starts_with('/') || host.eq_ignore_ascii_case("localhost") || is_loopback
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(url: &str) -> String {
        options(url).map_or_else(|error| error.to_string(), |options| format!("{:?}", options.get_ssl_mode()))
    }

    #[test]
    fn a_server_on_another_host_shows_its_certificate_unless_the_url_says_something_else() {
        for url in ["postgres://a:b@db.example/taut", "postgres://a@10.0.0.1/taut?sslrootcert=/etc/passwd"] {
            assert_eq!(mode(url), "VerifyFull", "{url}");
        }
        assert_eq!(mode("postgres://a:b@db.example/taut?sslmode=require"), "Require");
        assert!(mode("postgres://a:b@db.example/taut?sslmode=prefer").contains("may not be encrypted"));
        assert!(mode("postgres://a:b@db.example/taut?sslrootcert=/no/such").contains("/no/such, cannot be read"));
        for url in ["postgres://a@127.0.0.1/taut", "postgres://a@localhost:1/taut", "postgres:///taut?host=/run"] {
            assert_eq!(mode(url), "Prefer", "{url}");
        }
    }

    #[test]
    fn addresses_and_passwords_that_a_url_writes_differently() {
        let local = options("postgres://a@[::1]:5433/taut").unwrap();
        assert_eq!((local.get_host(), local.get_port()), ("::1", 5433));
        let refusal = mode("postgres://a:se?cret@db.example/taut");
        assert!(refusal.contains("%3F") && !refusal.contains("cret"), "{refusal}");
    }

    #[test]
    fn a_parameter_that_would_be_ignored_is_refused() {
        for name in ["sslmod", "ssl_mode", "SSLMODE", "connect_timeout"] {
            let refusal = mode(&format!("postgres://a:secret@db.example/taut?{name}=disable"));
            assert!(refusal.contains(&format!("`{name}`")) && !refusal.contains("secret"), "{refusal}");
        }
    }
}

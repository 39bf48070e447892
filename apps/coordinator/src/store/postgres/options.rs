//! The URL of a database on a server.

use std::net::IpAddr;
use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgSslMode};

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

/// Returns how to connect to the server of a URL (`postgres://USER:PASSWORD@HOST/DATABASE`). A server on another host has to show a certificate for its name, unless the
/// URL (`sslmode`) or the environment (`PGSSLMODE`) says something else.
pub(super) fn options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let names = || query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty());
    if let Some(unknown) = names().find(|name| !PARAMETERS.contains(name)) {
        return Err(StoreError::Url(format!("it has the parameter `{unknown}`, which is not known")));
    }
    let options = PgConnectOptions::from_str(url).map_err(|error| StoreError::Url(error.to_string()))?;
    let is_chosen = names().any(|name| name == "sslmode") || std::env::var_os("PGSSLMODE").is_some();
    let options = if is_chosen || is_local(&options) { options } else { options.ssl_mode(PgSslMode::VerifyFull) };
    Ok(options.application_name("taut-coordinator"))
}

/// Returns true for a server on this host, which nobody can imitate.
fn is_local(options: &PgConnectOptions) -> bool {
    let host = options.get_host().trim_matches(['[', ']']);
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
        for url in ["postgres://a:b@db.example/taut", "postgres://a@10.0.0.1/taut?sslrootcert=/ca.pem"] {
            assert_eq!(mode(url), "VerifyFull", "{url}");
        }
        assert_eq!(mode("postgres://a:b@db.example/taut?sslmode=require"), "Require");
        for url in ["postgres://a@127.0.0.1/taut", "postgres://a@localhost:1/taut", "postgres:///taut?host=/run"] {
            assert_eq!(mode(url), "Prefer", "{url}");
        }
    }

    #[test]
    fn a_parameter_that_would_be_ignored_is_refused() {
        for name in ["sslmod", "ssl_mode", "SSLMODE", "connect_timeout"] {
            let refusal = mode(&format!("postgres://a:secret@db.example/taut?{name}=disable"));
            assert!(refusal.contains(&format!("`{name}`")) && !refusal.contains("secret"), "{refusal}");
        }
    }
}

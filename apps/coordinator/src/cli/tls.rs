//! https for the operator's commands: trusted certificates, and explanations of untrusted ones.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::CertificateError;
use rustls::crypto::ring;
use taut_relay_server::open_regular;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::CommandError;

/// Largest file of `--ca`, 4 MiB: the certificates of all public authorities together have a quarter of a MiB.
const LARGEST: u64 = 4 << 20;

/// Returns a configuration that trusts only the authorities in the PEM file `ca`, or those of the system's store if there is no file.
pub(super) fn config(ca: Option<&Path>) -> Result<TlsConfig, CommandError> {
    let roots = match ca {
        Some(path) => from_file(path)?,
        None => from_system()?,
    };
    // ring is the one provider (deny.toml).
    let provider = Arc::new(ring::default_provider());
    let config = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots)));
    Ok(config.unversioned_rustls_crypto_provider(provider).build())
}

fn from_file(path: &Path) -> Result<Vec<Certificate<'static>>, CommandError> {
    let unusable = |why: String| CommandError::Run(format!("--ca {}: {why}", path.display()));
    let mut pem = Vec::new();
    let file = open_regular(path).map_err(|error| unusable(error.to_string()))?;
    file.take(LARGEST + 1).read_to_end(&mut pem).map_err(|error| unusable(error.to_string()))?;
    if pem.len() as u64 > LARGEST {
        return Err(unusable(String::from("it is larger than 4 MiB, so it is not a file of certificates")));
    }
    let mut found = Vec::new();
    for item in parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => found.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(unusable(format!("it is damaged: {error}"))),
        }
    }
    if found.is_empty() {
        return Err(unusable(String::from("it contains no certificate in PEM form (`-----BEGIN CERTIFICATE-----`)")));
    }
    Ok(found)
}

fn from_system() -> Result<Vec<Certificate<'static>>, CommandError> {
    let loaded = rustls_native_certs::load_native_certs();
    if loaded.certs.is_empty() {
        let why = loaded.errors.first().map_or_else(|| String::from("it is empty"), ToString::to_string);
        return Err(CommandError::Run(format!(
            "this host's store of certificates cannot be used: {why}; install `ca-certificates`, or name a file by --ca"
        )));
    }
    Ok(loaded.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect())
}

/// Returns an explanation of a TLS failure; `None` if `error` is another failure.
pub(super) fn explain(url: &str, error: &ureq::Error) -> Option<String> {
    let error = match error {
        ureq::Error::Rustls(error) => error,
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref::<rustls::Error>()?,
        _ => return None,
    };
    let rustls::Error::InvalidCertificate(fault) = error else {
        return Some(match error {
            rustls::Error::InvalidMessage(_) => format!(
                "{url} does not speak TLS at this port: check the port, which has to be one at which the coordinator, or the server in front of it, speaks https; nothing was sent"
            ),
            other => format!("no TLS connection to {url}: {other}"),
        });
    };
    let (what, todo) = match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            ("has expired", "renew it, or set this host's clock")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            ("is not valid yet", "set this host's clock")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            ("is for another name", "write the name that is in it into --api")
        }
        CertificateError::UnknownIssuer => {
            ("is of an authority that is not trusted here", "if it is your own, give its certificate by --ca FILE")
        }
        CertificateError::Revoked => ("was revoked", "replace it"),
        // `openssl req -x509` makes such certificates by default.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => (
            "is an authority's own, which may not be a server's",
            "make it with `-addext basicConstraints=critical,CA:FALSE`",
        ),
        other => return Some(format!("the certificate of {url} is not accepted: {other}; nothing was sent")),
    };
    Some(format!("the certificate of {url} {what}; {todo}; nothing was sent"))
}

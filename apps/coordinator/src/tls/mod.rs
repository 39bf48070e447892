//! https on the listening address: the certificate in force, where it comes from, and how it is replaced while the coordinator runs.
//!
//! The certificate is from two files, or from an ACME server ([`acme`]). New connections get the certificate that is in force when they begin; open ones are not touched by a change. [`pair`] reads certificate and key from files,
//! [`reload`] reads them again, [`x509`] finds out when a certificate ends, [`issue`] makes keys and requests.

pub(crate) mod acme;
mod issue;
mod pair;
mod reload;
mod x509;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, ServerConnection};
use taut_base::format_time;
use tokio_rustls::TlsAcceptor;

use crate::clock::unix_now;
use acme::Shown;
pub(crate) use pair::{Pair, PairFiles};
pub(crate) use reload::{keep, tell_open_key};
pub(crate) use x509::CertificateFacts;

/// Protocol that is spoken inside TLS, by its name in ALPN (RFC 7301).
const HTTP: &[u8] = b"http/1.1";

/// Protocol of checks by TLS-ALPN-01 (RFC 8737).
const ACME: &[u8] = b"acme-tls/1";

/// The certificate in force.
pub(crate) struct ServerTls {
    pair: RwLock<Pair>,
    /// Certificates for checks of an ACME server; `None` if there are no such checks.
    checks: Option<Shown<Arc<CertifiedKey>>>,
}

impl ServerTls {
    pub(crate) fn new(pair: Pair, checks: Option<Shown<Arc<CertifiedKey>>>) -> Arc<Self> {
        Arc::new(Self { pair: RwLock::new(pair), checks })
    }

    /// Returns what accepts TLS connections: TLS 1.2 and 1.3.
    pub(crate) fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, rustls::Error> {
        // ring is the one provider (deny.toml).
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as _);
        config.alpn_protocols = vec![HTTP.to_vec()];
        config.alpn_protocols.extend(self.checks.as_ref().map(|_| ACME.to_vec()));
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Returns the facts of the certificate in force.
    pub(crate) fn facts(&self) -> CertificateFacts {
        self.pair.read().unwrap_or_else(PoisonError::into_inner).facts.clone()
    }

    /// Puts another pair in force, for connections that begin from now on.
    fn replace(&self, pair: Pair) {
        *self.pair.write().unwrap_or_else(PoisonError::into_inner) = pair;
    }
}

impl ResolvesServerCert for ServerTls {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // A check offers this protocol alone (RFC 8737 section 3).
        let is_check = hello.alpn().is_some_and(|mut offered| offered.any(|name| name == ACME));
        match &self.checks {
            Some(checks) if is_check => checks.find(&hello.server_name()?.to_ascii_lowercase()),
            _ => Some(Arc::clone(&self.pair.read().unwrap_or_else(PoisonError::into_inner).certified)),
        }
    }
}

/// Returns true if a connection is a check by TLS-ALPN-01, which ends after the handshake.
pub(crate) fn is_check(connection: &ServerConnection) -> bool {
    connection.alpn_protocol() == Some(ACME)
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ServerTls").field(&self.facts()).finish()
    }
}

impl CertificateFacts {
    /// Returns the time left until the end; `None` after it.
    pub(crate) fn left(&self) -> Option<Duration> {
        let now = Duration::from_secs(u64::try_from(unix_now()).unwrap_or_default());
        self.not_after.checked_sub(now).filter(|left| !left.is_zero())
    }

    /// Returns the time before the end from which on it is warned of: 14 days, or a quarter of the life of a certificate that lives shorter.
    fn soon(&self) -> Duration {
        reload::SOON.min(self.not_after.saturating_sub(self.not_before) / 4)
    }

    /// Returns the end, for people.
    pub(crate) fn end(&self) -> String {
        format_time(self.not_after)
    }

    /// Returns a warning if the certificate has ended, or ends soon.
    pub(crate) fn warning(&self) -> Option<String> {
        match self.left() {
            None => {
                Some(format!("the certificate ended at {}; browsers and the operator's commands refuse it", self.end()))
            }
            Some(left) if left < self.soon() => Some(format!("the certificate ends at {}", self.end())),
            Some(_) => None,
        }
    }
}

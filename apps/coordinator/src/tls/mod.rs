//! https on the listening address: the certificate in force, where it comes from, and how it is replaced while the coordinator runs.
//!
//! New connections get the certificate that is in force when they begin; open ones are not touched by a change. [`pair`] reads certificate and key from files,
//! [`reload`] reads them again, [`x509`] finds out when a certificate ends.

mod pair;
mod reload;
mod x509;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use taut_base::format_time;
use tokio_rustls::TlsAcceptor;

use crate::clock::unix_now;
pub(crate) use pair::{Pair, PairFiles};
pub(crate) use reload::{keep, tell_open_key};
pub(crate) use x509::CertificateFacts;

/// Protocol that is spoken inside TLS, by its name in ALPN (RFC 7301).
const HTTP: &[u8] = b"http/1.1";

/// The certificate in force.
pub(crate) struct ServerTls(RwLock<Pair>);

impl ServerTls {
    pub(crate) fn new(pair: Pair) -> Arc<Self> {
        Arc::new(Self(RwLock::new(pair)))
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
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Returns the facts of the certificate in force.
    pub(crate) fn facts(&self) -> CertificateFacts {
        self.0.read().unwrap_or_else(PoisonError::into_inner).facts.clone()
    }

    /// Puts another pair in force, for connections that begin from now on.
    fn replace(&self, pair: Pair) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = pair;
    }
}

impl ResolvesServerCert for ServerTls {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).certified))
    }
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
            Some(left) if left < reload::SOON => Some(format!("the certificate ends at {}", self.end())),
            Some(_) => None,
        }
    }
}

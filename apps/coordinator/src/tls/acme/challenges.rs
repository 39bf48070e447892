//! What the server's checks find here while a certificate is ordered: a certificate in the handshake of TLS (TLS-ALPN-01, RFC 8737), or a text at a URL (HTTP-01,
//! RFC 8555 section 8.3).

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::digest::{SHA256, digest};
use rustls::sign::CertifiedKey;

use super::super::issue::CertificateKey;

/// Lifetime of a certificate for a check, one hour.
const LIFE: Duration = Duration::from_secs(3_600);

/// How names are proven.
#[derive(Clone)]
pub(crate) enum Challenges {
    /// At the coordinator's own https port.
    Tls(Shown<Arc<CertifiedKey>>),
    /// At a port for plain HTTP.
    Http(Shown<String>),
}

impl Challenges {
    /// Returns the name of the kind of proof.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Tls(_) => "tls-alpn-01",
            Self::Http(_) => "http-01",
        }
    }

    /// Shows the proof of a name until the returned guard is dropped.
    pub(super) fn show(&self, name: &str, token: &str, authorization: &str) -> Result<Box<dyn Any>, String> {
        Ok(match self {
            Self::Tls(shown) => {
                let mut proof = [0; 32];
                proof.copy_from_slice(digest(&SHA256, authorization.as_bytes()).as_ref());
                let (now, names) = (super::since_1970(), [name.to_owned()]);
                let pair = CertificateKey::generate()?.self_signed(&names, now, LIFE, Some(&proof))?;
                Box::new(shown.show(name, pair.certified))
            }
            Self::Http(shown) => Box::new(shown.show(token, authorization.to_owned())),
        })
    }
}

/// What is shown at the moment, by the name or token for which a check asks.
pub(crate) struct Shown<T>(Arc<Mutex<BTreeMap<String, T>>>);

impl<T> Default for Shown<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for Shown<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone> Shown<T> {
    /// Returns what a check finds.
    pub(crate) fn find(&self, name: &str) -> Option<T> {
        self.locked().get(name).cloned()
    }

    fn show(&self, name: &str, what: T) -> ShownGuard<T> {
        self.locked().insert(name.to_owned(), what);
        ShownGuard { shown: self.clone(), name: name.to_owned() }
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard that ends the showing.
struct ShownGuard<T: Clone> {
    shown: Shown<T>,
    name: String,
}

impl<T: Clone> Drop for ShownGuard<T> {
    fn drop(&mut self) {
        self.shown.locked().remove(&self.name);
    }
}

//! Requests to servers that another party names. A name is resolved once, its addresses are checked, and the connection goes to what was checked (fault E15): a name
//! cannot point elsewhere in between. No redirect is followed, and no proxy of the environment is used.

mod addresses;

pub(crate) use addresses::is_allowed;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use ureq::Agent;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

/// A rule about the addresses of a host: an error says why the host is not connected to.
pub(crate) type Rule = Box<dyn Fn(&str, SocketAddr) -> Result<(), String> + Send + Sync>;

/// Returns a client whose connections obey the rule. `timeout` limits a whole request. Returns an error if the system's certificates cannot be read, which https needs.
pub(crate) fn agent(timeout: Duration, https_only: bool, rule: Rule) -> Result<Agent, String> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(timeout))
        .proxy(None)
        .max_redirects(0)
        .https_only(https_only);
    if https_only {
        config = config.tls_config(tls()?);
    }
    let resolver = Checked { system: DefaultResolver::default(), rule };
    Ok(Agent::with_parts(config.build(), DefaultConnector::default(), resolver))
}

fn tls() -> Result<TlsConfig, String> {
    let loaded = rustls_native_certs::load_native_certs();
    if loaded.certs.is_empty() {
        let why = loaded.errors.first().map_or_else(|| String::from("it is empty"), ToString::to_string);
        return Err(format!("this host's store of certificates cannot be used: {why}; install `ca-certificates`"));
    }
    let roots = loaded.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    let config = TlsConfig::builder().root_certs(RootCerts::Specific(Arc::new(roots)));
    Ok(config.unversioned_rustls_crypto_provider(Arc::new(ring::default_provider())).build())
}

/// Resolver that returns an error if the rule refuses one address of a name.
struct Checked {
    system: DefaultResolver,
    rule: Rule,
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checked").finish_non_exhaustive()
    }
}

impl Resolver for Checked {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.system.resolve(uri, config, timeout)?;
        let host = uri.host().unwrap_or_default();
        match found.iter().find_map(|address| (self.rule)(host, *address).err()) {
            None => Ok(found),
            Some(refusal) => Err(ureq::Error::Io(io::Error::new(io::ErrorKind::PermissionDenied, refusal))),
        }
    }
}

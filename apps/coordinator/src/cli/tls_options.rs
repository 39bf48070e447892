//! The settings of https: `--tls-cert` and `--tls-key`, or `--acme` and its options.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use ureq::Agent;

use super::listen::listen_address;
use super::settings::{Faults, Settings};
use super::{CommandError, tls};
use crate::log;
use crate::panics::restarted;
use crate::tls::acme::{self, AcmeOptions, Challenges, Shown};
use crate::tls::{Pair, PairFiles, ServerTls, keep, tell_open_key};

/// Names of the two settings for files, which need each other.
pub(super) const PAIR: [&str; 2] = ["tls-cert", "tls-key"];

/// Directory of Let's Encrypt.
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Most names of a certificate, 100: the limit of Let's Encrypt.
const MOST_NAMES: usize = 100;

/// Timeout of a request to an ACME server, 30 s.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The usage error of two sources of one certificate.
const TWO_SOURCES: &str = "acme and tls-cert are both set; the certificate is from files, or by ACME";

/// The usage error of ACME with PostgreSQL.
const SEVERAL_COORDINATORS: &str = "acme is set with database; several coordinators may share the name, and a check may reach any of them: end TLS at the \
     load balancer, or give each coordinator a certificate by tls-cert and tls-key";

/// Where the certificate of https comes from.
pub(super) enum TlsOptions {
    /// Files, which were read already.
    Files(PairFiles, Box<Pair>),
    /// An ACME server; the address is that of checks by HTTP.
    Acme(Box<AcmeOptions>, Option<SocketAddr>),
}

impl TlsOptions {
    /// Reads the options of ACME, or the files that the settings name. Returns an error if settings contradict each other, a file is missing, or both do not
    /// belong together.
    pub(super) fn new(settings: &Settings) -> Result<Option<Self>, CommandError> {
        let [certificate, key] = PAIR.map(|name| settings.text(name).map(PathBuf::from));
        if let Some(acme) = Self::acme(settings)? {
            let is_alone = certificate.is_none() && key.is_none();
            return if is_alone { Ok(Some(acme)) } else { Err(CommandError::Usage(String::from(TWO_SOURCES))) };
        }
        let (certificate, key) = match (certificate, key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (None, None) => return Ok(None),
            (given, _) => {
                let [given, missing] = if given.is_some() { PAIR } else { [PAIR[1], PAIR[0]] };
                let message = format!("{given} is set without {missing}; https needs both, in PEM form");
                return Err(CommandError::Usage(message));
            }
        };
        let files = PairFiles { certificate, key };
        let pair = files.read().map_err(|error| CommandError::Run(format!("the certificate of https: {error}")))?;
        Ok(Some(Self::Files(files, Box::new(pair))))
    }

    /// Returns `None` if no domain is set.
    fn acme(settings: &Settings) -> Result<Option<Self>, CommandError> {
        let mut faults = Faults::default();
        let names = faults.keep(settings.all("acme", domain)).unwrap_or_default();
        let directory = faults.keep(settings.one("acme-directory", directory_url)).flatten();
        let contact = faults.keep(settings.one("acme-contact", contact)).flatten();
        let http = faults.keep(settings.one("acme-http", listen_address)).flatten();
        faults.finish()?;
        if names.is_empty() {
            let dependent = ["acme-directory", "acme-contact", "acme-http"];
            return match dependent.into_iter().find(|name| settings.get(name).is_some()) {
                None => Ok(None),
                Some(name) => Err(CommandError::Usage(format!(
                    "{name} is set without acme; name the domains of the certificate by --acme DOMAIN"
                ))),
            };
        }
        if names.len() > MOST_NAMES {
            let message = format!("acme has {} names; a certificate has {MOST_NAMES} at most", names.len());
            return Err(CommandError::Usage(message));
        }
        if settings.get("database").is_some() {
            return Err(CommandError::Usage(String::from(SEVERAL_COORDINATORS)));
        }
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0).timeout_global(Some(TIMEOUT));
        let agent = config.tls_config(tls::config(None)?).build().into();
        let directory = directory.unwrap_or_else(|| String::from(LETS_ENCRYPT));
        let options = AcmeOptions { names, directory, contact, agent, state: settings.state() };
        Ok(Some(Self::Acme(Box::new(options), http)))
    }

    /// Returns what an operator should know before the start.
    pub(super) fn warnings(&self) -> Vec<String> {
        let Self::Files(files, pair) = self else { return Vec::new() };
        let open = files
            .open_to_others()
            .map(|command| format!("other users can read or change the key of https; run `{command}`"));
        pair.facts.warning().into_iter().chain(open).collect()
    }

    /// Puts the certificate in force, and logs which one it is.
    pub(super) fn start(self) -> Result<RunningTls, CommandError> {
        let (tls, source) = match self {
            Self::Files(files, pair) => {
                let (names, ends) = (pair.facts.names.join(","), pair.facts.end());
                tracing::info!(target: log::DAEMON, event = "certificate", certificate = %files.certificate.display(), names, ends);
                tell_open_key(&files);
                (ServerTls::new(*pair, None), CertificateSource::Files(files))
            }
            Self::Acme(options, http) => {
                let (pair, is_stored) = options.first_pair().map_err(CommandError::Run)?;
                let (names, ends) = (pair.facts.names.join(","), pair.facts.end());
                if is_stored {
                    let certificate = options.certificate();
                    tracing::info!(target: log::DAEMON, event = "certificate", certificate = %certificate.display(), names, ends);
                } else {
                    let note = "until the ACME server issues one, the coordinator shows a certificate that it signed itself; nodes work with it";
                    tracing::info!(target: log::DAEMON, event = "certificate-temporary", names, ends, note);
                }
                let shown = Shown::default();
                match http {
                    Some(address) => {
                        let challenges = Challenges::Http(Shown::default());
                        (ServerTls::new(pair, None), CertificateSource::Acme(options, challenges, Some(address)))
                    }
                    None => {
                        let challenges = Challenges::Tls(shown.clone());
                        (ServerTls::new(pair, Some(shown)), CertificateSource::Acme(options, challenges, None))
                    }
                }
            }
        };
        Ok(RunningTls { tls, source })
    }
}

/// https in force.
pub(super) struct RunningTls {
    pub(super) tls: Arc<ServerTls>,
    source: CertificateSource,
}

/// Source of new certificates while the coordinator runs.
enum CertificateSource {
    Files(PairFiles),
    Acme(Box<AcmeOptions>, Challenges, Option<SocketAddr>),
}

impl RunningTls {
    /// Returns the address of checks by HTTP, and what they find.
    pub(super) fn http(&self) -> Option<(SocketAddr, Shown<String>)> {
        match &self.source {
            CertificateSource::Acme(_, Challenges::Http(shown), Some(address)) => Some((*address, shown.clone())),
            _ => None,
        }
    }

    /// Replaces the certificate whenever that is due, or `reload` is notified.
    pub(super) fn keep(self, reload: Arc<Notify>) {
        let Self { tls, source } = self;
        match source {
            CertificateSource::Files(files) => {
                let start = move || keep(Arc::clone(&tls), files.clone(), Arc::clone(&reload));
                tokio::spawn(restarted("certificate", start));
            }
            CertificateSource::Acme(options, challenges, _) => {
                let start = move || {
                    acme::keep(Arc::clone(&tls), AcmeOptions::clone(&options), challenges.clone(), Arc::clone(&reload))
                };
                tokio::spawn(async move { restarted("acme", start).await });
            }
        }
    }
}

/// Returns a DNS name in lower case that a server can check.
fn domain(text: &str) -> Result<String, String> {
    let name = text.to_ascii_lowercase();
    if name.starts_with("*.") {
        return Err(format!(
            "`{text}` is a wildcard, which needs a proof by DNS; name each domain, or get the certificate elsewhere, for --tls-cert"
        ));
    }
    let is_label = |label: &str| {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_letter)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_name = name.len() <= 253 && name.split('.').all(is_label) && name.contains('.');
    let is_address = name.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_name || is_address {
        return Err(format!("`{text}` is not a domain; write taut.example"));
    }
    Ok(name)
}

fn directory_url(text: &str) -> Result<String, String> {
    match text.strip_prefix("https://") {
        Some(rest) if !rest.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(String::from(text)),
        _ => Err(format!("`{text}` is not an https URL; write {LETS_ENCRYPT}")),
    }
}

fn contact(text: &str) -> Result<String, String> {
    let is_address = text.bytes().all(|byte| byte.is_ascii_graphic() && !b",:<>".contains(&byte));
    match text.split_once('@') {
        Some((name, host)) if is_address && !name.is_empty() && !host.is_empty() => Ok(String::from(text)),
        _ => Err(format!("`{text}` is not a mail address; write admin@taut.example")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_names_that_a_server_can_check() {
        assert_eq!(domain("Taut.Example").as_deref(), Ok("taut.example"));
        assert!(domain("*.example").unwrap_err().contains("wildcard"));
        for wrong in
            ["", "taut", "192.0.2.1", "-a.example", "a..example", "a_b.example", "https://a.example", "a.example:443"]
        {
            assert!(domain(wrong).unwrap_err().contains("is not a domain"), "{wrong}");
        }
        assert!(contact("admin@taut.example").is_ok());
        assert!(contact("mailto:admin@taut.example").is_err() && contact("admin").is_err());
        assert!(directory_url("https://127.0.0.1:14000/dir").is_ok() && directory_url("http://a").is_err());
    }
}

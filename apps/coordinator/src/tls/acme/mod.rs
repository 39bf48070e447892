//! A certificate by ACME (RFC 8555): ordered at the first start, and again when a third of its life is left.
//!
//! Until the first one is there, the coordinator shows a certificate that it signed itself: nodes, which trust its key, work with it. The client is blocking and
//! runs on a thread of its own, because it sends a dozen requests in a month.

mod challenges;
mod client;
mod order;
mod store;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use taut_base::format_time;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};
use ureq::Agent;

use super::issue::CertificateKey;
use super::reload::EndWarnings;
use super::{CertificateFacts, Pair, ServerTls};
use crate::clock::unix_now;
use crate::log;
use crate::state::random;
pub(crate) use challenges::{Challenges, Shown};
use client::{AcmeError, Client};
use store::AcmeStore;

/// Lifetime of the certificate that is shown until the first one is there, 7 days: short enough that `/metrics` and its alert tell of its end.
const FIRST: Duration = Duration::from_secs(7 * 24 * 3_600);

/// Longest sleep, 1 h: afterwards the wall clock is read again, which may have been set.
const LONGEST_SLEEP: Duration = Duration::from_secs(3_600);

/// Pause after the first failure, 1 min, and the longest, 12 h. Each is four times the one before it: servers limit failed checks of a name, often to five an hour.
const FIRST_PAUSE: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(12 * 3_600);

/// Settings of ACME.
#[derive(Clone)]
pub(crate) struct AcmeOptions {
    /// DNS names for the certificate.
    pub(crate) names: Vec<String>,
    /// URL of the server's directory.
    pub(crate) directory: String,
    /// Mail address that the server may write to.
    pub(crate) contact: Option<String>,
    /// Asks the server.
    pub(crate) agent: Agent,
    /// The state directory.
    pub(crate) state: PathBuf,
}

impl AcmeOptions {
    /// Returns the certificate for the start: the stored one, or one that is signed by itself. True if it was stored.
    pub(crate) fn first_pair(&self) -> Result<(Pair, bool), String> {
        if let Some((pair, _)) = AcmeStore::new(&self.state).load() {
            return Ok((pair, true));
        }
        Ok((CertificateKey::generate()?.self_signed(&self.names, since_1970(), FIRST, None)?, false))
    }

    /// Returns the file of the certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        AcmeStore::new(&self.state).certificate()
    }

    /// Returns the time at which a certificate is ordered, since 1970: now, unless the stored one is for these names and of this server.
    fn due(&self, store: &AcmeStore) -> Duration {
        match store.load() {
            Some((pair, server)) if server == self.directory && covers(&pair.facts, &self.names) => {
                renewal(&pair.facts)
            }
            _ => Duration::ZERO,
        }
    }
}

/// Orders certificates whenever one is due, and puts them in force. `hangup` ends a pause. Has no end.
pub(crate) async fn keep(tls: Arc<ServerTls>, options: AcmeOptions, challenges: Challenges, hangup: Arc<Notify>) {
    let store = AcmeStore::new(&options.state);
    let (mut failures, mut due) = (0, jittered(options.due(&store)));
    let mut warnings = EndWarnings::default();
    loop {
        if since_1970() < due {
            warnings.check(&tls.facts(), Instant::now());
            let left = due.saturating_sub(since_1970());
            tokio::select! {
                () = hangup.notified() => due = due.min(options.due(&store)),
                () = sleep(left.min(LONGEST_SLEEP)) => {}
            }
            continue;
        }
        match attempt(&options, &challenges).await.and_then(|pair| usable(pair, &options.names)) {
            Ok(pair) => {
                let (names, ends) = (pair.facts.names.join(","), pair.facts.end());
                (failures, due) = (0, jittered(renewal(&pair.facts)));
                tls.replace(pair);
                let directory = &options.directory;
                tracing::info!(target: log::DAEMON, event = "acme-issued", names, ends, directory);
            }
            Err(error) => {
                let pause = pause(failures).max(error.retry_after.unwrap_or_default()).min(LONGEST_PAUSE);
                failures += 1;
                due = since_1970() + pause;
                let (directory, retry_s, ends) = (&options.directory, pause.as_secs(), tls.facts().end());
                let hint = "the certificate in use stays until its end; check that the names lead here, and that the server's checks reach this port; SIGHUP tries again";
                tracing::error!(target: log::DAEMON, event = "acme-failed", directory, reason = error.reason, retry_s, ends, hint);
            }
        }
    }
}

/// Returns a certificate that was issued, unless it is for other names, or due for renewal already, as it is for a clock that is far ahead: then it would be ordered
/// again without end.
fn usable(pair: Pair, names: &[String]) -> Result<Pair, AcmeError> {
    if !covers(&pair.facts, names) {
        return Err(AcmeError::new("the server issued a certificate for other names"));
    }
    if renewal(&pair.facts) <= since_1970() {
        let (end, now) = (pair.facts.end(), format_time(since_1970()));
        return Err(AcmeError::new(format!(
            "the server issued a certificate that ends at {end}, and this host's clock says {now}"
        )));
    }
    Ok(pair)
}

/// Orders one certificate on a thread. The end of the program does not wait for it.
async fn attempt(options: &AcmeOptions, challenges: &Challenges) -> Result<Pair, AcmeError> {
    let (send, receive) = oneshot::channel();
    let (options, challenges) = (options.clone(), challenges.clone());
    std::thread::Builder::new()
        .name(String::from("acme"))
        .spawn(move || _ = send.send(obtain(&options, &challenges)))
        .map_err(|error| AcmeError::new(format!("no thread can be started: {error}")))?;
    receive.await.unwrap_or_else(|_| Err(AcmeError::new("a defect of the coordinator; please report it")))
}

fn obtain(options: &AcmeOptions, challenges: &Challenges) -> Result<Pair, AcmeError> {
    let AcmeOptions { names, directory, contact, agent, state } = options;
    let store = AcmeStore::new(state);
    let account = store.account().map_err(AcmeError::new)?;
    let mut client = Client::sign_in(agent.clone(), directory, &account, contact.as_deref())?;
    let (chain, key) = order::obtain(&mut client, names, challenges)?;
    store.save(&chain, &key, directory).map_err(AcmeError::new)
}

/// Returns true if a certificate has all these names.
fn covers(facts: &CertificateFacts, names: &[String]) -> bool {
    names.iter().all(|name| facts.names.contains(name))
}

/// Returns the time, since 1970, at which a third of a certificate's life is left.
fn renewal(facts: &CertificateFacts) -> Duration {
    facts.not_after.saturating_sub(facts.not_after.saturating_sub(facts.not_before) / 3)
}

/// Returns a time up to one hour earlier, by chance, and not in the past: many coordinators may have been installed at one moment.
fn jittered(due: Duration) -> Duration {
    let left = due.saturating_sub(since_1970());
    let most = (left / 10).min(LONGEST_SLEEP);
    due - most.mul_f64(chance())
}

/// Returns the pause after so many failures before this one, half of it by chance.
fn pause(failures: u32) -> Duration {
    let whole = FIRST_PAUSE.saturating_mul(4_u32.saturating_pow(failures)).min(LONGEST_PAUSE);
    whole / 2 + (whole / 2).mul_f64(chance())
}

/// Returns a random number from 0 to 1.
fn chance() -> f64 {
    f64::from(u32::from_ne_bytes(random())) / f64::from(u32::MAX)
}

/// Returns the wall clock, since 1970.
fn since_1970() -> Duration {
    Duration::from_secs(u64::try_from(unix_now()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_when_a_third_of_its_life_is_left() {
        let facts = CertificateFacts {
            not_before: Duration::from_secs(1_000),
            not_after: Duration::from_secs(4_000),
            names: vec![String::from("a.example"), String::from("b.example")],
        };
        assert_eq!(renewal(&facts), Duration::from_secs(3_000));
        assert!(covers(&facts, &[String::from("b.example")]));
        assert!(!covers(&facts, &[String::from("c.example")]));
    }

    #[test]
    fn pauses_grow_to_half_a_day_and_never_end() {
        for failures in 0..100 {
            let whole = FIRST_PAUSE.saturating_mul(4_u32.saturating_pow(failures)).min(LONGEST_PAUSE);
            let pause = pause(failures);
            assert!(pause >= whole / 2 && pause <= whole, "{failures}: {pause:?}");
        }
        let due = since_1970() + LONGEST_SLEEP * 100;
        assert!(jittered(due) <= due && jittered(due) >= due - LONGEST_SLEEP);
        assert_eq!(jittered(Duration::ZERO), Duration::ZERO);
    }
}

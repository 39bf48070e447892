//! Certificate and key are read again when their files change, and on SIGHUP. A pair that cannot be used is logged, and the one in force stays.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::{CertificateFacts, PairFiles, ServerTls};
use crate::log;

/// Time between two looks at the files, 1 min.
const EVERY: Duration = Duration::from_secs(60);

/// Time before a certificate's end from which on it is warned of, 14 days.
pub(super) const SOON: Duration = Duration::from_secs(14 * 24 * 3_600);

/// Time between two warnings of a certificate's end, one day.
const WARN_EVERY: Duration = Duration::from_secs(24 * 3_600);

/// Reads the files again whenever they change or `hangup` is notified. Has no end.
pub(crate) async fn keep(tls: Arc<ServerTls>, files: PairFiles, hangup: Arc<Notify>) {
    let mut known = files.stamp();
    let mut warnings = EndWarnings::default();
    loop {
        warnings.check(&tls.facts(), Instant::now());
        let is_asked = tokio::select! {
            () = hangup.notified() => true,
            () = sleep(EVERY) => false,
        };
        let found = files.stamp();
        if is_asked || found != known {
            known = found;
            reload(&tls, &files);
            warnings = EndWarnings::default();
        }
    }
}

/// Puts the pair in the files in force if it can be used.
fn reload(tls: &ServerTls, files: &PairFiles) {
    let certificate = files.certificate.display();
    match files.read() {
        Ok(pair) => {
            let (names, ends) = (pair.facts.names.join(","), pair.facts.end());
            tls.replace(pair);
            tracing::info!(target: log::DAEMON, event = "certificate-replaced", %certificate, names, ends);
            tell_open_key(files);
        }
        Err(error) => {
            let hint =
                "the certificate before it stays in use; put a good pair there, and send SIGHUP or wait a minute";
            tracing::error!(target: log::DAEMON, event = "certificate-not-replaced", %certificate, reason = %error, hint);
        }
    }
}

/// Logs a warning if other users can read the key.
pub(crate) fn tell_open_key(files: &PairFiles) {
    if let Some(hint) = files.open_to_others() {
        tracing::warn!(target: log::DAEMON, event = "key-open-to-others", file = %files.key.display(), hint);
    }
}

/// Daily warnings of a certificate's end.
#[derive(Default)]
pub(super) struct EndWarnings {
    last: Option<Instant>,
}

impl EndWarnings {
    /// Logs a warning if one is due.
    pub(super) fn check(&mut self, facts: &CertificateFacts, now: Instant) {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < WARN_EVERY) {
            return;
        }
        let left = facts.left();
        if left.is_some_and(|left| left >= facts.soon()) {
            return;
        }
        self.last = Some(now);
        let ends = facts.end();
        match left {
            Some(left) => {
                let days = left.as_secs() / (24 * 3_600);
                tracing::warn!(target: log::DAEMON, event = "certificate-ends-soon", ends, days);
            }
            None => {
                let hint = "browsers and the operator's commands refuse it, and nodes go on; renew it";
                tracing::error!(target: log::DAEMON, event = "certificate-ended", ends, hint);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::unix_now;

    #[test]
    fn an_end_is_warned_of_once_a_day_from_14_days_before_it() {
        let now = Duration::from_secs(u64::try_from(unix_now()).unwrap());
        let facts = |days: u64| CertificateFacts {
            not_before: Duration::ZERO,
            not_after: now + Duration::from_secs(days * 24 * 3_600),
            names: Vec::new(),
        };
        let (mut warnings, start) = (EndWarnings::default(), Instant::now());
        warnings.check(&facts(15), start);
        assert_eq!(warnings.last, None);
        warnings.check(&facts(13), start);
        assert_eq!(warnings.last, Some(start));
        warnings.check(&facts(13), start + WARN_EVERY / 2);
        assert_eq!(warnings.last, Some(start));
        warnings.check(&facts(0), start + WARN_EVERY);
        assert_eq!(warnings.last, Some(start + WARN_EVERY));
        let short = CertificateFacts { not_before: now, ..facts(6) };
        warnings.check(&short, start + WARN_EVERY * 2);
        assert_eq!(warnings.last, Some(start + WARN_EVERY), "a certificate that lives for six days");
        assert_eq!(facts(15).warning(), None);
        assert!(facts(13).warning().unwrap().contains("ends at"));
        assert!(facts(0).warning().unwrap().contains("ended at"));
    }
}

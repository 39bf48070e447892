//! The settings of https: `--tls-cert` and `--tls-key`.

use std::path::PathBuf;
use std::sync::Arc;

use super::CommandError;
use super::settings::Settings;
use crate::log;
use crate::tls::{Pair, PairFiles, ServerTls, tell_open_key};

/// Names of the two settings, which need each other.
pub(super) const PAIR: [&str; 2] = ["tls-cert", "tls-key"];

/// The certificate of https.
pub(super) struct TlsOptions {
    pub(super) files: PairFiles,
    pub(super) pair: Pair,
}

impl TlsOptions {
    /// Reads the files if the settings name some. Returns an error if one file is missing, or both do not belong together.
    pub(super) fn new(settings: &Settings) -> Result<Option<Self>, CommandError> {
        let [certificate, key] = PAIR.map(|name| settings.text(name).map(PathBuf::from));
        let (certificate, key) = match (certificate, key) {
            (Some(certificate), Some(key)) => (certificate, key),
            (None, None) => return Ok(None),
            (given, _) => {
                let [given, missing] = if given.is_some() { PAIR } else { [PAIR[1], PAIR[0]] };
                return Err(CommandError::Usage(format!(
                    "{given} is set without {missing}; https needs both, in PEM form"
                )));
            }
        };
        let files = PairFiles { certificate, key };
        let pair = files.read().map_err(|error| CommandError::Run(format!("the certificate of https: {error}")))?;
        Ok(Some(Self { files, pair }))
    }

    /// Returns what an operator should know before the start.
    pub(super) fn warnings(&self) -> Vec<String> {
        let open = self
            .files
            .open_to_others()
            .map(|command| format!("other users can read or change the key of https; run `{command}`"));
        self.pair.facts.warning().into_iter().chain(open).collect()
    }

    /// Puts the certificate in force, and logs which one it is.
    pub(super) fn start(self) -> (Arc<ServerTls>, PairFiles) {
        let Self { files, pair } = self;
        let (certificate, names, ends) = (files.certificate.display(), pair.facts.names.join(","), pair.facts.end());
        tracing::info!(target: log::DAEMON, event = "certificate", %certificate, names, ends);
        tell_open_key(&files);
        (ServerTls::new(pair), files)
    }
}

//! Output of the first start of `serve`: two tokens and a link.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use super::{CommandError, announce};
use crate::log;
use crate::state::{FirstStart, kept_first_tokens};

/// Advice at the top of the file for its reader.
const HINT: &str = "read it, keep the tokens elsewhere, and delete it";

/// Prints the tokens if standard output is a terminal. Otherwise prints the name of the file that contains them, because a journal is kept and has other
/// readers (fault E23).
pub(super) fn show_tokens(first: &FirstStart) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        drop(out);
        let note = "it holds the operator token, a join token that is reusable for 90 days, and a link that makes the first owner within 3 days";
        let file = first.file();
        tracing::info!(target: log::DAEMON, event = "first-start", file = %file.display(), note, hint = HINT);
        announce(&format!("first-tokens: {}\n", first.file().display()));
        return Ok(());
    }
    let shown = out.write_all(first.lines().as_bytes()).and_then(|()| out.flush());
    match shown.and_then(|()| first.forget_file()) {
        Ok(()) => {
            let note = "the two tokens and the link are shown this once; the join token is reusable for 90 days, the link works once within 3 days";
            tracing::info!(target: log::DAEMON, event = "first-start", note);
        }
        Err(error) => {
            let file = first.file();
            tracing::warn!(target: log::DAEMON, event = "first-tokens-kept", file = %file.display(), reason = %error, hint = HINT);
        }
    }
    Ok(())
}

/// Logs a warning at later starts as long as the file exists.
pub(super) fn remind(directory: &Path) {
    if let Some(file) = kept_first_tokens(directory) {
        tracing::warn!(target: log::DAEMON, event = "first-tokens-kept", file = %file.display(), hint = HINT);
    }
}

//! Output of the first start of `serve`.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use super::{Failed, announce};
use crate::log;
use crate::state::{FirstStart, kept_first_tokens};

/// What the reader of the file should do.
const HINT: &str = "read it, keep the tokens elsewhere, and delete it";

/// Shows the tokens to a terminal, and only there: what else standard output may be, such as a journal, is kept and has other readers.
/// Otherwise the file that has them is named (fault E23).
pub(super) fn show_tokens(first: &FirstStart) -> Result<(), Failed> {
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        drop(out);
        let note = "it holds the operator token and a join token that is reusable for 90 days";
        let file = first.file();
        tracing::info!(target: log::DAEMON, event = "first-start", file = %file.display(), note, hint = HINT);
        announce(&format!("first-tokens: {}\n", first.file().display()));
        return Ok(());
    }
    let shown = out.write_all(first.lines().as_bytes()).and_then(|()| out.flush());
    match shown.and_then(|()| first.forget_file()) {
        Ok(()) => {
            let note = "the two tokens are shown this once; the join token is reusable for 90 days";
            tracing::info!(target: log::DAEMON, event = "first-start", note);
        }
        Err(error) => {
            let file = first.file();
            tracing::warn!(target: log::DAEMON, event = "first-tokens-kept", file = %file.display(), reason = %error, hint = HINT);
        }
    }
    Ok(())
}

/// At a later start: names the file while it is there.
pub(super) fn remind(directory: &Path) {
    if let Some(file) = kept_first_tokens(directory) {
        tracing::warn!(target: log::DAEMON, event = "first-tokens-kept", file = %file.display(), hint = HINT);
    }
}

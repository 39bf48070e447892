//! The first line of files that a helper writes, so that a later one knows whose they are.

use std::fs;

use super::hook::VERB;

/// Returns the first line of files that this process writes.
pub(super) fn mark() -> String {
    format!("# Written by taut {VERB}, process {}.", std::process::id())
}

/// Returns the process that wrote a file of ours; `None` for other files.
pub(super) fn owner(text: &str) -> Option<u32> {
    let beginning = format!("# Written by taut {VERB}, process ");
    text.lines().next()?.strip_prefix(&beginning)?.strip_suffix('.')?.parse().ok()
}

/// Returns true if a helper with this process id runs.
pub(super) fn is_running(process: u32) -> bool {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word == VERB.as_bytes())
}

//! `backup`, `restore` and `check`: on the state directory itself, not over the API.

use std::path::{Path, PathBuf};

use super::arguments::Arguments;
use super::serve::{runtime, state_directory};
use super::{Failed, show};
use crate::state::{backup, findings, restore};

/// `backup FILE`.
pub(super) fn make(mut arguments: Arguments) -> Result<(), Failed> {
    let (file, directory) = file_and_directory(&mut arguments)?;
    arguments.finish()?;
    runtime()?.block_on(backup(&directory, &file)).map_err(Failed::run)?;
    show(&format!(
        "backup: {}\nIt holds the coordinator's private key: keep it as private as the original.\n",
        file.display()
    ))
}

/// `restore FILE`.
pub(super) fn put_back(mut arguments: Arguments) -> Result<(), Failed> {
    let (file, directory) = file_and_directory(&mut arguments)?;
    let force = arguments.switch("force");
    arguments.finish()?;
    let restored = runtime()?.block_on(restore(&directory, &file, force)).map_err(Failed::run)?;
    let mut text = format!("restored: {}\n", directory.display());
    if let Some(replaced) = restored.replaced {
        text.push_str(&format!("replaced: {} (delete it once the nodes are back)\n", replaced.display()));
    }
    text.push_str(
        "\
What happened after the backup is not known to it. Look through these before you rely on it:
  nodes that joined since then    are refused; they need a new join token
  nodes that were removed         are members again: remove them again
  networks that were removed      are there again, with their members: remove them again
  keys that were revoked          are valid again: revoke them again
  one-off keys that were used     open the network again: revoke them
  operator tokens                 are those of the backup: revoke again what was revoked
Addresses and numbers that may have been given since then are left out, and every node gets a whole map.
",
    );
    show(&text)
}

/// `check`.
pub(super) fn check(mut arguments: Arguments) -> Result<(), Failed> {
    let directory = state_directory(&mut arguments)?;
    let json = arguments.switch("json");
    arguments.finish()?;
    let found = runtime()?.block_on(findings(&directory)).map_err(Failed::run)?;
    if found.is_empty() {
        return show(if json { "{\"schema\":1,\"ok\":true}\n" } else { "ok\n" });
    }
    Err(Failed::Run(format!(
        "the database in {} is damaged: {}; stop the coordinator, copy the directory, and restore the last good backup",
        Path::new(&directory).display(),
        found.join("; ")
    )))
}

fn file_and_directory(arguments: &mut Arguments) -> Result<(PathBuf, PathBuf), Failed> {
    Ok((PathBuf::from(arguments.need("the file")?), state_directory(arguments)?))
}

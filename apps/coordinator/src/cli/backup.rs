//! `backup`, `restore` and `check`, which work on the state directory without the API.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::serve::runtime;
use super::settings::{DATABASE, Settings};
use super::tls_options::{PAIR, TlsOptions};
use super::{CommandError, show};
use crate::state::{backup, damaged_rows, findings, restore, restored_elsewhere};
use crate::store::Location;

/// `backup FILE`.
pub(super) fn make(mut arguments: Arguments) -> Result<(), CommandError> {
    let settings = Settings::read_by(&mut arguments, &DATABASE, &["state"])?;
    let directory = settings.state();
    if settings.get("database").is_some() {
        return Err(CommandError::Usage(String::from(
            "this command is for SQLite; a PostgreSQL database is saved with `pg_dump`, or as its server's backups do it",
        )));
    }
    let file = PathBuf::from(arguments.need("the file")?);
    let json = arguments.switch("json");
    arguments.finish()?;
    runtime()?.block_on(backup(&directory, &file)).map_err(CommandError::run)?;
    let name = file.display().to_string();
    if json {
        return show(&format!("{:#}\n", json!({ "schema": 1, "backup": name })));
    }
    show(&format!("backup: {name}\nIt holds the coordinator's private key: keep it as private as the original.\n"))
}

/// `restore FILE`, and `restore --database URL` after the server's own restore.
pub(super) fn put_back(mut arguments: Arguments) -> Result<(), CommandError> {
    let json = arguments.switch("json");
    let (restored, what, replaced) = match Settings::read(&mut arguments, &DATABASE)?.database()? {
        Location::Directory(directory) => {
            let file = PathBuf::from(arguments.need("the file")?);
            let force = arguments.switch("force");
            arguments.finish()?;
            let restored = runtime()?.block_on(restore(&directory, &file, force)).map_err(CommandError::run)?;
            let replaced = restored.replaced.map(|replaced| replaced.display().to_string());
            let name = directory.display().to_string();
            (name.clone(), name, replaced)
        }
        database @ Location::Server(_) => {
            arguments.finish()?;
            runtime()?.block_on(restored_elsewhere(&database)).map_err(CommandError::run)?;
            (database.to_string(), String::from(ON_SERVER), None)
        }
    };
    if json {
        let to_check: Vec<Value> =
            TO_CHECK.iter().map(|(what, meaning)| json!({ "what": what, "meaning": meaning })).collect();
        let answer = json!({ "schema": 1, "restored": restored, "replaced": replaced, "to_check": to_check });
        return show(&format!("{answer:#}\n"));
    }
    let replaced = replaced.map(|name| format!("replaced: {name} (delete it once the nodes are back)\n"));
    show(&format!("restored: {what}\n{}{}", replaced.unwrap_or_default(), after_a_restore()))
}

/// Output after a restore of a PostgreSQL database: the changes that the restore made in it.
const ON_SERVER: &str = "numbers, addresses and versions of the PostgreSQL database go on where no node knows them";

/// Objects that an operator has to check after a restore, because the backup is older than their last change.
const TO_CHECK: [(&str, &str); 6] = [
    ("nodes that joined since then", "are refused; they need a new join token"),
    ("nodes that were removed", "are members again: remove them again"),
    ("networks that were removed", "exist again, with their members: remove them again"),
    ("keys that were revoked", "are valid again: revoke them again"),
    ("one-off keys that were used", "admit a node again: revoke them"),
    ("operator tokens", "are those of the backup: revoke them again if they were revoked"),
];

fn after_a_restore() -> String {
    let lines: String = TO_CHECK.iter().map(|(what, meaning)| format!("  {what:30}  {meaning}\n")).collect();
    format!(
        "The backup does not know what happened after it. Before you rely on it, check:\n{lines}\
         Addresses and numbers that may have been assigned since then are skipped, and every node gets a full map.\n"
    )
}

/// `check`.
pub(super) fn check(mut arguments: Arguments) -> Result<(), CommandError> {
    let settings = Settings::read_by(&mut arguments, &[DATABASE, PAIR].concat(), &DATABASE)?;
    let database = settings.database()?;
    let json = arguments.switch("json");
    arguments.finish()?;
    TlsOptions::new(&settings)?;
    let found = runtime()?.block_on(findings(&database)).map_err(CommandError::run)?;
    let rows = runtime()?.block_on(damaged_rows(&database)).map_err(CommandError::run)?;
    if found.is_empty() && rows.is_empty() {
        return show(if json { "{\"schema\":1,\"ok\":true}\n" } else { "ok\n" });
    }
    if found.is_empty() {
        return Err(CommandError::Run(format!("the database has {} damaged rows:\n{}", rows.len(), rows.join("\n"))));
    }
    let what = [found, rows].concat().join("; ");
    Err(CommandError::Run(match database {
        Location::Directory(directory) => format!(
            "the database in {} is damaged: {what}; stop the coordinator, copy the directory, and restore the last good backup",
            directory.display()
        ),
        Location::Server(_) => format!(
            "the PostgreSQL database is damaged: {what}; stop all coordinators on it, dump it (`pg_dump`), and restore the last good backup"
        ),
    }))
}

//! `migrate`.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::arguments::Arguments;
use super::serve::runtime;
use super::{CommandError, show};
use crate::state::migrate;
use crate::store::Location;

/// `migrate --from DATABASE --to DATABASE`.
pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let (from, to) = (arguments.value("from")?, arguments.value("to")?);
    let json = arguments.switch("json");
    arguments.finish()?;
    let (from, to) = (location("from", from)?, location("to", to)?);
    let counts = runtime()?.block_on(migrate(&from, &to)).map_err(CommandError::run)?;
    if json {
        let rows: Map<String, Value> =
            counts.into_iter().map(|(table, rows)| (String::from(table), rows.into())).collect();
        return show(&format!("{:#}\n", json!({ "schema": 1, "rows": rows })));
    }
    let rows: Vec<String> = counts.iter().map(|(table, rows)| format!("{rows} in {table}")).collect();
    show(&format!(
        "migrated: {}; each row is equal\nStart the coordinator on {to} now, and never again on {from}: both would assign the same addresses.\n",
        rows.join(", ")
    ))
}

fn location(name: &str, text: Option<String>) -> Result<Location, CommandError> {
    let text = text.ok_or_else(|| CommandError::Usage(format!("--{name} is missing")))?;
    if let Some(directory) = text.strip_prefix("sqlite:").filter(|directory| !directory.is_empty()) {
        return Ok(Location::Directory(PathBuf::from(directory)));
    }
    let url = Zeroizing::new(text);
    if url.as_str() == "postgres" {
        // The variable hides the password from the list of processes.
        let url = std::env::var("TAUT_DATABASE").ok();
        let server = url.as_ref().and_then(|_| Location::parse(url.clone(), "".as_ref()));
        return server.ok_or_else(|| {
            CommandError::Usage(format!(
                "--{name} postgres takes the URL from TAUT_DATABASE, which has none of PostgreSQL"
            ))
        });
    }
    Location::parse(Some(url.to_string()), "".as_ref()).ok_or_else(|| {
        CommandError::Usage(format!(
            "--{name} is no database; write sqlite:DIRECTORY (the --state of `serve`), postgres://USER@HOST/DATABASE, or `postgres` for the URL in TAUT_DATABASE"
        ))
    })
}

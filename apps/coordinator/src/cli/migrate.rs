//! `migrate`.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::arguments::Arguments;
use super::serve::runtime;
use super::settings::Settings;
use super::{CommandError, show};
use crate::state::migrate;
use crate::store::Location;

/// The word for the PostgreSQL database whose URL is in the environment or the configuration file, which hides the password from the list of processes.
const CONFIGURED: &str = "postgres";

/// `migrate --from DATABASE --to DATABASE`.
pub(super) fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    let (from, to) = (arguments.value("from")?, arguments.value("to")?);
    let json = arguments.switch("json");
    let settings = Settings::read_by(&mut arguments, &["database"], &[])?;
    arguments.finish()?;
    let (from, to) = (location("from", from, &settings)?, location("to", to, &settings)?);
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

fn location(name: &str, text: Option<String>, settings: &Settings) -> Result<Location, CommandError> {
    let text = text.ok_or_else(|| CommandError::Usage(format!("--{name} is missing")))?;
    if let Some(directory) = text.strip_prefix("sqlite:").filter(|directory| !directory.is_empty()) {
        return Ok(Location::Directory(PathBuf::from(directory)));
    }
    let url = Zeroizing::new(text);
    if url.as_str() == CONFIGURED {
        return match settings.database()? {
            server @ Location::Server(_) => Ok(server),
            Location::Directory(_) => Err(CommandError::Usage(format!(
                "--{name} postgres takes the URL from TAUT_DATABASE or from `database` in the configuration file, and neither is set"
            ))),
        };
    }
    Location::parse(Some(url.to_string()), "".as_ref()).ok_or_else(|| {
        CommandError::Usage(format!(
            "--{name} is no database; write sqlite:DIRECTORY (the --state of `serve`), postgres://USER@HOST/DATABASE, or `postgres` for the URL in TAUT_DATABASE or the configuration file"
        ))
    })
}

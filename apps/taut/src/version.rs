//! `taut version`: prints the versions of this program and of the running daemon.

use serde::Serialize;
use taut_agent::api::SCHEMA;

use crate::client::Client;
use crate::fault::Fault;
use crate::flags::{Word, Words, default_socket, unexpected};
use crate::{output, without};

/// Version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Serialize)]
struct Versions {
    schema: u32,
    version: &'static str,
    /// Features that the program lacks.
    without: Vec<&'static str>,
    daemon: Option<String>,
}

pub(crate) fn run(mut words: Words) -> Result<(), Fault> {
    let (mut socket, mut json) = (default_socket(), false);
    while let Some(word) = words.next()? {
        match word {
            Word::Flag(flag) if flag == "--json" => json = true,
            Word::Flag(flag) if flag == "--socket" => socket = words.value()?.into(),
            other => return Err(unexpected(&other)),
        }
    }
    // A daemon that does not run or does not answer is no error here.
    let daemon = Client::connect(&socket).ok().and_then(|mut client| client.status().ok()).map(|status| status.version);
    let without = without::names();
    if json {
        return output::print_json(&Versions { schema: SCHEMA, version: VERSION, without, daemon });
    }
    let daemon = daemon.as_deref().unwrap_or("not running");
    let lacks = if without.is_empty() { String::new() } else { format!(" (tiny: without {})", without.join(", ")) };
    output::print(&format!("taut {VERSION}{lacks}\ndaemon {daemon}"))
}

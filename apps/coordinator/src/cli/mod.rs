//! The command line. Exit status: 0 success, 1 failure, 2 usage error.

mod api_tokens;
mod arguments;
mod audit;
mod backup;
mod command_error;
mod config;
mod devices;
mod first;
mod help;
mod keys;
mod listen;
mod migrate;
mod names;
mod networks;
mod nodes;
mod oidc;
mod options;
mod policy;
mod relays;
mod remote;
mod routes;
mod serve;
mod settings;
mod shown;
mod sign_in;
mod signals;
mod simulate;
mod table;
mod target;
mod tls;
mod tls_options;
mod token_file;
mod tokens;
mod users;
mod webhooks;

use std::process::ExitCode;

use arguments::Arguments;
use command_error::{CommandError, announce, complain, show};
use serde_json::json;
use taut_base::closest;

use crate::api::document;

/// All commands.
const COMMANDS: [&str; 26] = [
    "serve",
    "config",
    "devices",
    "nodes",
    "routes",
    "keys",
    "names",
    "networks",
    "policy",
    "relays",
    "relay-token",
    "ticket-key",
    "operator-token",
    "users",
    "tokens",
    "sign-in",
    "audit",
    "webhooks",
    "openapi",
    "backup",
    "restore",
    "check",
    "migrate",
    "simulate",
    "version",
    "help",
];

/// Runs the command of the command line.
pub(crate) fn main() -> ExitCode {
    let json = std::env::args_os().any(|word| word == "--json");
    match Arguments::from_env().and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            let command = std::env::args().skip(1).find(|word| COMMANDS.contains(&word.as_str()));
            failed.report(|| help::usage(command.as_deref()), json)
        }
    }
}

/// Runs the command of these words.
#[cfg(test)]
pub(crate) fn run_words(words: &[&str]) -> Result<(), CommandError> {
    run(Arguments::of(words))
}

fn run(mut arguments: Arguments) -> Result<(), CommandError> {
    if arguments.switch("help") {
        let command = arguments.word();
        return show(help::text(command.as_deref()));
    }
    if arguments.switch("version") {
        return version(arguments.switch("json"));
    }
    match arguments.word().as_deref() {
        None => Err(CommandError::Usage(String::from("no command was given"))),
        Some("help") => show(help::text(arguments.word().as_deref())),
        Some("version") => {
            let json = arguments.switch("json");
            arguments.finish()?;
            version(json)
        }
        Some("serve") => serve::serve(arguments),
        Some("config") => config::run(arguments),
        Some("backup") => backup::make(arguments),
        Some("restore") => backup::put_back(arguments),
        Some("check") => backup::check(arguments),
        Some("migrate") => migrate::run(arguments),
        Some("operator-token") => tokens::run(arguments),
        Some("devices") => devices::run(arguments),
        Some("users") => users::run(arguments),
        Some("tokens") => api_tokens::run(arguments),
        Some("sign-in") => sign_in::run(arguments),
        Some("audit") => audit::run(arguments),
        Some("webhooks") => webhooks::run(arguments),
        Some("nodes") => nodes::run(arguments),
        Some("routes") => routes::run(arguments),
        Some("openapi") => {
            arguments.finish()?;
            show(&format!("{:#}\n", document()))
        }
        Some("relays") => relays::run(arguments),
        Some("relay-token") => relays::relay_token(arguments),
        Some("ticket-key") => relays::ticket_key(arguments),
        Some("keys") => keys::run(arguments),
        Some("names") => names::run(arguments),
        Some("networks") => networks::run(arguments),
        Some("policy") => policy::run(arguments),
        Some("simulate") => simulate::run(arguments),
        Some(other) => {
            Err(CommandError::Usage(format!("there is no command `{other}`{}", did_you_mean(other, &COMMANDS))))
        }
    }
}

/// Returns the usage error for an unknown verb of a command.
fn no_verb(command: &str, typed: &str, verbs: &[&str]) -> CommandError {
    let meant = did_you_mean(typed, verbs);
    let known = if meant.is_empty() { format!("; `{command}` has {}", verbs.join(", ")) } else { meant };
    CommandError::Usage(format!("there is no `{command} {typed}`{known}"))
}

/// Returns `; did you mean …?` if one of `known` is close to the typed word, otherwise an empty text.
fn did_you_mean(typed: &str, known: &[&str]) -> String {
    closest(typed, known.iter().copied()).map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

fn version(json: bool) -> Result<(), CommandError> {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    if json {
        return show(&format!("{:#}\n", json!({ "schema": 1, "version": VERSION })));
    }
    show(&format!("taut-coordinator {VERSION}\n"))
}

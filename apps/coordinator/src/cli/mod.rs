//! The command line. Exit codes: 0 done, 1 failed, 2 not understood.

mod arguments;
mod backup;
mod first;
mod help;
mod keys;
mod networks;
mod nodes;
mod relays;
mod remote;
mod serve;
mod table;
mod target;
mod tls;
mod tokens;

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use arguments::Arguments;
use taut_base::closest;

use crate::api::document;

/// All commands.
const COMMANDS: [&str; 13] = [
    "serve",
    "nodes",
    "keys",
    "networks",
    "relays",
    "ticket-key",
    "operator-token",
    "openapi",
    "backup",
    "restore",
    "check",
    "version",
    "help",
];

/// Why a command did not do what it should.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The command line makes no sense.
    Usage(String),
    /// It was understood, and failed; the text says what, why and what to do.
    Run(String),
}

impl Failed {
    fn run(error: impl fmt::Display) -> Self {
        Self::Run(error.to_string())
    }
}

/// Runs the command that the process was started with.
pub(crate) fn main() -> ExitCode {
    match Arguments::from_env().and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Usage(message)) => {
            complain(&format!("{message}\nTry `taut-coordinator --help`."));
            ExitCode::from(2)
        }
        Err(Failed::Run(message)) => {
            complain(&message);
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Arguments) -> Result<(), Failed> {
    if arguments.switch("help") {
        let command = arguments.word();
        return show(help::text(command.as_deref()));
    }
    if arguments.switch("version") {
        return version();
    }
    match arguments.word().as_deref() {
        None => Err(Failed::Usage(String::from("no command was given"))),
        Some("help") => show(help::text(arguments.word().as_deref())),
        Some("version") => version(),
        Some("serve") => serve::serve(arguments),
        Some("backup") => backup::make(arguments),
        Some("restore") => backup::put_back(arguments),
        Some("check") => backup::check(arguments),
        Some("operator-token") => tokens::run(arguments),
        Some("nodes") => nodes::run(arguments),
        Some("openapi") => {
            arguments.finish()?;
            show(&format!("{:#}\n", document()))
        }
        Some("relays") => relays::run(arguments),
        Some("ticket-key") => relays::ticket_key(arguments),
        Some("keys") => keys::run(arguments),
        Some("networks") => networks::run(arguments),
        Some(other) => Err(Failed::Usage(format!("there is no command `{other}`{}", did_you_mean(other, &COMMANDS)))),
    }
}

/// The complaint about a verb that a command does not have.
fn no_verb(command: &str, typed: &str, verbs: &[&str]) -> Failed {
    let meant = did_you_mean(typed, verbs);
    let known = if meant.is_empty() { format!("; `{command}` has {}", verbs.join(", ")) } else { meant };
    Failed::Usage(format!("there is no `{command} {typed}`{known}"))
}

/// `; did you mean …?` if one of `known` is close to what was typed, else nothing.
fn did_you_mean(typed: &str, known: &[&str]) -> String {
    closest(typed, known.iter().copied()).map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

fn version() -> Result<(), Failed> {
    show(concat!("taut-coordinator ", env!("CARGO_PKG_VERSION"), "\n"))
}

/// Prints for the user or a script; a reader that went away (`| head`) is not an error.
fn show(text: &str) -> Result<(), Failed> {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(())
}

fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "taut-coordinator: {text}");
}

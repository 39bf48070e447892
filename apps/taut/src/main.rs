//! `taut`: the node's daemon and its command line, in one small binary.
//!
//! This crate has flags, wiring and texts. The daemon (`taut_agent`) does the work. All verbs except [`daemon`] and [`wg`] send requests to it over its local
//! socket. Each verb is a module; [`verb`] lists them.
//!
//! Guarantees: results on stdout, everything else on stderr; exit status 0 for success, 1 for failure, 2 for a usage error; `--json` objects carry
//! `"schema": 1`, and a verb that fails prints one with `error`.

mod accept;
mod bugreport;
mod chosen;
mod client;
#[cfg(feature = "config")]
mod config;
#[cfg(feature = "config")]
mod config_file;
#[cfg(not(feature = "config"))]
#[path = "no_config_file.rs"]
mod config_file;
mod coordinator;
mod daemon;
mod down;
mod failure;
mod fault;
mod flag_texts;
mod flags;
mod hosts;
mod ip;
mod kill_switch;
mod launch;
mod leave;
mod log;
mod metrics;
mod netcheck;
mod networks;
mod output;
mod peers;
mod ping;
mod rotate_key;
#[cfg(feature = "service")]
mod service;
mod set;
mod ssh;
mod status;
mod table;
mod token;
mod up;
#[cfg(feature = "update")]
mod update;
mod verb;
mod version;
#[cfg(feature = "wg")]
mod wg;
mod why;
mod without;

use std::path::PathBuf;
use std::process::ExitCode;

use fault::Fault;
use flags::Words;

#[cfg(target_env = "musl")]
#[global_allocator]
static HEAP: taut_heap::Heap = taut_heap::Heap;

/// Name of the program for `wg-quick`, which gets only the interface as argument.
const WG_PROGRAM: &str = "taut-wg";

fn main() -> ExitCode {
    let json = std::env::args_os().any(|word| word == "--json");
    let mut arguments = std::env::args_os();
    let program = arguments.next().map(PathBuf::from);
    if program.as_ref().and_then(|path| path.file_name()).is_some_and(|name| name == WG_PROGRAM) {
        return finish(verb::run("wg", Words::new(arguments)), false);
    }
    let mut arguments = match chosen::take(arguments) {
        Ok(arguments) => arguments,
        Err(fault) => return finish(Err(fault), json),
    };
    let result = match arguments.next().map(|word| word.to_string_lossy().into_owned()).as_deref() {
        None => Err(Fault::no_verb()),
        Some("help" | "--help" | "-h") => {
            help(arguments.next().map(|word| word.to_string_lossy().into_owned()).as_deref())
        }
        // Only the daemon runs it, so no help text has it.
        Some("dns-helper") => taut_agent::run_helper().map_err(|error| not_for_users(&error)),
        Some("outside") => std::env::current_exe()
            .and_then(|program| taut_agent::run_outside(&program))
            .map_err(|error| not_for_users(&error)),
        Some("--version" | "-V") => verb::run("version", Words::new(arguments)),
        Some(name) => verb::run(name, Words::new(arguments)),
    };
    finish(result, json)
}

fn not_for_users(error: &std::io::Error) -> Fault {
    Fault::failed(format!("this process is started by `taut daemon` alone: {error}"), "")
}

fn finish(result: Result<(), Fault>, json: bool) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => failure::report(&fault, json),
    }
}

fn help(of: Option<&str>) -> Result<(), Fault> {
    match of {
        None | Some("help" | "--help" | "-h") => output::print(&verb::overview()),
        Some(name) => output::print(&verb::find(name)?.help()),
    }
}

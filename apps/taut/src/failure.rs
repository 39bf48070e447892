//! Prints failures, for people and for programs, and sets the exit status.

use std::process::ExitCode;

use serde::Serialize;
use taut_agent::api::{Failure, KillSwitchStatus, SCHEMA};

use crate::fault::Fault;
use crate::output;

/// Exit status after a failure.
const FAILED: u8 = 1;
/// Exit status after a usage error.
const MISUSED: u8 = 2;

/// The object on standard output when `--json` was given and a verb failed.
#[derive(Serialize)]
struct FailureObject<'a> {
    schema: u32,
    /// Always false. The answer of a check has `ok`, too, with true.
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    /// The kill switch, where no daemon runs and it is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    kill_switch: Option<KillSwitchStatus>,
    error: ErrorObject<'a>,
}

/// The failure in a [`FailureObject`].
#[derive(Serialize)]
struct ErrorObject<'a> {
    message: &'a str,
    /// `null` if there is no hint.
    hint: Option<&'a str>,
}

/// Prints why a verb ended early, and returns the exit status. The sentence goes to standard error; with `json`, an object also goes to
/// standard output.
pub(crate) fn report(fault: &Fault, json: bool) -> ExitCode {
    let (failure, status) = match fault {
        Fault::Usage { message, usage } => {
            let hint = if usage.is_empty() { String::new() } else { format!("usage: {usage}") };
            output::complain(&format!("taut: {message}\n{hint}"));
            (Failure { message: message.clone(), hint }, MISUSED)
        }
        Fault::UnknownFlag(flag) => return report(&Fault::usage(format!("there is no flag `{flag}`")), json),
        Fault::Failed(failure) => {
            complain(failure);
            (failure.clone(), FAILED)
        }
        Fault::Reported => return ExitCode::from(FAILED),
        Fault::Help => return ExitCode::SUCCESS,
    };
    if json {
        // If standard output cannot be written, the sentence on standard error remains.
        let _ = print_json(&failure, None, None);
    }
    ExitCode::from(status)
}

/// Prints a failure for people.
pub(crate) fn complain(failure: &Failure) {
    let name = if failure.message.starts_with("taut ") { "" } else { "taut: " };
    let end = if failure.hint.is_empty() { String::new() } else { format!("\n  {}", failure.hint) };
    output::complain(&format!("{name}{}{end}", failure.message));
}

/// Prints a failure for programs, with the state of the node and of the kill switch, if these are known.
pub(crate) fn print_json(
    failure: &Failure,
    state: Option<&str>,
    kill_switch: Option<KillSwitchStatus>,
) -> Result<(), Fault> {
    let hint = Some(failure.hint.as_str()).filter(|hint| !hint.is_empty());
    let error = ErrorObject { message: &failure.message, hint };
    output::print_json(&FailureObject { schema: SCHEMA, ok: false, state, kill_switch, error })
}

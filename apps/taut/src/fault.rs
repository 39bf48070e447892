//! Why a verb did not do what it was asked, and the exit status for it.

use std::process::ExitCode;

use serde::Serialize;
use taut_agent::api::{Failure, SCHEMA};
use taut_base::closest;

use crate::output;
use crate::verb::Verb;

/// Exit status when something did not work.
const FAILED: u8 = 1;
/// Exit status after a usage error.
const MISUSED: u8 = 2;

/// Why a verb ended early.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A usage error: what is wrong, and the usage line that helps.
    Usage { message: String, usage: String },
    /// A flag that the verb does not have.
    UnknownFlag(String),
    /// The user asked for the help of the verb at hand.
    Help,
    /// It was tried and did not work: what happened and why, and what to do.
    Failed(Failure),
    /// It did not work, and everything was said already.
    Said,
}

/// The object on standard output when `--json` was given and a verb failed.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    error: Told<'a>,
}

/// A failure as programs read it.
#[derive(Serialize)]
struct Told<'a> {
    message: &'a str,
    /// `null` where there is none.
    hint: Option<&'a str>,
}

impl Fault {
    /// Returns what happened and why, and what to do.
    pub(crate) fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Failed(Failure { message: message.into(), hint: hint.into() })
    }

    /// Returns a usage error of a verb that is known only to the caller, who adds its usage with [`Fault::of`].
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), usage: String::new() }
    }

    /// Returns what happened and why, without what to do.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Usage { message, .. } => message.clone(),
            Self::Failed(failure) => failure.message.clone(),
            Self::UnknownFlag(_) | Self::Help | Self::Said => String::new(),
        }
    }

    pub(crate) fn no_verb() -> Self {
        Self::Usage { message: String::from("a verb is missing"), usage: String::from(VERB_USAGE) }
    }

    /// Returns the error for a verb that does not exist; `known` are those that do.
    pub(crate) fn unknown_verb<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let message = format!("there is no verb `{name}`{}", suggestion(name, known));
        Self::Usage { message, usage: String::from(VERB_USAGE) }
    }

    /// Adds the usage line of the verb that was used wrongly.
    pub(crate) fn of(self, verb: &Verb) -> Self {
        let message = match self {
            Self::Usage { message, usage } if usage.is_empty() => message,
            Self::UnknownFlag(flag) => format!("there is no flag `{flag}`{}", suggestion(&flag, verb.flags())),
            other => return other,
        };
        Self::Usage { message: format!("{}: {message}", verb.name), usage: verb.usage() }
    }

    /// Prints why, and returns the exit status. The sentence goes to standard error; with `json`, an object goes to standard output, too.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        let (failure, status) = match self {
            Self::Usage { message, usage } => {
                output::complain(&format!("taut: {message}\nusage: {usage}"));
                (Failure { message: message.clone(), hint: format!("usage: {usage}") }, MISUSED)
            }
            Self::UnknownFlag(flag) => return Self::usage(format!("there is no flag `{flag}`")).report(json),
            Self::Failed(failure) => {
                complain(failure);
                (failure.clone(), FAILED)
            }
            Self::Said => return ExitCode::from(FAILED),
            Self::Help => return ExitCode::SUCCESS,
        };
        if json {
            // Where standard output does not take it, the sentence on standard error has to do.
            let _ = print_json(&failure, None);
        }
        ExitCode::from(status)
    }
}

const VERB_USAGE: &str = "taut VERB [FLAGS]; `taut help` lists the verbs";

/// Prints a failure for people.
pub(crate) fn complain(failure: &Failure) {
    let name = if failure.message.starts_with("taut ") { "" } else { "taut: " };
    let end = if failure.hint.is_empty() { String::new() } else { format!("\n  {}", failure.hint) };
    output::complain(&format!("{name}{}{end}", failure.message));
}

/// Prints a failure for programs, with the state of the node if that is known.
pub(crate) fn print_json(failure: &Failure, state: Option<&str>) -> Result<(), Fault> {
    let hint = Some(failure.hint.as_str()).filter(|hint| !hint.is_empty());
    output::print_json(&Report { schema: SCHEMA, state, error: Told { message: &failure.message, hint } })
}

/// Returns `; did you mean …?`, or nothing if no word is close.
pub(crate) fn suggestion<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    closest(word, known).map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"))
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<lexopt::Error> for Fault {
    fn from(error: lexopt::Error) -> Self {
        Self::usage(error.to_string())
    }
}

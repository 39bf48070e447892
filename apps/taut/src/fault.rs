//! Why a verb did not do what it was asked, and the exit code for it.

use std::process::ExitCode;

use taut_keeper::api::Failure;

use crate::output;
use crate::verb::Verb;

/// Exit code when something did not work.
const FAILED: u8 = 1;
/// Exit code when the command line makes no sense.
const MISUSED: u8 = 2;

/// Why a verb ended early.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The command line makes no sense: what is wrong, and the usage lines that may help.
    Usage { message: String, usage: String },
    /// The user asked for the help of the verb at hand.
    Help,
    /// It was tried and did not work: what, why, what to do.
    Failed(String),
    /// It did not work, and everything was said already.
    Said,
}

impl Fault {
    /// Wrong use of a verb that is known only to the caller, who adds its usage with [`Fault::of`].
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), usage: String::new() }
    }

    pub(crate) fn no_verb() -> Self {
        Self::Usage {
            message: String::from("say what to do"),
            usage: String::from("taut VERB [FLAGS]; `taut help` lists the verbs"),
        }
    }

    /// Adds the usage line of the verb that was used wrongly.
    pub(crate) fn of(self, verb: &Verb) -> Self {
        match self {
            Self::Usage { message, usage } if usage.is_empty() => {
                Self::Usage { message: format!("{}: {message}", verb.name), usage: verb.usage() }
            }
            other => other,
        }
    }

    /// Says it, and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Usage { message, usage } => {
                output::complain(&format!("taut: {message}\nusage: {usage}"));
                ExitCode::from(MISUSED)
            }
            Self::Failed(message) => {
                let name = if message.starts_with("taut ") { "" } else { "taut: " };
                output::complain(&format!("{name}{message}"));
                ExitCode::from(FAILED)
            }
            Self::Said => ExitCode::from(FAILED),
            Self::Help => ExitCode::SUCCESS,
        }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.to_string())
    }
}

impl From<lexopt::Error> for Fault {
    fn from(error: lexopt::Error) -> Self {
        Self::usage(error.to_string())
    }
}

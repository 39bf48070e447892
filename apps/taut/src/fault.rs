//! The errors that end a verb early.

use taut_agent::api::Failure;
use taut_base::closest;

/// The reason why a verb ended early.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A usage error: what is wrong, and the usage line.
    Usage { message: String, usage: String },
    /// A flag that the verb does not have.
    UnknownFlag(String),
    /// A request for the verb's help.
    Help,
    /// A failure: what happened and why, and what to do.
    Failed(Failure),
    /// A failure that was reported already.
    Reported,
}

impl Fault {
    /// Returns a failure from what happened and why, and what to do.
    pub(crate) fn failed(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Failed(Failure { message: message.into(), hint: hint.into() })
    }

    /// Returns a usage error without a usage line, which the verb adds.
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

    /// Returns the usage error for a verb that does not exist. `known` lists the existing verbs.
    pub(crate) fn unknown_verb<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let message = format!("there is no verb `{name}`{}", suggestion(name, known));
        Self::Usage { message, usage: String::from(VERB_USAGE) }
    }
}

const VERB_USAGE: &str = "taut VERB [FLAGS]; `taut help` lists the verbs";

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

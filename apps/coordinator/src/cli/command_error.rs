//! Failures of commands, and how they are reported: a sentence on standard error, and with `--json` also an object on standard output.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::json;

/// The failure of a command.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The command line is wrong.
    Usage(String),
    /// The command failed. The text says what happened, why, and what to do.
    Run(String),
    /// The coordinator refused the request.
    Refused {
        /// The error and its cause.
        message: String,
        /// Advice for the user.
        hint: Option<String>,
    },
    /// Standard output could not be written.
    Output(io::Error),
}

impl CommandError {
    pub(super) fn run(error: impl fmt::Display) -> Self {
        Self::Run(error.to_string())
    }

    /// Adds `consequence` to a failure of the output. For commands that print a secret that cannot be printed again.
    pub(super) fn with_consequence(self, what: &str) -> Self {
        match self {
            Self::Output(error) => Self::Run(format!("{}; {what}", unwritten(&error))),
            other => other,
        }
    }

    /// Reports the failure on standard error, and with `json` also as an object on standard output. Returns the exit status.
    /// `usage` is the hint of a usage error.
    pub(super) fn report(self, usage: impl FnOnce() -> String, json: bool) -> ExitCode {
        let message = self.to_string();
        let (hint, status) = match self {
            Self::Usage(_) => (Some(usage()), 2),
            Self::Refused { hint, .. } => (hint, 1),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Self::Run(_) | Self::Output(_) => (None, 1),
        };
        let indent = if status == 2 { "" } else { "  " };
        let hint_line = hint.as_ref().map_or_else(String::new, |hint| format!("\n{indent}{hint}"));
        complain(&format!("{message}{hint_line}"));
        if json {
            // The sentence on standard error remains if standard output cannot be written.
            let _ = write(&format!("{:#}\n", json!({ "schema": 1, "error": { "message": message, "hint": hint } })));
        }
        ExitCode::from(status)
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Run(message) | Self::Refused { message, .. } => f.write_str(message),
            Self::Output(error) => f.write_str(&unwritten(error)),
        }
    }
}

fn unwritten(error: &io::Error) -> String {
    format!("the output cannot be written: {error}")
}

/// Prints to standard output.
pub(super) fn show(text: &str) -> Result<(), CommandError> {
    write(text).map_err(CommandError::Output)
}

/// Prints a line of `serve` to standard output. A failure does not end the program.
pub(super) fn announce(text: &str) {
    if let Err(error) = write(text) {
        complain(&unwritten(&error));
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Prints to standard error, and ignores a failure.
pub(super) fn complain(text: &str) {
    write_error(&format!("taut-coordinator: {text}\n"));
}

/// Prints what a person reads while standard output has what a program reads, and ignores a failure.
pub(super) fn write_error(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

//! Why a command failed, and how that is told: words on standard error, with `--json` an object on standard output, too.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::json;

/// Hint of every usage error.
const SEE_HELP: &str = "Try `taut-coordinator --help`.";

/// Why a command did not do what it should.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The command line makes no sense.
    Usage(String),
    /// It was understood, and failed; the text says what, why and what to do.
    Run(String),
    /// The coordinator refused; it says what happened and what to do.
    Refused {
        /// The error and its cause.
        message: String,
        /// Advice for the user.
        hint: Option<String>,
    },
    /// Standard output could not be written.
    Output(io::Error),
}

impl Failed {
    pub(super) fn run(error: impl fmt::Display) -> Self {
        Self::Run(error.to_string())
    }

    /// Returns the same failure with what the user loses if it is one of the output: a secret that is shown once.
    pub(super) fn losing(self, what: &str) -> Self {
        match self {
            Self::Output(error) => Self::Run(format!("{}; {what}", unwritten(&error))),
            other => other,
        }
    }

    /// Prints why, and returns the exit status. The sentence goes to standard error; with `json` an object goes to standard output, too.
    pub(super) fn report(self, json: bool) -> ExitCode {
        let message = self.to_string();
        let (hint, status) = match self {
            Self::Usage(_) => (Some(String::from(SEE_HELP)), 2),
            Self::Refused { hint, .. } => (hint, 1),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Self::Run(_) | Self::Output(_) => (None, 1),
        };
        let hint_line = hint.as_ref().map_or_else(String::new, |hint| format!("\n{hint}"));
        complain(&format!("{message}{hint_line}"));
        if json {
            // Where standard output does not take it, the sentence on standard error has to do.
            let _ = write(&format!("{:#}\n", json!({ "schema": 1, "error": { "message": message, "hint": hint } })));
        }
        ExitCode::from(status)
    }
}

impl fmt::Display for Failed {
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

/// Prints for the user or a script.
pub(super) fn show(text: &str) -> Result<(), Failed> {
    write(text).map_err(Failed::Output)
}

/// Prints a line of a program that runs on: a full disk below its log is no reason to end it.
pub(super) fn announce(text: &str) {
    if let Err(error) = write(text) {
        complain(&unwritten(&error));
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Prints to standard error, where nobody can be told of an error.
pub(super) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "taut-coordinator: {text}");
}

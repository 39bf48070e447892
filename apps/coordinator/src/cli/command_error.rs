//! Failures of commands, and how they are reported: a sentence on standard error, and with `--json` also an object on standard output.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::ExitCode;

use serde_json::json;

use super::shown::{json_text, shown_lines};

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
        let is_remote = matches!(self, Self::Refused { .. });
        let (hint, status) = match self {
            Self::Usage(_) => (Some(usage()), 2),
            Self::Refused { hint, .. } => (hint, 1),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Self::Run(_) | Self::Output(_) => (None, 1),
        };
        let indent = if status == 2 { "" } else { "  " };
        // Lines of the coordinator are indented, so that they do not look like ours.
        let inner = |text: &str| if is_remote { indented(text) } else { String::from(text) };
        let hint_line = hint.as_ref().map_or_else(String::new, |hint| format!("\n{indent}{}", inner(hint)));
        complain(&format!("{}{hint_line}", inner(&message)));
        if json {
            // The sentence on standard error remains if standard output cannot be written.
            let _ =
                write(&json_text(&json!({ "schema": 1, "ok": false, "error": { "message": message, "hint": hint } })));
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

/// Indents all lines but the first.
fn indented(text: &str) -> String {
    text.replace('\n', "\n  ")
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
    write_to(io::stdout(), text)
}

/// Writes without `io::Stdout`, which reports success if the descriptor is not open for writing.
fn write_to(out: impl AsFd, text: &str) -> io::Result<()> {
    File::from(out.as_fd().try_clone_to_owned()?).write_all(text.as_bytes())
}

/// Returns an error if standard output is closed or the null device. For commands that print a secret that cannot be printed again, before they make it. A descriptor that was closed when the
/// program started is the null device since then.
pub(super) fn check_output() -> Result<(), CommandError> {
    if is_null(io::stdout()).map_err(CommandError::Output)? {
        return Err(CommandError::Run(String::from(
            "standard output is closed or /dev/null, so the token would be lost; nobody has signed in; name a file with --token-file",
        )));
    }
    Ok(())
}

fn is_null(out: impl AsFd) -> io::Result<bool> {
    let device = File::from(out.as_fd().try_clone_to_owned()?).metadata()?;
    let null = std::fs::metadata("/dev/null");
    Ok(device.file_type().is_char_device() && null.is_ok_and(|null| null.rdev() == device.rdev()))
}

/// Prints to standard error, and ignores a failure.
pub(super) fn complain(text: &str) {
    write_error(&format!("taut-coordinator: {}\n", shown_lines(text)));
}

/// Prints what a person reads while standard output has what a program reads, and ignores a failure.
pub(super) fn write_error(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_cannot_be_written_is_an_error() {
        let read_only = File::open("/proc/self/status").unwrap();
        assert!(write_to(&read_only, "token").is_err());
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert!(write_to(&full, "token").is_err());
        let failed = CommandError::Output(io::Error::from(io::ErrorKind::BrokenPipe)).with_consequence("revoke 7");
        assert!(failed.to_string().contains("revoke 7"), "{failed}");
        assert_eq!(failed.report(String::new, false), ExitCode::from(1));
    }

    #[test]
    fn a_refusal_of_the_coordinator_forges_no_line() {
        assert_eq!(indented("denied\ntaut-coordinator: done"), "denied\n  taut-coordinator: done");
    }

    #[test]
    fn a_closed_output_is_noticed_before_there_is_a_token() {
        assert!(is_null(File::open("/dev/null").unwrap()).unwrap());
        for other in ["/dev/zero", "/proc/self/status"] {
            assert!(!is_null(File::open(other).unwrap()).unwrap(), "{other}");
        }
    }
}

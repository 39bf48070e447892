//! Words to the terminal. A reader that went away (`taut status | head -1`) is no error, and nothing from outside drives the terminal.

use std::io::{ErrorKind, Write};

use crate::fault::Fault;

/// Writes lines to stdout; a missing last newline is added. Fails when they are lost, as on a full disk.
pub(crate) fn print(text: &str) -> Result<(), Fault> {
    let mut out = std::io::stdout().lock();
    match out.write_all(lines(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Fault::failed(format!("the output cannot be written: {error}"), ""))
        }
        _ => Ok(()),
    }
}

/// Writes lines to stderr; a missing last newline is added.
pub(crate) fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(lines(text).as_bytes());
}

/// Writes a JSON object to stdout, for people and `jq` alike.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Fault> {
    // Fails only for maps with keys that are no texts, which the API does not have.
    print(&serde_json::to_string_pretty(value).unwrap_or_default())
}

fn lines(text: &str) -> String {
    let mut clean: String = text.chars().filter(|letter| !letter.is_control() || *letter == '\n').collect();
    if !clean.ends_with('\n') {
        clean.push('\n');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_drive_the_terminal() {
        assert_eq!(lines("a\x1b[2J\r\tb\nc"), "a[2Jb\nc\n");
        assert_eq!(lines("a\n"), "a\n");
    }
}

//! Writes to the terminal. A reader that closed the pipe (`taut status | head -1`) is no error. Control characters are removed, because names come from
//! other hosts.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};

use crate::chosen;
use crate::fault::Fault;

/// Writes lines for people to stdout, and adds a missing last newline. Fails if the text is lost, as on a full disk.
pub(crate) fn print(text: &str) -> Result<(), Fault> {
    write(&with_network(text))
}

fn write(text: &str) -> Result<(), Fault> {
    let mut out = std::io::stdout().lock();
    match out.write_all(lines(text).as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Fault::failed(format!("the output cannot be written: {error}"), ""))
        }
        _ => Ok(()),
    }
}

/// Writes lines to stderr, and adds a missing last newline.
pub(crate) fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(lines(&with_network(text)).as_bytes());
}

/// Writes a JSON object to stdout, for people and `jq` alike.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Fault> {
    // Serialization fails only for maps whose keys are not strings; the API has none.
    write(&taut_json::to_string(value).map(|json| taut_json::pretty(&json)).unwrap_or_default())
}

/// Has the commands in a text be about the network that `--network` chose: without it they would act on another one.
fn with_network(text: &str) -> Cow<'_, str> {
    match chosen::network() {
        Some(name) => text.replace("`taut ", &format!("`taut --network {name} ")).into(),
        None => text.into(),
    }
}

fn lines(text: &str) -> String {
    let mut clean: String = text.chars().filter(|letter| taut_base::is_printable(*letter) || *letter == '\n').collect();
    if !clean.ends_with('\n') {
        clean.push('\n');
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(lines("a\x1b[2J\r\tb\nc"), "a[2Jb\nc\n");
        assert_eq!(lines("a\n"), "a\n");
    }
}

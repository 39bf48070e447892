//! Writes to the terminal. A reader that closed the pipe (`taut status | head -1`) is no error. Control characters are removed, because names come from
//! other hosts.

use std::io::{ErrorKind, Write};

use crate::chosen;
use crate::fault::Fault;

/// Writes lines to stdout, and adds a missing last newline. Fails if the text is lost, as on a full disk.
pub(crate) fn print(text: &str) -> Result<(), Fault> {
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
    let _ = std::io::stderr().lock().write_all(lines(text).as_bytes());
}

/// Writes a JSON object to stdout, for people and `jq` alike.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Fault> {
    // Serialization fails only for maps whose keys are not strings; the API has none.
    print(&serde_json::to_string_pretty(value).unwrap_or_default())
}

fn lines(text: &str) -> String {
    // A hint of a further network's daemon is about that network.
    let for_network = chosen::network().map(|name| text.replace("`taut ", &format!("`taut --network {name} ")));
    let text = for_network.as_deref().unwrap_or(text);
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

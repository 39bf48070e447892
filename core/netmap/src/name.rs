//! Names of nodes: one DNS label.

use std::error::Error;
use std::fmt;

/// Longest label of a DNS name, in bytes (RFC 1035 section 2.3.4).
pub const MAX_NAME: usize = 63;

/// Whether `name` may name a node: 1 to 63 lower-case letters, digits and hyphens, no hyphen at either end (RFC 1123 section 2.1).
///
/// # Errors
/// When it may not.
pub fn check_name(name: &str) -> Result<(), BadName> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let edges = !name.starts_with('-') && !name.ends_with('-');
    if name.is_empty() || name.len() > MAX_NAME || !edges || !name.bytes().all(allowed) {
        return Err(BadName);
    }
    Ok(())
}

/// The name closest to what a host calls itself: first label, lower case, other characters as hyphens; `node` when nothing is left.
pub fn name_from_host(host: &str) -> String {
    let label = host.split('.').next().unwrap_or_default();
    let spelled: String = label
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' })
        .take(MAX_NAME)
        .collect();
    match spelled.trim_matches('-') {
        "" => String::from("node"),
        trimmed => String::from(trimmed),
    }
}

/// A text that cannot name a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadName;

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a name: use 1 to 63 lower-case letters, digits and hyphens, with no hyphen at the ends")
    }
}

impl Error for BadName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e10_only_labels_are_names() {
        for name in ["a", "web-1", "0", &"x".repeat(63)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a.b", "..", "a b", "ä", "a\0", "😀", &"x".repeat(64)] {
            assert_eq!(check_name(name), Err(BadName), "{name}");
        }
    }

    #[test]
    fn every_host_gets_a_name() {
        for (host, name) in
            [("Web-1.example", "web-1"), ("", "node"), ("___", "node"), ("Büro", "b-ro"), ("😀", "node")]
        {
            assert_eq!(name_from_host(host), name);
            assert_eq!(check_name(&name_from_host(host)), Ok(()));
        }
    }
}

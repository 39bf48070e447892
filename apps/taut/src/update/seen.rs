//! The newest release that this host has seen.
//!
//! A signature never ends, so the list of an old release stays valid: a mirror, or somebody on the way to it, could show it forever to hide a fix. A list that is older
//! than one seen before is refused.

use std::path::Path;

use taut_release::{Release, Version};

use super::{read_file, replace_file};
use crate::fault::Fault;

/// The file in the state directory: version and moment.
const FILE: &str = "release-seen";
/// Longest content in bytes: a version and a number.
const LONGEST: usize = 128;

/// Refuses a release that is older than one seen before, and notes a newer one.
pub(super) fn note(state: &Path, release: &Release) -> Result<(), Fault> {
    let path = state.join(FILE);
    let former = read_file(&path, LONGEST).ok().and_then(|bytes| parse(&bytes));
    let now = (release.version.clone(), release.made);
    match former {
        Some(former) if now < former => Err(Fault::failed(
            format!(
                "the list is that of taut {}, and this host has seen one of taut {}: somebody shows an old list",
                now.0, former.0
            ),
            format!("try again later or another URL; if a release was taken back, remove {}", path.display()),
        )),
        Some(former) if now == former => Ok(()),
        _ => {
            // A user who may not write there, or a host without a node, checks without a memory.
            let _ = replace_file(&path, format!("{} {}\n", now.0, now.1).as_bytes());
            Ok(())
        }
    }
}

fn parse(bytes: &[u8]) -> Option<(Version, u64)> {
    let (version, made) = str::from_utf8(bytes).ok()?.trim_end().split_once(' ')?;
    Some((version.parse().ok()?, made.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_l6_an_older_list_is_refused() {
        let folder = std::env::temp_dir().join(format!("taut-seen-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let release = |version: &str, made| Release { version: version.parse().unwrap(), made, programs: Vec::new() };
        for (version, made, is_fine) in [
            ("0.3.0", 20, true),
            ("0.3.0", 20, true),
            ("0.3.0", 19, false),
            ("0.2.9", 30, false),
            ("0.3.0-dev.7", 30, false),
            ("0.4.0", 10, true),
            ("0.3.0", 20, false),
        ] {
            assert_eq!(note(&folder, &release(version, made)).is_ok(), is_fine, "{version} {made}");
        }
        std::fs::write(folder.join(FILE), "garbage").unwrap();
        assert!(note(&folder, &release("0.1.0", 1)).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(note(&folder, &release("0.1.0", 1)).is_ok(), "without a state directory");
    }
}

//! A short file beside the daemon's socket that names the interfaces which a daemon changed: the next one reads it after a crash, and cleans up.

use std::io::Read;
use std::path::Path;

use taut_event::open_regular_no_link;

/// Longest text, 256 KiB: ten thousand names of interfaces, which have 15 bytes each at most (linux/if.h, IFNAMSIZ). A longer one is not ours.
const LONGEST: u64 = 256 << 10;

/// Returns the text of such a file; `None` if there is none, or anything else is in its place.
pub(super) fn read_record(path: &Path) -> Option<String> {
    let mut text = String::new();
    open_regular_no_link(path).and_then(|file| file.take(LONGEST + 1).read_to_string(&mut text)).ok()?;
    (text.len() as u64 <= LONGEST).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_text_in_a_file_of_its_own_is_read() {
        let folder = std::env::temp_dir().join(format!("taut-record-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        std::fs::write(at("short"), "eth0\neth1").unwrap();
        std::fs::write(at("long"), "e".repeat(LONGEST as usize + 1)).unwrap();
        std::fs::write(at("bytes"), [0xff, 0xfe]).unwrap();
        std::os::unix::fs::symlink("short", at("link")).unwrap();
        let read = ["short", "long", "bytes", "link", "missing"].map(|name| read_record(&at(name)));
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(read, [Some(String::from("eth0\neth1")), None, None, None, None]);
        assert_eq!(read_record(Path::new("/dev/zero")), None);
    }
}

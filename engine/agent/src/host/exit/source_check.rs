//! The kernel's strict reverse path filter (`rp_filter=1`, RFC 3704) while an exit node is in use.
//!
//! It looks up the way back to a packet's sender, without the packet's mark, and so finds the exit node's route for everything that comes in by another interface, also for the packets of
//! our own peers. With `src_valid_mark` it takes the mark that our rules set (`plan`). The switch is turned on for interfaces with the strict filter alone, noted in a file beside the daemon's
//! socket first, and turned off again at the end, or after a crash by the next start.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The kernel's switches, a directory for each interface.
const KERNEL: &str = "/proc/sys/net/ipv4/conf";

/// The strict filter (Documentation/networking/ip-sysctl.rst). 2, the loose one, asks only whether there is any route.
const STRICT: u8 = 1;

/// Interfaces whose switch is on because of the overlay.
#[derive(Debug)]
pub(super) struct SourceCheck {
    kernel: PathBuf,
    record: PathBuf,
    on: BTreeSet<String>,
}

impl SourceCheck {
    pub(super) fn new(record: PathBuf) -> Self {
        Self { kernel: PathBuf::from(KERNEL), record, on: BTreeSet::new() }
    }

    /// Has the filter of these interfaces take marks, where it is strict. Returns the interface for which that was not possible.
    pub(super) fn turn_on(&mut self, interfaces: &[String]) -> Result<(), String> {
        let all = read(&self.kernel, "all", "rp_filter").unwrap_or(0);
        // The kernel takes the greater of both numbers.
        let is_strict = |name: &&String| read(&self.kernel, name, "rp_filter").map(|own| own.max(all)) == Some(STRICT);
        let is_off = |name: &&String| read(&self.kernel, name, "src_valid_mark") == Some(0);
        let new: Vec<String> = interfaces.iter().filter(is_strict).filter(is_off).cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        self.on.extend(new.iter().cloned());
        let names: Vec<&str> = self.on.iter().map(String::as_str).collect();
        // Without the file a crash would leave the switch on, which does no harm.
        let _ = fs::write(&self.record, names.join("\n"));
        new.into_iter().try_for_each(|name| write(&self.kernel, &name, 1).map_err(|error| format!("{name}: {error}")))
    }

    /// Turns off what was turned on.
    pub(super) fn turn_off(&mut self) {
        for name in std::mem::take(&mut self.on) {
            let _ = write(&self.kernel, &name, 0);
        }
        let _ = fs::remove_file(&self.record);
    }
}

/// Turns off what a daemon that crashed left on.
pub(crate) fn restore_source_check(record: &Path) {
    let Ok(names) = fs::read_to_string(record) else { return };
    let is_name = |name: &&str| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    for name in names.lines().filter(is_name) {
        let _ = write(Path::new(KERNEL), name, 0);
    }
    let _ = fs::remove_file(record);
}

fn read(kernel: &Path, interface: &str, switch: &str) -> Option<u8> {
    fs::read_to_string(kernel.join(interface).join(switch)).ok()?.trim().parse().ok()
}

fn write(kernel: &Path, interface: &str, value: u8) -> std::io::Result<()> {
    fs::write(kernel.join(interface).join("src_valid_mark"), value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_j10_only_strict_filters_take_marks_and_are_as_before_at_the_end() {
        let root = std::env::temp_dir().join(format!("taut-source-check-{}", std::process::id()));
        for (name, filter) in [("all", 0), ("eth0", 1), ("eth1", 2), ("eth2", 0)] {
            fs::create_dir_all(root.join(name)).unwrap();
            fs::write(root.join(name).join("rp_filter"), filter.to_string()).unwrap();
            write(&root, name, 0).unwrap();
        }
        let mut check = SourceCheck { kernel: root.clone(), record: root.join("record"), on: BTreeSet::new() };
        let names = ["eth0", "eth1", "eth2", "gone"].map(String::from);
        for _ in 0..2 {
            check.turn_on(&names).unwrap();
        }
        let marks = || ["eth0", "eth1", "eth2"].map(|name| read(&root, name, "src_valid_mark"));
        assert_eq!(marks(), [Some(1), Some(0), Some(0)]);
        assert_eq!(fs::read_to_string(root.join("record")).unwrap(), "eth0");
        check.turn_off();
        assert_eq!(marks(), [Some(0); 3]);
        assert!(!root.join("record").exists());
        fs::write(root.join("all/rp_filter"), "1").unwrap();
        check.turn_on(&names).unwrap();
        assert_eq!(marks(), [Some(1), Some(0), Some(1)], "the greater number of the two holds");
        fs::remove_dir_all(root).unwrap();
    }
}

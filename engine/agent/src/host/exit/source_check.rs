//! The kernel's strict reverse path filter (`rp_filter=1`, RFC 3704) while an exit node is in use.
//!
//! It looks up the way back to a packet's sender, and so finds the exit node's route for everything that comes in by another interface: it would drop what our own peers send, and leave questions
//! for this host's link-layer address (ARP) unanswered, also those of the gateway. Marks do not help, because ARP has none. So the filter of these interfaces is loose meanwhile (`rp_filter=2`),
//! as is usual on hosts with several ways. The former values are noted in a file beside the daemon's socket first; they are set back at the end, or after a crash by the next start.

use std::fs;
use std::path::{Path, PathBuf};

use taut_base::SortedMap;

use crate::host::record::read_record;

/// The kernel's switches, a directory for each interface.
const KERNEL: &str = "/proc/sys/net/ipv4/conf";

/// The strict filter, and the loose one, which asks only whether there is any route (Documentation/networking/ip-sysctl.rst).
const STRICT: u8 = 1;
const LOOSE: u8 = 2;

/// Interfaces whose filter is loose because of the overlay.
#[derive(Debug)]
pub(super) struct SourceCheck {
    kernel: PathBuf,
    record: PathBuf,
    /// The former values, by interface.
    former: SortedMap<String, u8>,
}

impl SourceCheck {
    pub(super) fn new(record: PathBuf) -> Self {
        Self { kernel: PathBuf::from(KERNEL), record, former: SortedMap::new() }
    }

    /// Loosens the filter of these interfaces, where it is strict. Returns the interface for which that was not possible.
    pub(super) fn loosen(&mut self, interfaces: &[String]) -> Result<(), String> {
        let all = read(&self.kernel, "all").unwrap_or(0);
        // The kernel takes the greater of both numbers.
        let strict = |name: &String| read(&self.kernel, name).filter(|own| *own.max(&all) == STRICT);
        let new: Vec<(String, u8)> = interfaces.iter().filter_map(|name| Some((name.clone(), strict(name)?))).collect();
        if new.is_empty() {
            return Ok(());
        }
        for (name, own) in &new {
            self.former.entry(name.clone()).or_insert(*own);
        }
        let lines: Vec<String> = self.former.iter().map(|(name, own)| format!("{name} {own}")).collect();
        // Without the file a crash would leave the filter loose until the next boot; the exit node is worth that.
        let _ = fs::write(&self.record, lines.join("\n"));
        let mut names = new.into_iter().map(|(name, _)| name);
        names.try_for_each(|name| write(&self.kernel, &name, LOOSE).map_err(|error| format!("{name}: {error}")))
    }

    /// Sets the former values back.
    pub(super) fn restore(&mut self) {
        for (name, own) in std::mem::take(&mut self.former) {
            set_back(&self.kernel, &name, own);
        }
        let _ = fs::remove_file(&self.record);
    }
}

/// Sets back what a daemon that crashed left loose.
pub(crate) fn restore_source_check(record: &Path) {
    let Some(lines) = read_record(record) else { return };
    let is_name = |name: &str| !name.is_empty() && !name.contains('/') && !name.starts_with('.');
    for line in lines.lines() {
        if let Some((name, own)) = line.split_once(' ').filter(|(name, _)| is_name(name))
            && let Ok(own) = own.parse()
        {
            set_back(Path::new(KERNEL), name, own);
        }
    }
    let _ = fs::remove_file(record);
}

/// Sets a value back, unless somebody has set another one meanwhile. An interface that is gone has taken it along.
fn set_back(kernel: &Path, interface: &str, own: u8) {
    if read(kernel, interface) == Some(LOOSE) {
        let _ = write(kernel, interface, own);
    }
}

fn read(kernel: &Path, interface: &str) -> Option<u8> {
    fs::read_to_string(kernel.join(interface).join("rp_filter")).ok()?.trim().parse().ok()
}

fn write(kernel: &Path, interface: &str, value: u8) -> std::io::Result<()> {
    fs::write(kernel.join(interface).join("rp_filter"), value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_j10_only_strict_filters_are_loosened_and_are_as_before_at_the_end() {
        let root = std::env::temp_dir().join(format!("taut-source-check-{}", std::process::id()));
        for (name, filter) in [("all", 0), ("eth0", 1), ("eth1", 2), ("eth2", 0)] {
            fs::create_dir_all(root.join(name)).unwrap();
            write(&root, name, filter).unwrap();
        }
        let mut check = SourceCheck { kernel: root.clone(), record: root.join("record"), former: SortedMap::new() };
        let names = ["eth0", "eth1", "eth2", "gone"].map(String::from);
        for _ in 0..2 {
            check.loosen(&names).unwrap();
        }
        let filters = || ["eth0", "eth1", "eth2"].map(|name| read(&root, name).unwrap());
        assert_eq!(filters(), [2, 2, 0]);
        assert_eq!(fs::read_to_string(root.join("record")).unwrap(), "eth0 1");
        check.restore();
        assert_eq!(filters(), [1, 2, 0]);
        assert!(!root.join("record").exists());
        write(&root, "all", 1).unwrap();
        check.loosen(&names).unwrap();
        assert_eq!(filters(), [2, 2, 2], "the greater number of the two holds");
        write(&root, "eth0", 0).unwrap();
        check.restore();
        assert_eq!(filters(), [0, 2, 0], "what somebody has set meanwhile stays");
        fs::remove_dir_all(root).unwrap();
    }
}

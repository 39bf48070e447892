//! The rights that the daemon keeps after its start, for a day on which an attacker runs code inside of it (fault P3). docs/internals/sandbox.md has the list, and the
//! reasons.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use taut_event::effective_uid;
use taut_sandbox::{
    Access, Capability, Filter, Ruleset, Sockets, Verdict, calls, keep_capabilities, lock_memory, no_core_dumps,
    no_new_privileges,
};

use crate::api::{MissingPart, SandboxStatus};
use crate::config::DaemonConfig;

/// Enters the sandbox. The process must have one thread, and must have started what it cannot start afterwards. Parts that the kernel lacks are left out.
pub(crate) fn enter(config: &DaemonConfig) -> SandboxStatus {
    let mut status = SandboxStatus::default();
    let mut note = |part: &str, result: io::Result<()>| match result {
        Ok(()) => status.on.push(String::from(part)),
        Err(error) => status.missing.push(MissingPart { part: String::from(part), reason: error.to_string() }),
    };
    note("core-dumps", no_core_dumps());
    if has_swap() {
        note("swap", lock_memory());
    }
    note("privileges", no_new_privileges());
    note("files", close_files(config).map_err(|error| explained(error, NO_LANDLOCK)));
    note("capabilities", keep_capabilities(&kept_capabilities(config)));
    // The last one: the others need calls that it refuses.
    note("system-calls", filter().enter().map_err(|error| explained(error, NO_SECCOMP)));
    status
}

const NO_LANDLOCK: &str = "this kernel has no Landlock, which came with Linux 5.13, or leaves it switched off";
/// qemu-user refuses the call, too: the filter would be that of the emulator.
const NO_SECCOMP: &str = "this kernel, or what emulates the processor, has no filter of system calls (seccomp)";

/// Says in words that a call is missing; other errors stay as they are.
fn explained(error: io::Error, missing: &str) -> io::Error {
    if error.kind() != io::ErrorKind::Unsupported {
        return error;
    }
    io::Error::new(error.kind(), missing)
}

/// Returns true if memory may be written to a disk.
fn has_swap() -> bool {
    // The first line has the headings.
    fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().nth(1).is_some())
}

/// The directories that the daemon changes: its keys and maps, and its sockets with what a crash leaves behind.
fn own_directories(config: &DaemonConfig) -> [&Path; 2] {
    let sockets = config.socket.parent().filter(|parent| !parent.as_os_str().is_empty());
    [&config.state_dir, sockets.unwrap_or(Path::new("."))]
}

fn close_files(config: &DaemonConfig) -> io::Result<()> {
    let mut rules = Ruleset::new()?;
    for directory in own_directories(config) {
        rules.allow(directory, Access::Change)?;
    }
    // What a host or a container does not have needs no rule.
    for (path, access) in [
        // The counters and the ports in use. Nothing there of other processes is within reach: Landlock keeps them apart as if they were traced.
        ("/proc", Access::Read),
        // Forwarding, source checks and addresses of interfaces.
        ("/proc/sys/net", Access::Write),
        ("/dev/net", Access::Device),
        // The limits of the cores that this process may use.
        ("/sys/fs/cgroup", Access::Read),
    ] {
        let _ = rules.allow(Path::new(path), access);
    }
    rules.enter().map(drop)
}

/// Returns the capabilities that are needed after the start.
fn kept_capabilities(config: &DaemonConfig) -> Vec<Capability> {
    // The ports of the settings may be below 1024, and a program that redirects packets by NetAdmin needs no right to listen. Lanes that start later are steered by
    // programs for the kernel.
    let mut kept = vec![Capability::NetAdmin, Capability::NetBindService, Capability::Bpf];
    // The way to the directory counts, too: one above it may belong to another user who lets nobody in. Landlock bounds what the capability reaches.
    let is_open = |above: &Path| {
        fs::metadata(above).is_ok_and(|found| found.uid() == effective_uid() || found.mode() & 0o001 != 0)
    };
    let is_own = |directory: &Path| {
        let owned = fs::metadata(directory).is_ok_and(|found| found.uid() == effective_uid());
        owned && fs::canonicalize(directory).is_ok_and(|path| path.ancestors().skip(1).all(is_open))
    };
    if !own_directories(config).into_iter().all(is_own) {
        kept.push(Capability::DacOverride);
    }
    if fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|release| devices_need_net_raw(&release)) {
        kept.push(Capability::NetRaw);
    }
    kept
}

/// Returns true if a kernel of this release lets nobody without `CAP_NET_RAW` choose the device of a socket (`SO_BINDTODEVICE`): before Linux 5.7. The daemon does it for
/// questions to name servers of the overlay. False for a release that has no such number.
fn devices_need_net_raw(release: &str) -> bool {
    let mut numbers = release.split(|sign: char| !sign.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    matches!((numbers.next(), numbers.next()), (Some(major), Some(minor)) if (major, minor) < (5, 7))
}

/// The system calls of a daemon that has started. Code that runs programs or reaches into other processes is not the daemon's, so these calls end it: a clean restart
/// is better than a process that an attacker is in. Anything else is refused, because a library may have another way.
fn filter() -> Filter {
    Filter::default()
        .with(calls::PROCESS, Verdict::Allow)
        .with(calls::FILES, Verdict::Allow)
        .with(calls::SOCKETS, Verdict::Allow)
        .with(calls::WAITS, Verdict::Allow)
        .with(calls::OLDER, Verdict::Allow)
        .with(calls::ATTACKS, Verdict::Kill)
        .with_threads()
        .with_own_signals()
        .with_sockets(&[Sockets::Internet, Sockets::NetworkSettings])
        .with_memory()
        .with_devices()
        .with_own_options()
        .with_kernel_programs()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{NO_LANDLOCK, NO_SECCOMP, devices_need_net_raw, explained};

    #[test]
    fn kernels_before_5_7_keep_the_right_to_choose_a_device() {
        for old in ["4.14.336", "4.19.0-27-amd64\n", "5.4.0", "5.6.19-yocto-standard", "3.10.108"] {
            assert!(devices_need_net_raw(old), "{old}");
        }
        for new in
            ["5.7.0", "5.10.0-32-amd64\n", "6.1.176", "6.18.44-fc-v657", "10.0.1", "", "unknown", "5", "99999999999.1"]
        {
            assert!(!devices_need_net_raw(new), "{new}");
        }
    }

    #[test]
    fn a_kernel_without_landlock_or_filters_is_named_and_other_errors_stay() {
        // ENOSYS and EOPNOTSUPP on every Linux but MIPS, which has other numbers.
        let numbers = if cfg!(any(target_arch = "mips", target_arch = "mips64")) { [89, 122] } else { [38, 95] };
        for number in numbers {
            let error = |missing| explained(io::Error::from_raw_os_error(number), missing).to_string();
            assert!(error(NO_LANDLOCK).contains("Linux 5.13"), "{number}");
            assert!(error(NO_SECCOMP).contains("seccomp"), "{number}");
        }
        assert_eq!(explained(io::Error::from_raw_os_error(1), NO_LANDLOCK).raw_os_error(), Some(1));
    }
}

//! The few facts about, and changes to, the process itself that a daemon needs.

use std::io;

/// Leaves the terminal's session, so that closing the terminal does not end the daemon (`setsid`). Fails with
/// `PermissionDenied` in a process that leads a process group; a freshly started child does not.
pub fn new_session() -> io::Result<()> {
    // SAFETY: no pointers.
    if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The user whose rights this process has.
pub fn effective_uid() -> u32 {
    // SAFETY: no pointers, cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether this process runs as root. It may still lack capabilities (in a container), so the kernel's answer to a call
/// is what counts; this serves for better messages.
pub fn is_root() -> bool {
    effective_uid() == 0
}

#[cfg(test)]
mod tests {
    use super::{effective_uid, is_root, new_session};
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn the_effective_user_owns_our_process_directory() {
        let owner = std::fs::metadata("/proc/self").unwrap().uid();
        assert_eq!(effective_uid(), owner);
        assert_eq!(is_root(), owner == 0);
    }

    #[test]
    fn a_child_can_leave_our_session() {
        let mut child = Command::new("cat");
        child.arg("/proc/self/stat");
        // SAFETY: setsid is async-signal-safe and touches no memory of ours.
        unsafe { child.pre_exec(new_session) };
        let answer = String::from_utf8(child.output().unwrap().stdout).unwrap();
        // man 5 proc: pid (comm) state ppid pgrp session
        let fields: Vec<&str> = answer.split_whitespace().collect();
        assert_eq!(fields[5], fields[0], "its own process leads its session: {answer}");
    }
}

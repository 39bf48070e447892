//! Properties of the whole process: privileges of programs that it runs, and copies of its memory on a disk.

use std::io;

use crate::checked;

/// Sets an option of the process that takes one number (man 2 prctl).
fn set(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    let unused: libc::c_ulong = 0;
    // SAFETY: the options that this module uses take no pointers.
    let result = unsafe { libc::prctl(option, value, unused, unused, unused) };
    checked(result.into()).map(drop)
}

/// Keeps every program that the calling thread runs, or one that it starts later, from having more rights than it, such as those of a set-user-ID file. A process without `CAP_SYS_ADMIN` needs this
/// before [`crate::Filter::enter`] and [`crate::Ruleset::enter`].
///
/// # Errors
/// If the kernel is older than Linux 3.5.
pub fn no_new_privileges() -> io::Result<()> {
    set(libc::PR_SET_NO_NEW_PRIVS, 1)
}

/// Has the kernel write no core dump of this process, also not to a program that collects them, and lets no other process without `CAP_SYS_PTRACE` read its memory.
///
/// # Errors
/// If the kernel refuses one of the two.
pub fn no_core_dumps() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` lives across the call, which only reads it.
    let limit = checked(unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) }.into()).map(drop);
    // A limit of zero does not keep a dump from a program in /proc/sys/kernel/core_pattern, and this does (man 5 core).
    set(libc::PR_SET_DUMPABLE, 0).and(limit)
}

/// Keeps all memory of the process, now and later, out of swap. Only pages that are used take memory, as before (`MCL_ONFAULT`, Linux 4.4). The program itself stays free to
/// leave memory when it is short: its pages are on the disk in any case.
///
/// # Errors
/// Without `CAP_IPC_LOCK` and `CAP_SYS_RESOURCE`: the limit of locked memory must be lifted first, or a later allocation would fail at it.
pub fn lock_memory() -> io::Result<()> {
    let all = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `all` lives across the call, which only reads it.
    checked(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const all) }.into())?;
    lock_all_but_code()
}

fn lock_all_but_code() -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) }.into())?;
    let (start, length) = code();
    // SAFETY: the range is mapped, and what is in it stays as it is.
    checked(unsafe { libc::munlock(start, length) }.into()).map(drop)
}

/// Takes the pages of the program's file out of this process. What runs next maps those that it needs again, 64 KiB at a time and as a rule from memory; pages that only the
/// start needed stay away.
///
/// # Errors
/// If the kernel refuses it.
pub fn forget_code() -> io::Result<()> {
    let (start, length) = code();
    // SAFETY: the range is mapped from a file and never written, so each page comes back as it was.
    checked(unsafe { libc::madvise(start, length, libc::MADV_DONTNEED) }.into()).map(drop)
}

/// Returns the part of this program's memory that is mapped from its file and is never written: from its first page to the end of its code. What is writable until the
/// program has started, which includes the tables of a program at a random address, comes after it.
fn code() -> (*mut libc::c_void, usize) {
    unsafe extern "C" {
        // Names that linkers define (man 3 end, and the default script of GNU ld).
        safe static __executable_start: u8;
        safe static etext: u8;
    }
    let start = (&raw const __executable_start).cast_mut();
    // Down to whole pages of any size: the next part may begin in the last one.
    let length = ((&raw const etext).addr() - start.addr()) & !(LARGEST_PAGE - 1);
    (start.cast(), length)
}

/// The largest pages of the processors that Linux runs on, 64 KiB.
const LARGEST_PAGE: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs one test of this program again in a process of its own, because what it gives up stays so; returns true in that process.
    fn is_child(name: &str) -> bool {
        if std::env::var("TAUT_SANDBOX_CHILD").is_ok_and(|child| child == name) {
            return true;
        }
        let test = format!("process::tests::{name}");
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", &test, "--test-threads", "1"]).env("TAUT_SANDBOX_CHILD", name).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        false
    }

    fn status(name: &str) -> String {
        let all = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = all.lines().find(|line| line.starts_with(name)).unwrap();
        String::from(line.split_whitespace().nth(1).unwrap())
    }

    #[test]
    fn no_core_is_dumped_and_no_privilege_gained() {
        if is_child("no_core_is_dumped_and_no_privilege_gained") {
            no_core_dumps().unwrap();
            no_new_privileges().unwrap();
            let unused: libc::c_ulong = 0;
            // SAFETY: no pointers.
            let dumpable = unsafe { libc::prctl(libc::PR_GET_DUMPABLE, unused, unused, unused, unused) };
            let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
            let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
            assert_eq!((dumpable, core.split_whitespace().nth(4)), (0, Some("0")));
            assert_eq!(status("NoNewPrivs"), "1");
        }
    }

    #[test]
    fn the_program_itself_is_not_locked() {
        if is_child("the_program_itself_is_not_locked") {
            match lock_all_but_code() {
                Ok(()) => {
                    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
                    let locked = |sign: &str| {
                        let mut lines = smaps.lines().skip_while(|line| !line.contains(sign));
                        lines.find(|line| line.starts_with("VmFlags")).unwrap().contains(" lo")
                    };
                    assert_eq!((locked(" r-xp "), locked("[heap]")), (false, true));
                }
                Err(error) => {
                    assert!(matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::OutOfMemory));
                }
            }
        }
    }

    #[test]
    fn pages_of_the_program_go_and_come_back() {
        if is_child("pages_of_the_program_go_and_come_back") {
            let mapped = || {
                let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
                let mut lines = smaps
                    .lines()
                    .skip_while(|line| !line.contains(" r-xp "))
                    .skip_while(|line| !line.starts_with("Rss:"));
                lines.next().unwrap().split_whitespace().nth(1).unwrap().parse::<usize>().unwrap()
            };
            let (start, length) = code();
            // SAFETY: the range is mapped from the program's file, and nothing writes to it.
            let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) };
            let sum = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
            let (before, all) = (sum(bytes), mapped());
            forget_code().unwrap();
            // The code that reads `smaps` is mapped again, in blocks of 64 KiB, so some pages are back.
            assert!(mapped() < all, "{} of {all} KiB are left", mapped());
            assert_eq!(sum(bytes), before);
        }
    }

    #[test]
    fn all_memory_is_locked_where_that_is_allowed() {
        if is_child("all_memory_is_locked_where_that_is_allowed") {
            match lock_memory() {
                Ok(()) => {
                    let grown = vec![1_u8; 8 << 20];
                    let locked: usize = status("VmLck").parse().unwrap();
                    assert!(locked >= grown.len() / 1024, "{locked} KiB");
                }
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
            }
        }
    }
}

//! Facts about the process that a daemon needs, and changes to it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Leaves the terminal's session, so that closing the terminal does not end the daemon (`setsid`). Fails with
/// `PermissionDenied` in a process that leads a process group; a freshly started child does not.
pub fn new_session() -> io::Result<()> {
    // SAFETY: no pointers.
    if unsafe { libc::setsid() } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the effective user id of this process.
pub fn effective_uid() -> u32 {
    // SAFETY: no pointers, cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns true if this process runs as root. It may still lack capabilities (in a container), so this is only for messages;
/// the kernel's answer to a call decides.
pub fn is_root() -> bool {
    effective_uid() == 0
}

/// Returns the number of descriptors that this process may have open (`RLIMIT_NOFILE`, the soft limit); `None` if the kernel does not report it.
pub fn open_files() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` has room for the answer and lives across the call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (result == 0).then_some(limit.rlim_cur)
}

/// Raises the soft limit of descriptors to the hard one, for servers that hold a connection per client: the usual soft limit of 1,024 is low because of
/// programs that use `select`. Returns the new limit; `None` if the kernel does not report it.
pub fn raise_open_files() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` has room for the answer and lives across the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return None;
    }
    // Without a hard limit the kernel's own applies, `fs.nr_open`: 1,048,576 unless an administrator changed it (man 5 proc).
    let wanted = libc::rlimit { rlim_cur: limit.rlim_max.min(1 << 20), rlim_max: limit.rlim_max };
    if wanted.rlim_cur > limit.rlim_cur {
        // SAFETY: `wanted` lives across the call. If the kernel refuses, the limit stays, and the return value shows it.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) };
    }
    open_files()
}

/// Returns a new handle of the inherited descriptor `number`, which is closed in children. The number itself stays open until the process
/// ends, because another part of the program may own it. Fails with `EBADF` if the number is not open.
pub fn inherit(number: RawFd) -> io::Result<OwnedFd> {
    // The new number is above the three standard descriptors, one of which may be closed.
    // SAFETY: no pointers; a number that is not open is refused by the kernel.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: the direct result of a call that makes a descriptor.
    unsafe { crate::owned(copy) }
}

/// Returns true if a descriptor is a listening socket (`SO_ACCEPTCONN`, man 7 socket). A poller would always report another
/// socket as ready.
pub fn is_listening(socket: BorrowedFd<'_>) -> bool {
    let mut answer: libc::c_int = 0;
    let mut length = libc::socklen_t::try_from(size_of_val(&answer)).unwrap_or_default();
    // SAFETY: `answer` has room for `length` bytes, and both live across the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ACCEPTCONN,
            (&raw mut answer).cast(),
            &raw mut length,
        )
    };
    result == 0 && answer != 0
}

#[cfg(test)]
mod tests {
    use super::{effective_uid, inherit, is_listening, is_root, new_session, open_files, raise_open_files};
    use std::io::{Read, Write};
    use std::os::fd::{AsFd, AsRawFd};
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn the_effective_user_owns_our_process_directory() {
        let owner = std::fs::metadata("/proc/self").unwrap().uid();
        assert_eq!(effective_uid(), owner);
        assert_eq!(is_root(), owner == 0);
    }

    #[test]
    fn the_limit_of_open_files_is_what_the_kernel_shows() {
        let shown = std::fs::read_to_string("/proc/self/limits").unwrap();
        let line = shown.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let soft = line.split_whitespace().nth(3).unwrap();
        assert_eq!(open_files(), soft.parse().ok().or(Some(libc::RLIM_INFINITY)));
    }

    #[test]
    fn fault_p6_the_limit_of_open_files_is_raised_to_the_hard_one() {
        const CHILD: &str = "TAUT_EVENT_TEST_RAISES";
        if std::env::var_os(CHILD).is_some() {
            assert_eq!((open_files(), raise_open_files(), open_files()), (Some(100), Some(200), Some(200)));
            assert_eq!(raise_open_files(), Some(200), "nothing is left to raise");
            return;
        }
        // The test runs in a separate process, because other tests of this one need more descriptors.
        let own = std::env::current_exe().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -Sn 100 && ulimit -Hn 200 && exec \"$0\" --exact \"$1\" --test-threads 1"]).arg(own);
        shell.arg("process::tests::fault_p6_the_limit_of_open_files_is_raised_to_the_hard_one").env(CHILD, "1");
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }

    #[test]
    fn an_inherited_descriptor_is_a_handle_of_its_own() {
        let (mut near, far) = UnixStream::pair().unwrap();
        let copy = inherit(far.as_raw_fd()).unwrap();
        assert!(copy.as_raw_fd() > 2 && copy.as_raw_fd() != far.as_raw_fd());
        drop(far);
        near.write_all(b"x").unwrap();
        let mut read = [0];
        UnixStream::from(copy).read_exact(&mut read).unwrap();
        assert_eq!(&read, b"x");
        for closed in [-1, i32::MAX] {
            assert_eq!(inherit(closed).unwrap_err().raw_os_error(), Some(libc::EBADF));
        }
    }

    #[test]
    fn only_a_listener_listens() {
        let path = std::env::temp_dir().join(format!("taut-event-listens-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(is_listening(listener.as_fd()));
        assert!(!is_listening(UnixStream::pair().unwrap().0.as_fd()));
        assert!(!is_listening(std::fs::File::open("/dev/null").unwrap().as_fd()));
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

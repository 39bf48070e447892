//! A filter of system calls, and its way into the kernel.

use std::io;

use taut_base::SortedMap;

use crate::calls::{self, Call};
use crate::checked;
use crate::program::{Check, Leaf, Verdict, assemble};

/// First number of the system calls of x32, the 32-bit programs of x86-64 (`__X32_SYSCALL_BIT`, arch/x86/include/uapi/asm/unistd.h).
const X32: u32 = 0x4000_0000;

/// A list of system calls with their verdicts, for [`Filter::enter`]. A call that is not in it fails with `EPERM`, and one that is newer than this list with `ENOSYS`, as on
/// a kernel without it: libraries then use an older one.
#[derive(Clone, Default)]
pub struct Filter {
    calls: SortedMap<u32, Leaf>,
    /// Whether a call that is not in the list is allowed.
    is_lenient: bool,
}

impl Filter {
    /// Begins a list of calls that are refused, for a program whose libraries make calls that nobody has listed: others are allowed.
    pub fn lenient() -> Self {
        Self { is_lenient: true, ..Self::default() }
    }

    /// Gives all these calls the same verdict.
    #[must_use]
    pub fn with(self, calls: &[Call], verdict: Verdict) -> Self {
        self.with_leaf(calls, &Leaf::Verdict(verdict))
    }

    /// Allows these calls if the arguments pass all checks of at least one way.
    #[must_use]
    pub fn with_arguments(self, calls: &[Call], ways: &[Vec<Check>]) -> Self {
        self.with_leaf(calls, &Leaf::Ways(ways.to_vec()))
    }

    fn with_leaf(mut self, calls: &[Call], leaf: &Leaf) -> Self {
        for call in calls {
            self.calls.insert(call.number(), leaf.clone());
        }
        self
    }

    /// Has the kernel apply the filter to all threads of the process. Needs [`crate::no_new_privileges`].
    ///
    /// # Errors
    /// If the kernel or the container runtime has no filters, or this processor's system calls are not known here.
    pub fn enter(&self) -> io::Result<()> {
        let architecture = calls::ARCHITECTURE.ok_or(io::ErrorKind::Unsupported)?;
        let program = assemble(architecture, &self.leaves());
        let length = u16::try_from(program.len()).map_err(io::Error::other)?;
        let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
        // No report of refused calls: libc tries `clone3` for every thread.
        // SAFETY: `program` and what it points to live across the call, which only reads them.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const program,
            )
        };
        match checked(result)? {
            0 => Ok(()),
            thread => Err(io::Error::other(format!("thread {thread} has a filter of its own"))),
        }
    }

    /// The whole range of numbers, in order, without neighbours of the same verdict.
    fn leaves(&self) -> Vec<(u32, Leaf)> {
        let (other, newer_calls) = match self.is_lenient {
            true => (Verdict::Allow, Verdict::Allow),
            false => (Verdict::Refuse(libc::EPERM), Verdict::Refuse(libc::ENOSYS)),
        };
        let other = Leaf::Verdict(other);
        let mut leaves = vec![(0, other.clone())];
        for (number, leaf) in &self.calls {
            leaves.push((*number, leaf.clone()));
            leaves.push((number + 1, other.clone()));
        }
        let newer = calls::NEWEST + 1;
        leaves.retain(|(number, _)| *number < newer);
        leaves.push((newer, Leaf::Verdict(newer_calls)));
        if cfg!(target_arch = "x86_64") && self.is_lenient {
            // The same calls once more, for x32 programs: nothing that is refused may be reached by another number.
            leaves.push((X32, Leaf::Verdict(Verdict::Refuse(libc::ENOSYS))));
        }
        // A call right behind another begins where that one's end was noted.
        leaves.dedup_by(|later, earlier| {
            later.0 == earlier.0 && {
                earlier.1 = later.1.clone();
                true
            }
        });
        leaves.dedup_by(|later, earlier| later.1 == earlier.1);
        leaves
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    use super::*;
    use crate::{Sockets, no_new_privileges};

    #[test]
    fn the_leaves_cover_all_numbers_once() {
        let [read, write, execute] =
            [libc::SYS_read, libc::SYS_write, libc::SYS_execve].map(|number| Call::new(number).number());
        let filter = Filter::default()
            .with(&[Call::new(libc::SYS_read), Call::new(libc::SYS_write)], Verdict::Allow)
            .with(&[Call::new(libc::SYS_execve)], Verdict::Kill);
        let leaves = filter.leaves();
        let verdict = |number: u32| leaves.iter().rfind(|(from, _)| *from <= number).unwrap().1.clone();
        assert!(leaves.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1));
        assert_eq!(leaves[0].0, 0);
        for (number, wanted) in [
            (read, Verdict::Allow),
            (write, Verdict::Allow),
            (execute, Verdict::Kill),
            (execute - 1, Verdict::Refuse(libc::EPERM)),
            (execute + 1, Verdict::Refuse(libc::EPERM)),
            (calls::NEWEST, Verdict::Refuse(libc::EPERM)),
            (calls::NEWEST + 1, Verdict::Refuse(libc::ENOSYS)),
            (u32::MAX, Verdict::Refuse(libc::ENOSYS)),
        ] {
            assert_eq!(verdict(number), Leaf::Verdict(wanted), "{number}");
        }
    }

    #[test]
    fn a_lenient_filter_refuses_only_what_is_listed() {
        let leaves = Filter::lenient().with(&[Call::new(libc::SYS_mount)], Verdict::Refuse(libc::EPERM)).leaves();
        let mount = Call::new(libc::SYS_mount).number();
        let (allow, refuse) = (Leaf::Verdict(Verdict::Allow), Leaf::Verdict(Verdict::Refuse(libc::EPERM)));
        let mut wanted = vec![(0, allow.clone()), (mount, refuse), (mount + 1, allow)];
        if cfg!(target_arch = "x86_64") {
            wanted.push((X32, Leaf::Verdict(Verdict::Refuse(libc::ENOSYS))));
        }
        assert_eq!(leaves, wanted);
    }

    /// Runs this test's own program again with a variable, because a filter stays.
    fn child(name: &str) -> std::process::Output {
        let own = std::env::current_exe().unwrap();
        let mut command = Command::new(own);
        command.args([
            "--exact",
            "filter::tests::a_filter_holds_for_all_threads",
            "--test-threads",
            "1",
            "--nocapture",
        ]);
        command.env("TAUT_SANDBOX_TEST", name).output().unwrap()
    }

    fn confined(last: impl FnOnce()) {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let earlier = std::thread::spawn(move || {
            held.recv().unwrap();
            fs::create_dir("/nonexistent/x").map_err(|error| error.raw_os_error())
        });
        no_new_privileges().unwrap();
        let ordinary = Filter::default()
            .with(calls::PROCESS, Verdict::Allow)
            .with(calls::FILES, Verdict::Allow)
            .with(calls::SOCKETS, Verdict::Allow)
            .with(calls::WAITS, Verdict::Allow)
            .with(calls::OLDER, Verdict::Allow)
            .with_memory()
            .with_threads()
            .with(&[Call::new(libc::SYS_mkdirat)], Verdict::Refuse(libc::EXDEV))
            .with(calls::ATTACKS, Verdict::Kill)
            .with_devices()
            .with_sockets(&[Sockets::Internet]);
        #[cfg(target_arch = "x86_64")]
        let ordinary = ordinary.with(&[Call::new(libc::SYS_mkdir)], Verdict::Refuse(libc::EXDEV));
        ordinary.enter().unwrap();
        hold.send(()).unwrap();
        assert_eq!(earlier.join().unwrap(), Err(Some(libc::EXDEV)), "a thread from before has the filter");
        let later = std::thread::spawn(|| UnixStream::pair().map(drop).map_err(|error| error.raw_os_error()));
        assert_eq!(later.join().unwrap(), Err(Some(libc::EPERM)), "and one that came after");
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // SAFETY: no pointers.
        let owned = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_SETOWN, libc::getppid()) };
        assert_eq!(
            (owned, io::Error::last_os_error().raw_os_error()),
            (-1, Some(libc::EPERM)),
            "a signal for the parent"
        );
        let parent = std::os::unix::process::parent_id();
        // SAFETY: `parent` lives across the call, which only reads it.
        let owned = unsafe { libc::ioctl(socket.as_raw_fd(), 0x8901, &raw const parent) };
        assert_eq!((owned, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)), "the same by ioctl");
        // SAFETY: no pointers.
        let flags = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_GETFL) };
        assert!(flags >= 0, "other commands are allowed");
        // SAFETY: no pointers.
        let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_ICMP) };
        assert_eq!((raw, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)));
        last();
        std::process::exit(77);
    }

    #[test]
    fn a_filter_holds_for_all_threads() {
        match std::env::var("TAUT_SANDBOX_TEST").as_deref() {
            Ok("ordinary") => confined(|| {}),
            Ok("attack") => confined(|| {
                let empty = [std::ptr::null::<libc::c_char>()];
                // SAFETY: the path and the empty lists end as execve expects.
                unsafe { libc::execve(c"/bin/true".as_ptr(), empty.as_ptr(), empty.as_ptr()) };
            }),
            _ => {}
        }
        let ordinary = child("ordinary");
        assert_eq!(ordinary.status.code(), Some(77), "{ordinary:?}");
        let attack = std::os::unix::process::ExitStatusExt::signal(&child("attack").status);
        assert_eq!(attack, Some(libc::SIGSYS));
    }
}

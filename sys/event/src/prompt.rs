//! Precise wake-ups and scheduling priority of a thread.

use std::io;
use std::mem;

/// Makes the waits of the calling thread end when they are due. By default the kernel ends them up to 50 µs later (`PR_SET_TIMERSLACK`, man 2 prctl), so
/// that one wake-up serves several timers, which saves power. A delay of a thousandth of the wait's length (`select_estimate_accuracy` in fs/select.c) and
/// the scheduling delay remain. Threads that this one starts inherit the setting.
pub fn precise_timers() -> io::Result<()> {
    // Nanoseconds; 0 means the default.
    let slack: libc::c_ulong = 1;
    let unused: libc::c_ulong = 0;
    // SAFETY: no pointers; this option takes a number.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack, unused, unused, unused) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes the calling thread run as soon as it has work, before every ordinary program on its core (`SCHED_FIFO` at its lowest
/// priority, man 7 sched). Children and threads that it starts are ordinary again. Fails with `PermissionDenied` without `CAP_SYS_NICE`.
///
/// A thread that never waits leaves other programs on its core only the 5 % that the kernel reserves for them.
pub fn run_first() -> io::Result<()> {
    // SAFETY: all bytes zero is a valid `sched_param`, whatever fields a libc gives it.
    let mut parameters: libc::sched_param = unsafe { mem::zeroed() };
    parameters.sched_priority = 1;
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: 0 is the calling thread; `parameters` lives across the call, which only reads it.
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::{precise_timers, run_first};
    use std::io::ErrorKind;
    use std::thread;

    fn slack() -> libc::c_int {
        let unused: libc::c_ulong = 0;
        // SAFETY: no pointers; the answer is the result.
        unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, unused, unused, unused, unused) }
    }

    fn policy() -> libc::c_int {
        // SAFETY: no pointers; 0 is the calling thread.
        unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
    }

    #[test]
    fn the_thread_that_asks_has_precise_timers_and_no_other() {
        let before = slack();
        let own = thread::spawn(|| precise_timers().map(|()| slack())).join().unwrap();
        assert_eq!(own.unwrap(), 1);
        assert_eq!(slack(), before);
        assert_ne!(before, 1, "there was something to change");
    }

    #[test]
    fn the_thread_that_asks_runs_first_where_it_may() {
        let before = policy();
        let answer = thread::spawn(|| run_first().map(|()| (policy(), thread::spawn(policy).join().unwrap())));
        match answer.join().unwrap() {
            Ok((own, child)) => assert_eq!((own, child), (libc::SCHED_FIFO, libc::SCHED_OTHER)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
        }
        assert_eq!(policy(), before);
    }
}

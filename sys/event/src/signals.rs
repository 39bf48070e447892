//! Signals as a descriptor, so that an event loop handles them.

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;

/// A signal that a daemon acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGTERM`: a service manager ends the program in an orderly way.
    Terminate,
    /// `SIGINT`: the user pressed Ctrl-C.
    Interrupt,
    /// `SIGHUP`: the terminal was closed, or the operator requests a reload.
    Hangup,
    /// `SIGUSR1`: the operator requests a report.
    Inquire,
}

impl Signal {
    const ALL: [Self; 4] = [Self::Terminate, Self::Interrupt, Self::Hangup, Self::Inquire];

    fn number(self) -> libc::c_int {
        match self {
            Self::Terminate => libc::SIGTERM,
            Self::Interrupt => libc::SIGINT,
            Self::Hangup => libc::SIGHUP,
            Self::Inquire => libc::SIGUSR1,
        }
    }
}

/// The signals that this process handles.
///
/// They stay blocked when this is dropped: after unblocking, a pending signal would kill the process while it cleans
/// up. Children inherit the mask.
pub struct Signals {
    pending: File,
}

impl Signals {
    /// Blocks `signals` in the calling thread and collects them instead. Call it before other threads start:
    /// they inherit the mask, and a signal goes to any thread that does not block it.
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        let set = signal_set(signals);
        // SAFETY: `set` is initialised; a null pointer means that the former mask is not returned.
        let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        // SAFETY: `set` is initialised, -1 asks for a new descriptor, which is the result.
        let pending =
            unsafe { crate::owned(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)) }?;
        Ok(Self { pending: File::from(pending) })
    }

    /// Returns the next signal that has arrived; `None` if there is none. Never blocks.
    pub fn next(&self) -> Option<Signal> {
        let mut record = [0; size_of::<libc::signalfd_siginfo>()];
        let length = (&self.pending).read(&mut record).ok()?;
        // `ssi_signo` is the first field (man 2 signalfd); the kernel writes whole records only.
        let number = u32::from_ne_bytes(*record.get(..length)?.first_chunk()?);
        Signal::ALL.into_iter().find(|signal| signal.number().cast_unsigned() == number)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pending.as_fd()
    }
}

fn signal_set(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, and the numbers added are valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal.number());
        }
        set.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::{Signal, Signals};
    use crate::{Events, Interest, Poller};
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn a_signal_becomes_readable_and_is_taken_once() {
        let signals = Signals::new(&Signal::ALL).unwrap();
        let poller = Poller::new().unwrap();
        poller.add(signals.as_fd(), 1, Interest::READ).unwrap();
        assert_eq!(signals.next(), None);
        for signal in Signal::ALL {
            // SAFETY: the signal goes to this thread only, which blocks it.
            assert_eq!(unsafe { libc::pthread_kill(libc::pthread_self(), signal.number()) }, 0);
            let mut events = Events::with_capacity(1);
            poller.wait(&mut events, Some(Duration::ZERO)).unwrap();
            assert_eq!(events.len(), 1, "{signal:?}");
            assert_eq!(signals.next(), Some(signal));
            assert_eq!(signals.next(), None);
        }
    }
}

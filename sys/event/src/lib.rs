//! Waiting and waking for plain threads: epoll, eventfd, signalfd and clocks.
//!
//! - [`Poller`] waits for many descriptors at once (epoll, level-triggered);
//! - [`Waker`] lets another thread end that wait (eventfd);
//! - [`channel()`] is a bounded queue from threads to one thread, which a [`Waker`] announces;
//! - [`Signals`] turns termination signals into a readable descriptor (signalfd);
//! - [`boot_time`] and [`wall_clock`] are the two clocks: one to measure with, one to display;
//! - [`ThreadTime`] returns for how long a thread ran or wanted to;
//! - [`precise_timers`] makes the waits of a thread end on time, [`run_first`] raises its priority above ordinary programs;
//! - [`connect()`] connects to a unix socket with a timeout, [`connect_tcp`] to a TCP address with short segments, [`set_backlog`] gives a listener a longer queue, [`peer_credentials`] returns the process at the other end of a unix socket;
//! - [`set_mark`] marks what a socket sends;
//! - [`new_session`], [`effective_uid`], [`is_root`] are the few facts about the process that a daemon asks for, and [`open_files`] is its limit of descriptors, which [`raise_open_files`] raises;
//! - [`ServiceManager`] tells systemd that the process is ready, lives and ends;
//! - [`open_regular`] opens a file that a user named, and refuses a pipe instead of waiting for it;
//! - [`send_descriptor`] and [`receive_descriptor`] pass a descriptor to another process;
//! - [`inherit`] takes over an inherited descriptor, [`is_listening`] returns true if it is a listener.
//!
//! It promises: no call here panics on anything the kernel answers, no wait spins for a timeout below a
//! millisecond, and every descriptor it makes is closed in children (`CLOEXEC`).
//!
//! It refuses: timers, task queues, callbacks, edge triggering. The caller owns its loop; this crate only wakes it.
#![expect(unsafe_code, reason = "epoll, eventfd, signalfd, clocks and the scheduler are reached through libc")]

mod channel;
mod clock;
mod connect;
mod credentials;
mod file;
mod mark;
mod pass;
mod poller;
mod process;
mod prompt;
mod service;
mod signals;
mod tcp;
mod thread_time;
mod waker;
mod watch;

pub use channel::{Receiver, Sender, UNBOUNDED, channel};
pub use clock::{boot_time, wall_clock};
pub use connect::connect;
pub use credentials::{PeerCredentials, peer_credentials};
pub use file::{append_regular_no_link, open_regular, open_regular_no_link};
pub use mark::set_mark;
pub use pass::{receive_descriptor, send_descriptor};
pub use poller::{Event, Events, Interest, Poller};
pub use process::{effective_uid, inherit, is_listening, is_root, new_session, open_files, raise_open_files};
pub use prompt::{precise_timers, run_first};
pub use service::ServiceManager;
pub use signals::{Signal, Signals};
pub use tcp::{bind_to_device, connect_tcp, connect_tcp_through, set_backlog};
pub use thread_time::ThreadTime;
pub use waker::Waker;
pub use watch::DirectoryWatch;

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Returns the descriptor that a system call returned, or the error in `errno`.
///
/// # Safety
/// `fd` must be the direct result of a call that makes a new descriptor which nothing else owns.
unsafe fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: not negative, hence open; the caller guarantees that nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

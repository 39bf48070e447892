//! Waits with epoll until one of many descriptors is ready.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The events for which a descriptor is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Wake when a read would not block.
    pub readable: bool,
    /// Wake when a write would not block.
    pub writable: bool,
}

impl Interest {
    /// Wake only for errors and hang-ups, which the kernel always reports. Backpressure stops a reader this way, without
    /// removing it.
    pub const NONE: Self = Self { readable: false, writable: false };
    /// Wake when readable.
    pub const READ: Self = Self { readable: true, writable: false };
    /// Wake when writable.
    pub const WRITE: Self = Self { readable: false, writable: true };
    /// Wake when either readable or writable.
    pub const READ_WRITE: Self = Self { readable: true, writable: true };

    fn bits(self) -> u32 {
        let read = if self.readable { libc::EPOLLIN } else { 0 };
        let write = if self.writable { libc::EPOLLOUT } else { 0 };
        (read | write).cast_unsigned()
    }
}

/// One ready descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The token given to [`Poller::add`].
    pub token: u64,
    /// A read will not block. Also set on errors and hang-ups, so that the next read returns the error.
    pub readable: bool,
    /// A write will not block. Also set on errors and hang-ups, so that the next write returns the error.
    pub writable: bool,
    /// The other end is gone, or the descriptor has an error (a TUN device that was removed, for example).
    pub hangup: bool,
}

/// The events of one wait, in a buffer that is reused.
pub struct Events {
    slots: Vec<libc::epoll_event>,
    ready: usize,
}

impl Events {
    /// Returns a buffer for at most `capacity` events per wait (at least one). Descriptors that do not fit are reported by the next
    /// wait.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { slots: vec![libc::epoll_event { events: 0, u64: 0 }; capacity.max(1)], ready: 0 }
    }

    /// Iterates over the events of the last wait, in the kernel's order.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.slots.iter().take(self.ready).map(|slot| decode(slot.events, slot.u64))
    }

    /// Returns true if the last wait ended without any event: by its timeout or a signal.
    pub fn is_empty(&self) -> bool {
        self.ready == 0
    }

    /// Returns the number of events of the last wait.
    pub fn len(&self) -> usize {
        self.ready
    }
}

fn decode(bits: u32, token: u64) -> Event {
    let has = |flag: libc::c_int| bits & flag.cast_unsigned() != 0;
    let hangup = has(libc::EPOLLHUP) || has(libc::EPOLLERR);
    Event { token, readable: hangup || has(libc::EPOLLIN), writable: hangup || has(libc::EPOLLOUT), hangup }
}

/// Waits for many descriptors at once. Level-triggered: an event that is not handled is reported again.
pub struct Poller {
    epoll: OwnedFd,
    /// True if `epoll_pwait2` (Linux 5.11, nanosecond timeouts) works; cleared if the kernel or a sandbox refuses it.
    precise: AtomicBool,
}

/// `struct __kernel_timespec` (include/uapi/linux/time_types.h): 64 bits on every architecture, unlike libc's.
#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

impl Poller {
    /// Makes an empty poller. Fails only when the process or the host is out of descriptors or memory.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the result is a new descriptor.
        let epoll = unsafe { crate::owned(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?;
        Ok(Self { epoll, precise: AtomicBool::new(true) })
    }

    /// Watches `fd`, reporting it under `token`. The descriptor must stay open until it is removed; closing the last
    /// copy of it removes it too. Fails with `AlreadyExists` if it is watched already, `PermissionDenied` if it
    /// cannot be waited for (files).
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    /// Changes token and interest of a watched descriptor. Fails with `NotFound` if it is not watched.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    /// Stops watching `fd`. Does nothing if it is not watched.
    pub fn remove(&self, fd: BorrowedFd<'_>) {
        let _ = self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::NONE);
    }

    /// Sleeps until a descriptor is ready, `timeout` has passed (`None`: no timeout), or a signal came. The last two
    /// leave `events` empty. A wait never ends before its timeout by rounding, so a loop that waits for a deadline does
    /// not spin.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
        events.ready = 0;
        match self.wait_once(&mut events.slots, timeout) {
            Ok(ready) => events.ready = ready.min(events.slots.len()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn control(&self, operation: libc::c_int, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.bits(), u64: token };
        // SAFETY: both descriptors are open, and `event` lives across the call.
        let result = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd.as_raw_fd(), &raw mut event) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn wait_once(&self, slots: &mut [libc::epoll_event], timeout: Option<Duration>) -> io::Result<usize> {
        if self.precise.load(Ordering::Relaxed) {
            match self.wait_precise(slots, timeout) {
                // Old kernels answer ENOSYS, container sandboxes that do not know the call EPERM.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.precise.store(false, Ordering::Relaxed);
                }
                answer => return answer,
            }
        }
        self.wait_milliseconds(slots, timeout)
    }

    fn wait_precise(&self, slots: &mut [libc::epoll_event], timeout: Option<Duration>) -> io::Result<usize> {
        let limit = timeout.map(|timeout| KernelTimespec {
            seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: i64::from(timeout.subsec_nanos()),
        });
        let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
        let room = libc::c_int::try_from(slots.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: `slots` has `room` entries to write to, `limit` is null or points to a value that outlives the call,
        // and a null signal mask (whose size is then ignored) leaves the mask alone.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                slots.as_mut_ptr(),
                room,
                limit,
                ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        usize::try_from(result).map_err(|_| io::Error::last_os_error())
    }

    fn wait_milliseconds(&self, slots: &mut [libc::epoll_event], timeout: Option<Duration>) -> io::Result<usize> {
        let limit = timeout.map_or(-1, round_up_to_milliseconds);
        let room = libc::c_int::try_from(slots.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: `slots` has `room` entries to write to.
        let result = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), slots.as_mut_ptr(), room, limit) };
        usize::try_from(result).map_err(|_| io::Error::last_os_error())
    }
}

/// The smallest number of whole milliseconds that is not shorter than `timeout`, at most what epoll takes (24 days).
fn round_up_to_milliseconds(timeout: Duration) -> libc::c_int {
    libc::c_int::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX)
}

#[cfg(test)]
mod tests;

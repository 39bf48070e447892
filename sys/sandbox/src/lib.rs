//! Gives up rights of the process for good: what code that an attacker injects later could otherwise use.
//!
//! - [`no_new_privileges`] keeps a program that this process runs from having more rights;
//! - [`keep_capabilities`] drops all capabilities except a list;
//! - [`Filter`] is a list of system calls; every other one is refused by the kernel (seccomp), and some end the process. [`calls`] has sets of calls;
//! - [`Ruleset`] is a list of files and directories; no others can be opened (Landlock);
//! - [`no_core_dumps`] and [`lock_memory`] keep the memory off the disk.
//!
//! It promises: nothing here gives a right, and each function reports whether the kernel did what was asked, so that a caller can go on with less where a kernel or a
//! container runtime lacks a part.
//!
//! It refuses: rules of any one program, and undoing.
//!
//! Capabilities, privileges and Landlock belong to a thread and to those that it starts afterwards. Enter a sandbox before the process has a second thread.
#![expect(unsafe_code, reason = "capabilities, seccomp, Landlock and the limits of a process are reached through libc")]

mod arguments;
pub mod calls;
mod capability;
mod filter;
mod landlock;
mod process;
mod program;

pub use arguments::Sockets;
pub use capability::{Capability, has_capability, keep_capabilities};
pub use filter::Filter;
pub use landlock::{Access, Ruleset};
pub use process::{forget_code, lock_memory, no_core_dumps, no_new_privileges};
pub use program::{Check, Verdict};

use std::io;

/// Returns the error in `errno` if a call returned a negative number.
fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

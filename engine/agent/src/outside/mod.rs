//! The process `taut outside`: it does for the daemon what the daemon's sandbox refuses. The daemon starts it before it enters the sandbox.
//!
//! ```text
//! taut daemon ── one byte: what is wanted ──▶ taut outside
//!             ◀── a socket ─────────────────
//!             ── on that socket: a question ─▶ a thread of taut outside, which answers and closes it
//!             ── on that socket: settings ───▶ taut dns-helper, which taut outside started
//!             ── on that socket: packets ────▶ taut-userspace, which taut outside started
//! ```
//! - this file: what can be asked for;
//! - `client`: the daemon's end;
//! - `server`: the process.
//!
//! Only a program with the feature `userspace` starts a `taut-userspace`.
//!
//! It gives nothing but this: addresses of a name, as programs of this host find them; the text of three files that name the host's servers; a `taut dns-helper`,
//! which takes no orders that would give the daemon more than it needs (`resolver::check`); and a `taut-userspace`, which has no rights. A daemon that an attacker took over gets no further.

mod client;
mod server;
#[cfg(feature = "userspace")]
mod userspace;

use std::path::Path;

#[cfg(feature = "userspace")]
pub(crate) use client::start_userspace;
pub(crate) use client::{has_ended, start, start_helper, text};
pub use server::run_outside;
pub(crate) use server::{HelperLaunch, Started};

/// The verb of the process. It is in no help text, because only the daemon uses it.
const VERB: &str = "outside";

/// The verb of the process that changes the host's resolver, which is in no help text either.
pub(crate) const HELPER_VERB: &str = "dns-helper";

/// Asks for a `taut dns-helper`.
const HELPER: u8 = b'h';
/// Asks for a `taut-userspace`: the answer is the socket for packets.
#[cfg(feature = "userspace")]
const USERSPACE: u8 = b'u';
/// Asks for the stream to the `taut-userspace` that was started last.
#[cfg(feature = "userspace")]
const USERSPACE_STREAM: u8 = b's';
/// The program with the TCP/IP stack of a node without a TUN device.
#[cfg(feature = "userspace")]
pub(crate) const USERSPACE_PROGRAM: &str = "taut-userspace";

/// Asks for a socket that takes one question: a line.
const QUESTION: u8 = b'q';
/// What is in front of the name and the port of a question for addresses.
const NAME: &str = "name";
/// What is in front of the number of a question for a file.
const FILE: &str = "file";

/// Longest question, 512 bytes: a name has at most 253.
const LONGEST_QUESTION: usize = 512;
/// Longest answer, 64 KiB, as the files are read at most.
const LONGEST_ANSWER: usize = 64 * 1024;

/// A file of the host with the addresses of its servers. The number is that of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ServerFile {
    /// The file in which libc finds its servers.
    ResolvConf = 0,
    /// The file that the host had before `/etc/resolv.conf` named a forwarder of ours.
    Kept = 1,
    /// The servers of systemd-resolved's links, as it lists them.
    OfResolved = 2,
}

impl ServerFile {
    const ALL: [Self; 3] = [Self::ResolvConf, Self::Kept, Self::OfResolved];

    /// Returns where it is.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::ResolvConf => "/etc/resolv.conf",
            Self::Kept => "/etc/resolv.conf.before-taut",
            Self::OfResolved => "/run/systemd/resolve/resolv.conf",
        }
    }

    /// Returns its text, up to [`LONGEST_ANSWER`]; an empty one if it cannot be read.
    fn read(self) -> String {
        use std::io::Read;
        let mut bytes = Vec::new();
        let opened = taut_event::open_regular(Path::new(self.path()));
        let _ = opened.map(|file| file.take(LONGEST_ANSWER as u64).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

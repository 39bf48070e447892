//! Starts `taut-userspace`, the program with the TCP/IP stack of a node without a TUN device.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use taut_tun::packet_pair;

use super::USERSPACE_PROGRAM;

/// Stack of a thread that waits for the program to end, 64 KiB.
const WAITING_STACK: usize = 64 * 1024;

/// A program that runs.
pub(super) struct Started {
    /// The socket for packets.
    pub(super) device: OwnedFd,
    /// The stream for its settings and its reports.
    pub(super) stream: UnixStream,
}

/// Starts the program that lies beside `own`, else the one in PATH.
pub(super) fn start(own: &Path) -> io::Result<Started> {
    start_with(own, ())
}

/// As [`start`]; `held` is dropped when the program has ended.
pub(super) fn start_with(own: &Path, held: impl Send + 'static) -> io::Result<Started> {
    let (device, its_device) = packet_pair()?;
    let (stream, its_stream) = UnixStream::pair()?;
    let mut command = Command::new(program(own));
    // The program talks with peers, and has no need of the enrolment key that a container's variables may hold.
    command.env_remove("TAUT_AUTHKEY");
    let mut child = command.current_dir("/").stdin(its_device).stdout(OwnedFd::from(its_stream)).spawn()?;
    thread::Builder::new().stack_size(WAITING_STACK).spawn(move || {
        let _ = child.wait();
        drop(held);
    })?;
    Ok(Started { device, stream })
}

/// Returns the program beside `own`; its bare name, which is looked up in PATH, if there is none.
fn program(own: &Path) -> PathBuf {
    let beside = own.with_file_name(USERSPACE_PROGRAM);
    if beside.is_file() { beside } else { PathBuf::from(USERSPACE_PROGRAM) }
}

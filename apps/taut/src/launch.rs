//! Starts a daemon in the background, and checks that the host can run one.

#[cfg(feature = "userspace")]
mod userspace;
#[cfg(not(feature = "userspace"))]
#[path = "launch/no_userspace.rs"]
mod userspace;

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use taut_agent::DaemonConfig;
use taut_event::append_regular_no_link;

use crate::client::{Client, NoDaemon};
use crate::fault::Fault;
use crate::flags::DaemonFlags;

pub(crate) use userspace::{do_without_device, forget, note_userspace, recall_userspace};

/// The device that creates TUN interfaces.
const TUN_DEVICE: &str = "/dev/net/tun";
/// Bit of `CAP_NET_ADMIN` in a capability set (include/uapi/linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;
/// File in the state directory that gets the daemon's output.
const LOG: &str = "daemon.log";
/// Size beyond which the log is deleted at the next start, 1 MiB: the log is only for the last few starts.
const MAX_LOG: u64 = 1024 * 1024;
/// Time between two attempts to connect to a new daemon.
const RETRY: Duration = Duration::from_millis(20);

/// Checks that a daemon with these settings can run on this host. Callers check before they change anything.
pub(crate) fn check_host(config: &DaemonConfig) -> Result<(), Fault> {
    // A userspace network needs neither rights nor a device.
    if config.is_userspace() { Ok(()) } else { check_device() }
}

/// Checks what a TUN device needs: privileges, and `/dev/net/tun`.
pub(crate) fn check_device() -> Result<(), Fault> {
    if !may_administer_networks() {
        return Err(Fault::failed(
            "a TUN device and routes need root, or the capability CAP_NET_ADMIN",
            if cfg!(feature = "userspace") {
                "try again with sudo (in a container: --cap-add NET_ADMIN), or without both with `--tun userspace` (see `taut help daemon`)"
            } else {
                "try again as root (in a container: --cap-add NET_ADMIN)"
            },
        ));
    }
    let missing = match fs::metadata(TUN_DEVICE) {
        Ok(metadata) if metadata.file_type().is_char_device() => return Ok(()),
        Ok(_) => String::from("it is not a device"),
        Err(error) => error.to_string(),
    };
    Err(Fault::failed(
        format!("{TUN_DEVICE} cannot be used: {missing}"),
        if cfg!(feature = "userspace") {
            format!(
                "load it with `modprobe tun` (in a container: --device {TUN_DEVICE}), or do without it with `--tun userspace`"
            )
        } else {
            String::from("install it with `opkg install kmod-tun`, or load it with `modprobe tun`")
        },
    ))
}

fn may_administer_networks() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match effective_capabilities(&status) {
        Some(set) => set >> CAP_NET_ADMIN & 1 == 1,
        None => taut_event::is_root(),
    }
}

/// Returns the effective set in the text of `/proc/PID/status` (man 5 proc).
fn effective_capabilities(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Starts a daemon, and returns a connection once it answers.
pub(crate) fn start(flags: &DaemonFlags, deadline: Instant) -> Result<Client, Fault> {
    let (log, path, begin) = open_log(&flags.state)?;
    let its_log = || format!("its log is {}", path.display());
    let mut child =
        spawn(flags, &log).map_err(|error| Fault::failed(format!("the daemon cannot be started: {error}"), ""))?;
    loop {
        match Client::connect(&flags.socket) {
            Ok(client) => return Ok(client),
            Err(NoDaemon::Absent) => {}
            Err(denied) => return Err(denied.explain(&flags.socket)),
        }
        if let Ok(Some(status)) = child.try_wait() {
            let output = output_since(&log, begin);
            return Err(match output.is_empty() {
                true if is_full(&log) => Fault::failed(
                    format!(
                        "the daemon ended at once ({status}), and its log {} cannot be written: the disk is full",
                        path.display()
                    ),
                    "make room on that disk (`df` shows it), and try again",
                ),
                true => Fault::failed(format!("the daemon ended at once ({status})"), its_log()),
                false => Fault::failed(output, ""),
            });
        }
        if Instant::now() >= deadline {
            return Err(Fault::failed("the daemon does not answer", its_log()));
        }
        std::thread::sleep(RETRY);
    }
}

fn spawn(flags: &DaemonFlags, log: &File) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("daemon")
        .args(flags.to_arguments())
        .arg("--ephemeral")
        .current_dir("/")
        // The daemon receives the join token over its socket. In its environment the token would stay visible while it runs.
        .env_remove("TAUT_AUTHKEY")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .spawn()
}

/// Opens the log. Returns it with its path and its length, at which new output begins. The state directory may be another user's, so no link in it is followed.
fn open_log(state: &Path) -> Result<(File, PathBuf, u64), Fault> {
    let path = state.join(LOG);
    let open = || {
        DirBuilder::new().recursive(true).mode(0o700).create(state)?;
        let too_long = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.len() > MAX_LOG);
        if too_long {
            fs::remove_file(&path)?;
        }
        let log = append_regular_no_link(&path)
            .map_err(|error| std::io::Error::new(error.kind(), format!("{LOG}: {error}")))?;
        let begin = log.metadata()?.len();
        Ok((log, begin))
    };
    match open() {
        Ok((log, begin)) => Ok((log, path, begin)),
        Err(error) => {
            let error: std::io::Error = error;
            let full = if error.kind() == ErrorKind::StorageFull { ": its disk is full" } else { "" };
            let message = format!("the state directory {} cannot be used{full}: {error}", state.display());
            Err(Fault::failed(
                message,
                "it must be writable for this user: free or remount the disk, run as root, or choose another one with --state",
            ))
        }
    }
}

/// Returns true if the disk has no room for another line of the log.
fn is_full(mut log: &File) -> bool {
    let written = log.write_all(b"\n");
    written.is_err_and(|error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
}

/// Returns the daemon's output from byte `begin` on, without the program's name at its start.
fn output_since(mut log: &File, begin: u64) -> String {
    // The offset is the daemon's, too, but it writes at the end wherever that is.
    let mut output = String::new();
    if log.seek(SeekFrom::Start(begin)).is_ok() {
        let _ = log.take(4096).read_to_string(&mut output);
    }
    let output = output.trim();
    String::from(output.strip_prefix("taut: ").unwrap_or(output))
}

#[cfg(test)]
mod tests;

//! Starts a daemon in the background, and checks that the host can run one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use taut_agent::DaemonConfig;

use crate::client::{Client, NoDaemon};
use crate::fault::Fault;
use crate::flags::DaemonFlags;

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
            "try again with sudo (in a container: --cap-add NET_ADMIN), or without both with `--tun userspace` (see `taut help daemon`)",
        ));
    }
    let missing = match fs::metadata(TUN_DEVICE) {
        Ok(metadata) if metadata.file_type().is_char_device() => return Ok(()),
        Ok(_) => String::from("it is not a device"),
        Err(error) => error.to_string(),
    };
    Err(Fault::failed(
        format!("{TUN_DEVICE} cannot be used: {missing}"),
        format!(
            "load it with `modprobe tun` (in a container: --device {TUN_DEVICE}), or do without it with `--tun userspace`"
        ),
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
        spawn(flags, log).map_err(|error| Fault::failed(format!("the daemon cannot be started: {error}"), ""))?;
    loop {
        match Client::connect(&flags.socket) {
            Ok(client) => return Ok(client),
            Err(NoDaemon::Absent) => {}
            Err(denied) => return Err(denied.explain(&flags.socket)),
        }
        if let Ok(Some(status)) = child.try_wait() {
            let output = output_since(&path, begin);
            return Err(match output.is_empty() {
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

fn spawn(flags: &DaemonFlags, log: File) -> std::io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("daemon")
        .args(flags.to_arguments())
        .arg("--ephemeral")
        .current_dir("/")
        // The daemon receives the join token over its socket. In its environment the token would stay visible while it runs.
        .env_remove("TAUT_AUTHKEY")
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
}

/// Opens the log. Returns it with its path and its length, at which new output begins.
fn open_log(state: &Path) -> Result<(File, PathBuf, u64), Fault> {
    let path = state.join(LOG);
    let open = || {
        DirBuilder::new().recursive(true).mode(0o700).create(state)?;
        let too_long = fs::metadata(&path).is_ok_and(|metadata| metadata.len() > MAX_LOG);
        if too_long {
            fs::remove_file(&path)?;
        }
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let begin = log.metadata()?.len();
        Ok((log, begin))
    };
    match open() {
        Ok((log, begin)) => Ok((log, path, begin)),
        Err(error) => {
            let error: std::io::Error = error;
            let message = format!("the state directory {} cannot be used: {error}", state.display());
            Err(Fault::failed(
                message,
                "it must be writable for this user: free or remount the disk, run as root, or choose another one with --state",
            ))
        }
    }
}

/// Returns the daemon's output from byte `begin` on, without the program's name at its start.
fn output_since(path: &Path, begin: u64) -> String {
    let mut output = String::new();
    if let Ok(mut log) = File::open(path)
        && log.seek(SeekFrom::Start(begin)).is_ok()
    {
        let _ = log.take(4096).read_to_string(&mut output);
    }
    let output = output.trim();
    String::from(output.strip_prefix("taut: ").unwrap_or(output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_as_the_kernel_writes_them() {
        assert_eq!(effective_capabilities("Name:\tx\nCapEff:\t0000000000001000\n"), Some(1 << CAP_NET_ADMIN));
        assert_eq!(effective_capabilities("Name:\tx\n"), None);
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert!(effective_capabilities(&own).is_some());
    }
}

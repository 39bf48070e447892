//! Starts a daemon in the background, and checks that the host can run one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use taut_agent::DaemonConfig;
use taut_agent::settings::Origin;
use taut_event::append_regular_no_link;

use crate::client::{Client, NoDaemon};
use crate::fault::Fault;
use crate::flags::DaemonFlags;
use crate::output;

/// The device that creates TUN interfaces.
const TUN_DEVICE: &str = "/dev/net/tun";
/// Bit of `CAP_NET_ADMIN` in a capability set (include/uapi/linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;
/// File in the state directory that gets the daemon's output.
const LOG: &str = "daemon.log";
/// Empty file in the state directory while the last daemon that `taut up` started had a userspace network.
const RAN_USERSPACE: &str = "userspace";
/// The settings that need a TUN device, each with the value that a daemon without a device gets.
const WITHOUT_DEVICE: [(&str, &str); 4] =
    [("exit-node", "none"), ("kill-switch", "false"), ("advertise-exit-node", "false"), ("advertise-routes", "none")];
/// Size beyond which the log is deleted at the next start, 1 MiB: the log is only for the last few starts.
const MAX_LOG: u64 = 1024 * 1024;
/// Time between two attempts to connect to a new daemon.
const RETRY: Duration = Duration::from_millis(20);

/// Checks that a daemon with these settings can run on this host. Callers check before they change anything.
pub(crate) fn check_host(config: &DaemonConfig) -> Result<(), Fault> {
    // A userspace network needs neither rights nor a device.
    if config.is_userspace() { Ok(()) } else { check_device() }
}

/// Gives a new daemon a userspace network if the last one of this node had one, no setting says otherwise or needs a device, and this host has no TUN device for it. Flags hold for one daemon, and
/// a user without rights would have to repeat that one for each command that starts another.
pub(crate) fn recall_userspace(flags: &mut DaemonFlags) -> Result<(), Fault> {
    if !flags.state.join(RAN_USERSPACE).exists() || has_device(flags)? {
        return Ok(());
    }
    // A setting that needs a device was given since: the user learns what the device needs, and not of a network that nobody chose.
    if let Some(recalled) = with_userspace(flags)? {
        *flags = recalled;
        output::complain(
            "taut: this host has no TUN device for this user, and the last daemon of this node had a userspace network: this one has it, too",
        );
    }
    Ok(())
}

/// Returns the flags with a userspace network, or `None` if a setting does not go with one.
fn with_userspace(flags: &DaemonFlags) -> Result<Option<DaemonFlags>, Fault> {
    let mut flags = flags.clone();
    flags.choose_userspace()?;
    let conflict = taut_agent::conflict(&flags.clone().resolve()?.config);
    Ok(conflict.is_none().then_some(flags))
}

/// Gives a new daemon a userspace network if this host has no TUN device for it, and takes away for this daemon what needs one: a daemon that only leaves the network needs none of it.
pub(crate) fn do_without_device(flags: &mut DaemonFlags) -> Result<(), Fault> {
    if has_device(flags)? { Ok(()) } else { take_device_away(flags) }
}

fn take_device_away(flags: &mut DaemonFlags) -> Result<(), Fault> {
    WITHOUT_DEVICE.iter().try_for_each(|(name, value)| flags.give(name, value))?;
    flags.choose_userspace()
}

/// Returns true if a setting chooses the device, or this host has a TUN device.
fn has_device(flags: &DaemonFlags) -> Result<bool, Fault> {
    let origin = flags.clone().resolve()?.config.given.origin("tun");
    Ok(!matches!(origin, None | Some(Origin::Network)) || check_device().is_ok())
}

/// Forgets how the last daemon ran. For a node that has left its network.
pub(crate) fn forget(state: &Path) {
    let _ = fs::remove_file(state.join(RAN_USERSPACE));
}

/// Notes in the state directory whether this daemon has a userspace network. Without the note the next command asks for the flag. For a daemon that stays: how one ran that only left the network
/// says nothing about the next.
pub(crate) fn note_userspace(flags: &DaemonFlags) {
    let is_userspace = flags.clone().resolve().is_ok_and(|resolved| resolved.config.is_userspace());
    if is_userspace {
        // An existing file, or a link of another user, is left as it is.
        let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(flags.state.join(RAN_USERSPACE));
    } else {
        forget(&flags.state);
    }
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

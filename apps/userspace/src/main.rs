//! `taut-userspace`: the TCP/IP stack, the proxies and the port forwards of a node without a TUN device.
//!
//! `taut daemon --tun userspace` starts it, with the socket for packets as its standard input and the stream for settings as its standard output. It needs no right and no file, and
//! gives up both before it reads the first byte.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use taut_event::{Signal, Signals, new_session, raise_open_files};
use taut_sandbox::{
    Capability, Filter, Ruleset, Sockets, Verdict, calls, keep_capabilities, no_core_dumps, no_new_privileges,
};

const HELP: &str = "\
taut-userspace: the network of a Taut node without a TUN device

Usage: taut daemon --tun userspace [--socks5 ADDRESS] [--http-proxy ADDRESS] [--forward LIST] [--publish LIST]

The daemon starts this program, which has no options of its own: see `taut help daemon`, and docs/containers.md.";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        None => {}
        Some(word) if word == "--version" || word == "-V" => {
            println!("taut-userspace {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Some(word) if word == "--help" || word == "-h" => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some(word) => {
            eprintln!("taut-userspace: unexpected `{}`\n\n{HELP}", word.display());
            return ExitCode::from(2);
        }
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "taut-userspace: {error}; `taut daemon --tun userspace` starts this program, do not start it by hand"
            );
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    // A terminal's Ctrl-C is for the daemon, whose end this process notices. This fails only for a process that leads its group already.
    let _ = new_session();
    let _signals = Signals::new(&[Signal::Terminate, Signal::Interrupt, Signal::Hangup])?;
    let device = io::stdin().as_fd().try_clone_to_owned()?;
    let control = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    // Anything but a socket has no address.
    control.local_addr()?;
    // Each connection needs one; where the limit is lower, fewer are served.
    let _ = raise_open_files();
    confine();
    taut_netstack::run(device, control)
}

/// Gives up all that this program does not need: files, programs, capabilities but that of ports below 1024, and sockets other than those of the internet. What the kernel or a
/// container runtime lacks is left out; files are closed by two of the layers, because the daemon's keys belong to the same user.
fn confine() {
    let _ = no_core_dumps();
    let _ = no_new_privileges();
    let _ = Ruleset::new().and_then(Ruleset::enter);
    let _ = keep_capabilities(&[Capability::NetBindService]);
    let filter = Filter::default()
        .with(calls::PROCESS, Verdict::Allow)
        .with(calls::FILES, Verdict::Allow)
        .with(calls::SOCKETS, Verdict::Allow)
        .with(calls::WAITS, Verdict::Allow)
        .with(calls::OLDER, Verdict::Allow)
        // Also where the kernel has no Landlock: the daemon's keys belong to the same user.
        .with(calls::PATHS, Verdict::DENIED)
        .with(calls::OLDER_PATHS, Verdict::DENIED)
        .with(calls::ATTACKS, Verdict::Kill)
        .with_own_signals()
        .with_sockets(&[Sockets::Internet])
        .with_memory()
        .with_devices();
    let _ = filter.enter();
}

//! Going to the background: the program starts itself once more, and ends when the new process is ready.
//!
//! Not a fork: that would copy one thread of a program that has several. The new process says one thing on its standard output, which is
//! a pipe to the first: [`READY`], or why it failed.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use taut_keeper::wg;

use super::{FOREGROUND, Log, PROGRAM};
use crate::fault::Fault;

/// Set for the new process alone.
const CHILD: &str = "TAUT_WG_BACKGROUND";

/// What the new process says when `wg` is answered.
const READY: &str = "ready\n";

/// Starts the interface in the background, and returns when it is ready.
pub(super) fn start(config: &wg::Config, log: Log) -> Result<(), Fault> {
    let failed = |error: std::io::Error| {
        Fault::Failed(format!("it cannot go to the background: {error}; use -f, followed by `&`"))
    };
    let switches =
        [(config.tun_offload, "--no-tun-offload"), (config.udp_gso, "--no-udp-gso"), (config.udp_gro, "--no-udp-gro")];
    let keeps_error_output = matches!(log, Log::Error | Log::Verbose);
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .arg0(PROGRAM)
        .args(switches.iter().filter(|(on, _)| !on).map(|(_, flag)| flag))
        .arg(&config.interface)
        .current_dir("/")
        .env(FOREGROUND, "1")
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // Whoever waits for the end of our output would wait for the end of the interface.
        .stderr(if keeps_error_output { Stdio::inherit() } else { Stdio::null() })
        .spawn()
        .map_err(failed)?;
    let mut said = [0; 4096];
    let mut length = 0;
    if let Some(pipe) = &mut child.stdout {
        while length < said.len() && &said[..length] != READY.as_bytes() {
            match pipe.read(&mut said[length..]) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    if &said[..length] == READY.as_bytes() {
        return Ok(());
    }
    let status = child.wait().map_err(failed)?;
    Err(Fault::Failed(match String::from_utf8_lossy(&said[..length]).trim() {
        "" => format!("it ended before it was ready ({status}); run it with -f to see why"),
        words => String::from(words),
    }))
}

/// The new process, seen by itself.
pub(super) struct Child;

impl Child {
    /// Whether this is the new process.
    pub(super) fn of_parent() -> Option<Self> {
        std::env::var_os(CHILD).map(|_| Self)
    }

    /// Runs the interface. What goes wrong before it is ready is told to the first process alone.
    pub(super) fn run(self, serve: impl FnOnce(&mut dyn FnMut()) -> Result<(), Fault>) -> Result<(), Fault> {
        // Refused only to the leader of a group, which has no need of it.
        let _ = taut_event::new_session();
        let mut told = false;
        let result = serve(&mut || {
            told = true;
            tell(READY);
        });
        match result {
            Err(Fault::Failed(message)) if !told => {
                tell(&message);
                Err(Fault::Said)
            }
            result => result,
        }
    }
}

fn tell(words: &str) {
    // Nobody is there to hear it if the first process was killed.
    let mut output = std::io::stdout();
    let _ = output.write_all(words.as_bytes()).and_then(|()| output.flush());
}

//! Going to the background: the program starts itself once more, and ends when the new process is ready.
//!
//! Not a fork: that would copy one thread of a program that has several. The new process says one thing on its standard output, which is
//! a pipe to the first: [`READY`], or why it failed.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use taut_agent::wg;

use super::{FOREGROUND, Log, PROGRAM};
use crate::fault::Fault;

/// Set for the new process alone.
const CHILD: &str = "TAUT_WG_BACKGROUND";

/// What the new process says when `wg` is answered.
const READY: &str = "ready\n";

/// The words of a command line that say what is not as usual.
fn switches(config: &wg::WgConfig) -> impl Iterator<Item = &'static str> {
    let unusual = [
        (config.low_latency, "--low-latency"),
        (!config.tun_offload, "--no-tun-offload"),
        (!config.udp_gso, "--no-udp-gso"),
        (!config.udp_gro, "--no-udp-gro"),
    ];
    unusual.into_iter().filter_map(|(is, switch)| is.then_some(switch))
}

/// Starts the interface in the background, and returns when it is ready.
pub(super) fn start(config: &wg::WgConfig, log: Log) -> Result<(), Fault> {
    let failed = |error: std::io::Error| {
        Fault::failed(format!("it cannot go to the background: {error}"), "use -f, followed by `&`")
    };
    let keeps_error_output = matches!(log, Log::Error | Log::Verbose);
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .arg0(PROGRAM)
        .args(switches(config))
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
    Err(match String::from_utf8_lossy(&said[..length]).trim() {
        "" => Fault::failed(format!("it ended before it was ready ({status})"), "run it with -f to see why"),
        words => Fault::failed(words, ""),
    })
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
            Err(Fault::Failed(failure)) if !told => {
                tell(failure.to_string().trim_end());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_is_told_what_is_unusual() {
        let usual = wg::WgConfig {
            interface: String::from("wg0"),
            tun_offload: true,
            udp_gso: true,
            udp_gro: true,
            low_latency: false,
            rekey_after: None,
        };
        assert_eq!(switches(&usual).count(), 0);
        let other = wg::WgConfig { tun_offload: false, udp_gso: false, udp_gro: false, low_latency: true, ..usual };
        let all = ["--low-latency", "--no-tun-offload", "--no-udp-gso", "--no-udp-gro"];
        assert!(switches(&other).eq(all));
    }
}

//! Goes to the background: the program starts itself again, and ends when the new process is ready.
//!
//! A fork would copy only one thread of a program that has several. The new process writes one message to its standard output, which is a pipe to the
//! first process: [`READY`], or why it failed.

use std::borrow::Cow;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use taut_agent::wg;

use super::{FOREGROUND, Log};
use crate::WG_PROGRAM;
use crate::fault::Fault;

/// Environment variable that is set only for the new process.
const CHILD: &str = "TAUT_WG_BACKGROUND";

/// Message of the new process once it serves `wg`.
const READY: &str = "ready\n";

/// Returns the switches for the settings that differ from the defaults.
fn switches(config: &wg::WgConfig) -> impl Iterator<Item = Cow<'static, str>> {
    let switches = [
        (config.low_latency, "--low-latency"),
        (!config.tun_offload, "--no-tun-offload"),
        (!config.udp_gso, "--no-udp-gso"),
        (!config.udp_gro, "--no-udp-gro"),
    ];
    let lanes = (config.lanes > 1).then(|| [Cow::from("--lanes"), config.lanes.to_string().into()]);
    let switches = switches.into_iter().filter_map(|(on, switch)| on.then_some(switch.into()));
    switches.chain(lanes.into_iter().flatten())
}

/// Starts the interface in the background, and returns when it is ready.
pub(super) fn start(config: &wg::WgConfig, log: Log) -> Result<(), Fault> {
    let failed = |error: std::io::Error| {
        Fault::failed(format!("the program cannot go to the background: {error}"), "use -f, followed by `&`")
    };
    let keeps_error_output = matches!(log, Log::Error | Log::Verbose);
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .arg0(WG_PROGRAM)
        .args(switches(config).map(Cow::into_owned))
        .arg(&config.interface)
        .current_dir("/")
        .env(FOREGROUND, "1")
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // An inherited standard error stays open: a caller that reads it to its end would wait until the interface is removed.
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
        "" => Fault::failed(
            format!("the background process ended before it was ready ({status})"),
            "run it with -f to see why",
        ),
        words => Fault::failed(words, ""),
    })
}

/// The background process, seen from inside.
pub(super) struct Child;

impl Child {
    /// Returns a value if this process was started for the background.
    pub(super) fn of_parent() -> Option<Self> {
        std::env::var_os(CHILD).map(|_| Self)
    }

    /// Runs the interface. Failures before it is ready are reported only to the first process.
    pub(super) fn run(self, serve: impl FnOnce(&mut dyn FnMut()) -> Result<(), Fault>) -> Result<(), Fault> {
        // The call fails only for the leader of a process group, which does not need a new session.
        let _ = taut_event::new_session();
        let mut told = false;
        let result = serve(&mut || {
            told = true;
            report_to_parent(READY);
        });
        match result {
            Err(Fault::Failed(failure)) if !told => {
                report_to_parent(failure.to_string().trim_end());
                Err(Fault::Reported)
            }
            result => result,
        }
    }
}

fn report_to_parent(text: &str) {
    // Writing fails if the first process was killed. The message is then not needed.
    let mut output = std::io::stdout();
    let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_process_gets_the_settings_that_differ_from_the_defaults() {
        let usual = wg::WgConfig {
            interface: String::from("wg0"),
            tun_offload: true,
            udp_gso: true,
            udp_gro: true,
            lanes: 1,
            low_latency: false,
            rekey_after: None,
        };
        assert_eq!(switches(&usual).count(), 0);
        let other =
            wg::WgConfig { tun_offload: false, udp_gso: false, udp_gro: false, lanes: 2, low_latency: true, ..usual };
        let all = ["--low-latency", "--no-tun-offload", "--no-udp-gso", "--no-udp-gro", "--lanes", "2"];
        assert!(switches(&other).eq(all));
    }
}

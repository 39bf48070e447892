//! Whether a program starts at all, and whether the daemon of a service answers.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use taut_release::Version;

use crate::client::Client;

/// Time that `taut version` has, 10 s: a slow router with a cold disk takes one.
const VERSION_TIME: Duration = Duration::from_secs(10);
/// Time that a restarted daemon has until it answers, 30 s: systemd ends the former one first, and a disk may be slow.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Time after which it has to answer again, 3 s: one that ends with its first packet has ended by then.
const STEADY: Duration = Duration::from_secs(3);
/// Time between two looks, 100 ms.
const LOOK: Duration = Duration::from_millis(100);
/// Most bytes of an answer of `taut version`.
const LONGEST: u64 = 4 << 10;

#[derive(taut_json::Deserialize)]
struct Said {
    version: String,
}

/// Runs `taut version` of a program that is not installed yet, and returns an error unless it says this version.
pub(super) fn starts(program: &Path, version: &Version) -> Result<(), String> {
    // The daemon that runs is not asked.
    let mut command = Command::new(program);
    command.args(["version", "--json", "--socket", "/dev/null"]);
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = spawned.map_err(|error| format!("it does not start: {error}"))?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if start.elapsed() > VERSION_TIME => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("`taut version` of it does not end within {} s", VERSION_TIME.as_secs()));
            }
            None => thread::sleep(LOOK),
        }
    };
    let mut text = String::new();
    // It has ended, and what it wrote fits into the pipe.
    let _ = child.stdout.take().map(|out| out.take(LONGEST).read_to_string(&mut text));
    let said = taut_json::from_slice::<Said>(text.as_bytes()).ok().and_then(|said| said.version.parse().ok());
    match said {
        Some(said) if status.success() && version.is_reported_as(&said) => Ok(()),
        Some(said) if status.success() => Err(format!("it says that it is taut {said}")),
        _ => Err(format!("`taut version` of it failed ({status})")),
    }
}

/// Waits until the daemons at all these sockets answer as this version, and go on to.
pub(super) fn answer(sockets: &[PathBuf], version: &Version) -> Result<(), String> {
    let start = Instant::now();
    for socket in sockets {
        while !is_answered(socket, version) {
            if start.elapsed() > ANSWER_TIME {
                let shown = socket.display();
                return Err(format!("its daemon did not answer on {shown} within {} s", ANSWER_TIME.as_secs()));
            }
            thread::sleep(LOOK);
        }
    }
    if !sockets.is_empty() {
        thread::sleep(STEADY);
    }
    match sockets.iter().find(|socket| !is_answered(socket, version)) {
        None => Ok(()),
        Some(socket) => Err(format!("its daemon answered on {}, and no longer does", socket.display())),
    }
}

fn is_answered(socket: &Path, version: &Version) -> bool {
    let status = Client::connect(socket).ok().and_then(|mut client| client.status().ok());
    status.and_then(|status| status.version.parse().ok()).is_some_and(|own| version.is_reported_as(&own))
}

//! A daemon with injected code inside: it runs like `taut daemon`, and once its network is up, a thread tries what an attacker would (fault P3).
//!
//! ```text
//! breakin TAUT STATE SOCKET TUN on|off PROCESS DIRECTORY ATTEMPTS
//! ```
//! `TAUT` is the program whose daemon this is; `on` or `off` is its sandbox; `PROCESS` and `DIRECTORY` are the targets ([`Target`]); `ATTEMPTS` are names with commas,
//! or `list`, which prints all names. The file `breakin` in the state directory gets a line for each attempt: its name, and `succeeded` or the error.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;

use taut_agent::DaemonConfig;
use taut_attempts::{ATTEMPTS, Target};

/// What the injected code is to do: the hook of the daemon takes nothing along.
static PLAN: OnceLock<Plan> = OnceLock::new();

struct Plan {
    results: PathBuf,
    process: i32,
    directory: PathBuf,
    attempts: String,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [taut, state, socket, tun, sandbox, process, directory, attempts] = words.as_slice() else {
        ATTEMPTS.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::FAILURE;
    };
    let plan = Plan {
        results: Path::new(state).join("breakin"),
        process: process.parse().unwrap_or_default(),
        directory: directory.into(),
        attempts: attempts.clone(),
    };
    let _ = PLAN.set(plan);
    let config = DaemonConfig {
        state_dir: state.into(),
        socket: socket.into(),
        tun_name: tun.clone(),
        program: Some(taut.into()),
        sandbox: sandbox == "on",
        when_up: Some(|| drop(std::thread::spawn(break_in))),
        version: String::from("break-in"),
        ..DaemonConfig::default()
    };
    match taut_agent::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn break_in() {
    let Some(plan) = PLAN.get() else { return };
    let Ok(mut results) = OpenOptions::new().append(true).create(true).open(&plan.results) else { return };
    let target = Target { process: plan.process, directory: &plan.directory };
    for name in plan.attempts.split(',') {
        let attempt = ATTEMPTS.iter().find(|(known, _)| *known == name);
        // The line begins before the attempt, which may end the process.
        let _ = write!(results, "{name} ");
        let outcome = match attempt.map(|(_, attempt)| attempt(target)) {
            None => String::from("is not known"),
            Some(Ok(())) => String::from("succeeded"),
            Some(Err(error)) => error.to_string(),
        };
        let _ = writeln!(results, "{outcome}");
    }
    let _ = writeln!(results, "end");
}

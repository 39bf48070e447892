//! Programs of the host that a back-end runs, with a limit on their time.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Directories in which programs are looked for. The daemon's own PATH may be anyone's.
const DIRECTORIES: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Longest time that a program may take, 10 s: a restart of a resolver takes one or two.
const LIMIT: Duration = Duration::from_secs(10);
/// Time between two looks at whether a program has ended.
const LOOKS_APART: Duration = Duration::from_millis(5);
/// Longest output that is read, 64 KiB: as much as a pipe holds.
const MOST_OUTPUT: u64 = 64 * 1024;

/// Returns true if the host has this program.
pub(super) fn exists(program: &str) -> bool {
    DIRECTORIES.iter().any(|directory| Path::new(directory).join(program).exists())
}

/// Runs a program to its end, with this input, and returns its output; the reason if it failed.
pub(super) fn run(program: &str, arguments: &[&str], input: &str) -> Result<String, String> {
    let line = || format!("`{program} {}`", arguments.iter().copied().take(3).collect::<Vec<_>>().join(" "));
    let mut child = Command::new(program)
        .args(arguments)
        .env("PATH", DIRECTORIES.join(":"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{} cannot be run: {error}", line()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input may end before it is written.
        let _ = stdin.write_all(input.as_bytes());
    }
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOKS_APART),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{} did not end within {} s", line(), LIMIT.as_secs()));
            }
        }
    };
    let text = |pipe: Option<&mut dyn Read>| {
        let mut text = String::new();
        pipe.map(|pipe| pipe.take(MOST_OUTPUT).read_to_string(&mut text));
        text
    };
    if status.success() {
        return Ok(text(child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read)));
    }
    let complaint = text(child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
    Err(format!("{} failed: {}", line(), complaint.lines().last().unwrap_or("it gave no reason")))
}

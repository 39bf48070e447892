//! Programs of the host that a back-end runs, with a limit on their time.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use taut_event::{Events, Interest, Poller};

/// Directories in which programs are looked for. The daemon's own PATH may be anyone's.
const DIRECTORIES: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// Longest time that a program may take, 10 s: a restart of a resolver takes one or two.
const LIMIT: Duration = Duration::from_secs(10);
/// Time between two looks at whether a program has ended.
const LOOKS_APART: Duration = Duration::from_millis(5);
/// Longest output that is read, 64 KiB: as much as a pipe holds.
const MOST_OUTPUT: usize = 64 * 1024;

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
    if status.success() {
        return Ok(child.stdout.as_mut().map(written).unwrap_or_default());
    }
    let complaint = child.stderr.as_mut().map(written).unwrap_or_default();
    Err(format!("{} failed: {}", line(), complaint.lines().last().unwrap_or("it gave no reason")))
}

/// Returns what a program wrote before it ended. The end of the pipe is not waited for: a process that the program left in the background may have it open.
fn written(pipe: &mut (impl Read + AsFd)) -> String {
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    let Ok(poller) = Poller::new() else { return String::new() };
    let mut events = Events::with_capacity(1);
    let added = poller.add(pipe.as_fd(), 0, Interest::READ);
    while added.is_ok() && text.len() < MOST_OUTPUT {
        let waited = poller.wait(&mut events, Some(Duration::ZERO));
        if waited.is_err() || events.iter().next().is_none() {
            break;
        }
        match pipe.read(&mut buffer) {
            Ok(length) if length > 0 => text.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            _ => break,
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_a_program_leaves_in_the_background_is_not_waited_for() {
        let began = Instant::now();
        assert_eq!(run("sh", &["-c", "cat; sleep 30 & echo done"], "input\n").as_deref(), Ok("input\ndone\n"));
        let failed = run("sh", &["-c", "sleep 30 & echo why >&2; exit 1"], "").unwrap_err();
        assert!(failed.ends_with("failed: why"), "{failed}");
        assert!(began.elapsed() < LIMIT);
    }
}

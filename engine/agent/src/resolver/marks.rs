//! The first line of files that a helper writes, so that a later one knows whose they are.

use std::path::Path;

use super::care;
use crate::outside::HELPER_VERB;

/// The process that wrote a file of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writer {
    process: u32,
    /// When it started, in ticks since the host did: numbers of processes come again, in a container after each start.
    started: u64,
}

impl Writer {
    fn this() -> Self {
        Self { process: std::process::id(), started: start_of("self").unwrap_or_default() }
    }

    /// Returns true if it is this process.
    pub(super) fn is_this(self) -> bool {
        self == Self::this()
    }

    /// Returns true if it is another helper that runs.
    pub(super) fn is_running(self) -> bool {
        let words = care::read(Path::new(&format!("/proc/{}/cmdline", self.process))).unwrap_or_default();
        self.process != std::process::id()
            && words.split('\0').any(|word| word == HELPER_VERB)
            && start_of(&self.process.to_string()) == Some(self.started)
    }
}

/// Returns the first line of files that this process writes.
pub(super) fn mark() -> String {
    let Writer { process, started } = Writer::this();
    format!("# Written by taut {HELPER_VERB}, process {process}, started {started}.")
}

/// Returns the process that wrote a file of ours; `None` for other files.
pub(super) fn owner(text: &str) -> Option<Writer> {
    let beginning = format!("# Written by taut {HELPER_VERB}, process ");
    let rest = text.lines().next()?.strip_prefix(&beginning)?.strip_suffix('.')?;
    let (process, started) = rest.split_once(", started ")?;
    Some(Writer { process: process.parse().ok()?, started: started.parse().ok()? })
}

/// Returns the time at which a process started, field 22 of its `stat` (man 5 proc_pid_stat).
fn start_of(process: &str) -> Option<u64> {
    let text = care::read(Path::new(&format!("/proc/{process}/stat"))).ok()?;
    // The name, field 2, may have spaces and brackets in it.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_the_same_number_is_not_the_writer() {
        let this = owner(&format!("{}\nnameserver 127.64.0.53\n", mark())).unwrap();
        assert!(this.is_this() && !this.is_running() && this.started > 0);
        let former = Writer { started: this.started - 1, ..this };
        assert!(!former.is_this() && !former.is_running(), "an earlier process had this number");
        assert_eq!(owner("nameserver 192.0.2.1\n"), None);
        assert_eq!(owner("# Written by taut dns-helper, process x, started 1."), None);
    }

    #[test]
    fn another_helper_runs_until_it_ends() {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "read line", HELPER_VERB]).stdin(std::process::Stdio::piped());
        let mut other = command.spawn().unwrap();
        let number = other.id().to_string();
        // Until it runs the shell it is a copy of this process.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let writer = Writer { process: other.id(), started: start_of(&number).unwrap() };
        while !writer.is_running() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        let states = (writer.is_running(), Writer { started: writer.started + 1, ..writer }.is_running());
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((states, writer.is_running()), ((true, false), false));
    }
}

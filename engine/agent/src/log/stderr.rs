//! Lines to standard error, without ever blocking the agent.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use taut_event::{Events, Interest, Poller};

use super::line::Entry;

/// The format of the daemon's events on standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StderrFormat {
    /// No events, for a daemon in the background: its standard error is a file that is never rotated.
    #[default]
    None,
    /// Text with time and level.
    Text,
    /// Text with a priority for journald at the start of each line (sd-daemon(3)).
    Journal,
}

/// Standard error. While a pipe or a terminal is not ready, lines are lost and counted. A regular file is always ready.
pub(super) struct Stderr {
    format: StderrFormat,
    /// `None` for a regular file, which is always ready.
    poller: Option<Poller>,
    lost: u64,
}

impl Stderr {
    /// Returns standard error in this format, or `None` for [`StderrFormat::None`].
    pub(super) fn new(format: StderrFormat) -> Option<Self> {
        if format == StderrFormat::None {
            return None;
        }
        let poller = Poller::new().ok();
        // The kernel refuses to watch a regular file.
        let poller = poller.filter(|poller| poller.add(io::stderr().as_fd(), 0, Interest::WRITE).is_ok());
        Some(Self { format, poller, lost: 0 })
    }

    /// Writes a line if standard error is ready. Counts it as lost otherwise.
    pub(super) fn write(&mut self, line: &str) {
        if !self.is_ready() {
            self.lost += 1;
            return;
        }
        let Some(text) = Entry::parse(line).map(|entry| shown(&entry, self.format)) else { return };
        let lost = match std::mem::take(&mut self.lost) {
            0 => String::new(),
            lost => format!("{lost} lines are missing here; `taut log` has them\n"),
        };
        // The line is shorter than PIPE_BUF, so a pipe that is ready takes all of it (pipe(7)).
        let _ = io::stderr().lock().write_all([&lost[..], &text, "\n"].concat().as_bytes());
    }

    fn is_ready(&self) -> bool {
        let Some(poller) = &self.poller else { return true };
        let mut ready = Events::with_capacity(1);
        poller.wait(&mut ready, Some(Duration::ZERO)).is_ok() && ready.iter().any(|event| event.writable)
    }
}

fn shown(entry: &Entry, format: StderrFormat) -> String {
    let text = entry.text();
    if format == StderrFormat::Journal { format!("<{}>{text}", entry.level.priority()) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_for_journald_begins_with_a_priority() {
        let line = "{\"schema\":1,\"time\":\"2026-11-24\",\"level\":\"warn\",\"area\":\"host\",\"event\":\"e\",\"message\":\"m\"}";
        let entry = Entry::parse(line).unwrap();
        assert_eq!(shown(&entry, StderrFormat::Journal), "<4>2026-11-24T00:00:00.000Z warn  host: m event=e");
        assert_eq!(shown(&entry, StderrFormat::Text), "2026-11-24T00:00:00.000Z warn  host: m event=e");
        assert!(Stderr::new(StderrFormat::None).is_none());
    }
}

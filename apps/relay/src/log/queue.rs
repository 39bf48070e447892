//! Lines on their way to standard error: a queue and the thread that writes it, so that a reader that stalls never blocks the program (fault P5).

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tracing::Level;

use super::line::{Line, LogFormat};
use super::{DAEMON, timestamp};

/// Bytes of lines that wait for the writer, 1 MiB: about 5,000 lines. The removal of a network writes the most lines at once, one per member.
const MAX_BYTES: usize = 1024 * 1024;

/// Pause before the next attempt on a standard error that is non-blocking and full, 20 ms.
const RETRY: Duration = Duration::from_millis(20);

/// A line, and the number of lost lines that it reports.
type Entry = (String, u64);

/// The queue. Lines beyond [`MAX_BYTES`] are lost; their number is reported by `lines-lost` at the place at which they are missing.
pub(super) struct LineQueue {
    format: LogFormat,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    lines: VecDeque<Entry>,
    bytes: usize,
    /// Lost lines that no line has reported yet.
    lost: u64,
    /// True while the writer holds a line that it took.
    is_writing: bool,
    /// True if the last write failed. Lost lines are then reported with the next line only.
    has_failed: bool,
}

impl LineQueue {
    pub(super) fn new(format: LogFormat) -> Self {
        Self { format, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Adds a line, or counts it as lost. Never blocks.
    pub(super) fn push(&self, line: String) {
        let mut state = self.lock();
        if state.bytes + line.len() > MAX_BYTES {
            state.lost += 1;
            return;
        }
        if let Some(report) = self.report(&mut state) {
            state.add(report);
        }
        state.add((line, 0));
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until all lines are written, at most for `patience`.
    pub(super) fn flush(&self, patience: Duration) {
        let is_pending = |state: &mut QueueState| {
            state.is_writing || !state.lines.is_empty() || (state.lost > 0 && !state.has_failed)
        };
        drop(
            self.changed.wait_timeout_while(self.lock(), patience, is_pending).unwrap_or_else(PoisonError::into_inner),
        );
    }

    /// Writes lines to `out` for at least `period`.
    pub(super) fn write_to(&self, out: &mut impl Write, period: Duration) {
        let end = Instant::now() + period;
        while let Some((line, reported)) = self.next(end) {
            let is_written = write_line(out, line.as_bytes());
            let mut state = self.lock();
            state.is_writing = false;
            state.has_failed = !is_written;
            if !is_written {
                state.lost += if reported > 0 { reported } else { 1 };
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Returns the next line; `None` if there is no line until `end`.
    fn next(&self, end: Instant) -> Option<Entry> {
        let is_empty = |state: &mut QueueState| state.lines.is_empty() && (state.lost == 0 || state.has_failed);
        let wait = end.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.lock(), wait, is_empty);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let entry = state.take().or_else(|| if is_empty(&mut state) { None } else { self.report(&mut state) });
        state.is_writing = entry.is_some();
        entry
    }

    /// Returns the line that reports lost lines, and resets their number.
    fn report(&self, state: &mut QueueState) -> Option<Entry> {
        let lost = std::mem::take(&mut state.lost);
        let fields = [("count", Value::from(lost))];
        let (level, event) = (Level::WARN, "lines-lost");
        let line = Line { time: timestamp::now(), level, area: DAEMON, event, fields: &fields };
        (lost > 0).then(|| (line.render(self.format), lost))
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueState {
    fn add(&mut self, entry: Entry) {
        self.bytes += entry.0.len();
        self.lines.push_back(entry);
    }

    fn take(&mut self) -> Option<Entry> {
        let entry = self.lines.pop_front()?;
        self.bytes -= entry.0.len();
        Some(entry)
    }
}

/// Writes a whole line, also to an output that is non-blocking. Returns false if that fails.
fn write_line(out: &mut impl Write, mut line: &[u8]) -> bool {
    while !line.is_empty() {
        match out.write(line) {
            Ok(0) => return false,
            Ok(length) => line = line.get(length..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(RETRY),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Longest wait of a test; only a failing test reaches it.
    const TEST_TIMEOUT: Duration = Duration::from_secs(30);

    /// An output that fails while `is_full` is true.
    #[derive(Default)]
    struct Disk {
        is_full: bool,
        text: String,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.is_full {
                return Err(io::Error::from(ErrorKind::StorageFull));
            }
            self.text.push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn fault_p5_lines_that_nobody_reads_are_bounded_and_counted() {
        let queue = LineQueue::new(LogFormat::Text);
        let line = |number: u64| format!("{number:0999}\n");
        (0..2_000).for_each(|number| queue.push(line(number)));
        assert!(queue.lock().bytes <= MAX_BYTES);
        let kept = queue.lock().lines.len() as u64;
        let mut disk = Disk::default();
        queue.write_to(&mut disk, Duration::ZERO);
        queue.push(line(2_000));
        queue.write_to(&mut disk, Duration::ZERO);
        let lines: Vec<&str> = disk.text.lines().collect();
        assert!(kept > 1_000 && lines.len() as u64 == kept + 2, "{kept} lines kept, {} written", lines.len());
        let report = lines[lines.len() - 2];
        assert!(
            report.contains(&format!("level=warn area=daemon event=lines-lost count={}", 2_000 - kept)),
            "{report}"
        );
    }

    #[test]
    fn lines_that_a_full_disk_refuses_are_counted_once_it_takes_lines_again() {
        let queue = LineQueue::new(LogFormat::Text);
        let mut disk = Disk { is_full: true, text: String::new() };
        (0..3).for_each(|number| queue.push(format!("{number}\n")));
        queue.write_to(&mut disk, Duration::ZERO);
        queue.push(String::from("3\n"));
        queue.write_to(&mut disk, Duration::ZERO);
        disk.is_full = false;
        queue.push(String::from("4\n"));
        queue.write_to(&mut disk, Duration::ZERO);
        assert!(disk.text.contains("event=lines-lost count=4\n4\n"), "{}", disk.text);
        queue.flush(TEST_TIMEOUT);
    }

    #[test]
    fn a_flush_waits_for_the_writer_and_not_for_ever() {
        let queue = LineQueue::new(LogFormat::Text);
        queue.push(String::from("1\n"));
        queue.flush(Duration::from_millis(1));
        std::thread::scope(|scope| {
            let written = scope.spawn(|| {
                let mut disk = Disk::default();
                queue.write_to(&mut disk, Duration::from_millis(50));
                disk.text
            });
            queue.flush(TEST_TIMEOUT);
            assert!(queue.lock().lines.is_empty());
            assert_eq!(written.join().unwrap(), "1\n");
        });
    }
}

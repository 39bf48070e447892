//! The event log on the disk: `events.jsonl`, and its predecessor `events.jsonl.1`.
//!
//! The agent makes the lines; the control thread appends them here, because a disk may block. A line is written at once and never forced to the disk:
//! it survives a crash of the program, and a power cut takes the last half minute. If a crash cut a line off, the next start terminates it, so that it
//! spoils no other line. While the disk refuses, the latest lines wait in memory.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use taut_base::Time;
use taut_event::effective_uid;

/// Name of the file in the state directory.
pub(crate) const EVENTS: &str = "events.jsonl";

/// Bytes of one file, 256 KiB: about 1,200 lines. Two of them are kept, which suits the flash memory of a router.
const MAX_FILE: u64 = 256 * 1024;

/// Longest line that is read, 4 KiB. The agent's lines are at most 1 KiB long, so another program wrote a longer one.
const MAX_LINE: usize = 4096;

/// Time after a failed write until the next one is tried, 30 s, as with state files: a full disk does not become free within milliseconds.
const RETRY: Duration = Duration::from_secs(30);

/// Limit on the lines that wait in memory while the disk refuses them, 256: at most 256 KiB.
const MAX_OWED: usize = 256;

/// A change of the state of the log on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogDisk {
    /// The log cannot be written: the reason, and how to fix it.
    Failed(String),
    /// The log is written again.
    Works {
        /// Number of lines that were lost in between.
        missing: u64,
    },
    /// Another program removed or moved the file. A new one was begun.
    Replaced,
}

/// The file that lines are appended to.
pub(crate) struct EventLog {
    path: PathBuf,
    file: Option<File>,
    size: u64,
    /// True if the file may end in the middle of a line.
    torn: bool,
    /// The time of the next attempt to write. `None` unless writes fail.
    failing: Option<Time>,
    /// Lines that the disk has not accepted yet.
    owed: VecDeque<String>,
    /// Number of lines that were lost because too many were owed.
    missing: u64,
}

impl EventLog {
    /// Returns the log of this state directory. No file is opened before the first line.
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self {
            path: state_dir.join(EVENTS),
            file: None,
            size: 0,
            torn: false,
            failing: None,
            owed: VecDeque::new(),
            missing: 0,
        }
    }

    /// Appends a line. Returns a change of the log's state: the first refusal of the disk, or the first write after refusals.
    pub(crate) fn append(&mut self, line: String, now: Time) -> Option<LogDisk> {
        if self.owed.len() >= MAX_OWED {
            self.owed.pop_front();
            self.missing += 1;
        }
        self.owed.push_back(line);
        if self.failing.is_some_and(|due| now < due) {
            return None;
        }
        let is_replaced = self.close_replaced();
        match self.write_owed() {
            Ok(()) if self.failing.take().is_some() => {
                Some(LogDisk::Works { missing: std::mem::take(&mut self.missing) })
            }
            Ok(()) => is_replaced.then_some(LogDisk::Replaced),
            Err(error) => {
                let is_known = self.failing.replace(now + RETRY).is_some();
                let path = self.path.display();
                let text = format!("the event log {path} cannot be written: {error}; free or repair the disk");
                (!is_known).then_some(LogDisk::Failed(text))
            }
        }
    }

    /// Writes all owed lines, because the program ends. If some were lost, `gap` makes the line that reports their number.
    pub(crate) fn finish(&mut self, gap: fn(u64) -> String) {
        if self.missing > 0 {
            self.owed.push_front(gap(self.missing));
        }
        if !self.owed.is_empty() {
            self.close_replaced();
            // If the disk still refuses, nobody is left to be told.
            let _ = self.write_owed();
        }
    }

    /// Closes the file if its name leads elsewhere by now. Returns true if so.
    fn close_replaced(&mut self) -> bool {
        let Some(open) = self.file.as_ref().and_then(|file| file.metadata().ok()) else { return false };
        let named = fs::symlink_metadata(&self.path);
        let is_same = named.is_ok_and(|named| (named.dev(), named.ino()) == (open.dev(), open.ino()));
        if !is_same {
            self.file = None;
        }
        !is_same
    }

    fn write_owed(&mut self) -> io::Result<()> {
        while let Some(line) = self.owed.pop_front() {
            if let Err(error) = self.write(&line) {
                self.owed.push_front(line);
                self.file = None;
                return Err(error);
            }
        }
        Ok(())
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let bytes = line.len() as u64 + 2;
        if self.file.is_some() && self.size + bytes > MAX_FILE {
            self.rotate()?;
        }
        if self.file.is_none() {
            self.open()?;
            if self.size + bytes > MAX_FILE {
                self.rotate()?;
                self.open()?;
            }
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let begin = if self.torn { "\n" } else { "" };
        let whole = [begin, line, "\n"].concat();
        // Another program may have written to the file.
        let before = file.metadata()?.len();
        // The file counts as cut off until its last line is known to be whole.
        self.torn = true;
        if let Err(error) = file.write_all(whole.as_bytes()) {
            // A full disk may have accepted the beginning of the line.
            let _ = file.set_len(before);
            return Err(error);
        }
        self.torn = false;
        self.size = before + whole.len() as u64;
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        regular(&self.path)?;
        let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&self.path)?;
        let found = file.metadata()?;
        self.size = found.len();
        let mut last = [b'\n'];
        if self.size > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        self.torn = last != [b'\n'];
        self.file = Some(file);
        Ok(())
    }

    /// Keeps the full file as the previous one. The next line begins a new file.
    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        fs::rename(&self.path, previous(&self.path))
    }
}

/// Returns an error if `path` exists and is not a regular file of the daemon's user: a link would lead out of the directory, and a pipe would block.
fn regular(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() || found.uid() != effective_uid() => {
            Err(io::Error::other("it is not a regular file of the daemon's user"))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn previous(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(".1");
    PathBuf::from(name)
}

/// Returns the latest `most` lines of the event log in the state directory `path`, the oldest first, and the error of a file that exists and cannot be read.
/// The lines of the other file are returned nevertheless.
///
/// A daemon uses this at its start, and a command uses it to show the log. Nothing is locked or written.
pub fn saved_events(path: &Path, most: usize) -> (Vec<String>, Option<io::Error>) {
    let live = path.join(EVENTS);
    let (mut lines, mut unread) = (VecDeque::new(), None);
    for file in [previous(&live), live] {
        match read(&file) {
            Ok(bytes) => keep(&bytes, most, &mut lines),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => unread = Some(io::Error::new(error.kind(), format!("{}: {error}", file.display()))),
        }
    }
    (lines.into(), unread)
}

/// Returns the end of a file, from the first whole line. A file that is longer than [`MAX_FILE`] was written by another program; at most twice that is read.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = match fs::symlink_metadata(path)?.is_file() {
        true => File::open(path)?,
        false => return Err(io::Error::other("it is not a regular file")),
    };
    let begin = file.metadata()?.len().saturating_sub(2 * MAX_FILE);
    file.seek(SeekFrom::Start(begin))?;
    let mut bytes = Vec::new();
    file.take(2 * MAX_FILE).read_to_end(&mut bytes)?;
    if begin > 0 {
        let cut = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        bytes.drain(..cut);
    }
    Ok(bytes)
}

/// Appends the complete lines of `bytes` to `lines`. Lines that a crash cut off, lines that are not UTF-8 and lines that are too long are skipped.
pub(crate) fn keep(bytes: &[u8], most: usize, lines: &mut VecDeque<String>) {
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return };
    for line in bytes[..end].split(|byte| *byte == b'\n') {
        if line.is_empty() || line.len() > MAX_LINE {
            continue;
        }
        let Ok(line) = std::str::from_utf8(line) else { continue };
        if lines.len() >= most {
            lines.pop_front();
        }
        lines.push_back(String::from(line));
    }
}

#[cfg(test)]
mod tests;

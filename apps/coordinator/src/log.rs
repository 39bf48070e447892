//! The log: one line of `key=value` per rare event (start, join, leave, refusal, failure) on standard error. Never a secret, never
//! something that happens per message.

use std::fmt::Display;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use taut_base::{Meter, NodeId, Rate, Time};

use crate::clock::unix_now;

/// Lines per minute that strangers may cause; a flood of refused connections must not fill the disk (law 11).
const STRANGERS_PER_MINUTE: u32 = 30;

/// Minute and how many lines strangers have caused in it.
static STRANGERS: Mutex<(i64, u32)> = Mutex::new((0, 0));

/// Lines about one member's channels: 10 a minute in the long run, 20 at once. A node that loses its channel tries again once in 30 s at most, which makes 4
/// lines a minute.
const PER_MEMBER: Rate = Rate::every(Duration::from_secs(6), 20);

/// Counts the lines about members' channels.
static MEMBERS: LazyLock<Mutex<Members>> = LazyLock::new(|| Mutex::new(Members::new(Instant::now())));

struct Members {
    start: Instant,
    lines: Meter,
    /// Lines that were left out since the last line that says how many.
    left_out: u64,
    /// When the last such line was written, in seconds since the start.
    told_at: u64,
}

impl Members {
    fn new(start: Instant) -> Self {
        Self { start, lines: Meter::new(PER_MEMBER), left_out: 0, told_at: 0 }
    }

    /// Counts one more line about this member. Returns whether to write it, and once a minute the number of lines that were left out.
    fn take(&mut self, node: NodeId, now: Instant) -> (bool, Option<u64>) {
        let now = Time::from_duration(now.saturating_duration_since(self.start));
        let is_within = self.lines.take(node.0, now);
        self.left_out += u64::from(!is_within);
        let second = now.since(Time::ZERO).as_secs();
        if self.left_out == 0 || second < self.told_at + 60 {
            return (is_within, None);
        }
        self.told_at = second;
        (is_within, Some(std::mem::take(&mut self.left_out)))
    }
}

/// Writes one line about a member's channel, unless there were too many of these about it lately. Lines that are left out are counted in one line a minute.
pub(crate) fn member(name: &str, node: NodeId, fields: &[(&str, &dyn Display)]) {
    let (is_within, left_out) = MEMBERS.lock().unwrap_or_else(PoisonError::into_inner).take(node, Instant::now());
    if let Some(lines) = left_out {
        event("members-not-logged", &[("lines", &lines)]);
    }
    if is_within {
        let mut all: Vec<(&str, &dyn Display)> = vec![("node", &node)];
        all.extend_from_slice(fields);
        event(name, &all);
    }
}

/// Writes one line. Values that are not plain words are quoted and escaped: a name from outside cannot forge a line.
pub(crate) fn event(name: &str, fields: &[(&str, &dyn Display)]) {
    // A log that cannot be written is no reason to stop serving.
    let _ = std::io::stderr().write_all(line(unix_now(), name, fields).as_bytes());
}

/// Writes one line about somebody who is no member, unless there were too many of these in this minute.
pub(crate) fn stranger(name: &str, fields: &[(&str, &dyn Display)]) {
    let minute = unix_now() / 60;
    let mut strangers = STRANGERS.lock().unwrap_or_else(PoisonError::into_inner);
    if strangers.0 != minute {
        *strangers = (minute, 0);
    }
    strangers.1 = strangers.1.saturating_add(1);
    match strangers.1 {
        ..STRANGERS_PER_MINUTE => event(name, fields),
        STRANGERS_PER_MINUTE => event("strangers-not-logged", &[("until", &"the next minute")]),
        _ => {}
    }
}

fn line(time: i64, name: &str, fields: &[(&str, &dyn Display)]) -> String {
    let mut line = format!("time={time} event={name}");
    for (key, value) in fields {
        let value = value.to_string();
        let is_plain =
            !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"=\\".contains(&byte));
        line.push_str(&if is_plain { format!(" {key}={value}") } else { format!(" {key}={value:?}") });
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_e25_a_member_that_comes_and_goes_does_not_fill_the_log() {
        let start = Instant::now();
        let mut members = Members::new(start);
        let (mut written, mut counted) = (0, 0);
        for tick in 0..6_000 {
            let (is_within, left_out) = members.take(NodeId(7), start + Duration::from_millis(100 * tick));
            (written, counted) = (written + u64::from(is_within), counted + left_out.unwrap_or(0));
        }
        assert!(written <= 20 + 100, "{written} lines in ten minutes");
        assert_eq!(written + counted + members.left_out, 6_000, "no line is lost without being counted");
        assert!(members.take(NodeId(8), start + Duration::from_secs(600)).0, "another member has its own lines");
    }

    #[test]
    fn fault_e16_no_value_forges_a_line() {
        assert_eq!(line(1, "joined", &[("name", &"web-1"), ("n", &7)]), "time=1 event=joined name=web-1 n=7\n");
        let forged = line(1, "joined", &[("name", &"x\ntime=2 event=root"), ("empty", &"")]);
        assert_eq!(forged, "time=1 event=joined name=\"x\\ntime=2 event=root\" empty=\"\"\n");
    }
}

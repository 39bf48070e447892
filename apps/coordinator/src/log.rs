//! The log: one line of `key=value` per rare event (start, join, leave, refusal, failure) on standard error. Never a secret, never
//! something that happens per message.

use std::fmt::Display;
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use crate::clock::unix_now;

/// Lines per minute that strangers may cause; a flood of refused connections must not fill the disk (law 11).
const STRANGERS_PER_MINUTE: u32 = 30;

/// Minute and how many lines strangers have caused in it.
static STRANGERS: Mutex<(i64, u32)> = Mutex::new((0, 0));

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
    fn fault_e16_no_value_forges_a_line() {
        assert_eq!(line(1, "joined", &[("name", &"web-1"), ("n", &7)]), "time=1 event=joined name=web-1 n=7\n");
        let forged = line(1, "joined", &[("name", &"x\ntime=2 event=root"), ("empty", &"")]);
        assert_eq!(forged, "time=1 event=joined name=\"x\\ntime=2 event=root\" empty=\"\"\n");
    }
}

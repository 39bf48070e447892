//! Joins the events on the disk with those in the daemon's memory. The disk has the older ones, and only of level info and above.

use taut_agent::log::Entry;

/// Returns all events of both lists, each once. A line of both lists is an anchor; between two anchors the lines are ordered by time, so that a clock that was
/// set back disturbs only the lines around that moment.
pub(super) fn merge(saved: &[String], memory: &[String]) -> Vec<String> {
    let time = |line: &str| Entry::parse(line).map(|entry| entry.time);
    let mut merged = Vec::with_capacity(saved.len() + memory.len());
    let mut rest = memory;
    for (number, line) in saved.iter().enumerate() {
        if let Some(same) = rest.iter().position(|other| other == line) {
            merged.extend_from_slice(&rest[..=same]);
            rest = &rest[same + 1..];
            continue;
        }
        let when = time(line);
        while let [first, ..] = rest
            && time(first) < when
            && !saved[number..].contains(first)
        {
            merged.push(first.clone());
            rest = &rest[1..];
        }
        merged.push(line.clone());
    }
    merged.extend_from_slice(rest);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(times: &str) -> Vec<String> {
        let line = |word: &str| {
            let level = if word.ends_with('d') { "debug" } else { "info" };
            let second = word.trim_end_matches('d');
            format!(
                "{{\"schema\":1,\"time\":\"2026-11-24T03:12:{second}.000Z\",\"level\":\"{level}\",\"area\":\"a\",\"event\":\"e\"}}"
            )
        };
        times.split_whitespace().map(line).collect()
    }

    #[test]
    fn each_event_is_shown_once_and_in_order() {
        for (saved, memory, expected) in [
            ("", "", ""),
            ("01 02", "", "01 02"),
            ("", "01d 02", "01d 02"),
            ("01 02 05", "02 03d 05 06d", "01 02 03d 05 06d"),
            // An hour of debug events has displaced the events of level info from the memory.
            ("01 02 03", "04d 05d 06d", "01 02 03 04d 05d 06d"),
            // The memory dropped a line in the middle.
            ("01 02 04", "01 03d 05d", "01 02 03d 04 05d"),
            // The clock was set back.
            ("10 30 05 06", "30 31d 05 06", "10 30 31d 05 06"),
            ("10 30 05 06", "05 05d 06 07d", "10 30 05 05d 06 07d"),
        ] {
            assert_eq!(merge(&lines(saved), &lines(memory)), lines(expected), "{saved} | {memory}");
        }
    }
}

//! Input from the host: state files, local users, the kernel.

use taut_agent::log::Entry;

use crate::input::Input;

/// A state file. The body of a damaged file is not used, and the body of a written file comes back unchanged.
pub(crate) fn state_file(data: &[u8]) {
    if let Some(body) = taut_control::fuzzing::state_file(data) {
        assert_eq!(taut_control::fuzzing::whole_file(&body), data, "two different state files have the same body");
    }
    let mut whole = taut_control::fuzzing::whole_file(data);
    assert_eq!(taut_control::fuzzing::state_file(&whole).as_deref(), Some(data));
    let (Some(place), Some(mask)) = (data.first(), data.get(1).filter(|mask| **mask != 0)) else { return };
    let place = usize::from(*place) * whole.len() / 256;
    whole[place] ^= mask;
    assert_eq!(taut_control::fuzzing::state_file(&whole), None, "an altered state file was accepted");
}

/// The JSON in both state files: the identity of the node (first byte even) or its last good map.
pub(crate) fn identity(data: &[u8]) {
    let mut input = Input::new(data);
    if input.byte().is_multiple_of(2) {
        if let Some(again) = taut_control::fuzzing::identity(input.rest()) {
            assert_eq!(taut_control::fuzzing::identity(&again), Some(again));
        }
    } else if let Some(map) = taut_control::fuzzing::saved_map(input.rest()) {
        assert_eq!(map.check(), Ok(()));
    }
}

/// The event log's file, and a text that is written into a line of it.
pub(crate) fn event_log(data: &[u8]) {
    for line in taut_control::fuzzing::event_lines(data) {
        let Some(entry) = Entry::parse(&line) else { continue };
        assert!(!entry.text().chars().any(char::is_control), "a line contains control characters for the terminal");
        // serde_json parses the line for comparison, but only a line without `\\u` escapes, in which it refuses lone surrogates, and with few fields: the log's
        // parser reads no more than its maximum.
        let json = serde_json::from_str::<serde_json::Value>(&line).ok();
        if let Some(json) = json.filter(|_| !line.contains("\\u") && line.matches(':').count() < 24) {
            assert_eq!(json["area"], entry.area.as_str());
            assert!(entry.fields.iter().all(|(name, _)| json.get(name).is_some()));
        }
    }
    let text = String::from_utf8_lossy(data);
    let line = taut_agent::fuzzing::event_line(&text);
    assert!(line.len() <= taut_agent::fuzzing::MAX_EVENT_LINE);
    let entry = Entry::parse(&line).expect("a line that the log wrote can be parsed");
    let json: serde_json::Value = serde_json::from_str(&line).expect("the line is JSON");
    assert_eq!(json["peer"], entry.field("peer").unwrap_or_default());
    assert_eq!(taut_control::fuzzing::event_lines(format!("{line}\n").as_bytes()), [line]);
}

/// Bytes of a local user. The first bit says whether the user may change settings, the second whether the user reads the answers.
pub(crate) fn local_api(data: &[u8]) {
    let mut input = Input::new(data);
    let how = input.byte();
    let (may_change, reads) = (how & 1 != 0, how & 2 != 0);
    // A user who does not read repeats the request until the answers fill the socket.
    let said = input.rest().repeat(if reads { 1 } else { 16 });
    let seen = taut_agent::fuzzing::serve(&said, may_change, reads);
    assert!(may_change || seen.changes == 0, "a user without rights changed something");
    assert!(seen.answers == seen.requests && seen.kept <= taut_agent::fuzzing::MAX_KEPT, "{seen:?}");
}

/// Datagrams from the kernel over netlink.
pub(crate) fn netlink(data: &[u8]) {
    let objects = taut_netlink::fuzzing(data);
    // A message has a header of 16 bytes.
    assert!(objects <= data.len() / 16);
}

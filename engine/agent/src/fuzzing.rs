//! The way in for fuzz targets: the local API without a daemon behind it, and lines of the event log.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::api::{MAX_REQUEST, Response};
use crate::log::{Level, Value, kind, write_line};
use crate::server::{Connection, Step};

pub use crate::log::MAX_LINE as MAX_EVENT_LINE;

/// Bytes that a connection may keep of its user at most: requests that are not read to their end, and one answer.
pub const MOST_KEPT: usize = 2 * (MAX_REQUEST + 4096);

/// What came of a user's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Lines that were answered.
    pub answers: usize,
    /// Lines that were sent, if the connection took them all.
    pub requests: usize,
    /// Requests that change something and were carried out.
    pub changes: usize,
    /// Bytes that the connection keeps at the end.
    pub kept: usize,
}

/// Serves a user who sends `bytes` and, if he `reads`, takes the answers.
pub fn serve(bytes: &[u8], may_change: bool, reads: bool) -> Seen {
    let mut seen = Seen::default();
    let Ok((stream, mut user)) = UnixStream::pair() else { return seen };
    if stream.set_nonblocking(true).and(user.set_nonblocking(true)).is_err() {
        return seen;
    }
    let mut connection = Connection::new(stream, may_change);
    let (mut open, mut room, mut lines) = (true, vec![0; 64 * 1024], 0);
    for part in bytes.chunks(4096) {
        let taken = user.write(part).unwrap_or(0);
        lines += count_lines(&part[..taken]);
        loop {
            open = open && go_on(&mut connection, &mut seen);
            match reads.then(|| user.read(&mut room)) {
                Some(Ok(length @ 1..)) => seen.answers += count_lines(&room[..length]),
                _ => break,
            }
        }
    }
    seen.kept = connection.kept();
    seen.requests = if open && reads { lines } else { seen.answers };
    seen
}

/// Answers what was read; false when the connection is at its end.
fn go_on(connection: &mut Connection, seen: &mut Seen) -> bool {
    loop {
        match connection.advance() {
            Step::Asked => connection.answer(|request| {
                seen.changes += usize::from(request.changes());
                Response::Done
            }),
            step => return step != Step::Ended,
        }
    }
}

fn count_lines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Returns a line of the event log about a peer of this name.
pub fn event_line(peer: &str) -> String {
    let values = [Value::text(peer)];
    write_line(&kind::PEER_ADDED, Level::Info, Duration::from_secs(1_795_489_927), &values)
}

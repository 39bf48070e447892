//! Entry point for fuzz targets: the local API without a daemon, and lines of the event log.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::api::{ApiResponse, MAX_REQUEST};
use crate::log::{Level, Value, kind, write_line};
use crate::server::{Progress, UserConnection};

pub use crate::log::MAX_LINE as MAX_EVENT_LINE;

/// Maximum number of bytes that a connection stores: incomplete requests, and one response.
pub const MAX_KEPT: usize = 2 * (MAX_REQUEST + 4096);

/// The effect of a client's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Number of answered lines.
    pub answers: usize,
    /// Number of sent lines, if the connection read all of them.
    pub requests: usize,
    /// Number of requests that change something and were carried out.
    pub changes: usize,
    /// Number of bytes that the connection stores at the end.
    pub kept: usize,
}

/// Serves a client that sends `bytes` and, if `reads` is set, reads the responses.
pub fn serve(bytes: &[u8], may_change: bool, reads: bool) -> Served {
    let mut served = Served::default();
    let Ok((stream, mut user)) = UnixStream::pair() else { return served };
    if stream.set_nonblocking(true).and(user.set_nonblocking(true)).is_err() {
        return served;
    }
    let mut connection = UserConnection::new(stream, may_change);
    let (mut open, mut room, mut lines) = (true, vec![0; 64 * 1024], 0);
    for part in bytes.chunks(4096) {
        let taken = user.write(part).unwrap_or(0);
        lines += count_lines(&part[..taken]);
        loop {
            open = open && advance(&mut connection, &mut served);
            match reads.then(|| user.read(&mut room)) {
                Some(Ok(length @ 1..)) => served.answers += count_lines(&room[..length]),
                _ => break,
            }
        }
    }
    served.kept = connection.kept();
    served.requests = if open && reads { lines } else { served.answers };
    served
}

/// Answers the requests that were read. Returns false if the connection has ended.
fn advance(connection: &mut UserConnection, served: &mut Served) -> bool {
    loop {
        match connection.advance() {
            Progress::Asked => connection.answer(|request| {
                served.changes += usize::from(request.changes());
                Some(ApiResponse::Done)
            }),
            step => return step != Progress::Ended,
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

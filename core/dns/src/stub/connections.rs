//! The TCP connections of one stub.

use std::time::Duration;

use taut_base::Time;
use taut_wire::tcp::{self, Segment};

use super::PORT;
use super::connection::{Connection, Fate};
use super::outbox::Outbox;
use super::packet::{Flow, TcpFields};
use crate::names::Names;

/// Limit on connections, 32: the resolver of a host keeps one or two open.
const MAX_CONNECTIONS: usize = 32;
/// Time without a segment of the client after which a full table may end a connection for a new one, 1 s: a client connects to ask at once, and its kernel answers within microseconds.
const REPLACEABLE: Duration = Duration::from_secs(1);

/// A bounded table of connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    all: Vec<Connection>,
    due: Option<Time>,
}

impl Connections {
    /// Takes a segment.
    pub(super) fn handle(
        &mut self,
        flow: Flow,
        segment: &Segment<'_>,
        names: &Names,
        mtu: usize,
        out: &mut Outbox,
        now: Time,
    ) {
        let opens = segment.flags() & (tcp::SYN | tcp::ACK | tcp::RST | tcp::FIN) == tcp::SYN;
        if let Some(place) = self.all.iter().position(|connection| connection.flow() == flow) {
            if self.all[place].handle(segment, names, out, now) == Fate::Closed {
                self.all.swap_remove(place);
            }
        } else if opens && flow.stub.port() == PORT && self.make_room(out, now) {
            self.all.push(Connection::accept(flow, segment, mtu, out, now));
        } else if segment.flags() & tcp::RST == 0 {
            out.push(refusal(flow, segment));
        }
        self.schedule();
    }

    /// Takes the answer of another server to a question of the connection, if it still exists.
    pub(super) fn take_answer(&mut self, flow: Flow, answer: &[u8], names: &Names, out: &mut Outbox, now: Time) {
        if let Some(place) = self.all.iter().position(|connection| connection.flow() == flow) {
            if self.all[place].take_answer(answer, names, out, now) == Fate::Closed {
                self.all.swap_remove(place);
            }
            self.schedule();
        }
    }

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.due
    }

    /// Sends again what is not acknowledged, and ends idle connections.
    pub(super) fn handle_timeout(&mut self, out: &mut Outbox, now: Time) {
        if self.due.is_some_and(|due| due <= now) {
            self.all.retain_mut(|connection| connection.handle_timeout(out, now) == Fate::Open);
            self.schedule();
        }
    }

    /// Makes room for one more connection. Returns false if all are in use.
    fn make_room(&mut self, out: &mut Outbox, now: Time) -> bool {
        if self.all.len() < MAX_CONNECTIONS {
            return true;
        }
        let silences = self.all.iter().map(|connection| connection.silence(now)).enumerate();
        let Some((place, silence)) = silences.max_by_key(|(_, silence)| *silence) else { return false };
        if silence < REPLACEABLE {
            return false;
        }
        let _ = self.all.swap_remove(place).reset(out);
        true
    }

    fn schedule(&mut self) {
        self.due = self.all.iter().map(Connection::poll_timeout).min();
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the bytes of questions and answers that are kept.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.all.iter().map(Connection::held).sum()
    }
}

/// Returns the answer to a segment of no connection (RFC 9293 section 3.10.7.1).
fn refusal(flow: Flow, segment: &Segment<'_>) -> Option<Box<[u8]>> {
    let flags = segment.flags();
    let ends = u32::from(flags & tcp::SYN != 0) + u32::from(flags & tcp::FIN != 0);
    let length = (segment.payload().len() as u32).wrapping_add(ends);
    let fields = if flags & tcp::ACK != 0 {
        TcpFields {
            sequence: segment.acknowledgement(),
            acknowledgement: 0,
            flags: tcp::RST,
            window: 0,
            segment_size: None,
        }
    } else {
        let acknowledgement = segment.sequence().wrapping_add(length);
        TcpFields { sequence: 0, acknowledgement, flags: tcp::RST | tcp::ACK, window: 0, segment_size: None }
    };
    flow.segment(&fields, &[])
}

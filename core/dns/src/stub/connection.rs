//! One TCP connection to the stub: as much of RFC 9293 as a server of short questions needs.
//!
//! Data is taken in order only. What the client does not acknowledge is sent again from the first byte on: when a timer runs out, and when the client repeats what the stub has
//! already, because then an acknowledgement was lost.

use std::time::Duration;

use taut_base::Time;
use taut_wire::tcp::{self, Segment};

use super::outbox::Outbox;
use super::packet::{Flow, TcpFields};
use super::question;
use crate::answer::{Transport, respond};
use crate::names::Names;

/// Longest question, 4,096 bytes: a name, a type and options of EDNS take a few hundred.
const MAX_QUESTION: usize = 4_096;
/// Bytes that a client may send ahead, 8 KiB: two of the longest questions, or hundreds of usual ones.
const RECEIVE_BUFFER: usize = 8 * 1_024;
/// Bytes of unacknowledged answers from which on questions wait, 16 KiB: a client that does not read its answers costs no more than this and one answer.
const MAX_ANSWERS: usize = 16 * 1_024;
/// Questions of a connection that other servers answer at once, 8; further ones wait. A resolver that sends its questions in a row has a few.
const MAX_FORWARDED: usize = 8;
/// Time to the first retransmission, 250 ms: the client's kernel answers within microseconds, unless the host is out of processor time.
const FIRST_TIMEOUT: Duration = Duration::from_millis(250);
/// Retransmissions of a segment before the connection is given up, 5: the last one comes after 8 s.
const MAX_RETRANSMISSIONS: u32 = 5;
/// Time without a segment of the client after which the connection is reset, 10 s (RFC 7766 section 6.2.3 wants a few seconds).
const IDLE: Duration = Duration::from_secs(10);
/// Segment sizes of clients that announce none (RFC 9293 section 3.7.1), and the smallest that is used: less would be headers only.
const SEGMENT_V4: u16 = 536;
const SEGMENT_V6: u16 = 1_220;
const MIN_SEGMENT: usize = 88;

/// Whether a connection stays in the table after a segment or a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Fate {
    Open,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The client's SYN was answered.
    SynReceived,
    /// Both sides may send.
    Open,
    /// The stub sent its FIN, after the client's and after all answers.
    Closing,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    flow: Flow,
    state: State,
    /// Sequence number of the client's next byte.
    receive_next: u32,
    /// Bytes of questions that are not complete, or wait for room for their answers.
    received: Vec<u8>,
    /// True once the client's FIN was received.
    is_half_closed: bool,
    /// Sequence number of the first byte that the client has not acknowledged, which is the first of `answers`.
    unacknowledged: u32,
    /// Sequence number of the next byte to send, and of the byte behind all that were ever sent.
    send_next: u32,
    highest: u32,
    answers: Vec<u8>,
    /// Questions that other servers are asked.
    forwarded: usize,
    /// The client's receive window.
    window: u16,
    /// Longest segment that the client takes, and the one that the stub announces.
    segment_size: usize,
    own_segment_size: u16,
    heard: Time,
    /// The time of the next retransmission, while anything is unacknowledged.
    retransmit: Option<Time>,
    retransmissions: u32,
}

impl Connection {
    /// Answers a SYN. `mtu` is that of the TUN. The initial sequence number is a clock's (RFC 9293 section 3.4.1): only the host itself can send to the stub.
    pub(super) fn accept(flow: Flow, syn: &Segment<'_>, mtu: usize, out: &mut Outbox, now: Time) -> Self {
        let start = (now.0 / 4_000) as u32;
        let room = mtu.saturating_sub(flow.ip_header() + tcp::HEADER).max(MIN_SEGMENT);
        let usual = if flow.stub.is_ipv4() { SEGMENT_V4 } else { SEGMENT_V6 };
        let announced = usize::from(segment_size(syn.options()).unwrap_or(usual));
        let mut connection = Self {
            flow,
            state: State::SynReceived,
            receive_next: syn.sequence().wrapping_add(1),
            received: Vec::new(),
            is_half_closed: false,
            unacknowledged: start,
            send_next: start,
            highest: start,
            answers: Vec::new(),
            forwarded: 0,
            window: syn.window(),
            segment_size: announced.clamp(MIN_SEGMENT, room),
            own_segment_size: u16::try_from(room).unwrap_or(u16::MAX),
            heard: now,
            retransmit: None,
            retransmissions: 0,
        };
        connection.send_syn(out, now);
        connection
    }

    /// Returns the ends of the connection.
    pub(super) fn flow(&self) -> Flow {
        self.flow
    }

    /// Returns the time since the client was heard.
    pub(super) fn silence(&self, now: Time) -> Duration {
        now.since(self.heard)
    }

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Time {
        self.retransmit.unwrap_or(self.heard + IDLE)
    }

    /// Takes a segment of the client (RFC 9293 section 3.10.7).
    pub(super) fn handle(&mut self, segment: &Segment<'_>, names: &Names, out: &mut Outbox, now: Time) -> Fate {
        let flags = segment.flags();
        if flags & tcp::RST != 0 {
            // Only one in order ends the connection (RFC 5961 section 3).
            return if segment.sequence() == self.receive_next { Fate::Closed } else { Fate::Open };
        }
        self.heard = now;
        if flags & tcp::SYN != 0 {
            match self.state {
                State::SynReceived => self.send_syn(out, now),
                // The client may have forgotten this connection; then it answers with a RST (RFC 5961 section 4).
                State::Open | State::Closing => self.send(tcp::ACK, &[], out),
            }
            return Fate::Open;
        }
        if flags & tcp::ACK == 0 {
            return Fate::Open;
        }
        if !self.take_acknowledgement(segment, now) {
            self.send(tcp::ACK, &[], out);
            return Fate::Open;
        }
        if self.state == State::Closing && self.unacknowledged == self.highest {
            return Fate::Closed;
        }
        let must_acknowledge = self.take_data(segment);
        if !self.answer(names, out) {
            return self.reset(out);
        }
        self.transmit(must_acknowledge, out, now);
        Fate::Open
    }

    /// Sends again what is not acknowledged, or ends the connection.
    pub(super) fn handle_timeout(&mut self, out: &mut Outbox, now: Time) -> Fate {
        if now < self.poll_timeout() {
            return Fate::Open;
        }
        if self.retransmit.is_none() || self.retransmissions >= MAX_RETRANSMISSIONS {
            return self.reset(out);
        }
        self.retransmissions += 1;
        self.retransmit = None;
        match self.state {
            State::SynReceived => self.send_syn(out, now),
            State::Open | State::Closing => {
                self.go_back();
                self.transmit(true, out, now);
            }
        }
        Fate::Open
    }

    /// Tells the client that the connection is over.
    pub(super) fn reset(&self, out: &mut Outbox) -> Fate {
        self.send(tcp::RST | tcp::ACK, &[], out);
        Fate::Closed
    }

    /// Takes what the client acknowledges, and its window. Returns false if it acknowledges what was never sent.
    fn take_acknowledgement(&mut self, segment: &Segment<'_>, now: Time) -> bool {
        let sent = self.highest.wrapping_sub(self.unacknowledged);
        let acknowledged = segment.acknowledgement().wrapping_sub(self.unacknowledged);
        if acknowledged > sent {
            // An acknowledgement from before is no error (section 3.10.7.4).
            return self.unacknowledged.wrapping_sub(segment.acknowledgement()) < 1 << 31
                && self.state != State::SynReceived;
        }
        self.window = segment.window();
        if acknowledged == 0 {
            return self.state != State::SynReceived;
        }
        if self.state == State::SynReceived {
            self.state = State::Open;
        } else {
            self.answers.drain(..self.answers.len().min(acknowledged as usize));
        }
        self.unacknowledged = segment.acknowledgement();
        if self.send_next.wrapping_sub(self.unacknowledged) > sent {
            self.send_next = self.unacknowledged;
        }
        self.retransmissions = 0;
        self.retransmit = (self.unacknowledged != self.highest).then(|| now + FIRST_TIMEOUT);
        true
    }

    /// Takes the data that is next. Returns true if the client has to be told what was received.
    fn take_data(&mut self, segment: &Segment<'_>) -> bool {
        let (payload, is_last) = (segment.payload(), segment.flags() & tcp::FIN != 0);
        let known = self.receive_next.wrapping_sub(segment.sequence());
        if payload.is_empty() && !is_last {
            // A keepalive has the number before the next (RFC 9293 section 3.8.4).
            return known != 0;
        }
        let new = payload.get(known as usize..).filter(|new| !self.is_half_closed && (is_last || !new.is_empty()));
        let Some(new) = new else {
            // Known already, so an answer or its acknowledgement was lost; or out of order.
            if known < 1 << 31 {
                self.go_back();
            }
            return true;
        };
        let taken = new.len().min(RECEIVE_BUFFER.saturating_sub(self.received.len()));
        self.received.extend_from_slice(new.get(..taken).unwrap_or_default());
        self.receive_next = self.receive_next.wrapping_add(taken as u32);
        if is_last && taken == new.len() {
            self.is_half_closed = true;
            self.receive_next = self.receive_next.wrapping_add(1);
        }
        true
    }

    /// Takes the answer of another server, and goes on with the questions that waited for it.
    pub(super) fn take_answer(&mut self, answer: &[u8], names: &Names, out: &mut Outbox, now: Time) -> Fate {
        // An answer may come after the connection was opened again, from the same port.
        let Some(forwarded) = self.forwarded.checked_sub(1) else { return Fate::Open };
        self.forwarded = forwarded;
        if !self.append(answer) || !self.answer(names, out) {
            return self.reset(out);
        }
        self.transmit(false, out, now);
        Fate::Open
    }

    /// Appends an answer with its length. Returns false for one that is too long for a message.
    fn append(&mut self, answer: &[u8]) -> bool {
        let Ok(size) = u16::try_from(answer.len()) else { return false };
        self.answers.extend_from_slice(&size.to_be_bytes());
        self.answers.extend_from_slice(answer);
        true
    }

    /// Answers complete questions while there is room, or has them passed on. Returns false if the client sends something else than questions.
    fn answer(&mut self, names: &Names, out: &mut Outbox) -> bool {
        while self.answers.len() < MAX_ANSWERS && self.forwarded < MAX_FORWARDED {
            let Some((length, rest)) = self.received.split_first_chunk::<2>() else { return true };
            let length = usize::from(u16::from_be_bytes(*length));
            if length > MAX_QUESTION {
                return false;
            }
            let Some(message) = rest.get(..length) else { return true };
            if let Some(question) = question(names, message, self.flow, Transport::Tcp) {
                if out.ask(question) {
                    self.forwarded += 1;
                } else if self.forwarded > 0 {
                    return true;
                } else {
                    // Nothing else would resume this connection: the answer is SERVFAIL.
                    let Some(answer) = crate::split::failure(message) else { return false };
                    if !self.append(&answer) {
                        return false;
                    }
                }
            } else {
                let Some(answer) = respond(names, message, Transport::Tcp) else { return false };
                if !self.append(&answer) {
                    return false;
                }
            }
            self.received.drain(..2 + length);
        }
        true
    }

    /// Returns true if no more answers follow: the client sends no more, and nothing complete waits.
    fn is_finished(&self) -> bool {
        self.is_half_closed && self.answers.len() < MAX_ANSWERS && self.forwarded == 0
    }

    /// Has everything sent again that is not acknowledged.
    fn go_back(&mut self) {
        self.send_next = self.unacknowledged;
    }

    /// Sends answers as far as the client's window goes, and the FIN behind the last one.
    fn transmit(&mut self, must_acknowledge: bool, out: &mut Outbox, now: Time) {
        let mut is_acknowledged = false;
        loop {
            let offset = self.send_next.wrapping_sub(self.unacknowledged) as usize;
            // The FIN is behind the last answer.
            let Some(left) = self.answers.len().checked_sub(offset) else { break };
            let length = left.min(self.segment_size).min(usize::from(self.window).saturating_sub(offset));
            let (flags, sent) = match length {
                0 if left > 0 || !self.is_finished() => break,
                0 => {
                    self.state = State::Closing;
                    (tcp::FIN | tcp::ACK, 1)
                }
                length if length == left => (tcp::PSH | tcp::ACK, length),
                length => (tcp::ACK, length),
            };
            self.send(flags, self.answers.get(offset..offset + length).unwrap_or_default(), out);
            self.sent(sent as u32, now);
            is_acknowledged = true;
        }
        if must_acknowledge && !is_acknowledged {
            self.send(tcp::ACK, &[], out);
        }
        // They may wait for the client's window.
        if !self.answers.is_empty() {
            self.arm(now);
        }
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.received.len() + self.answers.len()
    }

    fn send_syn(&mut self, out: &mut Outbox, now: Time) {
        self.send_next = self.unacknowledged;
        self.send(tcp::SYN | tcp::ACK, &[], out);
        self.sent(1, now);
    }

    fn sent(&mut self, bytes: u32, now: Time) {
        self.send_next = self.send_next.wrapping_add(bytes);
        let behind = |number: u32| number.wrapping_sub(self.unacknowledged);
        if behind(self.send_next) > behind(self.highest) {
            self.highest = self.send_next;
        }
        self.arm(now);
    }

    /// Sets the time of the next retransmission, if there is none.
    fn arm(&mut self, now: Time) {
        self.retransmit.get_or_insert(now + FIRST_TIMEOUT * (1 << self.retransmissions.min(MAX_RETRANSMISSIONS)));
    }

    fn send(&self, flags: u8, payload: &[u8], out: &mut Outbox) {
        let room = RECEIVE_BUFFER.saturating_sub(self.received.len());
        let fields = TcpFields {
            sequence: self.send_next,
            acknowledgement: self.receive_next,
            flags,
            window: room as u16,
            segment_size: Some(self.own_segment_size).filter(|_| flags & tcp::SYN != 0),
        };
        out.push(self.flow.segment(&fields, payload));
    }
}

/// Returns the segment size that a client announces in its SYN.
fn segment_size(mut options: &[u8]) -> Option<u16> {
    loop {
        options = match options {
            [2, 4, high, low, ..] => return Some(u16::from_be_bytes([*high, *low])),
            // End of the list, and no operation (RFC 9293 section 3.1).
            [0, ..] | [] => return None,
            [1, rest @ ..] => rest,
            [_, length, ..] => options.get(usize::from(*length).max(2)..)?,
            [_] => return None,
        };
    }
}

//! What is about to be sent: sealed datagrams in one buffer, as runs that one GSO message each can carry.

use taut_path::Way;
use taut_udp::{MAX_GSO_BYTES, MAX_MESSAGES, MAX_SEGMENTS, Transmit};
use taut_wire::ecn::Ecn;
use taut_wire::relay;

/// Most bytes that one superpacket turns into when sealed. The smallest segments that a kernel makes carry 48 bytes of TCP payload
/// (`tcp_min_snd_mss`): 1,366 of them, each with 40 bytes of IPv6 and 20 of TCP header, padded to 112, sealed to 144, and 152 by a relay.
pub const SEALED_SUPERPACKET_MAX: usize = 204 * 1024;

/// One full GSO message that is carried over, one superpacket on top, and some handshakes and keepalives.
const CAPACITY: usize = 64 * 1024 + SEALED_SUPERPACKET_MAX + 8 * 1024;

/// What is worth a system call while there is more to read: one full GSO message, or as many runs as a call takes.
const WORTH_BYTES: usize = MAX_GSO_BYTES - 4 * 1024;

/// Runs of one batch. Only tiny packets to many peers come near; then the batch is sent earlier.
const MAX_RUNS: usize = 512;

/// Sealed datagrams for one or several destinations, in the order in which they were sealed.
///
/// Datagrams of equal size and congestion marks for one destination form a run; a shorter one ends it, as `UDP_SEGMENT` wants it.
/// While more is to come, the last run waits for its neighbours ([`Flush::Full`]): a superpacket rarely seals to a whole number of full messages, and
/// a small rest costs sender and receiver as much as a full one. Memory: one buffer, touched as far as it is used.
pub struct SendBatch {
    bytes: Vec<u8>,
    used: usize,
    runs: Vec<Run>,
    /// Runs that were sent, and bytes of the next one that were.
    sent: usize,
    /// Runs behind them that were there, and were not sent, when it was tried last.
    left: usize,
    partial: usize,
}

/// Where a datagram goes, and what it carries on its IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// Which way.
    pub way: Way,
    /// The congestion marks of what is inside.
    pub ecn: Ecn,
}

/// What carries nobody's packet has no marks: no flow would answer to them.
impl From<Way> for Destination {
    fn from(way: Way) -> Self {
        Self { way, ecn: Ecn::NotEct }
    }
}

/// Which runs to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// All: nothing more is to come now.
    All,
    /// Those to which nothing can be added any more.
    Full,
}

#[derive(Clone, Copy)]
struct Run {
    destination: Destination,
    start: usize,
    end: usize,
    segment_size: usize,
    segments: usize,
}

impl SendBatch {
    /// An empty batch.
    pub fn new() -> Self {
        // Zeroed memory comes from the kernel untouched: pages count only once they are written.
        Self { bytes: vec![0; CAPACITY], used: 0, runs: Vec::with_capacity(MAX_RUNS), sent: 0, left: 0, partial: 0 }
    }

    /// Whether nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.sent == self.runs.len()
    }

    /// Whether another whole superpacket fits, whatever it is made of. If not, send first.
    pub fn has_room(&self) -> bool {
        CAPACITY - self.used >= SEALED_SUPERPACKET_MAX && self.runs.len() < MAX_RUNS / 2
    }

    /// Appends a datagram of `length` bytes that `write` fills, behind a relay's header if it goes by one. When `write` yields an error, nothing is appended.
    /// `None` when there is no room: a caller that asked [`Self::has_room`] before never sees it.
    pub fn append<E>(
        &mut self,
        destination: impl Into<Destination>,
        length: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let destination = destination.into();
        let start = self.used;
        let length = header_len(destination.way) + length;
        let room = self.bytes.get_mut(start..start + length)?;
        if self.runs.len() == MAX_RUNS {
            return None;
        }
        if let Err(error) = write(behind_header(destination.way, room)?) {
            return Some(Err(error));
        }
        self.add(destination, length);
        Some(Ok(()))
    }

    /// The `length` bytes behind those that are used are a datagram.
    fn add(&mut self, destination: Destination, length: usize) {
        let start = self.used;
        self.used += length;
        match self.runs.last_mut() {
            Some(run) if run.takes(destination, length) => {
                run.end = self.used;
                run.segments += 1;
            }
            _ => self.runs.push(Run { destination, start, end: self.used, segment_size: length, segments: 1 }),
        }
    }

    /// Where the next datagram will begin, for [`Self::repeat`].
    pub(crate) fn position(&self) -> usize {
        self.used
    }

    /// Appends copies of what was appended since `start`: datagrams that all went by the way `from`, `size` bytes each without a relay's header and the
    /// last one perhaps shorter. It stops where there is no room, or `may` says so; returns how many bytes the copies have.
    pub(crate) fn repeat(
        &mut self,
        start: usize,
        size: usize,
        from: Way,
        to: Destination,
        mut may: impl FnMut() -> bool,
    ) -> usize {
        let former = header_len(from);
        let end = self.used;
        let mut copied = 0;
        for place in (start..end).step_by((former + size).max(1)) {
            let datagram = place + former..end.min(place + former + size);
            let length = header_len(to.way) + datagram.len();
            let (done, room) = self.bytes.split_at_mut(self.used);
            let Some(room) = room.get_mut(..length).filter(|_| self.runs.len() < MAX_RUNS) else { break };
            let (Some(original), Some(copy)) = (done.get(datagram), behind_header(to.way, room)) else { break };
            if !may() {
                break;
            }
            copy.copy_from_slice(original);
            self.add(to, length);
            copied += length;
        }
        copied
    }

    /// Whether something waits to be sent that way that the socket had no room for. What was appended since it was tried is no reason to wait: receipts
    /// are, many times a second.
    pub(crate) fn waits_for(&self, way: Way) -> bool {
        let left = self.runs.get(self.sent..self.sent + self.left).unwrap_or_default();
        left.iter().any(|run| run.destination.way == way)
    }

    /// The runs that wait, at most as many as `transmits` has places; returns how many there are.
    pub fn transmits<'a>(&'a self, flush: Flush, transmits: &mut [Transmit<'a>]) -> usize {
        let waiting = match (self.runs.get(self.sent..).unwrap_or_default(), flush) {
            ([full @ .., last], Flush::Full) if last.grows() => full,
            (all, _) => all,
        };
        let skip = std::iter::once(self.partial).chain(std::iter::repeat(0));
        let mut count = 0;
        for ((run, skip), place) in waiting.iter().zip(skip).zip(transmits) {
            let contents = self.bytes.get(run.start + skip..run.end).unwrap_or_default();
            let Destination { way, ecn } = run.destination;
            let destination = way.first_hop();
            *place = Transmit { destination, contents, segment_size: run.segment_size, ecn: ecn.bits() };
            count += 1;
        }
        count
    }

    /// `runs` of the waiting runs were sent, and `partial` bytes of the one behind them.
    pub fn consume(&mut self, runs: usize, partial: usize) {
        self.partial = if runs == 0 { self.partial + partial } else { partial };
        self.sent += runs;
        if self.is_empty() {
            self.runs.clear();
            (self.used, self.sent, self.partial) = (0, 0, 0);
        } else if !self.has_room() {
            self.move_to_front();
        }
        self.left = self.runs.len() - self.sent;
    }

    /// Whether so much waits that it should be sent before more is read.
    pub fn is_worth_sending(&self) -> bool {
        let waiting = self.runs.get(self.sent..).unwrap_or_default();
        waiting.len() > MAX_MESSAGES || waiting.first().is_some_and(|run| self.used - run.start >= WORTH_BYTES)
    }

    /// What waits comes to the front of the buffer, so that there is room behind it.
    fn move_to_front(&mut self) {
        self.runs.drain(..self.sent);
        self.sent = 0;
        let Some(by) = self.runs.first().map(|run| run.start) else { return };
        self.bytes.copy_within(by..self.used, 0);
        self.used -= by;
        for run in &mut self.runs {
            run.start -= by;
            run.end -= by;
        }
    }
}

/// Bytes in front of each datagram that goes this way.
fn header_len(way: Way) -> usize {
    if way.is_relayed() { relay::HEADER } else { 0 }
}

/// Where a datagram is written; what stands in front of it is written here. `None` when there is no room for that.
fn behind_header(way: Way, room: &mut [u8]) -> Option<&mut [u8]> {
    let Way::Relayed { id, .. } = way else { return Some(room) };
    let (header, datagram) = room.split_first_chunk_mut()?;
    *header = relay::header(id);
    Some(datagram)
}

impl Default for SendBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl Run {
    /// The last datagram was shorter than the others.
    fn ended(&self) -> bool {
        (self.end - self.start) != self.segments * self.segment_size
    }

    fn takes(&self, destination: Destination, length: usize) -> bool {
        self.destination == destination
            && length <= self.segment_size
            && !self.ended()
            && self.segments < MAX_SEGMENTS
            && self.end - self.start + length <= MAX_GSO_BYTES
    }

    /// Whether another datagram of its size fits.
    fn grows(&self) -> bool {
        self.takes(self.destination, self.segment_size)
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn to(number: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, number], 1))
    }

    fn append(batch: &mut SendBatch, number: u8, length: usize) {
        let written = batch.append(Way::from(to(number)), length, |room| {
            room.fill(number);
            Ok::<(), ()>(())
        });
        assert_eq!(written, Some(Ok(())));
    }

    fn shape(batch: &SendBatch) -> Vec<(SocketAddr, usize, usize)> {
        let mut transmits = [Transmit { destination: to(0), contents: &[], segment_size: 0, ecn: 0 }; 64];
        let count = batch.transmits(Flush::All, &mut transmits);
        transmits[..count].iter().map(|run| (run.destination, run.contents.len(), run.segment_size)).collect()
    }

    #[test]
    fn equal_sizes_form_a_run_and_a_shorter_one_ends_it() {
        let mut batch = SendBatch::new();
        for (number, length) in [(1, 100), (1, 100), (1, 60), (1, 60), (2, 60), (1, 60), (1, 70)] {
            append(&mut batch, number, length);
        }
        assert_eq!(
            shape(&batch),
            [(to(1), 260, 100), (to(1), 60, 60), (to(2), 60, 60), (to(1), 60, 60), (to(1), 70, 70)]
        );
    }

    #[test]
    fn a_run_is_never_more_than_one_message_can_carry() {
        let mut batch = SendBatch::new();
        for _ in 0..65 {
            append(&mut batch, 1, 100);
        }
        for _ in 0..46 {
            append(&mut batch, 2, 1452);
        }
        assert_eq!(
            shape(&batch),
            [(to(1), 6400, 100), (to(1), 100, 100), (to(2), 45 * 1452, 1452), (to(2), 1452, 1452)]
        );
    }

    #[test]
    fn what_was_not_sent_stays() {
        let mut batch = SendBatch::new();
        append(&mut batch, 1, 100);
        append(&mut batch, 2, 100);
        append(&mut batch, 2, 100);
        batch.consume(1, 100);
        assert_eq!(shape(&batch), [(to(2), 100, 100)]);
        batch.consume(1, 0);
        assert!(batch.is_empty());
        assert!(shape(&batch).is_empty());
    }

    #[test]
    fn only_what_the_socket_refused_waits() {
        let mut batch = SendBatch::new();
        let waits = |batch: &SendBatch| [1, 2].map(|host| batch.waits_for(to(host).into()));
        append(&mut batch, 1, 100);
        assert_eq!(waits(&batch), [false, false]);
        batch.consume(0, 0);
        append(&mut batch, 2, 100);
        assert_eq!(waits(&batch), [true, false]);
        batch.consume(1, 0);
        assert_eq!(waits(&batch), [false, true]);
        batch.consume(1, 0);
        append(&mut batch, 2, 100);
        assert_eq!(waits(&batch), [false, false]);
    }

    #[test]
    fn while_more_comes_the_last_run_waits_for_its_neighbours() {
        let mut batch = SendBatch::new();
        let mut segments = 0;
        // Superpackets of 47 segments; 45 go into a message.
        for _ in 0..100 {
            assert!(batch.has_room());
            for _ in 0..47 {
                append(&mut batch, 1, 1452);
            }
            assert!(batch.is_worth_sending());
            let mut transmits = [Transmit { destination: to(0), contents: &[], segment_size: 0, ecn: 0 }; 8];
            let count = batch.transmits(Flush::Full, &mut transmits);
            for transmit in &transmits[..count] {
                assert_eq!(transmit.contents.len(), 45 * 1452, "full messages only");
                assert!(transmit.contents.iter().all(|byte| *byte == 1));
                segments += 45;
            }
            batch.consume(count, 0);
            assert_eq!(
                batch.transmits(
                    Flush::Full,
                    &mut [Transmit { destination: to(0), contents: &[], segment_size: 0, ecn: 0 }]
                ),
                0
            );
        }
        let rest: usize = shape(&batch).iter().map(|(_, bytes, size)| bytes / size).sum();
        assert_eq!(segments + rest, 4700);
    }

    #[test]
    fn what_waits_keeps_its_bytes_when_it_moves_to_the_front() {
        let mut batch = SendBatch::new();
        for number in 1..=40 {
            for _ in 0..3 {
                append(&mut batch, number, 1300 + usize::from(number));
            }
        }
        batch.consume(2, 0);
        let before = shape(&batch);
        batch.move_to_front();
        assert_eq!(shape(&batch), before);
        let mut transmits = [Transmit { destination: to(0), contents: &[], segment_size: 0, ecn: 0 }; 64];
        let count = batch.transmits(Flush::All, &mut transmits);
        for (transmit, number) in transmits[..count].iter().zip(3..) {
            assert!(transmit.contents.iter().all(|byte| *byte == number));
        }
        batch.consume(count, 0);
        assert!(batch.is_empty());
    }

    #[test]
    fn a_failed_write_leaves_no_trace() {
        let mut batch = SendBatch::new();
        assert_eq!(batch.append(Way::from(to(1)), 100, |_| Err("no")), Some(Err("no")));
        assert!(batch.is_empty());
        append(&mut batch, 1, 50);
        assert_eq!(shape(&batch), [(to(1), 50, 50)]);
    }
}

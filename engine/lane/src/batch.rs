//! The send batch: sealed datagrams in one buffer, as runs that fit into one GSO message each.

use std::ops::Range;

use taut_path::Way;
use taut_udp::{MAX_GSO_BYTES, MAX_MESSAGES, MAX_SEGMENTS, Transmit};
use taut_wire::ecn::Ecn;
use taut_wire::relay;

/// Bytes that one superpacket becomes at most when it is sealed, 204 KiB. The smallest segments that a kernel makes carry 48 bytes of TCP payload
/// (`tcp_min_snd_mss`): 1,366 segments, each with 40 bytes of IPv6 header and 20 of TCP header, padded to 112, sealed to 144, and 152 through a relay.
pub const SEALED_SUPERPACKET_MAX: usize = 204 * 1024;

/// Bytes of the buffer: one full GSO message that is left over, one superpacket on top, and some handshakes and keepalives.
const CAPACITY: usize = 64 * 1024 + SEALED_SUPERPACKET_MAX + 8 * 1024;

/// Bytes that are worth a system call while there is more to read: about one full GSO message.
const WORTH_BYTES: usize = MAX_GSO_BYTES - 4 * 1024;

/// Runs of one batch at most, 512. Only tiny packets to many peers come near; the batch is then sent earlier.
const MAX_RUNS: usize = 512;

/// Sealed datagrams for one or several destinations, in the order in which they were sealed.
///
/// Datagrams of equal size and equal congestion marks for one destination form a run. A shorter datagram ends the run, as `UDP_SEGMENT` requires. While more
/// datagrams follow, the last run waits for them ([`Flush::Full`]): a superpacket rarely seals to a whole number of full messages, and a small rest costs
/// sender and receiver as much as a full message. The memory is one buffer, of which only the used part is touched.
pub struct SendBatch {
    bytes: Vec<u8>,
    used: usize,
    runs: Vec<SendRun>,
    /// Runs that were sent.
    sent: usize,
    /// Runs behind these that the socket had no room for at the last attempt.
    refused: usize,
    /// Bytes of the next run that were sent.
    partial: usize,
    /// Sized probes among the datagrams that wait.
    sized_probes: usize,
}

/// The path of a datagram, and the congestion marks on its IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The path.
    pub way: Way,
    /// The congestion marks of the inner packet.
    pub ecn: Ecn,
}

/// A datagram without an inner packet has no congestion marks: no flow would react to them.
impl From<Way> for Destination {
    fn from(way: Way) -> Self {
        Self { way, ecn: Ecn::NotEct }
    }
}

/// The runs to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// All runs: no more datagrams follow now.
    All,
    /// Only runs to which no datagram can be added any more.
    Full,
}

#[derive(Clone, Copy)]
struct SendRun {
    destination: Destination,
    start: usize,
    end: usize,
    segment_size: usize,
    segments: usize,
    /// True if no datagram may be added, see [`SendBatch::end_run`].
    closed: bool,
}

impl SendBatch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        // Zeroed memory comes from the kernel untouched: a page takes memory only once it is written.
        Self {
            bytes: vec![0; CAPACITY],
            used: 0,
            runs: Vec::with_capacity(MAX_RUNS),
            sent: 0,
            refused: 0,
            partial: 0,
            sized_probes: 0,
        }
    }

    /// Returns true if no datagram waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.sent == self.runs.len()
    }

    /// Returns true if any superpacket still fits. If not, the caller sends first.
    pub fn has_room(&self) -> bool {
        CAPACITY - self.used >= SEALED_SUPERPACKET_MAX && self.runs.len() < MAX_RUNS / 2
    }

    /// Appends a datagram of `length` bytes that `write` fills, behind a relay's header if it goes through a relay. If `write` returns an error, nothing is
    /// appended. Returns `None` if there is no room, which cannot be if [`Self::has_room`] was true.
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

    /// Adds the `length` bytes behind the used ones as a datagram.
    fn add(&mut self, destination: Destination, length: usize) {
        let start = self.used;
        self.used += length;
        match self.runs.last_mut() {
            Some(run) if run.takes(destination, length) => {
                run.end = self.used;
                run.segments += 1;
            }
            _ => self.runs.push(SendRun {
                destination,
                start,
                end: self.used,
                segment_size: length,
                segments: 1,
                closed: false,
            }),
        }
    }

    /// Ends the last run, so that the next datagram begins another one. The kernel and routers may drop a run as a whole if its longest datagram is too long, and a shorter
    /// sized probe would be lost with a longer one.
    pub(crate) fn end_run(&mut self) {
        if let Some(run) = self.runs.last_mut() {
            run.closed = true;
        }
    }

    /// Returns the position of the next datagram, for [`Self::repeat`].
    pub(crate) fn position(&self) -> usize {
        self.used
    }

    /// Appends copies, on the path `to`, of the datagrams that were appended since `start`. These all take the path `from`. Copying stops if there is no room or
    /// if `may` returns false. Returns the bytes of the copies.
    pub(crate) fn repeat(&mut self, start: usize, from: Way, to: Destination, mut may: impl FnMut() -> bool) -> usize {
        let (former, end) = (header_len(from), self.used);
        let mut copied = 0;
        let first = self.runs.iter().rposition(|run| run.end <= start).map_or(0, |before| before + 1);
        for place in first..self.runs.len() {
            let Some(run) = self.runs.get(place).copied().filter(|run| run.start < end) else { break };
            // The run may have begun before `start`.
            let size = run.segment_size.max(1);
            let begun = start.saturating_sub(run.start).next_multiple_of(size);
            for datagram in (run.start + begun..run.end.min(end)).step_by(size) {
                let original = datagram + former..(datagram + size).min(run.end);
                let Some(length) = self.repeat_one(original, to, &mut may) else { return copied };
                copied += length;
            }
        }
        copied
    }

    /// Appends a copy of one datagram, and returns its length; `None` if there is no room or if `may` returns false.
    fn repeat_one(&mut self, original: Range<usize>, to: Destination, may: impl FnOnce() -> bool) -> Option<usize> {
        let length = header_len(to.way) + original.len();
        let (done, room) = self.bytes.split_at_mut(self.used);
        let room = room.get_mut(..length).filter(|_| self.runs.len() < MAX_RUNS)?;
        let (original, copy) = (done.get(original)?, behind_header(to.way, room)?);
        if !may() {
            return None;
        }
        copy.copy_from_slice(original);
        self.add(to, length);
        Some(length)
    }

    /// Returns true if a datagram on this path waits because the socket had no room for it. Datagrams that were appended since the last attempt do not count:
    /// receipts are appended many times per second.
    pub(crate) fn waits_for(&self, way: Way) -> bool {
        let refused = self.runs.get(self.sent..self.sent + self.refused).unwrap_or_default();
        refused.iter().any(|run| run.destination.way == way)
    }

    /// Writes the runs that wait into `transmits`, as many as it has room for, and returns their number.
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

    /// Notes that the first `runs` of the waiting runs were sent, and `partial` bytes of the next one.
    pub fn consume(&mut self, runs: usize, partial: usize) {
        self.partial = if runs == 0 { self.partial + partial } else { partial };
        self.sent += runs;
        if self.is_empty() {
            self.runs.clear();
            (self.used, self.sent, self.partial, self.sized_probes) = (0, 0, 0, 0);
        } else if !self.has_room() {
            self.move_to_front();
        }
        self.refused = self.runs.len() - self.sent;
    }

    /// Notes that the datagram that was appended last is a sized probe: the kernel may refuse it as too long.
    pub(crate) fn note_sized_probe(&mut self) {
        self.sized_probes += 1;
    }

    /// Returns how many of `too_long` refused datagrams are sized probes, as far as that is known, and forgets these.
    pub(crate) fn take_sized_probes(&mut self, too_long: usize) -> usize {
        let probes = too_long.min(self.sized_probes);
        self.sized_probes -= probes;
        probes
    }

    /// Returns true if so much waits that it should be sent before more is read.
    pub fn is_worth_sending(&self) -> bool {
        let waiting = self.runs.get(self.sent..).unwrap_or_default();
        let worth = |run: &SendRun| run.is_full() || self.used - run.start >= WORTH_BYTES;
        waiting.len() > MAX_MESSAGES || waiting.first().is_some_and(worth)
    }

    /// Moves the waiting datagrams to the front of the buffer, so that there is room behind them.
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

/// Returns the bytes in front of each datagram on this path.
fn header_len(way: Way) -> usize {
    if way.is_relayed() { relay::HEADER } else { 0 }
}

/// Writes the header in front of a datagram, and returns the room for the datagram itself; `None` if there is no room for the header.
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

impl SendRun {
    /// Returns true if the last datagram is shorter than the others.
    fn ended(&self) -> bool {
        (self.end - self.start) != self.segments * self.segment_size
    }

    /// Returns true if a datagram of this length may be added.
    fn takes(&self, destination: Destination, length: usize) -> bool {
        !self.closed
            && self.destination == destination
            && length <= self.segment_size
            && !self.ended()
            && self.segments < MAX_SEGMENTS
            && self.end - self.start + length <= MAX_GSO_BYTES
    }

    /// Returns true if another datagram would exceed the bytes of a GSO message. Six datagrams of 9,600 bytes are such a run, though they are less than
    /// [`WORTH_BYTES`].
    fn is_full(&self) -> bool {
        self.end - self.start + self.segment_size > MAX_GSO_BYTES
    }

    /// Returns true if another datagram of the run's segment size fits.
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
    fn a_run_that_takes_no_more_bytes_is_sent_before_more_is_read() {
        for (length, fits) in [(1_452, 45), (8_932, 7), (8_972, 7), (9_572, 6), (40_000, 1), (65_472, 1)] {
            let mut batch = SendBatch::new();
            for number in 1..=fits {
                assert!(!batch.is_worth_sending() || batch.used >= WORTH_BYTES, "{length}: {number}");
                append(&mut batch, 1, length);
            }
            assert!(batch.is_worth_sending(), "{length}");
            let mut transmits = [Transmit { destination: to(0), contents: &[], segment_size: 0, ecn: 0 }; 64];
            assert_eq!(batch.transmits(Flush::Full, &mut transmits), 1, "{length}: the run waits for nothing");
        }
        let mut batch = SendBatch::new();
        (0..64).for_each(|_| append(&mut batch, 1, 100));
        assert!(!batch.is_worth_sending(), "a full run of short datagrams waits for others");
    }

    #[test]
    fn datagrams_of_equal_size_form_a_run_and_a_shorter_one_ends_it() {
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
    fn a_run_that_was_ended_takes_no_datagram() {
        let mut batch = SendBatch::new();
        append(&mut batch, 1, 100);
        for length in [90, 80] {
            batch.end_run();
            append(&mut batch, 1, length);
            batch.end_run();
        }
        append(&mut batch, 1, 80);
        append(&mut batch, 1, 80);
        assert_eq!(shape(&batch), [(to(1), 100, 100), (to(1), 90, 90), (to(1), 80, 80), (to(1), 160, 80)]);
    }

    #[test]
    fn a_run_fits_into_one_gso_message() {
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
    fn datagrams_that_were_not_sent_stay() {
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
    fn only_refused_datagrams_count_as_waiting() {
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
    fn while_more_datagrams_follow_the_last_run_waits_for_them() {
        let mut batch = SendBatch::new();
        let mut segments = 0;
        // Superpackets of 47 segments; 45 segments fit into a message.
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
    fn waiting_datagrams_keep_their_bytes_when_they_move_to_the_front() {
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

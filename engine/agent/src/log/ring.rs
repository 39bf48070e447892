//! The latest lines in memory, limited in number and bytes. Each party has a limit of its own, so that it cannot displace the lines of other parties.

use std::collections::VecDeque;

use super::limiter::EventSource;

/// Limit on the lines in memory, 1,000.
pub(crate) const MAX_EVENTS: usize = 1_000;

/// Limit on the bytes of lines in memory, 256 KiB: 1,000 lines of the usual length.
const MAX_BYTES: usize = 256 * 1024;

/// Limit on the lines of one peer, of one relay and of all unauthenticated senders: a quarter of all lines.
const PER_PARTY: usize = MAX_EVENTS / 4;

/// The latest lines, with consecutive numbers.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    lines: VecDeque<(u64, EventSource, Box<str>)>,
    bytes: usize,
    next: u64,
}

/// The lines of one answer to a reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LineBatch {
    pub(crate) lines: Vec<String>,
    /// The number from which the next request continues.
    pub(crate) next: u64,
    /// Number of lines that were dropped before the reader requested them.
    pub(crate) missed: u64,
}

impl Ring {
    /// Adds a line. If its party has reached its limit, the party's oldest line is dropped; if the memory is full, the oldest lines of all are dropped.
    pub(crate) fn push(&mut self, party: EventSource, line: &str) {
        let is_limited = !matches!(party, EventSource::Node | EventSource::Coordinator | EventSource::Earlier);
        if is_limited && self.lines.iter().filter(|(_, of, _)| *of == party).count() >= PER_PARTY {
            self.remove(self.lines.iter().position(|(_, of, _)| *of == party));
        }
        while self.lines.len() >= MAX_EVENTS || (self.bytes + line.len() > MAX_BYTES && !self.lines.is_empty()) {
            self.remove(Some(0));
        }
        self.bytes += line.len();
        self.lines.push_back((self.next, party, Box::from(line)));
        self.next += 1;
    }

    fn remove(&mut self, index: Option<usize>) {
        if let Some((_, _, line)) = index.and_then(|index| self.lines.remove(index)) {
            self.bytes -= line.len();
        }
    }

    /// Returns lines from number `from` on, the oldest first, up to about `most` bytes. Without `from` it begins at the oldest line and reports no missed lines.
    pub(crate) fn read(&self, from: Option<u64>, most: usize) -> LineBatch {
        let oldest = self.lines.front().map_or(self.next, |(number, ..)| *number);
        let from = from.unwrap_or(oldest);
        let mut batch = LineBatch { lines: Vec::new(), next: from.min(self.next), missed: 0 };
        let (mut bytes, mut expected) = (0, batch.next);
        for (number, _, line) in self.lines.iter().filter(|(number, ..)| *number >= from) {
            if bytes > most {
                break;
            }
            bytes += line.len();
            batch.missed += number - expected;
            expected = number + 1;
            batch.lines.push(String::from(&**line));
            batch.next = expected;
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(ring: &Ring, party: EventSource) -> usize {
        ring.lines.iter().filter(|(_, of, _)| *of == party).count()
    }

    #[test]
    fn number_and_bytes_are_bounded() {
        let mut ring = Ring::default();
        (0..3_000).for_each(|number| ring.push(EventSource::Node, &number.to_string()));
        assert_eq!(ring.lines.len(), MAX_EVENTS);
        assert_eq!(&*ring.lines[0].2, "2000");
        let long = "x".repeat(1_000);
        (0..2_000).for_each(|_| ring.push(EventSource::Node, &long));
        assert!(ring.bytes <= MAX_BYTES && ring.bytes > MAX_BYTES - 2_000);
        assert_eq!(ring.bytes, ring.lines.iter().map(|(.., line)| line.len()).sum::<usize>());
        ring.push(EventSource::Node, &"x".repeat(2 * MAX_BYTES));
        ring.push(EventSource::Node, "a");
        assert_eq!((ring.lines.len(), ring.bytes), (1, 1));
    }

    #[test]
    fn fault_p5_a_party_with_many_lines_displaces_only_its_own() {
        let mut ring = Ring::default();
        (0..100).for_each(|_| ring.push(EventSource::Peer(2), "quiet"));
        (0..100).for_each(|_| ring.push(EventSource::Node, "node"));
        (0..100_000).for_each(|_| ring.push(EventSource::Peer(1), "loud"));
        assert_eq!(count(&ring, EventSource::Peer(1)), PER_PARTY);
        assert_eq!((count(&ring, EventSource::Peer(2)), count(&ring, EventSource::Node)), (100, 100));
    }

    #[test]
    fn a_slow_reader_gets_the_number_of_missed_lines() {
        let mut ring = Ring::default();
        (0..10).for_each(|number| ring.push(EventSource::Node, &number.to_string()));
        let first = ring.read(Some(0), usize::MAX);
        assert_eq!((first.lines.len(), first.next, first.missed), (10, 10, 0));
        assert_eq!(ring.read(Some(first.next), usize::MAX), LineBatch { lines: vec![], next: 10, missed: 0 });
        (10..2_510).for_each(|number| ring.push(EventSource::Node, &number.to_string()));
        let late = ring.read(Some(first.next), usize::MAX);
        assert_eq!((late.lines.len(), late.missed, late.next), (1_000, 1_500, 2_510));
        assert_eq!((ring.read(None, usize::MAX).lines.len(), ring.read(None, usize::MAX).missed), (1_000, 0));
        // Reads the lines in parts. Each line is returned exactly once.
        let (mut from, mut all) = (0, Vec::new());
        loop {
            let batch = ring.read(Some(from), 100);
            if batch.lines.is_empty() {
                break;
            }
            from = batch.next;
            all.extend(batch.lines);
        }
        assert_eq!((all.len(), &all[0][..], &all[999][..]), (1_000, "1510", "2509"));
        assert_eq!(ring.read(Some(u64::MAX), 10).next, 2_510, "a number of another run of the daemon");
    }
}

//! The latest lines in memory: bounded in number and bytes, and no party crowds the others out.

use std::collections::VecDeque;

use super::limiter::Party;

/// Lines that are kept, 1,000.
pub(crate) const MAX_EVENTS: usize = 1_000;

/// Bytes of lines that are kept, 256 KiB: 1,000 lines of the usual length.
const MAX_BYTES: usize = 256 * 1024;

/// Lines of one peer, one relay or of all unauthenticated senders: a quarter.
const PER_PARTY: usize = MAX_EVENTS / 4;

/// Lines with numbers that rise by one.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    lines: VecDeque<(u64, Party, Box<str>)>,
    bytes: usize,
    next: u64,
}

/// Lines that a reader is given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) lines: Vec<String>,
    /// The number to ask from next.
    pub(crate) next: u64,
    /// Lines that were gone before the reader asked.
    pub(crate) missed: u64,
}

impl Ring {
    /// Adds a line, and drops what exceeds the bounds: of a party that has more than its share its own oldest, otherwise the oldest.
    pub(crate) fn push(&mut self, party: Party, line: &str) {
        let has_share = !matches!(party, Party::Node | Party::Coordinator | Party::Earlier);
        if has_share && self.lines.iter().filter(|(_, of, _)| *of == party).count() >= PER_PARTY {
            self.remove(self.lines.iter().position(|(_, of, _)| *of == party));
        }
        while self.lines.len() >= MAX_EVENTS || (self.bytes + line.len() > MAX_BYTES && !self.lines.is_empty()) {
            self.remove(Some(0));
        }
        self.bytes += line.len();
        self.lines.push_back((self.next, party, Box::from(line)));
        self.next += 1;
    }

    fn remove(&mut self, place: Option<usize>) {
        if let Some((_, _, line)) = place.and_then(|place| self.lines.remove(place)) {
            self.bytes -= line.len();
        }
    }

    /// Returns lines from number `from` on, the oldest first, up to about `most` bytes; without a number from the oldest on, and none counts as missed.
    pub(crate) fn read(&self, from: Option<u64>, most: usize) -> Batch {
        let oldest = self.lines.front().map_or(self.next, |(number, ..)| *number);
        let from = from.unwrap_or(oldest);
        let mut batch = Batch { lines: Vec::new(), next: from.min(self.next), missed: 0 };
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

    fn count(ring: &Ring, party: Party) -> usize {
        ring.lines.iter().filter(|(_, of, _)| *of == party).count()
    }

    #[test]
    fn number_and_bytes_are_bounded() {
        let mut ring = Ring::default();
        (0..3_000).for_each(|number| ring.push(Party::Node, &number.to_string()));
        assert_eq!(ring.lines.len(), MAX_EVENTS);
        assert_eq!(&*ring.lines[0].2, "2000");
        let long = "x".repeat(1_000);
        (0..2_000).for_each(|_| ring.push(Party::Node, &long));
        assert!(ring.bytes <= MAX_BYTES && ring.bytes > MAX_BYTES - 2_000);
        assert_eq!(ring.bytes, ring.lines.iter().map(|(.., line)| line.len()).sum::<usize>());
        ring.push(Party::Node, &"x".repeat(2 * MAX_BYTES));
        ring.push(Party::Node, "a");
        assert_eq!((ring.lines.len(), ring.bytes), (1, 1));
    }

    #[test]
    fn fault_p5_a_loud_party_displaces_its_own_lines() {
        let mut ring = Ring::default();
        (0..100).for_each(|_| ring.push(Party::Peer(2), "quiet"));
        (0..100).for_each(|_| ring.push(Party::Node, "node"));
        (0..100_000).for_each(|_| ring.push(Party::Peer(1), "loud"));
        assert_eq!(count(&ring, Party::Peer(1)), PER_PARTY);
        assert_eq!((count(&ring, Party::Peer(2)), count(&ring, Party::Node)), (100, 100));
    }

    #[test]
    fn a_slow_reader_is_told_how_many_it_missed() {
        let mut ring = Ring::default();
        (0..10).for_each(|number| ring.push(Party::Node, &number.to_string()));
        let first = ring.read(Some(0), usize::MAX);
        assert_eq!((first.lines.len(), first.next, first.missed), (10, 10, 0));
        assert_eq!(ring.read(Some(first.next), usize::MAX), Batch { lines: vec![], next: 10, missed: 0 });
        (10..2_510).for_each(|number| ring.push(Party::Node, &number.to_string()));
        let late = ring.read(Some(first.next), usize::MAX);
        assert_eq!((late.lines.len(), late.missed, late.next), (1_000, 1_500, 2_510));
        assert_eq!((ring.read(None, usize::MAX).lines.len(), ring.read(None, usize::MAX).missed), (1_000, 0));
        // In parts, none twice and none left out.
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

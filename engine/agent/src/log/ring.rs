//! The latest lines in memory, limited in number and bytes. Each group of sources has a share that no other group can displace, and each source has a limit.

use std::collections::VecDeque;

use taut_base::SortedMap;

use super::limiter::EventSource;

/// Limit on the lines in memory, 1,000.
pub(crate) const MAX_EVENTS: usize = 1_000;

/// Limit on the bytes of lines in memory, 256 KiB: 1,000 lines of the usual length.
const MAX_BYTES: usize = 256 * 1024;

/// Limit on the lines of one source, except for this node's own lines: a quarter of all lines.
const PER_SOURCE: usize = MAX_EVENTS / 4;

/// Number of groups of sources that have a share: this node, the coordinator, the membership, the underlay, unauthenticated senders, relays, peers, and new peers. Lines of an
/// earlier run have no share, because they are on the disk.
const GROUPS: usize = 8;

/// Lines and bytes of one group that other groups cannot displace: an eighth of the memory.
const SHARE: (usize, usize) = (MAX_EVENTS / GROUPS, MAX_BYTES / GROUPS);

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
    /// Adds a line. If its source has reached its limit, the source's oldest line is dropped. If the memory is full, a line of a group with more than its share is
    /// dropped: the oldest one, or among peers and among relays the oldest one of the source with the most lines.
    pub(crate) fn push(&mut self, source: EventSource, line: &str) {
        let is_limited = !matches!(source, EventSource::Node | EventSource::Earlier);
        if is_limited && self.lines.iter().filter(|(_, of, _)| *of == source).count() >= PER_SOURCE {
            self.remove(self.oldest(|of| of == source));
        }
        while self.lines.len() >= MAX_EVENTS || (self.bytes + line.len() > MAX_BYTES && !self.lines.is_empty()) {
            self.remove(self.least_wanted(source, line.len()));
        }
        self.bytes += line.len();
        self.lines.push_back((self.next, source, Box::from(line)));
        self.next += 1;
    }

    /// Returns the index of the line that makes room for a line of `source` with `length` bytes.
    fn least_wanted(&self, source: EventSource, length: usize) -> Option<usize> {
        let mut groups = [(0, 0); GROUPS + 1];
        let mut sources = SortedMap::new();
        let added = (source, length);
        for (of, length) in self.lines.iter().map(|(_, of, line)| (*of, line.len())).chain([added]) {
            let (lines, bytes) = &mut groups[of.group()];
            (*lines, *bytes) = (*lines + 1, *bytes + length);
            *sources.entry(of).or_insert(0) += 1;
        }
        let exceeds = |of: EventSource| {
            let (lines, bytes) = groups[of.group()];
            of == EventSource::Earlier || lines > SHARE.0 || bytes > SHARE.1
        };
        let index = self.oldest(exceeds)?;
        let group = self.lines.get(index)?.1.group();
        let most = sources.iter().filter(|(of, _)| of.group() == group).max_by_key(|(_, count)| **count)?.0;
        self.oldest(|of| of == *most).or(Some(index))
    }

    fn oldest(&self, is_meant: impl Fn(EventSource) -> bool) -> Option<usize> {
        self.lines.iter().position(|(_, of, _)| is_meant(*of))
    }

    fn remove(&mut self, index: Option<usize>) {
        if let Some((_, _, line)) = self.lines.remove(index.unwrap_or(0)) {
            self.bytes -= line.len();
        }
    }

    /// Returns lines from the `requested` number on, the oldest first, up to about `most` bytes. Without a number it begins at the oldest line and reports no missed
    /// lines.
    pub(crate) fn read(&self, requested: Option<u64>, most: usize) -> LineBatch {
        let oldest = self.lines.front().map_or(self.next, |(number, ..)| *number);
        let from = requested.unwrap_or(oldest);
        let mut batch = LineBatch { lines: Vec::new(), next: from.min(self.next), missed: 0 };
        let counts_missed = requested.is_some();
        let (mut bytes, mut expected) = (0, batch.next);
        for (number, _, line) in self.lines.iter().filter(|(number, ..)| *number >= from) {
            if bytes > most {
                break;
            }
            bytes += line.len();
            batch.missed += if counts_missed { number - expected } else { 0 };
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

    fn count(ring: &Ring, source: EventSource) -> usize {
        ring.lines.iter().filter(|(_, of, _)| *of == source).count()
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
    fn fault_p5_a_source_with_many_lines_displaces_only_its_own() {
        let mut ring = Ring::default();
        (0..100).for_each(|_| ring.push(EventSource::Peer(2), "quiet"));
        (0..100).for_each(|_| ring.push(EventSource::Node, "node"));
        (0..100_000).for_each(|_| ring.push(EventSource::Peer(1), "loud"));
        assert_eq!(count(&ring, EventSource::Peer(1)), PER_SOURCE);
        assert_eq!((count(&ring, EventSource::Peer(2)), count(&ring, EventSource::Node)), (100, 100));
    }

    #[test]
    fn fault_p5_identities_in_any_number_displace_no_other_group() {
        let mut ring = Ring::default();
        let fixed = [
            EventSource::Node,
            EventSource::Coordinator,
            EventSource::Membership,
            EventSource::Underlay,
            EventSource::Unauthenticated,
            EventSource::Relay(1),
        ];
        (0..1_000).for_each(|_| ring.push(EventSource::Earlier, "earlier"));
        (0..100).for_each(|_| fixed.iter().for_each(|source| ring.push(*source, "honest")));
        (0..100).for_each(|_| ring.push(EventSource::Peer(1), "honest"));
        // Identities with two lines each, long lines, and a lying router.
        (0..2_000).for_each(|line| ring.push(EventSource::Peer(1_000 + line / 2), "loud"));
        (0..2_000).for_each(|_| ring.push(EventSource::NewPeers, &"x".repeat(1_000)));
        (0..2_000).for_each(|_| ring.push(EventSource::Underlay, "outer-endpoints-changed"));
        for source in fixed {
            assert!(count(&ring, source) >= 100, "{source:?}");
        }
        assert!(ring.lines.len() <= MAX_EVENTS && ring.bytes <= MAX_BYTES);
        // The peer with the most lines loses lines first.
        let mut ring = Ring::default();
        (0..50).for_each(|_| ring.push(EventSource::Peer(1), "honest"));
        (0..2_000).for_each(|line| ring.push(EventSource::Peer(2 + line % 8), "loud"));
        assert_eq!(count(&ring, EventSource::Peer(1)), 50);
        // A reader without a number has missed nothing.
        assert_eq!(ring.read(None, usize::MAX).missed, 0);
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

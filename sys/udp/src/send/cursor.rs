//! The position in a batch, and the size of the next message. Plain arithmetic, no system calls.

use super::Transmit;
use crate::{Local, MAX_GSO_BYTES, MAX_SEGMENTS};

/// The next message: its position in the batch, and whether it may be a GSO run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    index: usize,
    offset: usize,
    gso: bool,
    /// The transmit that is sent datagram by datagram although GSO is on.
    split: Option<usize>,
    /// The local address that the kernel refused.
    refused: Option<Local>,
}

impl Cursor {
    pub(super) fn new(gso: bool) -> Self {
        Self { index: 0, offset: 0, gso, split: None, refused: None }
    }

    pub(super) fn index(self) -> usize {
        self.index
    }

    pub(super) fn offset(self) -> usize {
        self.offset
    }

    pub(super) fn disable_gso(&mut self) {
        self.gso = false;
    }

    pub(super) fn split_current(&mut self) {
        self.split = Some(self.index);
    }

    /// Stops using `local`, starting with the message here.
    pub(super) fn refuse(&mut self, local: Local) {
        self.refused = Some(local);
    }

    pub(super) fn may_leave_from(self, local: Local) -> bool {
        self.refused != Some(local)
    }

    /// Skips the rest of the current transmit.
    pub(super) fn skip(&mut self) {
        self.index += 1;
        self.offset = 0;
    }

    /// Returns true if the message here is a GSO run.
    pub(super) fn is_run(self, transmits: &[Transmit<'_>]) -> bool {
        transmits.get(self.index).is_some_and(|transmit| self.message(transmit).1.is_some())
    }

    /// Returns the message here: its bytes, and the segment size if it is a GSO run.
    pub(super) fn message<'a>(self, transmit: &Transmit<'a>) -> (&'a [u8], Option<u16>) {
        let rest = transmit.contents.get(self.offset..).unwrap_or_default();
        let size = transmit.segment_size;
        if size == 0 || rest.len() <= size {
            return (rest, None);
        }
        // Only the end of a run may be shorter, so a run that is cut ends behind a whole segment.
        let most = if rest.len() <= MAX_GSO_BYTES { MAX_GSO_BYTES } else { MAX_GSO_BYTES / size * size };
        let length = rest.len().min(most).min(MAX_SEGMENTS.saturating_mul(size));
        let run = u16::try_from(size).ok().filter(|_| self.gso && self.split != Some(self.index) && length > size);
        match run {
            Some(size) => (&rest[..length], Some(size)),
            None => (&rest[..size], None),
        }
    }

    /// Returns the position after the next `count` messages.
    pub(super) fn behind_messages(mut self, count: usize, transmits: &[Transmit<'_>]) -> Self {
        for _ in 0..count {
            let Some(transmit) = transmits.get(self.index) else { break };
            self = self.behind(transmit, self.message(transmit).0.len());
        }
        self
    }

    /// Returns the position after a message of `length` bytes here.
    pub(super) fn behind(mut self, transmit: &Transmit<'_>, length: usize) -> Self {
        self.offset += length;
        if self.offset >= transmit.contents.len() {
            self.skip();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::{Cursor, Transmit};
    use crate::{MAX_GSO_BYTES, MAX_SEGMENTS};

    /// All messages of one transmit, as (length, segment size).
    fn walk(length: usize, segment_size: usize, gso: bool, split: bool) -> Vec<(usize, Option<u16>)> {
        let contents = vec![0; length];
        let transmit =
            Transmit { destination: "192.0.2.1:1".parse().unwrap(), contents: &contents, segment_size, ecn: 0 };
        let mut cursor = Cursor::new(gso);
        if split {
            cursor.split_current();
        }
        let mut messages = Vec::new();
        while cursor.index() == 0 {
            let (bytes, size) = cursor.message(&transmit);
            messages.push((bytes.len(), size));
            cursor = cursor.behind(&transmit, bytes.len());
        }
        assert_eq!(cursor.offset(), 0);
        messages
    }

    #[test]
    fn a_single_datagram_is_never_a_run() {
        assert_eq!(walk(100, 100, true, false), [(100, None)]);
        assert_eq!(walk(100, 1_000, true, false), [(100, None)]);
        assert_eq!(walk(100, 0, true, false), [(100, None)]);
        assert_eq!(walk(0, 100, true, false), [(0, None)], "an empty datagram is a datagram");
        assert_eq!(walk(0, 0, true, false), [(0, None)]);
    }

    #[test]
    fn a_run_is_one_message_with_gso_and_many_without() {
        assert_eq!(walk(250, 100, true, false), [(250, Some(100))]);
        let pieces = [(100, None), (100, None), (50, None)];
        assert_eq!(walk(250, 100, false, false), pieces);
        assert_eq!(walk(250, 100, true, true), pieces);
    }

    #[test]
    fn too_long_runs_are_cut_at_whole_segments() {
        let most = MAX_SEGMENTS * 10;
        assert_eq!(walk(most + 15, 10, true, false), [(most, Some(10)), (15, Some(10))]);
        assert_eq!(walk(most + 10, 10, true, false), [(most, Some(10)), (10, None)]);
        let segments = MAX_GSO_BYTES / 1_452;
        assert_eq!(walk(46 * 1_452, 1_452, true, false), [(segments * 1_452, Some(1_452)), (1_452, None)]);
    }

    #[test]
    fn a_run_that_fits_is_not_cut_for_its_short_end() {
        assert_eq!(walk(MAX_GSO_BYTES, 1_452, true, false), [(MAX_GSO_BYTES, Some(1_452))]);
        let segments = MAX_GSO_BYTES / 1_452 * 1_452;
        let rest = MAX_GSO_BYTES + 1 - segments;
        assert_eq!(walk(MAX_GSO_BYTES + 1, 1_452, true, false), [(segments, Some(1_452)), (rest, None)]);
    }

    #[test]
    fn segments_too_large_for_a_run_go_alone() {
        assert_eq!(walk(80_000, 40_000, true, false), [(40_000, None), (40_000, None)]);
        assert_eq!(walk(60_000, 40_000, true, false), [(60_000, Some(40_000))]);
        assert_eq!(walk(140_000, 70_000, true, false), [(70_000, None), (70_000, None)]);
    }
}

//! Pieces: an inner packet that is longer than its path carries, sent in several messages of a session.
//!
//! ```text
//! 0   0x10                         so that a piece is neither an IP packet nor one with a partial checksum
//! 1   index, 0 ≤ index < count
//! 2   count, 2 to 134
//! 3   0                            zero when sent, ignored when read
//! 4   id (4)                       the same for all pieces of a packet, another for each packet
//! 8   length of the packet (2)
//! 10  the packet's bytes           ceil(length / count) of them; the last piece has the rest
//! ```
//! Integers are little-endian. Padding may follow. Length and count say where each piece belongs, so pieces can neither overlap nor leave a gap.

use core::ops::Range;

use crate::bytes::array;

/// Length of a piece's header, 10 bytes.
pub const HEADER: usize = 10;

/// Limit on the pieces of a packet, 134: a packet of 65,440 bytes, the largest MTU, in messages of 500 bytes, the smallest packet limit that is searched for.
pub const MAX_PIECES: usize = 134;

/// First byte of a piece. The upper half is no IP version; the lower half is zero when sent, and a piece with another value is of a later version.
const KIND: u8 = 0x10;

/// How a packet is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    length: u16,
    count: u8,
}

impl Plan {
    /// Returns the plan for a packet of `length` bytes whose pieces have at most `limit` bytes, header included. Returns `None` if it would be more than
    /// [`MAX_PIECES`], or if the packet needs no pieces.
    #[must_use]
    pub fn new(length: usize, limit: usize) -> Option<Plan> {
        let room = limit.checked_sub(HEADER).filter(|room| *room > 0)?;
        let count = length.div_ceil(room);
        let plan = Plan { length: u16::try_from(length).ok()?, count: u8::try_from(count).ok()? };
        plan.is_valid().then_some(plan)
    }

    /// Returns true if each piece has at least one byte and their number is allowed.
    fn is_valid(self) -> bool {
        let last = usize::from(self.count).saturating_sub(1) * self.part();
        (2..=MAX_PIECES).contains(&usize::from(self.count)) && last < usize::from(self.length)
    }

    /// Returns the number of pieces.
    #[must_use]
    pub fn count(self) -> usize {
        usize::from(self.count)
    }

    /// Returns the length of the packet.
    #[must_use]
    pub fn length(self) -> usize {
        usize::from(self.length)
    }

    /// Returns the length of the first piece, header included. No other piece is longer.
    #[must_use]
    pub fn longest(self) -> usize {
        HEADER + self.part()
    }

    fn part(self) -> usize {
        usize::from(self.length).div_ceil(usize::from(self.count).max(1))
    }

    /// Returns the place in the packet of the piece `index`.
    #[must_use]
    pub fn range(self, index: usize) -> Range<usize> {
        let length = self.length();
        let start = (index * self.part()).min(length);
        start..(start + self.part()).min(length)
    }

    /// Writes the piece `index` of `packet` at the start of `out` and returns its length. Returns `None` if there is no such piece, or no room.
    pub fn write(self, index: usize, id: u32, packet: &[u8], out: &mut [u8]) -> Option<usize> {
        let number = u8::try_from(index).ok().filter(|index| *index < self.count)?;
        let part = packet.get(self.range(index))?;
        let (header, body) = out.split_first_chunk_mut::<HEADER>()?;
        body.get_mut(..part.len())?.copy_from_slice(part);
        let [a, b, c, d] = id.to_le_bytes();
        let [low, high] = self.length.to_le_bytes();
        *header = [KIND, number, self.count, 0, a, b, c, d, low, high];
        Some(HEADER + part.len())
    }
}

/// A received piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// How its packet was cut.
    pub plan: Plan,
    /// The number of the packet.
    pub id: u32,
    /// The number of the piece.
    pub index: usize,
    /// Its bytes of the packet.
    pub part: &'a [u8],
}

impl<'a> Piece<'a> {
    /// Reads a piece. Padding behind it is ignored. Returns `None` if the bytes are no valid piece.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Piece<'a>> {
        let [KIND, index, count, _, a, b, c, d, low, high] = *array::<HEADER>(bytes, 0)? else { return None };
        let plan = Plan { length: u16::from_le_bytes([low, high]), count };
        if !plan.is_valid() || index >= count {
            return None;
        }
        let index = usize::from(index);
        let part = bytes.get(HEADER..)?.get(..plan.range(index).len())?;
        Some(Piece { plan, id: u32::from_le_bytes([a, b, c, d]), index, part })
    }
}

/// Returns true if the bytes of a message are a piece, perhaps a damaged one.
#[must_use]
pub fn is_piece(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|first| first >> 4 == KIND >> 4)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testkit::payload;

    fn written(plan: Plan, index: usize, packet: &[u8]) -> Vec<u8> {
        let mut out = vec![0xee; 70_000];
        let length = plan.write(index, 0x0403_0201, packet, &mut out).unwrap();
        assert_eq!(out[length], 0xee);
        out.truncate(length);
        out
    }

    #[test]
    fn bytes_of_a_piece() {
        let packet = payload(1_401, 1);
        let plan = Plan::new(1_401, 1_000).unwrap();
        assert_eq!((plan.count(), plan.longest()), (2, 711));
        let last = written(plan, 1, &packet);
        assert_eq!(last[..HEADER], [0x10, 1, 2, 0, 1, 2, 3, 4, 0x79, 5]);
        assert_eq!(last[HEADER..], packet[701..]);
        assert!(is_piece(&last) && !is_piece(&[0x45]) && !is_piece(&[0xc5]) && !is_piece(&[]));
    }

    #[test]
    fn the_longest_packet_fits_the_shortest_limit() {
        assert_eq!(Plan::new(65_440, 500).map(Plan::count), Some(MAX_PIECES));
        for (length, limit) in
            [(65_535, 490), (1_000, 1_010), (0, 500), (65_536, 1_000), (600, 10), (600, 0), (600, 11)]
        {
            assert_eq!(Plan::new(length, limit), None, "{length} bytes within {limit}");
        }
    }

    #[test]
    fn pieces_that_contradict_themselves_are_refused() {
        let good = written(Plan::new(1_401, 1_000).unwrap(), 0, &payload(1_401, 1));
        assert!(Piece::parse(&good).is_some());
        for (place, value) in [(0, 0x11), (0, 0x45), (1, 2), (1, 255), (2, 0), (2, 1), (2, 135), (2, 255)] {
            let mut bad = good.clone();
            bad[place] = value;
            assert_eq!(Piece::parse(&bad), None, "{value} at {place}");
        }
        // Three bytes in four pieces, no bytes at all, and fewer bytes than the piece should have.
        for (count, length) in [(4, 3), (2, 0), (2, 1), (2, 2_000)] {
            let mut bad = good.clone();
            (bad[2], bad[8], bad[9]) = (count, u16::to_le_bytes(length)[0], u16::to_le_bytes(length)[1]);
            assert_eq!(Piece::parse(&bad), None, "{length} bytes in {count} pieces");
        }
        assert_eq!(Piece::parse(&good[..good.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_make_the_packet(length in 1_usize..65_536, limit in 12_usize..2_000, padding in 0_usize..16, seed: u8) {
            let Some(plan) = Plan::new(length, limit) else {
                let room = limit - HEADER;
                prop_assert!(length <= room || length.div_ceil(room) > MAX_PIECES || (length.div_ceil(room) - 1) * length.div_ceil(length.div_ceil(room)) >= length);
                return Ok(());
            };
            let packet = payload(length, seed);
            let mut joined = vec![0; length];
            let mut covered = 0;
            for index in (0..plan.count()).rev() {
                let mut bytes = written(plan, index, &packet);
                prop_assert!(bytes.len() <= plan.longest() && plan.longest() <= limit);
                bytes.resize(bytes.len() + padding, 0xee);
                let piece = Piece::parse(&bytes).unwrap();
                prop_assert_eq!((piece.plan, piece.id, piece.index), (plan, 0x0403_0201, index));
                joined[plan.range(index)].copy_from_slice(piece.part);
                covered += piece.part.len();
            }
            prop_assert_eq!(covered, length);
            prop_assert_eq!(joined, packet);
        }

        #[test]
        fn takes_any_bytes(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), small: bool) {
            if let (Some(first), true) = (bytes.first_mut(), small) {
                *first = KIND;
            }
            if let Some(piece) = Piece::parse(&bytes) {
                prop_assert_eq!(piece.part.len(), piece.plan.range(piece.index).len());
                prop_assert!(piece.plan.range(piece.index).end <= piece.plan.length());
            }
        }
    }
}

//! The order of the entries of a map, for all kinds of keys.

use std::cmp::Ordering;

/// Numbers in one chunk, 256: an insertion moves at most 1 kB of them. In 100,000 entries there are at most 800 chunks but for sparse ones.
pub(super) const CHUNK: usize = 256;
/// Two neighbours with no more numbers than this together are joined. A chunk has twice the room, so that the next split is 128 insertions away.
pub(super) const JOINED: usize = CHUNK / 2;

/// A place in an [`Order`]. A place behind the last number of a chunk is that of the first number of the next chunk, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    chunk: usize,
    within: usize,
}

impl Place {
    pub(super) const FIRST: Self = Self { chunk: 0, within: 0 };
}

/// The numbers of all entries, from 0 on without gaps, in the order of their keys.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// No chunk is empty, and no two neighbours have room together in [`JOINED`].
    chunks: Vec<Vec<u32>>,
    len: usize,
}

impl Order {
    pub(super) const fn new() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the place of a key, or the place at which it would be inserted. `compare` compares the key of an entry with it.
    pub(super) fn find(&self, compare: &dyn Fn(u32) -> Ordering) -> Result<Place, Place> {
        let later = self.chunks.partition_point(|chunk| compare(chunk[0]).is_le());
        let chunk = later.saturating_sub(1);
        let numbers = self.chunks.get(chunk).map_or(&[][..], Vec::as_slice);
        match numbers.binary_search_by(|number| compare(*number)) {
            Ok(within) => Ok(Place { chunk, within }),
            Err(within) => Err(Place { chunk, within }),
        }
    }

    /// Returns the number at a place that [`Self::find`] found.
    pub(super) fn get(&self, place: Place) -> u32 {
        self.chunks[place.chunk][place.within]
    }

    /// Gives the entry at this place another number.
    pub(super) fn set(&mut self, place: Place, number: u32) {
        self.chunks[place.chunk][place.within] = number;
    }

    /// Returns the number at a place, and moves the place to the next one. `None` at the end.
    pub(super) fn advance(&self, place: &mut Place) -> Option<u32> {
        let chunk = self.chunks.get(place.chunk)?;
        if place.within == chunk.len() {
            *place = Place { chunk: place.chunk + 1, within: 0 };
        }
        let number = self.chunks.get(place.chunk)?.get(place.within)?;
        place.within += 1;
        Some(*number)
    }

    /// Inserts the next free number at a place, and returns it.
    pub(super) fn insert(&mut self, place: Place) -> u32 {
        let number = u32::try_from(self.len).expect("memory ends before the numbers do");
        self.len += 1;
        let Place { chunk: at, within } = place;
        let count = self.chunks.len();
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(vec![number]);
            return number;
        };
        if chunk.len() < CHUNK {
            chunk.insert(within, number);
            return number;
        }
        // Rising keys leave full chunks behind.
        let half = if within == CHUNK && at + 1 == count { CHUNK } else { CHUNK / 2 };
        let mut later = chunk.split_off(half);
        match within.checked_sub(half) {
            Some(within) => later.insert(within, number),
            None => chunk.insert(within, number),
        }
        self.chunks.insert(at + 1, later);
        number
    }

    /// Removes the number at a place that [`Self::find`] found.
    pub(super) fn remove(&mut self, place: Place) -> u32 {
        self.len -= 1;
        let number = self.chunks[place.chunk].remove(place.within);
        self.join(place.chunk);
        if let Some(before) = place.chunk.checked_sub(1) {
            self.join(before);
        }
        if self.len == 0 {
            self.chunks = Vec::new();
        }
        number
    }

    /// Joins a chunk with the next one, if they are small or one of them is empty.
    fn join(&mut self, at: usize) {
        let [one, next, ..] = self.chunks.get(at..).unwrap_or_default() else { return };
        if one.len() + next.len() <= JOINED || one.is_empty() || next.is_empty() {
            let mut next = self.chunks.remove(at + 1);
            self.chunks[at].append(&mut next);
            if is_sparse(self.chunks.len(), self.chunks.capacity()) {
                self.chunks.shrink_to_fit();
            }
        }
    }

    /// Returns the chunks, for the checks of tests.
    #[cfg(test)]
    pub(super) fn chunks(&self) -> &Vec<Vec<u32>> {
        &self.chunks
    }
}

/// Returns true if a list uses so little of its capacity that the rest is given back: less than a quarter, so that the list grows and shrinks rarely.
pub(super) const fn is_sparse(len: usize, capacity: usize) -> bool {
    len < capacity / 4
}

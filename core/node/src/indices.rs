//! The receiver indices in use, each with the peer that uses it.

use taut_base::{ChunkedMap, Entropy, LaneId, PeerId, ReceiverIndex};

/// Attempts to draw an index below a limit, 8: only a limit of a few hundred is likely to have none left.
const ATTEMPTS: usize = 8;

/// The receiver indices of sent initiations and of sessions of all peers. Two of them never have the same index (fault A13).
#[derive(Default)]
pub(crate) struct ReceiverIndices {
    owners: ChunkedMap<ReceiverIndex, PeerId>,
}

impl ReceiverIndices {
    /// Draws a free index for `peer`, with this lane in its low bits. The loop ends because only a few of the 2^28 indices are in use per peer.
    pub(crate) fn draw(&mut self, peer: PeerId, lane: LaneId, entropy: &mut impl Entropy) -> ReceiverIndex {
        loop {
            let index = ReceiverIndex::draw(entropy).on_lane(lane);
            if self.claim(peer, &[index]) {
                return index;
            }
        }
    }

    /// Draws a free index for `peer` that is less than `limit`; any free index if none is found.
    pub(crate) fn draw_below(
        &mut self,
        peer: PeerId,
        limit: ReceiverIndex,
        entropy: &mut impl Entropy,
    ) -> ReceiverIndex {
        for _ in 0..ATTEMPTS {
            let index = ReceiverIndex(entropy.below(limit.0.max(1))).on_lane(LaneId::FIRST);
            if index < limit && self.claim(peer, &[index]) {
                return index;
            }
        }
        self.draw(peer, LaneId::FIRST, entropy)
    }

    /// Reserves all of these indices for `peer`. Returns false and reserves none if one is in use already or is listed twice.
    pub(crate) fn claim(&mut self, peer: PeerId, wanted: &[ReceiverIndex]) -> bool {
        let free = |(place, index)| !self.owners.contains_key(index) && !wanted[..place].contains(index);
        let all_free = wanted.iter().enumerate().all(free);
        if all_free {
            for index in wanted {
                self.owners.insert(*index, peer);
            }
        }
        all_free
    }

    /// Returns the number of indices in use.
    pub(crate) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Returns the peer that uses `index`.
    pub(crate) fn owner(&self, index: ReceiverIndex) -> Option<PeerId> {
        self.owners.get(&index).copied()
    }

    /// Frees `index`.
    pub(crate) fn release(&mut self, index: ReceiverIndex) {
        self.owners.remove(&index);
    }

    /// Frees all indices of these peers, whose numbers are in order. One pass for all of them: in a large network all peers may leave at once.
    pub(crate) fn release_all(&mut self, peers: &[PeerId]) {
        if !peers.is_empty() {
            self.owners.retain(|_, owner| peers.binary_search(owner).is_err());
        }
    }

    /// Frees all indices.
    pub(crate) fn clear(&mut self) {
        self.owners.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_a13_a_taken_index_is_drawn_again() {
        let mut draws = [7_u32 << 4, 7 << 4, 9 << 4].into_iter();
        let mut scripted = |bytes: &mut [u8]| bytes.copy_from_slice(&draws.next().unwrap_or(0).to_le_bytes());
        let mut indices = ReceiverIndices::default();
        assert_eq!(indices.draw(PeerId(1), LaneId::FIRST, &mut scripted), ReceiverIndex(7 << 4));
        assert_eq!(indices.draw(PeerId(2), LaneId::FIRST, &mut scripted), ReceiverIndex(9 << 4));
        assert_eq!(indices.owner(ReceiverIndex(7 << 4)), Some(PeerId(1)));
        let (taken, free) = (ReceiverIndex(9 << 4), ReceiverIndex(8 << 4));
        assert!(!indices.claim(PeerId(1), &[free, taken]));
        assert!(!indices.claim(PeerId(1), &[free, free]));
        assert_eq!(indices.owner(free), None, "all or none");
        assert!(indices.claim(PeerId(1), &[free]));
        assert_eq!(indices.draw_below(PeerId(1), ReceiverIndex(1), &mut |bytes: &mut [u8]| bytes.fill(0x50)).0, 0);
        assert!(indices.claim(PeerId(3), &[ReceiverIndex(10 << 4)]));
        indices.release_all(&[PeerId(1), PeerId(3)]);
        assert_eq!(indices.owner(ReceiverIndex(7 << 4)), None);
        assert_eq!((indices.owner(taken), indices.len()), (Some(PeerId(2)), 1));
    }
}

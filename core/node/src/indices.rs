//! Which receiver indices are in use, and by whom.

use std::collections::BTreeMap;

use taut_base::{Entropy, PeerId, ReceiverIndex};

/// All indices of this node: waiting initiations and sessions of all peers. The same index never stands for two (fault A13).
#[derive(Default)]
pub(crate) struct Indices {
    owners: BTreeMap<ReceiverIndex, PeerId>,
}

impl Indices {
    /// Draws a free index for `peer`. Ends: at most a few per peer are in use, of 2^28.
    pub(crate) fn draw(&mut self, peer: PeerId, entropy: &mut impl Entropy) -> ReceiverIndex {
        loop {
            let index = ReceiverIndex::draw(entropy);
            if let std::collections::btree_map::Entry::Vacant(free) = self.owners.entry(index) {
                free.insert(peer);
                return index;
            }
        }
    }

    /// Takes these for `peer`, all or none; false when one is in use already, or stands twice among them.
    pub(crate) fn claim(&mut self, peer: PeerId, wanted: &[ReceiverIndex]) -> bool {
        let free = |(place, index)| !self.owners.contains_key(index) && !wanted[..place].contains(index);
        let all_free = wanted.iter().enumerate().all(free);
        if all_free {
            self.owners.extend(wanted.iter().map(|index| (*index, peer)));
        }
        all_free
    }

    /// How many are in use.
    pub(crate) fn len(&self) -> usize {
        self.owners.len()
    }

    /// Who uses `index`.
    pub(crate) fn owner(&self, index: ReceiverIndex) -> Option<PeerId> {
        self.owners.get(&index).copied()
    }

    /// `index` is free again.
    pub(crate) fn release(&mut self, index: ReceiverIndex) {
        self.owners.remove(&index);
    }

    /// All indices of `peer` are free again.
    pub(crate) fn release_all(&mut self, peer: PeerId) {
        self.owners.retain(|_, owner| *owner != peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_a13_a_taken_index_is_drawn_again() {
        let mut draws = [7_u32 << 4, 7 << 4, 9 << 4].into_iter();
        let mut scripted = |bytes: &mut [u8]| bytes.copy_from_slice(&draws.next().unwrap_or(0).to_le_bytes());
        let mut indices = Indices::default();
        assert_eq!(indices.draw(PeerId(1), &mut scripted), ReceiverIndex(7 << 4));
        assert_eq!(indices.draw(PeerId(2), &mut scripted), ReceiverIndex(9 << 4));
        assert_eq!(indices.owner(ReceiverIndex(7 << 4)), Some(PeerId(1)));
        let (taken, free) = (ReceiverIndex(9 << 4), ReceiverIndex(8 << 4));
        assert!(!indices.claim(PeerId(1), &[free, taken]));
        assert!(!indices.claim(PeerId(1), &[free, free]));
        assert_eq!(indices.owner(free), None, "all or none");
        assert!(indices.claim(PeerId(1), &[free]));
        indices.release_all(PeerId(1));
        assert_eq!(indices.owner(ReceiverIndex(7 << 4)), None);
    }
}

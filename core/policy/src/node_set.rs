//! Sets of nodes, by their place in the inventory.

/// A set of nodes: one bit per node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodeSet {
    words: Vec<u64>,
}

impl NodeSet {
    /// Returns the empty set for this many nodes.
    pub(crate) fn new(nodes: usize) -> Self {
        Self { words: vec![0; nodes.div_ceil(64)] }
    }

    /// Returns the set of the nodes below `nodes` for which `is` is true.
    pub(crate) fn of(nodes: usize, mut is: impl FnMut(usize) -> bool) -> Self {
        let mut set = Self::new(nodes);
        for node in (0..nodes).filter(|node| is(*node)) {
            set.insert(node);
        }
        set
    }

    /// Adds a node. A node beyond the size of the set is ignored.
    pub(crate) fn insert(&mut self, node: usize) {
        if let Some(word) = self.words.get_mut(node / 64) {
            *word |= 1 << (node % 64);
        }
    }

    /// Returns true if the node is in the set.
    pub(crate) fn contains(&self, node: usize) -> bool {
        self.words.get(node / 64).is_some_and(|word| word >> (node % 64) & 1 == 1)
    }

    /// Returns true if the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Adds all nodes of another set of the same size.
    pub(crate) fn add(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Keeps only nodes that are also in the other set.
    pub(crate) fn keep(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// Returns the nodes in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(64 * index + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        let mut set = NodeSet::of(130, |node| node % 64 == 0);
        assert!(set.iter().eq([0, 64, 128]));
        set.insert(129);
        set.insert(9_999);
        assert!(set.contains(129) && !set.contains(63) && !set.contains(9_999));
        let mut other = NodeSet::new(130);
        assert!(other.is_empty() && !set.is_empty());
        other.insert(64);
        other.insert(63);
        let mut both = set.clone();
        both.keep(&other);
        assert!(both.iter().eq([64]));
        set.add(&other);
        assert!(set.iter().eq([0, 63, 64, 128, 129]));
    }
}

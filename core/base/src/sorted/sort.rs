//! The sort of entries: one for all kinds of maps. The sort of the standard library is compiled again for each kind, and is as large as a B-tree.

use std::cmp::Ordering;

/// A list of entries with keys.
pub(super) trait Entries {
    fn count(&self) -> usize;
    fn compare(&self, one: usize, other: usize) -> Ordering;
    fn swap(&mut self, one: usize, other: usize);
}

impl<K: Ord, V> Entries for Vec<(K, V)> {
    fn count(&self) -> usize {
        self.len()
    }

    fn compare(&self, one: usize, other: usize) -> Ordering {
        self[one].0.cmp(&self[other].0)
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.as_mut_slice().swap(one, other);
    }
}

/// Sorts the entries by their keys. Of several entries with one key, the last one stays and the others move to the end of the list. Returns the number of entries
/// before those.
pub(super) fn sort(entries: &mut dyn Entries) -> usize {
    let count = entries.count();
    if (1..count).all(|place| entries.compare(place - 1, place).is_lt()) {
        return count;
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|one, other| entries.compare(*one, *other));
    let (mut kept, mut surplus) = (0, count);
    let mut targets = vec![0; count];
    for (rank, entry) in order.iter().enumerate() {
        let next = order.get(rank + 1);
        targets[*entry] = if next.is_some_and(|next| entries.compare(*entry, *next).is_eq()) {
            surplus -= 1;
            surplus
        } else {
            kept += 1;
            kept - 1
        };
    }
    for place in 0..count {
        // Each swap puts one entry into its place.
        while targets[place] != place {
            let target = targets[place];
            entries.swap(place, target);
            targets.swap(place, target);
        }
    }
    kept
}

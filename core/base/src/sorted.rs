//! A map in a sorted list: little code for each kind of map.
//!
//! The code of a [`BTreeMap`](std::collections::BTreeMap) is compiled again for each pair of key and value, and a node has dozens of pairs: 266 kB in a program of 4.1 MB.
//! A list with binary search ([`SortedMap`], [`SortedSet`]) takes a sixth of that: 2.6 kB for a further pair where a tree takes 17 kB, with all methods in use.

mod entry;
mod iter;
mod json;
mod set;
mod sort;

use std::borrow::Borrow;
use std::fmt;
use std::ops::Index;

use entry::Entry;
use iter::{Iter, IterMut};
pub use set::SortedSet;

/// A map as a list of entries in the order of their keys. Methods have the names and the meaning of [`BTreeMap`](std::collections::BTreeMap)'s.
///
/// | operation | cost, of `n` entries |
/// |---|---|
/// | look up, change a value, first, last | `log n` comparisons |
/// | insert or remove at the end | the same |
/// | insert or remove elsewhere | the same, and all later entries move by one place |
/// | collect, extend, deserialize | `n log n` comparisons in any order; `n` if the keys come in order |
///
/// Right for maps with few entries, with few changes, or whose keys only rise. A change in the middle of 1,000 entries of 40 bytes takes 1 µs, twice as long as in a
/// B-tree; of 10,000 entries it takes 17 µs, twenty times as long. Wrong for thousands of entries that an outsider makes come and go one by one: take a
/// [`ChunkedMap`](crate::ChunkedMap). Box large values. To remove many entries, begin at the end, or call [`Self::retain`].
#[derive(Clone, PartialEq, Eq)]
pub struct SortedMap<K, V> {
    entries: Vec<(K, V)>,
}

impl<K, V> SortedMap<K, V> {
    /// An empty map. Allocates nothing.
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Returns the number of entries.
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no entry.
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the entry with the least key.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.entries.first().map(|(key, value)| (key, value))
    }

    /// Returns the entries in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter::new(&self.entries)
    }

    /// Returns the entries in the order of their keys, with values that can be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        IterMut::new(&mut self.entries)
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator + Clone {
        self.entries.iter().map(|(key, _)| key)
    }

    /// Returns the values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.entries.iter().map(|(_, value)| value)
    }

    /// Returns the values in the order of their keys, so that they can be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> + ExactSizeIterator {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    /// Returns the values in the order of their keys, and ends the map.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> + ExactSizeIterator {
        self.entries.into_iter().map(|(_, value)| value)
    }

    /// Removes the entries for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.entries.retain_mut(|(key, value)| keep(key, value));
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// Returns the place of a key, or the place at which it would be inserted.
    // Inlined, it would be there once for each caller of each method.
    #[inline(never)]
    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.entries.binary_search_by(|(own, _)| own.borrow().cmp(key))
    }

    /// Returns true if there is an entry with this key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// Returns the value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().and_then(|place| self.entries.get(place)).map(|(_, value)| value)
    }

    /// Returns the value of a key, so that it can be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().and_then(|place| self.entries.get_mut(place)).map(|(_, value)| value)
    }

    /// Sets the value of a key. Returns its former value.
    #[inline(never)]
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(place) => Some(std::mem::replace(&mut self.entries[place].1, value)),
            Err(place) => {
                self.entries.insert(place, (key, value));
                None
            }
        }
    }

    /// Removes a key. Returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.find(key).ok().map(|place| self.entries.remove(place).1)
    }

    /// Returns the place of a key, to look it up once and change it or insert it.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        Entry::new(self, key)
    }
}

/// Panics if there is no such key.
impl<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V> Index<&Q> for SortedMap<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("the caller knows that the key is there")
    }
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

#[cfg(test)]
mod tests;

//! Iteration over a map, and maps from iterators.

use std::{slice, vec};

use super::SortedMap;
use super::sort::sort;

/// Up to this number, entries are added one by one: a sort would compare all entries of the map.
const FEW: usize = 8;

/// The entries of a [`SortedMap`] in order.
pub struct Iter<'a, K, V>(slice::Iter<'a, (K, V)>);

/// The entries of a [`SortedMap`] in order, with values that can be changed.
pub struct IterMut<'a, K, V>(slice::IterMut<'a, (K, V)>);

impl<'a, K, V> Iter<'a, K, V> {
    pub(super) fn new(entries: &'a [(K, V)]) -> Self {
        Self(entries.iter())
    }
}

impl<'a, K, V> IterMut<'a, K, V> {
    pub(super) fn new(entries: &'a mut [(K, V)]) -> Self {
        Self(entries.iter_mut())
    }
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<K, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(key, value)| (key, value))
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}

impl<'a, K, V> Iterator for IterMut<'a, K, V> {
    type Item = (&'a K, &'a mut V);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(key, value)| (&*key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<'a, K, V> IntoIterator for &'a SortedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, K, V> IntoIterator for &'a mut SortedMap<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<K, V> IntoIterator for SortedMap<K, V> {
    type Item = (K, V);
    type IntoIter = vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

/// If a key comes several times, its last value is kept.
impl<K: Ord, V> From<Vec<(K, V)>> for SortedMap<K, V> {
    #[inline(never)]
    fn from(mut entries: Vec<(K, V)>) -> Self {
        let kept = sort(&mut entries);
        entries.truncate(kept);
        Self { entries }
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for SortedMap<K, V> {
    fn from(entries: [(K, V); N]) -> Self {
        Vec::from(entries).into()
    }
}

/// If a key comes several times, its last value is kept.
impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        entries.into_iter().collect::<Vec<_>>().into()
    }
}

/// Replaces the values of keys that are in the map. If a key comes several times, its last value is kept.
impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, more: I) {
        let mut more: Vec<_> = more.into_iter().collect();
        if more.len() <= FEW {
            more.into_iter().for_each(|(key, value)| drop(self.insert(key, value)));
            return;
        }
        let mut entries = std::mem::take(&mut self.entries);
        entries.append(&mut more);
        *self = entries.into();
    }
}

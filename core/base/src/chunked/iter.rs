//! Iteration over a map.

use super::ChunkedMap;
use super::order::Place;

/// The entries of a [`ChunkedMap`] in order.
pub struct Iter<'a, K, V> {
    map: &'a ChunkedMap<K, V>,
    next: Place,
}

impl<'a, K, V> Iter<'a, K, V> {
    /// The entries of a map from this place on.
    pub(super) const fn new(map: &'a ChunkedMap<K, V>, next: Place) -> Self {
        Self { map, next }
    }
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Self { map: self.map, next: self.next }
    }
}

impl<'a, K, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = self.map.at(self.map.order.advance(&mut self.next)?);
        Some((key, value))
    }
}

impl<'a, K, V> IntoIterator for &'a ChunkedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

//! An ordered set in chunks.

use std::fmt;

use super::ChunkedMap;

/// An ordered set in chunks: a [`ChunkedMap`] without values, with the same costs. Methods have the names and the meaning of
/// [`BTreeSet`](std::collections::BTreeSet)'s.
#[derive(Clone)]
pub struct ChunkedSet<K>(ChunkedMap<K, ()>);

impl<K> ChunkedSet<K> {
    /// An empty set. Allocates nothing.
    pub const fn new() -> Self {
        Self(ChunkedMap::new())
    }

    /// Returns the number of members.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is no member.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the members in order.
    pub fn iter(&self) -> impl Iterator<Item = &K> + Clone {
        self.0.keys()
    }

    /// Returns the least member.
    pub fn first(&self) -> Option<&K> {
        self.0.first_key_value().map(|(key, ())| key)
    }
}

impl<K: Ord> ChunkedSet<K> {
    /// Returns true if this is a member.
    pub fn contains(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Adds a member. Returns false if it was one.
    pub fn insert(&mut self, key: K) -> bool {
        self.0.insert(key, ()).is_none()
    }

    /// Removes a member. Returns false if it was none.
    pub fn remove(&mut self, key: &K) -> bool {
        self.0.remove(key).is_some()
    }

    /// Removes the members for which `keep` returns false. It is called in no particular order.
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.0.retain(|key, ()| keep(key));
    }
}

impl<K> Default for ChunkedSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug> fmt::Debug for ChunkedSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

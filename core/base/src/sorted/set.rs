//! A set in a sorted list.

use std::borrow::Borrow;
use std::fmt;

use super::SortedMap;

/// A set as a sorted list: a [`SortedMap`] without values, with the same costs. Methods have the names and the meaning of
/// [`BTreeSet`](std::collections::BTreeSet)'s.
#[derive(Clone, PartialEq, Eq)]
pub struct SortedSet<K>(SortedMap<K, ()>);

impl<K> SortedSet<K> {
    /// An empty set. Allocates nothing.
    pub const fn new() -> Self {
        Self(SortedMap::new())
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
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator + Clone {
        self.0.keys()
    }

    /// Returns the least member.
    pub fn first(&self) -> Option<&K> {
        self.0.first_key_value().map(|(key, ())| key)
    }

    /// Removes the greatest member. There is no `pop_first`, which would move all other members.
    pub fn pop_last(&mut self) -> Option<K> {
        self.0.entries.pop().map(|(key, ())| key)
    }

    /// Removes the members for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&K) -> bool) {
        self.0.retain(|key, ()| keep(key));
    }
}

impl<K: Ord> SortedSet<K> {
    /// Returns true if this is a member.
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// Adds a member. Returns false if it was one.
    pub fn insert(&mut self, key: K) -> bool {
        self.0.insert(key, ()).is_none()
    }

    /// Removes a member. Returns false if it was none.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.remove(key).is_some()
    }
}

impl<K> Default for SortedSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: fmt::Debug> fmt::Debug for SortedSet<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The members of a [`SortedSet`] in order.
pub struct IntoIter<K>(std::vec::IntoIter<(K, ())>);

impl<K> Iterator for IntoIter<K> {
    type Item = K;

    fn next(&mut self) -> Option<K> {
        self.0.next().map(|(key, ())| key)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<K> IntoIterator for SortedSet<K> {
    type Item = K;
    type IntoIter = IntoIter<K>;

    fn into_iter(self) -> Self::IntoIter {
        IntoIter(self.0.into_iter())
    }
}

/// The members of a borrowed [`SortedSet`] in order.
pub struct Members<'a, K>(super::Iter<'a, K, ()>);

impl<'a, K> Iterator for Members<'a, K> {
    type Item = &'a K;

    fn next(&mut self) -> Option<&'a K> {
        self.0.next().map(|(key, ())| key)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<'a, K> IntoIterator for &'a SortedSet<K> {
    type Item = &'a K;
    type IntoIter = Members<'a, K>;

    fn into_iter(self) -> Self::IntoIter {
        Members(self.0.iter())
    }
}

impl<K: Ord> FromIterator<K> for SortedSet<K> {
    fn from_iter<I: IntoIterator<Item = K>>(members: I) -> Self {
        Self(members.into_iter().map(|key| (key, ())).collect())
    }
}

impl<K: Ord, const N: usize> From<[K; N]> for SortedSet<K> {
    fn from(members: [K; N]) -> Self {
        members.into_iter().collect()
    }
}

impl<K: Ord> Extend<K> for SortedSet<K> {
    fn extend<I: IntoIterator<Item = K>>(&mut self, more: I) {
        self.0.extend(more.into_iter().map(|key| (key, ())));
    }
}

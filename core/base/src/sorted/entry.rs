//! The place of one key in a map.

use super::SortedMap;

/// The place of one key in a [`SortedMap`], where there may be a value.
pub struct Entry<'a, K, V> {
    map: &'a mut SortedMap<K, V>,
    key: K,
    place: Result<usize, usize>,
}

impl<'a, K: Ord, V> Entry<'a, K, V> {
    pub(super) fn new(map: &'a mut SortedMap<K, V>, key: K) -> Self {
        let place = map.find(&key);
        Self { map, key, place }
    }

    /// Returns the value, which is `value` if there was none.
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    /// Returns the value. If there was none, `make` makes it.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        let entries = &mut self.map.entries;
        let place = match self.place {
            Ok(place) => place,
            Err(place) => {
                entries.insert(place, (self.key, make()));
                place
            }
        };
        &mut entries[place].1
    }

    /// Returns the value, which is the default one if there was none.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

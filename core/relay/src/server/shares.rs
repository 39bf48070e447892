//! How many entries of a table each network holds. A full table makes room at the cost of the network that holds the most (law 15).

use std::collections::{BTreeMap, BTreeSet};

use super::Scope;

/// Entries of one table by network.
#[derive(Default)]
pub(super) struct Shares {
    held: BTreeMap<Scope, usize>,
    by_size: BTreeSet<(usize, Scope)>,
    total: usize,
}

impl Shares {
    /// Returns the number of all entries.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Notes that a network holds one entry more.
    pub(super) fn add(&mut self, scope: Scope) {
        self.set(scope, self.held(scope) + 1);
    }

    /// Notes that a network holds `count` entries less.
    pub(super) fn remove(&mut self, scope: Scope, count: usize) {
        self.set(scope, self.held(scope).saturating_sub(count));
    }

    /// Returns the network that loses an entry so that `scope` can have one more: the one that holds the most, if it holds more than `scope` would afterwards.
    /// It holds more than its fair share of the table then, because `scope` holds less. `None` if `scope` has its share already.
    pub(super) fn yields_to(&self, scope: Scope) -> Option<Scope> {
        let (most, greedy) = self.by_size.last()?;
        (*most > self.held(scope) + 1).then_some(*greedy)
    }

    fn held(&self, scope: Scope) -> usize {
        self.held.get(&scope).copied().unwrap_or(0)
    }

    fn set(&mut self, scope: Scope, count: usize) {
        let former = self.held(scope);
        self.by_size.remove(&(former, scope));
        self.total = self.total + count - former;
        if count == 0 {
            self.held.remove(&scope);
        } else {
            self.held.insert(scope, count);
            self.by_size.insert((count, scope));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(number: u8) -> Scope {
        Scope([number; 16])
    }

    fn held(counts: &[usize]) -> Shares {
        let mut shares = Shares::default();
        for (number, count) in (0..).zip(counts) {
            (0..*count).for_each(|_| shares.add(scope(number)));
        }
        shares
    }

    #[test]
    fn the_network_that_holds_the_most_gives_way_and_never_one_with_its_fair_share() {
        for counts in [vec![10], vec![7, 3], vec![4, 4, 2], vec![3, 3, 3, 1], vec![9, 1, 0], vec![2, 2, 2, 2, 2]] {
            let shares = held(&counts);
            assert_eq!(shares.total(), 10);
            for asking in 0..=u8::try_from(counts.len()).unwrap() {
                let own = counts.get(usize::from(asking)).copied().unwrap_or(0);
                let networks = counts.iter().filter(|count| **count > 0).count() + usize::from(own == 0);
                match shares.yields_to(scope(asking)) {
                    Some(greedy) => {
                        let gives = counts[usize::from(greedy.0[0])];
                        assert!(gives * networks > 10 && gives > own + 1, "{counts:?}: {asking}");
                    }
                    None => assert!((own + 1) * networks >= 10, "{counts:?}: {asking} is refused with {own}"),
                }
            }
        }
    }

    #[test]
    fn nothing_is_left_of_what_was_taken_away() {
        let mut shares = held(&[3, 1]);
        shares.remove(scope(0), 3);
        shares.remove(scope(1), 1);
        assert_eq!((shares.total(), shares.held.len(), shares.by_size.len()), (0, 0, 0));
    }
}

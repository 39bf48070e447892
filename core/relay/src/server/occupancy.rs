//! The occupancy of a table: its entries per network. A full table makes room at the expense of the network with the most entries (law 15).
//!
//! The networks of one signer share that signer's part: a coordinator that invents networks gains no room from another coordinator's networks.

use std::collections::{BTreeMap, BTreeSet};

use super::{Scope, Signer};

/// Entries of one table by network, and by the signer of the network.
#[derive(Default)]
pub(super) struct Occupancy {
    held: BTreeMap<Scope, usize>,
    /// Networks of each signer, by the number of their entries.
    by_size: BTreeSet<(Signer, usize, Scope)>,
    held_by_signer: BTreeMap<Signer, usize>,
    signers_by_size: BTreeSet<(usize, Signer)>,
    total: usize,
}

impl Occupancy {
    /// Returns the number of all entries.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Adds one entry of a network.
    pub(super) fn add(&mut self, scope: Scope) {
        self.set(scope, self.held(scope) + 1);
    }

    /// Removes `count` entries of a network.
    pub(super) fn remove(&mut self, scope: Scope, count: usize) {
        self.set(scope, self.held(scope).saturating_sub(count));
    }

    /// Returns the network that loses an entry so that `scope` can have another one; `None` if `scope` has its fair share already. It is the largest network of the
    /// largest signer, if that signer has more than the signer of `scope` would have afterwards. Otherwise it is the largest network of the same signer, if that
    /// network has more than `scope` would have afterwards. In both cases the network that loses has more than its fair share.
    pub(super) fn evicts_for(&self, scope: Scope) -> Option<Scope> {
        let (most, greedy) = self.signers_by_size.last()?;
        if *greedy != scope.signer && *most > self.held_by(scope.signer) + 1 {
            return self.largest(*greedy).map(|(_, network)| network);
        }
        let (most, network) = self.largest(scope.signer)?;
        (most > self.held(scope) + 1).then_some(network)
    }

    /// Returns the largest network of a signer, with its number of entries.
    fn largest(&self, signer: Signer) -> Option<(usize, Scope)> {
        let networks = self.by_size.range((signer, 0, Scope::FIRST)..=(signer, usize::MAX, Scope::LAST));
        networks.last().map(|(_, held, network)| (*held, *network))
    }

    fn held(&self, scope: Scope) -> usize {
        self.held.get(&scope).copied().unwrap_or(0)
    }

    fn held_by(&self, signer: Signer) -> usize {
        self.held_by_signer.get(&signer).copied().unwrap_or(0)
    }

    fn set(&mut self, scope: Scope, count: usize) {
        let (signer, former) = (scope.signer, self.held(scope));
        let (of_signer, of_signer_now) = (self.held_by(signer), self.held_by(signer) + count - former);
        self.total = self.total + count - former;
        self.by_size.remove(&(signer, former, scope));
        self.signers_by_size.remove(&(of_signer, signer));
        if count == 0 {
            self.held.remove(&scope);
        } else {
            self.held.insert(scope, count);
            self.by_size.insert((signer, count, scope));
        }
        if of_signer_now == 0 {
            self.held_by_signer.remove(&signer);
        } else {
            self.held_by_signer.insert(signer, of_signer_now);
            self.signers_by_size.insert((of_signer_now, signer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(number: u8) -> Scope {
        Scope { signer: Signer([0; 8]), network: [number; 16] }
    }

    fn held(counts: &[usize]) -> Occupancy {
        let mut shares = Occupancy::default();
        for (number, count) in (0..).zip(counts) {
            (0..*count).for_each(|_| shares.add(scope(number)));
        }
        shares
    }

    #[test]
    fn the_largest_network_is_evicted_from_and_never_one_with_its_fair_share() {
        for counts in [vec![10], vec![7, 3], vec![4, 4, 2], vec![3, 3, 3, 1], vec![9, 1, 0], vec![2, 2, 2, 2, 2]] {
            let shares = held(&counts);
            assert_eq!(shares.total(), 10);
            for asking in 0..=u8::try_from(counts.len()).unwrap() {
                let own = counts.get(usize::from(asking)).copied().unwrap_or(0);
                let networks = counts.iter().filter(|count| **count > 0).count() + usize::from(own == 0);
                match shares.evicts_for(scope(asking)) {
                    Some(greedy) => {
                        let gives = counts[usize::from(greedy.network[0])];
                        assert!(gives * networks > 10 && gives > own + 1, "{counts:?}: {asking}");
                    }
                    None => assert!((own + 1) * networks >= 10, "{counts:?}: {asking} is refused with {own}"),
                }
            }
        }
    }

    #[test]
    fn a_signer_with_many_networks_has_one_share() {
        let of = |signer: u8, network: u8| Scope { signer: Signer([signer; 8]), network: [network; 16] };
        let mut shares = Occupancy::default();
        // An honest network with 40 clients, and one network for each of 60 clients of another signer.
        (0..40).for_each(|_| shares.add(of(1, 0)));
        (0..60).for_each(|network| shares.add(of(2, network)));
        assert_eq!(shares.evicts_for(of(2, 99)), None, "it has more than its half");
        assert_eq!(shares.evicts_for(of(1, 0)).map(|network| network.signer), Some(Signer([2; 8])));
        assert_eq!(
            shares.evicts_for(of(3, 0)).map(|network| network.signer),
            Some(Signer([2; 8])),
            "the largest gives way"
        );
        (0..10).for_each(|network| shares.remove(of(2, network), 1));
        (0..10).for_each(|_| shares.add(of(1, 0)));
        assert_eq!((shares.evicts_for(of(1, 0)), shares.evicts_for(of(2, 99))), (None, None), "a half for each");
    }

    #[test]
    fn removed_entries_leave_nothing_behind() {
        let mut shares = held(&[3, 1]);
        shares.remove(scope(0), 3);
        shares.remove(scope(1), 1);
        assert_eq!((shares.total(), shares.held.len(), shares.by_size.len()), (0, 0, 0));
        assert!(shares.held_by_signer.is_empty() && shares.signers_by_size.is_empty());
    }
}

//! Connections that are open, by client: one of them cannot use up the places of all (law 15).

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Limit on connections, 512: each holds up to 512 KiB of buffers, so all of them together at most 256 MiB, and only as far as peers and programs leave data unread.
pub(crate) const MOST: usize = 512;
/// Limit on the connections of one client, 256: the programs of this host count as one client, and a browser opens up to 256 through a proxy. A peer that uses a published port is
/// a client, too.
pub(crate) const MOST_OF_ONE: usize = 256;

/// The places that clients have.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    of: BTreeMap<IpAddr, usize>,
    all: usize,
    refused: u64,
}

impl Shares {
    /// Takes a place for a client. Returns false if it has as many as it may have, or all are taken.
    pub(crate) fn take(&mut self, client: IpAddr) -> bool {
        let own = self.of.get(&client).copied().unwrap_or(0);
        if self.all >= MOST || own >= MOST_OF_ONE {
            self.refused += 1;
            return false;
        }
        self.all += 1;
        self.of.insert(client, own + 1);
        true
    }

    /// Gives a place back.
    pub(crate) fn give_back(&mut self, client: IpAddr) {
        let Some(own) = self.of.get_mut(&client) else { return };
        *own -= 1;
        self.all -= 1;
        if *own == 0 {
            self.of.remove(&client);
        }
    }

    /// Returns the number of places that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.all
    }

    /// Returns how often a place was refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_p5_one_client_leaves_places_for_others() {
        let (one, other, third) = ([127, 0, 0, 1].into(), [100, 64, 0, 2].into(), [100, 64, 0, 3].into());
        let mut shares = Shares::default();
        let taken = (0..MOST).filter(|_| shares.take(one)).count();
        assert_eq!((taken, shares.refused()), (MOST_OF_ONE, (MOST - MOST_OF_ONE) as u64));
        assert_eq!((0..MOST).filter(|_| shares.take(other)).count(), MOST - MOST_OF_ONE);
        assert!(!shares.take(third), "all places are taken");
        shares.give_back(one);
        assert!(shares.take(third));
        shares.give_back(one);
        shares.give_back([9, 9, 9, 9].into());
        assert_eq!(shares.taken(), MOST - 1);
    }
}

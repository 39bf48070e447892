//! Connections that are open, by client: one of them cannot use up the places of all (law 15).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Limit on connections, 512: each holds up to 512 KiB of buffers, so all of them together at most 256 MiB, and only as far as peers and programs leave data unread.
pub(crate) const MOST: usize = 2 * MOST_OF_SIDE;
/// Limit on the connections that programs begin, and on those that peers begin, 256 each: peers take no place of programs, and the reverse. A browser opens up to 256 through a
/// proxy, and all programs of this host count as one client: any of them can have any address of the loopback range.
const MOST_OF_SIDE: usize = 256;
/// Limit on the connections of one address of a peer, and of one client on another host, 64. A peer has two addresses.
const MOST_OF_OTHERS: usize = 64;

/// The side that a connection was begun from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Client {
    /// Programs of this host.
    Host,
    /// Programs of another host that reaches a service, by their IPv4 address or IPv6 prefix of 64 bits, within which a host chooses its addresses freely.
    Remote(IpAddr),
    /// A peer, by one of its overlay addresses.
    Peer(IpAddr),
}

impl Client {
    /// Returns the client that connects to a service from this address.
    pub(crate) fn of_service(from: IpAddr) -> Self {
        match from.to_canonical() {
            from if from.is_loopback() => Self::Host,
            IpAddr::V6(from) => Self::Remote(Ipv6Addr::from(u128::from(from) >> 64 << 64).into()),
            from @ IpAddr::V4(_) => Self::Remote(from),
        }
    }

    fn is_peer(self) -> bool {
        matches!(self, Self::Peer(_))
    }

    fn most(self) -> usize {
        if self == Self::Host { MOST_OF_SIDE } else { MOST_OF_OTHERS }
    }
}

/// The places that clients have.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    of: BTreeMap<Client, usize>,
    refused: u64,
}

impl Shares {
    /// Takes a place for a client. Returns false if it has as many as it may have, or all of its side are taken.
    pub(crate) fn take(&mut self, client: Client) -> bool {
        let own = self.of.get(&client).copied().unwrap_or(0);
        let side: usize =
            self.of.iter().filter(|(other, _)| other.is_peer() == client.is_peer()).map(|(_, count)| count).sum();
        if side >= MOST_OF_SIDE || own >= client.most() {
            self.refused += 1;
            return false;
        }
        self.of.insert(client, own + 1);
        true
    }

    /// Gives a place back.
    pub(crate) fn give_back(&mut self, client: Client) {
        let Some(own) = self.of.get_mut(&client) else { return };
        *own -= 1;
        if *own == 0 {
            self.of.remove(&client);
        }
    }

    /// Returns the number of places that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.of.values().sum()
    }

    /// Returns how often a place was refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(shares: &mut Shares, client: Client) -> usize {
        (0..MOST).filter(|_| shares.take(client)).count()
    }

    #[test]
    fn fault_p5_one_client_leaves_places_for_others() {
        let peer = |last: u8| Client::Peer([100, 64, 0, last].into());
        let mut shares = Shares::default();
        assert_eq!(count(&mut shares, Client::Host), MOST_OF_SIDE);
        assert_eq!((1..=4).map(|last| count(&mut shares, peer(last))).collect::<Vec<_>>(), [MOST_OF_OTHERS; 4]);
        assert_eq!(shares.taken(), MOST);
        assert!(!shares.take(peer(5)), "all places of peers are taken");
        shares.give_back(peer(1));
        assert!(!shares.take(Client::Host), "a program gets no place that is kept for peers");
        assert!(shares.take(peer(5)));
        shares.give_back(Client::Host);
        shares.give_back(peer(9));
        assert_eq!(shares.taken(), MOST - 1);
    }

    #[test]
    fn fault_p5_addresses_that_one_client_chooses_are_one_client() {
        let of = |text: &str| Client::of_service(text.parse().unwrap());
        for own in ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.2"] {
            assert_eq!(of(own), Client::Host, "{own}");
        }
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1:2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}

//! Programs between the two hosts, such as relays.

use std::net::SocketAddr;

use taut_base::Time;

use crate::link::{Counts, Link};
use crate::side::Side;

/// A program with an address of its own. Like a [`Host`](crate::Host) it only reacts to calls; it has no inner packets.
pub trait Station {
    /// Takes a datagram at a port. `port` counts from the first one.
    fn receive(&mut self, port: u16, source: SocketAddr, datagram: &[u8], now: Time);

    /// Does the work that is due at the time of [`Self::poll_timeout`].
    fn handle_timeout(&mut self, now: Time);

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    fn poll_timeout(&self) -> Option<Time>;

    /// Returns the next datagram that it sends, with its source port and its destination.
    fn poll_transmit(&mut self) -> Option<(u16, SocketAddr, Vec<u8>)>;
}

/// The number of a station, in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StationId(pub usize);

/// A station, and the wires between the station and both hosts.
pub(crate) struct Post {
    pub(crate) address: SocketAddr,
    /// The program. While it is `None`, datagrams to the station are lost.
    pub(crate) station: Option<Box<dyn Station>>,
    /// The wires from each host to the station, and from the station to each host.
    pub(crate) there: [Link; 2],
    pub(crate) back: [Link; 2],
    /// Counts of the datagrams that each host sent to the station.
    pub(crate) counts: [Counts; 2],
}

impl Post {
    pub(crate) fn new(address: SocketAddr, station: Box<dyn Station>, link: Link) -> Self {
        Self { address, station: Some(station), there: [link; 2], back: [link; 2], counts: [Counts::default(); 2] }
    }

    /// Changes both wires between the station and `side`.
    pub(crate) fn set_links(&mut self, side: Side, link: Link) {
        self.there[side.place()] = link;
        self.back[side.place()] = link;
    }
}

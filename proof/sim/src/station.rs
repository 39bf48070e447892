//! What stands on the wire between the two hosts and is spoken to: a relay.

use std::net::SocketAddr;

use taut_base::Time;

use crate::link::{Counts, Link};
use crate::side::Side;

/// A program with an address of its own. As a [`Host`](crate::Host) it does nothing by itself; it has no inner packets.
pub trait Station {
    /// A datagram arrives at the port that comes so far behind the first.
    fn receive(&mut self, port: u16, source: SocketAddr, datagram: &[u8], now: Time);

    /// The time of [`Self::poll_timeout`] has come.
    fn handle_timeout(&mut self, now: Time);

    /// When [`Self::handle_timeout`] has something to do, if ever.
    fn poll_timeout(&self) -> Option<Time>;

    /// A datagram that it sends: from which port, and where to.
    fn poll_transmit(&mut self) -> Option<(u16, SocketAddr, Vec<u8>)>;
}

/// Which of the stations, in the order in which they were put up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StationId(pub usize);

/// A station with the wires to both hosts.
pub(crate) struct Post {
    pub(crate) address: SocketAddr,
    /// Nobody while it is away: what is sent there is lost.
    pub(crate) station: Option<Box<dyn Station>>,
    /// From each side to it, and from it to each side.
    pub(crate) there: [Link; 2],
    pub(crate) back: [Link; 2],
    /// What each side sent to it.
    pub(crate) counts: [Counts; 2],
}

impl Post {
    pub(crate) fn new(address: SocketAddr, station: Box<dyn Station>, link: Link) -> Self {
        Self { address, station: Some(station), there: [link; 2], back: [link; 2], counts: [Counts::default(); 2] }
    }

    /// Both directions between it and `side`.
    pub(crate) fn set_links(&mut self, side: Side, link: Link) {
        self.there[side.place()] = link;
        self.back[side.place()] = link;
    }
}

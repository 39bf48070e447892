//! What the world asks of whoever takes part in it.

use std::net::SocketAddr;

use taut_base::Time;

/// A host that speaks WireGuard. It does nothing by itself: every call says what happened, and afterwards the world takes what came out.
pub trait Host {
    /// An application of the host sends an inner packet.
    fn send(&mut self, packet: &[u8], now: Time);

    /// A datagram arrives.
    fn receive(&mut self, source: SocketAddr, datagram: &[u8], now: Time);

    /// The time of [`Self::poll_timeout`] has come.
    fn handle_timeout(&mut self, now: Time);

    /// When [`Self::handle_timeout`] has something to do, if ever.
    fn poll_timeout(&self) -> Option<Time>;

    /// A datagram that the host sends, and where to.
    fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)>;

    /// An inner packet for the host's applications.
    fn poll_delivered(&mut self) -> Option<Vec<u8>>;

    /// How many ports it has: the one that its endpoint names, and those that follow.
    fn ports(&self) -> u16 {
        1
    }

    /// The same as [`Self::receive`] at the port that comes so far behind the first.
    fn receive_at(&mut self, port: u16, source: SocketAddr, datagram: &[u8], now: Time) {
        assert_eq!(port, 0, "the host has one port");
        self.receive(source, datagram, now);
    }

    /// The same as [`Self::poll_transmit`], with the port that it leaves from.
    fn poll_transmit_at(&mut self) -> Option<(u16, SocketAddr, Vec<u8>)> {
        self.poll_transmit().map(|(destination, datagram)| (0, destination, datagram))
    }

    /// Panics when the host's state is not within its bounds. The world asks after every event.
    fn check(&self) {}
}

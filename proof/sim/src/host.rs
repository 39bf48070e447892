//! The interface of a host in the world.

use std::net::SocketAddr;

use taut_base::Time;

/// A host that speaks WireGuard. Each call is an input; afterwards the world takes the outputs.
pub trait Host {
    /// Takes an inner packet of an application on this host.
    fn send(&mut self, packet: &[u8], now: Time);

    /// Takes a datagram from the wire.
    fn receive(&mut self, source: SocketAddr, datagram: &[u8], now: Time);

    /// Does the work that is due at the time of [`Self::poll_timeout`].
    fn handle_timeout(&mut self, now: Time);

    /// Returns the time at which [`Self::handle_timeout`] has something to do.
    fn poll_timeout(&self) -> Option<Time>;

    /// Returns the next datagram that the host sends, with its destination.
    fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)>;

    /// Returns the next inner packet for the host's applications.
    fn poll_delivered(&mut self) -> Option<Vec<u8>>;

    /// Returns the number of ports: that of the endpoint, and the ones that follow it.
    fn ports(&self) -> u16 {
        1
    }

    /// Takes a datagram at a port. `port` counts from that of the endpoint.
    fn receive_at(&mut self, port: u16, source: SocketAddr, datagram: &[u8], now: Time) {
        assert_eq!(port, 0, "the host has one port");
        self.receive(source, datagram, now);
    }

    /// Returns the next datagram that the host sends, with its source port and its destination.
    fn poll_transmit_at(&mut self) -> Option<(u16, SocketAddr, Vec<u8>)> {
        self.poll_transmit().map(|(destination, datagram)| (0, destination, datagram))
    }

    /// Panics if the host's state exceeds its bounds. The world calls it after every event.
    fn check(&self) {}
}

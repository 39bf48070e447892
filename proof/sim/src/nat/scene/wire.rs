//! The wires of a scene: datagrams under way, their destinations, and the relays.

use std::cmp::{Ordering, Reverse};
use std::net::{SocketAddr, SocketAddrV4};
use std::time::Duration;

use taut_base::Time;

use super::{PORT, Scene, Setup};
use crate::host::Host;
use crate::link::packet_len;
use crate::nat::internet::{HostId, Internet, Transit};
use crate::relay::SimRelay;
use crate::side::Side;
use crate::station::Station;
use taut_testkit::Seeded;

/// A relay and its distance from the middle.
pub(super) struct Post {
    pub(super) host: HostId,
    pub(super) relay: SimRelay,
    /// The relay's program. While it is `None`, datagrams to the relay are lost.
    pub(super) station: Option<Box<dyn Station>>,
    delay: Duration,
}

impl Post {
    /// Starts relay `number`, counted from 0.
    pub(super) fn new(net: &mut Internet, number: u8, setup: &Setup, chance: &mut Seeded) -> Self {
        let host = net.server();
        let mut relay = SimRelay::new(number + 1);
        relay.address = SocketAddr::from((net.address(host), relay.address.port()));
        let station: Box<dyn Station> = Box::new(relay.start(chance.next_u64()));
        Self { host, relay, station: Some(station), delay: setup.way_to_relay(number) }
    }
}

/// A datagram under way, ordered by arrival time, then by the order of sending.
pub(super) struct InFlight {
    pub(super) due: Time,
    number: u64,
    transit: Transit,
    datagram: Vec<u8>,
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for InFlight {}

impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

impl Scene {
    /// Delivers the next datagram if the routers on its way down let it in.
    pub(super) fn arrive(&mut self) {
        let Some(Reverse(InFlight { transit, datagram, .. })) = self.wire.pop() else { return };
        // A datagram that a NAT drops is lost without a report to the sender.
        let Ok(delivery) = self.net.arrive(transit, self.now) else { return };
        let (source, port) = (SocketAddr::V4(delivery.source), delivery.destination.port());
        if let Some(side) = Side::BOTH.into_iter().find(|side| self.place(*side) == delivery.to) {
            if port == PORT {
                self.with(side, |node, now| node.receive(source, &datagram, now));
            }
        } else if let Some(number) = self.posts.iter().position(|post| post.host == delivery.to) {
            let (post, now) = (&mut self.posts[number], self.now);
            if let (Some(port), Some(station)) = (port.checked_sub(post.relay.address.port()), &mut post.station) {
                station.receive(port, source, &datagram, now);
            }
            self.collect_station(number);
        }
    }

    /// Takes the outputs of `side`: datagrams, delivered packets and messages for the coordinator. Then checks the host's bounds.
    pub(super) fn collect(&mut self, side: Side) {
        let place = side.place();
        while let Some((port, destination, datagram)) = self.hosts[place].poll_transmit_at() {
            self.ends[place].datagrams += 1;
            self.put(self.ends[place].host, PORT + port, destination, &datagram);
        }
        while let Some(packet) = self.hosts[place].poll_delivered() {
            self.ends[side.other().place()].ledger.deliver(&packet, self.now);
            if self.ends[place].answers {
                self.send(side);
            }
        }
        self.hosts[place].check();
        self.hear(side);
    }

    /// Takes the datagrams of a relay.
    pub(super) fn collect_station(&mut self, number: usize) {
        while let Some((port, destination, datagram)) =
            self.posts[number].station.as_mut().and_then(|station| station.poll_transmit())
        {
            let (host, first) = (self.posts[number].host, self.posts[number].relay.address.port());
            self.put(host, first + port, destination, &datagram);
        }
    }

    /// Sends each copy of a datagram that the wires make.
    fn put(&mut self, from: HostId, port: u16, destination: SocketAddr, datagram: &[u8]) {
        let SocketAddr::V4(destination) = destination else { return };
        let Ok(transit) = self.net.depart(from, port, destination, self.now) else { return };
        let length = packet_len(destination.into(), datagram.len());
        let there = self.delays(Some(from), length);
        let and_on = self.delays(self.server_at(destination), length);
        for delay in there.iter().flat_map(|delay| and_on.iter().map(|more| *delay + *more)) {
            self.put_on_wire += 1;
            let (due, number, datagram) = (self.now + delay, self.put_on_wire, datagram.to_vec());
            self.wire.push(Reverse(InFlight { due, number, transit, datagram }));
        }
    }

    /// Returns the delay of each copy of a packet of `length` bytes between this host and the middle. All hosts except servers share one kind of wire.
    fn delays(&mut self, host: Option<HostId>, length: usize) -> Vec<Duration> {
        match self.posts.iter().find(|post| Some(post.host) == host) {
            Some(post) => vec![post.delay],
            None => self.access.copies(length, &mut self.chance).collect(),
        }
    }

    /// Returns the relay at this address. Other hosts cannot be found by an external address.
    fn server_at(&self, address: SocketAddrV4) -> Option<HostId> {
        self.posts.iter().map(|post| post.host).find(|host| self.net.address(*host) == *address.ip())
    }
}

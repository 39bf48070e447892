//! The world: two hosts, the wires between them, stations, and one clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use taut_base::Time;

use crate::host::Host;
use crate::ledger::Ledger;
use crate::link::{Counts, Link, packet_len};
use crate::party::Party;
use crate::side::Side;
use crate::station::{Post, Station, StationId};
use crate::wire::{End, InFlight, Place, Recorded, SteadyFlow, WorldEvent};
use taut_testkit::Seeded;

/// The world's time at its creation. It is not zero, as on a machine that has been up for a while.
const START: Time = Time(1_000_000_000_000);

/// Maximum number of events at one moment. More events mean that a timer is always due.
const MAX_AT_ONCE: u32 = 10_000;

/// Two hosts and the network between them.
pub struct World<A, B> {
    hosts: (A, B),
    ends: [End; 2],
    posts: Vec<Post>,
    now: Time,
    at_once: u32,
    chance: Seeded,
    wire: BinaryHeap<Reverse<InFlight>>,
    put_on_wire: u64,
    history: Option<Vec<Recorded>>,
}

impl<A: Host, B: Host> World<A, B> {
    /// Creates a world. With the same `seed`, the wires treat the same datagrams in the same way.
    pub fn new(a: (&Party, A), b: (&Party, B), link: Link, seed: u64) -> Self {
        let end = |party: &Party, to: IpAddr| End {
            address: party.endpoint,
            link,
            counts: Counts::default(),
            ledger: Ledger::new(party.overlay(), to),
            flow: None,
            flows: BTreeMap::new(),
        };
        Self {
            ends: [end(a.0, b.0.overlay()), end(b.0, a.0.overlay())],
            hosts: (a.1, b.1),
            posts: Vec::new(),
            now: START,
            at_once: 0,
            chance: Seeded::new(seed),
            wire: BinaryHeap::new(),
            put_on_wire: 0,
            history: None,
        }
    }

    /// Returns the world's time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the time before this duration.
    pub fn ago(&self, duration: Duration) -> Time {
        Time::from_duration(self.now.since(Time::ZERO).saturating_sub(duration))
    }

    /// Returns the first host.
    pub fn a(&self) -> &A {
        &self.hosts.0
    }

    /// Returns the second host.
    pub fn b(&self) -> &B {
        &self.hosts.1
    }

    /// Calls a function with the first host, and takes its outputs.
    pub fn with_a<R>(&mut self, act: impl FnOnce(&mut A, Time) -> R) -> R {
        let result = act(&mut self.hosts.0, self.now);
        self.collect(Side::A);
        result
    }

    /// Calls a function with the second host, and takes its outputs.
    pub fn with_b<R>(&mut self, act: impl FnOnce(&mut B, Time) -> R) -> R {
        let result = act(&mut self.hosts.1, self.now);
        self.collect(Side::B);
        result
    }

    /// Returns the record of the packets that `side`'s applications sent and of those that arrived at the other side.
    pub fn ledger(&self, side: Side) -> &Ledger {
        &self.ends[side.place()].ledger
    }

    /// Adds a station that both hosts reach over wires like `link`. The station has the ports from that of `address` on.
    pub fn put_up(&mut self, address: SocketAddr, station: Box<dyn Station>, link: Link) -> StationId {
        self.posts.push(Post::new(address, station, link));
        StationId(self.posts.len() - 1)
    }

    /// Removes a station with its state, or replaces it by another station.
    pub fn replace(&mut self, station: StationId, by: Option<Box<dyn Station>>) {
        self.posts[station.0].station = by;
    }

    /// Changes the wires between `side` and a station. Datagrams already under way are not affected.
    pub fn set_way(&mut self, station: StationId, side: Side, link: Link) {
        self.posts[station.0].set_links(side, link);
    }

    /// Returns counts of the datagrams that `side` sent to a station. A datagram in a relay frame counts as the message inside.
    pub fn counts_to(&self, station: StationId, side: Side) -> Counts {
        self.posts[station.0].counts[side.place()]
    }

    /// Returns counts of the datagrams that `side` sent, without those to stations.
    pub fn counts(&self, side: Side) -> Counts {
        self.ends[side.place()].counts
    }

    /// Changes the wire from `side` to the other side. Datagrams already under way are not affected.
    pub fn set_link(&mut self, side: Side, link: Link) {
        self.ends[side.place()].link = link;
    }

    /// Changes both directions of the wire.
    pub fn set_links(&mut self, link: Link) {
        for side in Side::BOTH {
            self.set_link(side, link);
        }
    }

    /// Changes the address of `side`. Datagrams under way to the former address are lost.
    pub fn move_to(&mut self, side: Side, address: SocketAddr) {
        self.ends[side.place()].address = address;
    }

    /// Starts recording all datagrams.
    pub fn record(&mut self) {
        self.history = Some(Vec::new());
    }

    /// Stops recording, and returns the datagrams since [`Self::record`].
    pub fn take_history(&mut self) -> Vec<Recorded> {
        self.history.take().unwrap_or_default()
    }

    /// Delivers a datagram to `side` at once.
    pub fn inject(&mut self, side: Side, source: SocketAddr, datagram: &[u8]) {
        let destination = self.ends[side.place()].address;
        let to = Place::Host(side);
        self.put(InFlight { due: self.now, number: 0, to, source, destination, datagram: datagram.to_vec() });
    }

    /// Sends one packet from an application of `side`.
    pub fn send(&mut self, side: Side) {
        let packet = self.ends[side.place()].ledger.send(self.now);
        self.put_in(side, &packet);
    }

    /// Sends one packet of a flow from an application of `side`.
    pub fn send_in(&mut self, side: Side, flow: u16) {
        let packet = self.ends[side.place()].ledger.send_in(flow, self.now);
        self.put_in(side, &packet);
    }

    fn put_in(&mut self, side: Side, packet: &[u8]) {
        let now = self.now;
        self.host(side).send(packet, now);
        self.collect(side);
    }

    /// Makes applications of `side` send a packet now and one per interval from then on, until [`Self::stop`].
    pub fn flow(&mut self, side: Side, interval: Duration) {
        self.ends[side.place()].flow = Some(SteadyFlow { interval, next: self.now });
    }

    /// Makes one flow of `side` send a packet per interval, the first one after half of it; `None` stops it. Other flows go on.
    pub fn set_flow(&mut self, side: Side, flow: u16, interval: Option<Duration>) {
        let flows = &mut self.ends[side.place()].flows;
        match interval {
            Some(interval) => {
                flows.insert(flow, SteadyFlow { interval, next: self.now + interval / 2 });
            }
            None => {
                flows.remove(&flow);
            }
        }
    }

    /// Sets the number of flows that the applications' packets take turns in. Call it before they send.
    pub fn set_flows(&mut self, flows: u16) {
        self.ends.iter_mut().for_each(|end| end.ledger.set_flows(flows));
    }

    /// Sets the lengths of the applications' packets, headers included. Call it before they send.
    pub fn set_lengths(&mut self, lengths: RangeInclusive<usize>) {
        self.ends.iter_mut().for_each(|end| end.ledger.set_lengths(lengths.clone()));
    }

    /// Stops the applications of `side`.
    pub fn stop(&mut self, side: Side) {
        let end = &mut self.ends[side.place()];
        end.flow = None;
        end.flows.clear();
    }

    /// Advances time by `duration`, event by event.
    pub fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some((due, event)) = self.next_event().filter(|(due, _)| *due <= end) {
            self.at_once = if due > self.now { 0 } else { self.at_once + 1 };
            assert!(self.at_once < MAX_AT_ONCE, "{event:?} is due again and again at {due:?}");
            self.now = self.now.max(due);
            self.happen(event);
        }
        self.now = end;
    }

    /// Advances time without events, as when both hosts sleep and wake up together: overdue events happen late, and time asleep counts.
    pub fn sleep(&mut self, duration: Duration) {
        self.now = self.now + duration;
    }

    fn next_event(&self) -> Option<(Time, WorldEvent)> {
        let arrival = self.wire.peek().map(|Reverse(datagram)| (datagram.due, WorldEvent::Arrival));
        let timers = self.places().filter_map(|place| self.timeout(place).map(|due| (due, WorldEvent::Timeout(place))));
        let flows = Side::BOTH.into_iter().flat_map(|side| {
            let end = &self.ends[side.place()];
            let all = end.flow.as_ref().map(|flow| (flow.next, WorldEvent::Send(side, None)));
            let own = end.flows.iter().map(move |(number, flow)| (flow.next, WorldEvent::Send(side, Some(*number))));
            all.into_iter().chain(own)
        });
        arrival.into_iter().chain(timers).chain(flows).min_by_key(|(due, _)| *due)
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Arrival => self.arrive(),
            WorldEvent::Timeout(place) => {
                let now = self.now;
                match place {
                    Place::Host(side) => self.host(side).handle_timeout(now),
                    Place::Station(StationId(post)) => {
                        self.posts[post].station.as_mut().into_iter().for_each(|station| station.handle_timeout(now));
                    }
                }
                self.collect_from(place);
            }
            WorldEvent::Send(side, number) => {
                let (now, end) = (self.now, &mut self.ends[side.place()]);
                let flow = match number {
                    Some(number) => end.flows.get_mut(&number),
                    None => end.flow.as_mut(),
                };
                if let Some(flow) = flow {
                    flow.next = now + flow.interval;
                }
                match number {
                    Some(number) => self.send_in(side, number),
                    None => self.send(side),
                }
            }
        }
    }

    fn arrive(&mut self) {
        let Some(Reverse(arrived)) = self.wire.pop() else { return };
        match arrived.to {
            Place::Host(side) => self.arrive_at_host(side, &arrived),
            Place::Station(StationId(post)) => {
                let post = &mut self.posts[post];
                let port = arrived.destination.port().checked_sub(post.address.port());
                if let (Some(port), Some(station)) = (port, &mut post.station) {
                    station.receive(port, arrived.source, &arrived.datagram, self.now);
                }
            }
        }
        self.collect_from(arrived.to);
    }

    fn arrive_at_host(&mut self, side: Side, arrived: &InFlight) {
        let address = self.ends[side.place()].address;
        let ports = self.host(side).ports();
        let port = arrived.destination.port().checked_sub(address.port()).filter(|port| *port < ports);
        match port.filter(|_| arrived.destination.ip() == address.ip()) {
            Some(port) => {
                let now = self.now;
                self.host(side).receive_at(port, arrived.source, &arrived.datagram, now);
            }
            None => self.ends[side.other().place()].counts.astray += 1,
        }
    }

    fn collect_from(&mut self, place: Place) {
        match place {
            Place::Host(side) => self.collect(side),
            Place::Station(station) => self.collect_station(station),
        }
    }

    /// Takes the outputs of `side`, and checks its bounds.
    fn collect(&mut self, side: Side) {
        while let Some((port, destination, datagram)) = self.host(side).poll_transmit_at() {
            if let Some(history) = &mut self.history {
                history.push(Recorded { from: side, destination, datagram: datagram.clone() });
            }
            let address = self.ends[side.place()].address;
            let source = SocketAddr::new(address.ip(), address.port() + port);
            let station = self.posts.iter().position(|post| post.address.ip() == destination.ip());
            let (to, link) = match station {
                Some(post) => {
                    self.posts[post].counts[side.place()].add_framed(&datagram);
                    (Place::Station(StationId(post)), self.posts[post].there[side.place()])
                }
                None => {
                    self.ends[side.place()].counts.add(&datagram);
                    (Place::Host(side.other()), self.ends[side.place()].link)
                }
            };
            self.carry(link, to, source, destination, &datagram);
        }
        while let Some(packet) = self.host(side).poll_delivered() {
            // Packets from stations are not the other side's.
            let ledger = &mut self.ends[side.other().place()].ledger;
            if self.posts.is_empty() || ledger.is_from_source(&packet) {
                ledger.deliver(&packet, self.now);
            }
        }
        self.host(side).check();
    }

    /// Takes the datagrams of a station. Each goes to the host with the destination address; a datagram to any other address is lost.
    fn collect_station(&mut self, StationId(post): StationId) {
        while let Some((port, destination, datagram)) =
            self.posts[post].station.as_mut().and_then(|station| station.poll_transmit())
        {
            let Some(side) =
                Side::BOTH.into_iter().find(|side| self.ends[side.place()].address.ip() == destination.ip())
            else {
                continue;
            };
            let (address, link) = (self.posts[post].address, self.posts[post].back[side.place()]);
            let source = SocketAddr::new(address.ip(), address.port() + port);
            self.carry(link, Place::Host(side), source, destination, &datagram);
        }
    }

    /// Sends each copy of a datagram that this wire makes.
    fn carry(&mut self, link: Link, to: Place, source: SocketAddr, destination: SocketAddr, datagram: &[u8]) {
        let length = packet_len(destination, datagram.len());
        let copies: Vec<Duration> = link.copies(length, &mut self.chance).collect();
        for delay in copies {
            let (due, datagram) = (self.now + delay, datagram.to_vec());
            self.put(InFlight { due, number: 0, to, source, destination, datagram });
        }
    }

    fn put(&mut self, datagram: InFlight) {
        self.put_on_wire += 1;
        self.wire.push(Reverse(InFlight { number: self.put_on_wire, ..datagram }));
    }

    fn host(&mut self, side: Side) -> &mut dyn Host {
        match side {
            Side::A => &mut self.hosts.0,
            Side::B => &mut self.hosts.1,
        }
    }

    fn places(&self) -> impl Iterator<Item = Place> + use<A, B> {
        let stations = (0..self.posts.len()).map(|post| Place::Station(StationId(post)));
        Side::BOTH.into_iter().map(Place::Host).chain(stations)
    }

    fn timeout(&self, place: Place) -> Option<Time> {
        match place {
            Place::Host(Side::A) => self.hosts.0.poll_timeout(),
            Place::Host(Side::B) => self.hosts.1.poll_timeout(),
            Place::Station(StationId(post)) => self.posts[post].station.as_ref()?.poll_timeout(),
        }
    }
}

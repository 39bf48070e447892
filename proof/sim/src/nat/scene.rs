//! Whole nodes behind NATs: two hosts, relays, a coordinator, a simulated internet, and one clock.
//!
//! ```text
//! applications ─▶ TautHost ─▶ Internet::depart ─▶ wire: access, middle, access ─▶ Internet::arrive ─▶ TautHost ─▶ Ledger
//!                    │ ▲                                  or the way to a relay                  └──▶ Relay, the real rules of one
//!   where it is seen ▼ │ the other one's map
//!                 coordinator, while it is there
//! ```
//! The sender's routers take a datagram when it is sent, and the receiver's routers when it arrives, each in its state at that time. Only the wires and
//! the coordinator's notifications take time. The coordinator's channel does not pass the routers, because only the delay and loss of its notifications
//! matter here.
//!
//! As in a [`World`](crate::World), every delivered packet is checked against what was sent, and hosts check their bounds after every event.

mod centre;
mod wire;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::time::Duration;

use taut_base::Time;
use taut_path::Way;

use crate::host::Host;
use crate::ledger::Ledger;
use crate::link::Link;
use crate::nat::internet::{HostId, Internet, RouterId};
use crate::nat::kind::{Kind, Place};
use crate::party::Party;
use crate::relay::SimRelay;
use crate::side::Side;
use crate::taut::{Settings, TautHost};
use taut_testkit::Seeded;

use centre::{Coordinator, Listed};
use wire::{InFlight, Post};

/// The scene's time at its creation. It is not zero, as on a machine that has been up for a while.
const START: Time = Time(1_000_000_000_000);

/// Maximum number of events at one moment. More events mean that a timer is always due.
const MAX_AT_ONCE: u32 = 20_000;

/// The first port of a node, as in the daemon.
const PORT: u16 = 8288;

/// A datagram arrives within 1 s on any wire of a scene, unless it is lost.
const LATELY: Duration = Duration::from_secs(1);

/// The hosts and wires of a scene.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The NAT of the first host.
    pub a: Kind,
    /// The NAT of the second host.
    pub b: Kind,
    /// The hosts' place relative to each other.
    pub place: Place,
    /// The number of relays.
    pub relays: u8,
    /// The wire from a host to the middle of the internet. A datagram from one host to the other passes such a wire twice.
    pub access: Link,
    /// The delay from the middle to the first relay, and back. Each further relay is half as far again.
    pub to_relay: Duration,
}

impl Setup {
    /// Returns the setup of two hosts in different networks: 10 ms to the middle each, two relays at 5 and 7.5 ms from the middle, and no loss.
    pub const fn apart(a: Kind, b: Kind) -> Self {
        let access = Link::clean(Duration::from_millis(10));
        Self { a, b, place: Place::Apart, relays: 2, access, to_relay: Duration::from_millis(5) }
    }

    /// Returns the round-trip time between the hosts through the first relay.
    pub fn relay_round_trip(&self) -> Duration {
        4 * self.access.delay + 4 * self.to_relay
    }

    /// Returns the round-trip time between the hosts on a direct path.
    pub fn direct_round_trip(&self) -> Duration {
        4 * self.access.delay
    }

    /// Returns the delay from the middle to relay `number`, counted from 0.
    fn way_to_relay(&self, number: u8) -> Duration {
        self.to_relay + self.to_relay / 2 * u32::from(number)
    }
}

/// The kind of path that a host's data takes to its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// No path was confirmed yet.
    Nothing,
    /// A relay.
    Relay,
    /// A direct path.
    Direct,
}

/// Two whole nodes behind NATs, relays that both reach, and a coordinator.
pub struct Scene {
    /// The hosts and routers. A test can change them at any time.
    pub net: Internet,
    hosts: [TautHost; 2],
    ends: [End; 2],
    posts: Vec<Post>,
    coordinator: Coordinator,
    access: Link,
    now: Time,
    at_once: u32,
    chance: Seeded,
    wire: BinaryHeap<Reverse<InFlight>>,
    put_on_wire: u64,
}

struct End {
    host: HostId,
    ledger: Ledger,
    flow: Option<(Duration, Time)>,
    /// Whether the host answers each delivered packet with a packet of its own.
    answers: bool,
    datagrams: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SceneEvent {
    Arrival,
    Timeout(Side),
    Station(usize),
    Map,
    Send(Side),
}

impl Scene {
    /// Creates a scene in which both daemons have just started and nothing was sent. All randomness comes from `seed`.
    pub fn new(setup: &Setup, seed: u64) -> Self {
        let mut chance = Seeded::new(seed);
        let mut net = Internet::new(chance.next_u64());
        let posts: Vec<Post> =
            (0..setup.relays).map(|number| Post::new(&mut net, number, setup, &mut chance)).collect();
        let relays: Vec<SimRelay> = posts.iter().map(|post| post.relay.clone()).collect();
        let (one, two) = net.pair(setup.a, setup.b, setup.place);
        let party = |number, place| {
            let endpoint = SocketAddr::from((net.address(place), PORT));
            Party { endpoint, ..Party::new(number) }
        };
        let parties = [party(1, one), party(2, two)];
        let listed = [Listed::new(&parties[0], &relays), Listed::new(&parties[1], &relays)];
        let coordinator = Coordinator::new(parties.clone(), listed);
        let settings = Settings { ticket: true, ..Settings::default() };
        let hosts = Side::BOTH.map(|side| {
            TautHost::new(&parties[side.place()], coordinator.map(side, &relays), settings, chance.next_u64())
        });
        let ends = [(0, one), (1, two)].map(|(me, host)| {
            let ledger = Ledger::new(parties[me].overlay(), parties[1 - me].overlay());
            End { host, ledger, flow: None, answers: false, datagrams: 0 }
        });
        let (wire, access) = (BinaryHeap::new(), setup.access);
        Self { net, hosts, ends, posts, coordinator, access, now: START, at_once: 0, chance, wire, put_on_wire: 0 }
    }

    /// Returns the scene's time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the node of `side`.
    pub fn node(&self, side: Side) -> &TautHost {
        &self.hosts[side.place()]
    }

    /// Calls `act` with a node, and takes the node's outputs.
    pub fn with<R>(&mut self, side: Side, act: impl FnOnce(&mut TautHost, Time) -> R) -> R {
        let result = act(&mut self.hosts[side.place()], self.now);
        self.collect(side);
        result
    }

    /// Returns the host of a node in the internet.
    pub fn place(&self, side: Side) -> HostId {
        self.ends[side.place()].host
    }

    /// Returns the router next to a node.
    pub fn nat(&self, side: Side) -> RouterId {
        self.net.nat(self.place(side)).expect("every node is behind some router")
    }

    /// Returns the record of the packets that `side`'s applications sent and of those that arrived.
    pub fn ledger(&self, side: Side) -> &Ledger {
        &self.ends[side.place()].ledger
    }

    /// Returns the number of datagrams that `side` has sent, to any address.
    pub fn datagrams(&self, side: Side) -> u64 {
        self.ends[side.place()].datagrams
    }

    /// Returns the number of probes that `side` has sent, by way.
    pub fn probes(&self, side: Side) -> BTreeMap<Way, u64> {
        let node = self.node(side).node();
        let reports = node.peers().filter_map(|peer| node.report(peer.id, self.now));
        reports.flat_map(|report| report.ways).map(|way| (way.way, way.sent)).collect()
    }

    /// Returns the kind of path that data of `side` takes to its peer now.
    pub fn carries(&self, side: Side) -> Carries {
        match self.way(side) {
            None => Carries::Nothing,
            Some(Way::Relayed { .. }) => Carries::Relay,
            Some(Way::Direct(_)) => Carries::Direct,
        }
    }

    fn way(&self, side: Side) -> Option<Way> {
        self.node(side).node().peers().find_map(|peer| peer.path.and_then(|path| path.way))
    }

    /// Returns true if data goes directly both ways.
    pub fn is_direct(&self) -> bool {
        Side::BOTH.into_iter().all(|side| self.carries(side) == Carries::Direct)
    }

    /// Returns the relay that carries data of `side`, if any.
    pub fn relay_of(&self, side: Side) -> Option<usize> {
        let Some(Way::Relayed { relay, .. }) = self.way(side) else { return None };
        self.posts.iter().position(|post| post.relay.address == relay)
    }

    /// Returns the number of relays, including those that are stopped.
    pub fn relays(&self) -> usize {
        self.posts.len()
    }

    /// Stops a relay and discards its state.
    pub fn kill_relay(&mut self, number: usize) {
        self.posts[number].station = None;
    }

    /// Starts a relay without state, unless it runs.
    pub fn start_relay(&mut self, number: usize) {
        let seed = self.chance.next_u64();
        let post = &mut self.posts[number];
        if post.station.is_none() {
            post.station = Some(Box::new(post.relay.start(seed)));
        }
    }

    /// Kills and starts the daemon of `side`, with the last map and peers that it had.
    pub fn restart(&mut self, side: Side) {
        self.with(side, |node, now| {
            node.restart(now);
            node.greet(now);
        });
    }

    /// Returns the current wires between hosts and the middle.
    pub fn access(&self) -> Link {
        self.access
    }

    /// Changes the wires between hosts and the middle. Datagrams already under way are not affected.
    pub fn set_access(&mut self, access: Link) {
        self.access = access;
    }

    /// Returns true if the router next to a node translates addresses.
    pub fn is_translated(&self, side: Side) -> bool {
        let address = self.net.address(self.place(side));
        address.is_private()
    }

    /// Moves `side` behind the router of `to`. The node receives the new address as from its kernel.
    pub fn move_beside(&mut self, side: Side, to: HostId) {
        self.net.move_host(self.place(side), to);
        let address = SocketAddr::from((self.net.address(self.place(side)), PORT));
        self.with(side, |node, now| node.move_to(address, now));
    }

    /// Returns true if a packet that `side` sent within the last second has arrived.
    pub fn flows_from(&self, side: Side) -> bool {
        self.ledger(side).arrived_of(LATELY, self.now)
    }

    /// Makes applications of `side` answer every packet at once.
    pub fn answer(&mut self, side: Side) {
        self.ends[side.place()].answers = true;
    }

    /// Sends one packet from an application of `side` now.
    pub fn send(&mut self, side: Side) {
        let packet = self.ends[side.place()].ledger.send(self.now);
        self.with(side, |node, now| node.send(&packet, now));
    }

    /// Makes applications of `side` send a packet now and one per interval from then on, until [`Self::stop`].
    pub fn flow(&mut self, side: Side, interval: Duration) {
        self.ends[side.place()].flow = Some((interval, self.now));
    }

    /// Stops the applications of `side`.
    pub fn stop(&mut self, side: Side) {
        self.ends[side.place()].flow = None;
    }

    /// Advances time by `duration`, event by event.
    pub fn run(&mut self, duration: Duration) {
        self.run_until(duration, |_| false);
    }

    /// Advances time until `done` is true, checking after each event. Returns the time that passed, or `None` if `limit` was reached first.
    pub fn run_until(&mut self, limit: Duration, done: impl Fn(&Self) -> bool) -> Option<Duration> {
        let (start, end) = (self.now, self.now + limit);
        if done(self) {
            return Some(Duration::ZERO);
        }
        while let Some((due, event)) = self.next_event().filter(|(due, _)| *due <= end) {
            self.at_once = if due > self.now { 0 } else { self.at_once + 1 };
            assert!(self.at_once < MAX_AT_ONCE, "{event:?} is due again and again at {due:?}");
            self.now = self.now.max(due);
            self.happen(event);
            if done(self) {
                return Some(self.now.since(start));
            }
        }
        self.now = end;
        None
    }

    fn next_event(&self) -> Option<(Time, SceneEvent)> {
        let arrival = self.wire.peek().map(|Reverse(datagram)| (datagram.due, SceneEvent::Arrival));
        let timers = Side::BOTH
            .into_iter()
            .filter_map(|side| self.hosts[side.place()].poll_timeout().map(|due| (due, SceneEvent::Timeout(side))));
        let posts = self.posts.iter().enumerate().filter_map(|(number, post)| {
            post.station.as_ref()?.poll_timeout().map(|due| (due, SceneEvent::Station(number)))
        });
        let flows = Side::BOTH
            .into_iter()
            .filter_map(|side| self.ends[side.place()].flow.map(|(_, next)| (next, SceneEvent::Send(side))));
        let map = self.coordinator.due.filter(|_| !self.coordinator.away).map(|due| (due, SceneEvent::Map));
        arrival.into_iter().chain(timers).chain(posts).chain(map).chain(flows).min_by_key(|(due, _)| *due)
    }

    fn happen(&mut self, event: SceneEvent) {
        match event {
            SceneEvent::Arrival => self.arrive(),
            SceneEvent::Timeout(side) => self.with(side, |node, now| node.handle_timeout(now)),
            SceneEvent::Station(number) => {
                let now = self.now;
                if let Some(station) = &mut self.posts[number].station {
                    station.handle_timeout(now);
                }
                self.collect_station(number);
            }
            SceneEvent::Map => self.publish(),
            SceneEvent::Send(side) => {
                let now = self.now;
                if let Some((interval, next)) = &mut self.ends[side.place()].flow {
                    *next = now + *interval;
                }
                self.send(side);
            }
        }
    }
}

#[cfg(test)]
mod tests;
